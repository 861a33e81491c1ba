"""Lines of C++ code that are dropped, and those that are kept; TensorFlow's in Python."""

import os
import pathlib
import re
import subprocess
import sys
import threading

import pytest

import deeplab
from deeplab.cli import logs
from deeplab.system import standard_error

CHATTER = (
    b'WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n'
    b'I0000 00:00:1.5  7 cudart_stub.cc:31] no GPU\n'
)
WARNING = b'W0000 00:00:1.5  7 x.cc:3] a library is missing\n'


@pytest.fixture(autouse=True)
def no_level(monkeypatch):
    """The environment of a user who has set nothing."""
    monkeypatch.delenv(standard_error.LEVEL, raising=False)


def test_what_an_import_writes_is_kept_but_for_chatter(capfd):
    with standard_error.without_import_chatter():
        assert os.environ[standard_error.LEVEL] == standard_error.level()
        os.write(2, CHATTER + WARNING)
    assert standard_error.LEVEL not in os.environ
    os.write(2, b'afterwards\n')
    assert capfd.readouterr().err == f'{WARNING.decode()}afterwards\n'
    with pytest.raises(ImportError), standard_error.without_import_chatter():
        os.write(2, b'why\n')
        raise ImportError
    assert capfd.readouterr().err == 'why\n'


@pytest.mark.parametrize(('level', 'expected'), [('0', CHATTER + WARNING), ('2', WARNING)])
def test_the_level_that_the_user_has_set_is_kept(level, expected, monkeypatch, capfd):
    monkeypatch.setenv(standard_error.LEVEL, level)
    with standard_error.without_import_chatter():
        assert os.environ[standard_error.LEVEL] == level
        os.write(2, CHATTER + WARNING)
    assert os.environ[standard_error.LEVEL] == level
    assert capfd.readouterr().err == expected.decode()


@pytest.mark.parametrize(('found', 'level'), [('', '3'), ('/proc/driver/nvidia', '1'), ('/dev/dxg', '1')])
def test_warnings_say_why_a_gpu_is_not_used(monkeypatch, found, level):
    monkeypatch.setattr(os.path, 'exists', lambda path: path == found)
    assert standard_error.level() == level


def test_processes_of_the_command_line_inherit_the_level(monkeypatch):
    monkeypatch.setenv(standard_error.LEVEL, '')  # restored at the end
    monkeypatch.delenv(standard_error.LEVEL)
    with logs.without_import_chatter():
        pass
    assert os.environ[standard_error.LEVEL] == standard_error.level()


def test_no_folder_for_temporary_files(monkeypatch, capfd):
    monkeypatch.setattr(standard_error.tempfile, 'TemporaryFile', lambda: open('/nowhere/file'))
    with standard_error.without_import_chatter():
        os.write(2, WARNING)
    assert capfd.readouterr().err == WARNING.decode()


def test_two_threads_at_once_leave_standard_error_as_it_was(capfd):
    pattern, is_inside, may_end = re.compile(b'drop'), threading.Event(), threading.Event()

    def hold():
        with standard_error.without_lines(pattern):
            is_inside.set()
            may_end.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    is_inside.wait(10)
    with standard_error.without_lines(pattern):
        may_end.set()
        thread.join()
    with standard_error.without_lines(pattern):
        os.write(2, b'drop this\nkeep this\n')
    assert capfd.readouterr().err == 'keep this\n'


def test_the_public_classes_import_tensorflow_without_its_chatter(tmp_path, monkeypatch, capfd):
    (tmp_path / 'chatting.py').write_text(f'import os\nos.write(2, {CHATTER + WARNING!r})\nPredictor = 7\n')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(deeplab._PUBLIC, 'Predictor', 'chatting')
    assert deeplab.Predictor == 7
    assert capfd.readouterr().err == WARNING.decode()


@pytest.mark.slow
def test_python_is_silent_until_something_fails():
    """With the real TensorFlow, which writes a dozen lines when it is imported and opens its first session."""
    code = (
        'from deeplab import Predictor\nimport tensorflow as tf\n'
        'with tf.Graph().as_default(), tf.compat.v1.Session() as session: session.run(tf.constant(1))\n'
        'Predictor.from_checkpoint("nowhere")'
    )
    environment = {**os.environ, 'PYTHONPATH': str(pathlib.Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, '-c', code], env=environment, capture_output=True, text=True, timeout=120)
    first, *_, last = done.stderr.splitlines()
    assert first == 'Traceback (most recent call last):'
    assert last.startswith('deeplab.errors.CheckpointError: ')
