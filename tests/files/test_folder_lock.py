"""Locks on output folders."""

import errno
import functools
import json
import os
import pathlib
import subprocess
import sys

import pytest

from deeplab import eval as eval_program
from deeplab import train
from deeplab import vis as vis_program
from deeplab.datasets import build_voc2012_data, remove_gt_colormap
from deeplab.errors import OptionError
from deeplab.files import folder_lock
from deeplab.options import BuildVocOptions, CloneOptions, DemoOptions, EvalOptions, RemoveColormapOptions, VisOptions
from deeplab.programs.demo import demo
from deeplab.training import train_run
from tests.helpers import dataset_files, evaluation_setup, training_setup

HOLD = """
import sys
from deeplab.files import folder_lock
with folder_lock.held(sys.argv[1], 'train', 'train_logdir'):
    print('held', flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / 'a' / 'log')


def note_of(folder, **changes):
    """Writes a lock file as a process would leave it."""
    os.makedirs(folder, exist_ok=True)
    content = {'pid': os.getpid(), 'host': os.uname().nodename, 'started': '2020-01-02 03:04:05', 'command': 'train'}
    pathlib.Path(folder_lock.path_of(folder, 'train')).write_text(json.dumps(content | changes))


def without_flock(monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, 'No locks available')

    monkeypatch.setattr(folder_lock.fcntl, 'flock', refuse)


def test_a_second_process_is_refused_until_the_first_is_gone(folder, caplog):
    command = [sys.executable, '-c', HOLD, folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout.readline() == 'held\n'
        assert folder_lock.owner(folder, 'train').pid == first.pid
        with pytest.raises(OptionError) as error, folder_lock.held(folder, 'train', 'train_logdir'):
            pass
        for part in (f"train_logdir='{folder}'", f'process {first.pid} on {os.uname().nodename}, started 20'):
            assert part in str(error.value)
        with folder_lock.held(folder, 'eval', 'eval_logdir'):  # another kind of program
            pass
        first.kill()
    assert os.listdir(folder) == ['.train.lock']
    assert folder_lock.owner(folder, 'train') is None
    with caplog.at_level('INFO'), folder_lock.held(folder, 'train', 'train_logdir'):
        assert folder_lock.owner(folder, 'train').pid == os.getpid()
    assert f'process {first.pid}' in caplog.text
    assert os.listdir(folder) == []  # it was not made here, so that it stays


def test_one_run_after_another_in_one_process(folder):
    for _ in range(2):
        with pytest.raises(KeyError), folder_lock.held(folder, 'train', 'train_logdir'):
            assert os.listdir(folder) == ['.train.lock']
            raise KeyError
        assert not os.path.exists(os.path.dirname(folder))  # nothing came to lie in it
    with folder_lock.held(folder, 'train', 'train_logdir'):
        pathlib.Path(folder, 'file').touch()
    assert os.listdir(folder) == ['file']


def test_a_run_inside_of_another_is_refused_and_harms_nothing(folder):
    with folder_lock.held(folder, 'train', 'train_logdir'):
        with pytest.raises(OptionError, match=f'process {os.getpid()} '):
            with folder_lock.held(folder, 'train', 'train_logdir'):
                pass
        assert folder_lock.owner(folder, 'train').pid == os.getpid()


class TestWithoutFlock:
    def test_a_process_that_runs(self, folder, monkeypatch):
        without_flock(monkeypatch)
        note_of(folder)
        with pytest.raises(OptionError, match='started 2020-01-02 03:04:05'):
            with folder_lock.held(folder, 'train', 'train_logdir'):
                pass
        assert folder_lock.owner(folder, 'train').started == '2020-01-02 03:04:05'

    @pytest.mark.parametrize('changes', [{'pid': 2**22 + 1}, {'host': 'another'}, {'pid': 'x'}])
    def test_one_that_does_not_or_that_nobody_can_ask(self, folder, monkeypatch, changes):
        without_flock(monkeypatch)
        note_of(folder, **changes)
        assert folder_lock.owner(folder, 'train') is None
        with folder_lock.held(folder, 'train', 'train_logdir'):
            assert folder_lock.owner(folder, 'train').pid == os.getpid()


@pytest.mark.parametrize('where', ['file', 'file/below'])
def test_no_lock_and_no_error_where_nothing_can_be_written(tmp_path, where):
    (tmp_path / 'file').write_text('mine')
    with folder_lock.held(str(tmp_path / where), 'train', 'train_logdir'):
        assert folder_lock.owner(str(tmp_path / where), 'train') is None
    assert (tmp_path / 'file').read_text() == 'mine'


def _train(tmp_path, folder):
    train.run(training_setup.options(training_setup.write_data(tmp_path / 'records'), folder))


def _evaluate(program, options_class, tmp_path, folder):
    data = evaluation_setup.write_data(tmp_path / 'records')
    program.run(options_class(evaluation_setup.MODEL, data, str(tmp_path), folder))


def _remove_colormap(tmp_path, folder):
    (tmp_path / 'mask.png').write_bytes(dataset_files.png(dataset_files.ids()))
    remove_gt_colormap.run(RemoveColormapOptions(str(tmp_path), output_dir=folder))


def _build(tmp_path, folder):
    arguments = dataset_files.write_voc(tmp_path, {'train': ['a', 'b']}) | {'output_dir': folder}
    build_voc2012_data.run(BuildVocOptions(**arguments))


PROGRAMS = {
    ('train', 'train_logdir'): _train,
    ('eval', 'eval_logdir'): functools.partial(_evaluate, eval_program, EvalOptions),
    ('vis', 'vis_logdir'): functools.partial(_evaluate, vis_program, VisOptions),
    ('builder', 'output_dir'): _build,
    ('remove_gt_colormap', 'output_dir'): _remove_colormap,
    ('demo', 'workdir'): lambda tmp_path, folder: demo.run(DemoOptions(folder), lambda *_: None),
}


@pytest.mark.parametrize(('program', 'flag'), PROGRAMS)
def test_a_second_run_changes_nothing_in_the_folder(tmp_path, folder, monkeypatch, program, flag):
    monkeypatch.setattr(train_run, 'check_options', lambda *given: None)
    with folder_lock.held(folder, program, flag):
        leftover = pathlib.Path(folder, 'model.ckpt-5.data-00000-of-00001')  # as of a checkpoint that is being written
        leftover.touch()
        with pytest.raises(OptionError, match=f"{flag}='{folder}': another {program} .*process {os.getpid()} on "):
            PROGRAMS[program, flag](tmp_path, folder)
        assert sorted(os.listdir(folder)) == [f'.{program}.lock', leftover.name]


def test_only_the_first_of_several_machines_takes_the_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(train_run, 'check_options', lambda *given: None)
    for name in ('_run_chief', '_run_other'):
        monkeypatch.setattr(train_run, name, lambda options, *_: os.listdir(options.train_logdir))
    data = training_setup.write_data(tmp_path / 'records')
    (tmp_path / 'log').mkdir()
    found = [
        train.run(
            training_setup.options(data, tmp_path / 'log', clones=CloneOptions(1, False, task, 2, 1, 'grpc://a:1'))
        )
        for task in range(2)
    ]
    assert found == [['.train.lock'], []]
