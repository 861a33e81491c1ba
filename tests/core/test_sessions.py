"""Sessions and their devices, and the graph as text."""

import pytest
import tensorflow as tf

from deeplab.core import sessions


def test_several_cpu_devices():
    with tf.Graph().as_default(), sessions.open_session(cpu_devices=3) as running:
        names = [device.name[-5:] for device in running.list_devices() if device.device_type == 'CPU']
    assert names == ['CPU:0', 'CPU:1', 'CPU:2']


def test_write_graph(tmp_path, full_disk):
    with tf.Graph().as_default() as graph:
        tf.constant(1.0, name='here')
        sessions.write_graph(graph, str(tmp_path / 'graph.pbtxt'))
    assert 'name: "here"' in (tmp_path / 'graph.pbtxt').read_text()
    assert [path.name for path in tmp_path.iterdir()] == ['graph.pbtxt']
    (tmp_path / 'graph.pbtxt').unlink()
    with full_disk(10), pytest.raises(OSError, match='File too large'):
        sessions.write_graph(graph, str(tmp_path / 'graph.pbtxt'))
    assert not list(tmp_path.iterdir())
