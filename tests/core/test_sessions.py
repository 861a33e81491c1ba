"""Sessions and their devices, and the graph as text."""

import pytest
import tensorflow as tf

from deeplab.core import sessions


def test_several_cpu_devices():
    with tf.Graph().as_default(), sessions.open_session(cpu_devices=3) as running:
        names = [device.name[-5:] for device in running.list_devices() if device.device_type == 'CPU']
    assert names == ['CPU:0', 'CPU:1', 'CPU:2']


def test_operations_without_a_kernel_for_a_gpu_run_on_the_cpu():
    assert sessions.config().allow_soft_placement


@pytest.mark.parametrize(('gpus', 'keeps_sums', 'omits'), [(0, True, True), (1, True, False), (0, False, False)])
def test_training_on_a_cpu_omits_idle_graph_optimizers(gpus, keeps_sums, omits, monkeypatch):
    """They took a part of the time of the first step."""
    monkeypatch.setattr(tf.config, 'list_physical_devices', lambda kind: [kind] * gpus)
    with tf.Graph().as_default(), sessions.open_session(keeps_sums=keeps_sums) as running:
        rewrite = running._config.graph_options.rewrite_options
    kinds = type(rewrite)
    assert (rewrite.layout_optimizer == kinds.OFF) is omits
    assert (rewrite.memory_optimization == kinds.NO_MEM_OPT) is omits
    assert (rewrite.meta_optimizer_iterations == kinds.ONE) is omits


def test_a_session_whose_server_has_stopped_closes_without_a_further_error(monkeypatch):
    """pytest makes an error of the thread that closes it a failure."""

    def close(self):
        raise tf.errors.UnavailableError(None, None, 'Socket closed')

    with pytest.raises(tf.errors.AbortedError, match='the worker has restarted'):
        with tf.Graph().as_default(), sessions.open_session() as running:
            really_close = running.close
            monkeypatch.setattr(tf.compat.v1.Session, 'close', close)
            raise tf.errors.AbortedError(None, None, 'the worker has restarted')
    assert tf.compat.v1.get_default_session() is None
    monkeypatch.undo()
    really_close()


def test_memory_that_gpus_copy_from_is_pinned():
    assert sessions.config().gpu_options.force_gpu_compatible


@pytest.mark.parametrize(
    ('message', 'is_of_input'),
    [
        ('bad [[{{node Decode}}]] [[{{node next_batch}}]]', True),
        ('bad\n\t [[IteratorGetNext]]\n\t [[next_batch_1]]', True),
        ('no memory [[{{node Conv2D}}]]\n\t [[next_batch/_3]]', False),
    ],
)
def test_errors_of_the_input_are_known_by_their_operation(message, is_of_input):
    assert sessions.is_of_input(tf.errors.InvalidArgumentError(None, None, message)) is is_of_input
    assert not sessions.is_of_input(ValueError(message))


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
