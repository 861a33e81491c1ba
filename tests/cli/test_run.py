"""How a program runs: its log, report, errors and exit status.

Covers cli/program.py.
"""

import contextlib
import logging as standard_logging
import subprocess
import sys
import types

import numpy as np
import pytest
from absl import logging
from PIL import Image

from deeplab import cli, options
from deeplab.errors import DataError, OutputError


@pytest.fixture
def stand_in(monkeypatch):
    """Replaces the module of the demo; returns the list of the options that it was run with."""
    module = types.ModuleType('deeplab.programs.demo.demo')
    module.calls = []
    module.result = types.SimpleNamespace(report='mIoU 0.7')

    def run(given, run_program):
        assert run_program is cli.run_program
        module.calls.append(given)
        logging.info('global step 10')
        if isinstance(module.result, BaseException):
            raise module.result
        return module.result

    module.run = run
    monkeypatch.setitem(sys.modules, 'deeplab.programs.demo.demo', module)
    monkeypatch.setattr(logging.get_absl_handler().python_handler, 'stream', sys.stderr)
    monkeypatch.setenv('TF_CPP_MIN_LOG_LEVEL', '2')
    verbosity = logging.get_verbosity()
    tensorflow = standard_logging.getLogger('tensorflow')
    level = tensorflow.level
    yield module
    logging.set_verbosity(verbosity)
    tensorflow.setLevel(level)


def test_a_run_logs_to_standard_error_and_reports_on_standard_output(stand_in, capsys):
    assert cli.main(['demo', '--steps=3', '--seed=1', '--workdir=here', '--logtostderr']) == 0
    said = capsys.readouterr()
    assert stand_in.calls == [options.DemoOptions('here', 3, 1)]
    assert said.out == 'mIoU 0.7\n'
    assert said.err.endswith('] global step 10\n')
    assert said.err.count('\n') == 1


def test_notes_of_the_command_line_are_information_and_its_warnings_are_warnings(
    stand_in, capsys, monkeypatch, tmp_path
):
    (tmp_path / 'dataset.yaml').write_text('num_classes: 3\n')
    monkeypatch.setitem(sys.modules, 'deeplab.programs.preview', types.SimpleNamespace(run=lambda given: None))
    words = [f'--dataset_dir={tmp_path}', '--dataset=camvid', '--train_crop_size=9,9', '--recipe=small_data']
    assert cli.main(['preview', *words]) == 0
    levels = {line.partition('] ')[2].partition(' ')[0]: line[0] for line in capsys.readouterr().err.splitlines()}
    assert levels['Flags'] == 'I' and levels['--dataset=camvid'] == 'W', levels


def test_v_rules_the_log_of_one_run_alone(stand_in, capsys):
    assert cli.main(['demo', '--v=-1']) == 0
    assert capsys.readouterr().err == ''
    assert cli.main(['demo']) == 0
    assert 'global step 10' in capsys.readouterr().err


@pytest.mark.parametrize(
    ('result', 'status', 'message'),
    [
        (DataError('No such folder.'), cli.ERROR_STATUS, 'deeplab demo: error: No such folder.\n'),
        (KeyboardInterrupt(), 130, 'deeplab demo: error: interrupted\n'),
    ],
)
def test_an_error_of_the_user_s_has_no_stack_trace(stand_in, capsys, result, status, message):
    stand_in.result = result
    assert cli.main(['demo', '--v=-1']) == status
    assert capsys.readouterr() == ('', message)


@pytest.mark.parametrize(('result', 'status'), [(types.SimpleNamespace(report='done'), 0), (DataError('no'), 1)])
def test_a_run_without_standard_streams(stand_in, monkeypatch, capsys, result, status):
    """As after `deeplab demo <&- >&- 2>&-`."""
    stand_in.result = result
    with monkeypatch.context() as streams, contextlib.ExitStack() as opened:
        for name in ('stdin', 'stdout', 'stderr'):
            streams.setattr(sys, name, None)
        assert cli.main(['demo']) == status
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            opened.enter_context(stream)
    assert len(stand_in.calls) == 1
    assert capsys.readouterr() == ('', '')


def test_a_path_of_an_unknown_scheme_is_an_error_before_the_program_runs(capsys):
    assert cli.main(['checkpoint', 'foo://bucket/model.ckpt', '--v=-1']) == cli.ERROR_STATUS
    assert capsys.readouterr().err.startswith(
        "deeplab checkpoint: error: 'foo://bucket/model.ckpt' cannot be used: this TensorFlow knows file://, gs://"
    )


def test_an_output_folder_in_remote_storage_is_refused(stand_in, capsys):
    """It would become a local folder of the name gs:."""
    assert cli.main(['demo', '--workdir=gs://bucket/demo']) == cli.USAGE_STATUS
    assert stand_in.calls == []
    assert '--workdir=gs://bucket/demo is not allowed: it must be on a local disk' in capsys.readouterr().err


def test_a_defect_of_ours_keeps_its_stack_trace(stand_in):
    stand_in.result = ZeroDivisionError('ours')
    with pytest.raises(ZeroDivisionError, match='ours'):
        cli.main(['demo', '--v=-1'])


def test_what_a_builder_wrote_is_said(stand_in, capsys):
    val = {'images': 101, 'shards': 4, 'labeled': True, 'seconds': 1.5}
    stand_in.result = {'output_dir': 'records', 'splits': {'val': val, 'test': {**val, 'labeled': False}}}
    assert cli.main(['demo']) == 0
    assert capsys.readouterr().out == (
        'Written to records:\n  val: 101 images in 4 shards\n  test: 101 images in 4 shards, without masks\n'
    )
    stand_in.result = {'output_dir': 'masks', 'masks': 7, 'seconds': 0.1}
    assert cli.main(['demo']) == 0
    assert capsys.readouterr().out == 'Written to masks:\n  7 masks\n'


def test_a_stopped_program_s_status_is_handed_on(stand_in, capsys):
    stand_in.result = types.SimpleNamespace(report='Stopped at step 7.', status=143)
    assert cli.main(['demo']) == 143
    assert capsys.readouterr().out == 'Stopped at step 7.\n'


def test_a_program_that_runs_another(tmp_path, capsys):
    (tmp_path / 'palette').mkdir()
    mask = Image.fromarray(np.array([[0, 1], [2, 255]], np.uint8)).convert('P')
    mask.save(tmp_path / 'palette' / 'a.png')
    plain = tmp_path / 'plain'
    words = [f'--original_gt_folder={tmp_path / "palette"}', f'--output_dir={plain}']
    result = cli.run_program('remove_gt_colormap', words)
    assert result['masks'] == 1
    assert capsys.readouterr().out == f'Written to {plain}:\n  1 mask\n'
    assert [path.name for path in plain.iterdir()] == ['a.png']
    with pytest.raises(DataError, match=str(plain)):
        cli.run_program('remove_gt_colormap', [f'--original_gt_folder={plain}', f'--output_dir={plain}'])


@pytest.mark.parametrize('words', [['--version'], ['eval', '--help'], ['networks']])
def test_a_standard_output_that_is_full(monkeypatch, capsys, words):
    module = types.ModuleType('deeplab.programs.networks')
    module.run = lambda *_: types.SimpleNamespace(report='a table')
    monkeypatch.setitem(sys.modules, 'deeplab.programs.networks', module)
    with open('/dev/full', 'w') as full:
        monkeypatch.setattr(sys, 'stdout', full)
        assert cli.main(words) == cli.ERROR_STATUS
    line = 'deeplab: error: standard output cannot be written (No space left on device). Is the disk full?\n'
    assert capsys.readouterr().err == line


def test_what_cannot_be_written_is_shown_before_the_error(monkeypatch, capsys):
    def fail(*_):
        raise OutputError('the folder is full', 'a table')

    module = types.ModuleType('deeplab.programs.networks')
    module.run = fail
    monkeypatch.setitem(sys.modules, 'deeplab.programs.networks', module)
    assert cli.main(['networks']) == cli.ERROR_STATUS
    assert capsys.readouterr() == ('a table\n', 'deeplab networks: error: the folder is full.\n')
    with open('/dev/full', 'w', buffering=1) as full:
        monkeypatch.setattr(sys, 'stderr', full)
        assert cli.main(['networks']) == cli.ERROR_STATUS
        monkeypatch.undo()
        logging.get_absl_handler().python_handler.setStream(sys.stderr)
        with contextlib.suppress(OSError):  # what it holds cannot be written
            full.close()


def test_an_error_of_a_program_is_one_line_from_start_to_end(tmp_path, monkeypatch):
    """With the real TensorFlow, which logs much when it is loaded."""
    monkeypatch.delenv('TF_CPP_MIN_LOG_LEVEL', raising=False)  # whoever sets it sees more
    words = ['train', '--dataset_dir=nowhere', f'--train_logdir={tmp_path / "logs"}']
    done = subprocess.run([sys.executable, '-m', 'deeplab', *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == cli.ERROR_STATUS
    assert done.stdout == ''
    assert done.stderr.startswith('deeplab train: error: ')
    assert "'nowhere'" in done.stderr
    assert done.stderr.count('\n') == 1
