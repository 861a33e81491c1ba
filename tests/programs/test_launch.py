"""Workers on this machine: flags and GPUs of each, restarts, signals, exit status; a stub replaces the training."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from deeplab.cli import find_program, parse_flags
from deeplab.errors import OptionError
from deeplab.options import LaunchOptions
from deeplab.programs import launch

STEPS = 600  # of the training, which take several seconds
# Prints its words and GPUs; with a file OUT/TASK that has a number, it takes that number off and ends by it.
STUB = """
import os, pathlib, signal, subprocess, sys, time
flags = dict(word.lstrip('-').partition('=')[::2] for word in sys.argv[2:])
file = pathlib.Path(flags['out'], flags['task'])
print(sys.argv[1], len(flags['worker_hosts'].split(',')), flags['restarts'], os.environ.get('CUDA_VISIBLE_DEVICES'))
print('to the log', file=sys.stderr, flush=True)
numbers = file.read_text().split() if file.exists() else []
if numbers:
    file.write_text(' '.join(numbers[1:]))
    number = int(numbers[0])
    if number < 0:
        subprocess.Popen(['sh', '-c', 'sleep 0.3; echo late'])  # a child that outlives it
        os.kill(os.getpid(), -number)
    if number < 100:
        sys.exit(number)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    pathlib.Path(flags['out'], 'waits-' + flags['task']).touch()
    time.sleep(number)
print('done', flags['task'])
"""


@pytest.fixture
def stub(tmp_path, monkeypatch):
    (tmp_path / 'stub.py').write_text(STUB)
    monkeypatch.setattr(launch, 'DEEPLAB', (sys.executable, str(tmp_path / 'stub.py')))
    monkeypatch.setattr(launch, '_POLL_SECS', 0.02)
    monkeypatch.setattr(launch, '_GPU_FILES', 'no such file')
    monkeypatch.delenv('CUDA_VISIBLE_DEVICES', raising=False)
    return tmp_path


def run(folder, workers=2, restarts=0):
    return launch.run(LaunchOptions(workers, ('train', f'--out={folder}'), restarts))


def test_the_report_is_that_of_worker_0_and_all_lines_are_shown(stub, capsys):
    result = run(stub, 3)
    assert result == ('train 3 0 None\ndone 0', 0)
    shown = capsys.readouterr().err
    for number in range(3):
        assert {f'[{number}] train 3 0 None', f'[{number}] done {number}', f'[{number}] to the log'} < {
            *shown.splitlines()
        }


def test_a_worker_that_was_killed_is_started_again(stub, caplog):
    (stub / '0').write_text(f'-{signal.SIGKILL:d} -{signal.SIGSEGV:d}')
    assert run(stub, restarts=2) == ('train 2 2 None\ndone 0', 0)  # nothing of what was written before
    assert caplog.text.count('Worker 0 was killed. It is started again.') == 2


def test_no_more_often_than_wanted(stub):
    (stub / '1').write_text(f'-{signal.SIGKILL:d} -{signal.SIGKILL:d}')
    assert run(stub, restarts=1).status == 128 + signal.SIGKILL


@pytest.mark.parametrize('status', [1, 2])
def test_an_error_is_no_reason_to_start_again(stub, monkeypatch, status):
    """The others end, although they would wait for the one that has failed."""
    monkeypatch.setattr(launch, '_GRACE_SECS', 0.1)
    (stub / '0').write_text('100')
    (stub / '1').write_text(str(status))
    started = time.monotonic()
    assert run(stub, restarts=5).status == 128 + signal.SIGTERM
    assert time.monotonic() - started < 20


def test_a_complete_training_is_a_success(stub, monkeypatch):
    """A worker that began again too late waits for the others until it is ended."""
    monkeypatch.setattr(launch, '_GRACE_SECS', 0.1)
    (stub / '1').write_text('100')
    assert run(stub).status == 0


def test_a_signal_reaches_all(stub):
    for number in '01':
        (stub / number).write_text('100')

    def stop():
        while not all((stub / f'waits-{number}').exists() for number in '01'):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=stop)
    thread.start()
    assert run(stub, restarts=5).status == 128 + signal.SIGTERM
    thread.join()


@pytest.mark.parametrize(
    ('visible', 'workers', 'words', 'expected', 'idle'),
    [
        ('0,1,2,3', 2, ['--num_clones=2'], ['0,1', '2,3'], ''),
        ('0,1,2,3,4', 2, [], ['0,1', '2,3'], '3 of 5 GPUs stay idle: each of the 2 workers uses 1 GPU (num_clones=1)'),
        ('0,1,2,3,4', 2, ['--num_clones', '3'], ['0,1', '2,3'], '1 of 5 GPUs stay idle: each of the 2 workers uses 2'),
        ('4,7,8', None, [], ['4', '7', '8'], ''),
        ('4,7', 2, [], ['4', '7'], ''),
        ('-1', 2, [], [None, None], ''),
        ('', 2, [], [None, None], ''),
    ],
)
def test_gpus_are_divided(monkeypatch, caplog, visible, workers, words, expected, idle):
    monkeypatch.setenv('CUDA_VISIBLE_DEVICES', visible)
    assert launch._gpus_of_workers(LaunchOptions(workers, ('train', *words))) == expected
    assert caplog.text == '' if not idle else idle in caplog.text


@pytest.mark.parametrize(('visible', 'words', 'number'), [('', (), 0), ('3', (), 1), ('0,1', ('--clone_on_cpu',), 0)])
def test_without_several_gpus_the_number_of_workers_is_needed(monkeypatch, visible, words, number):
    monkeypatch.setenv('CUDA_VISIBLE_DEVICES', visible)
    with pytest.raises(OptionError, match=f'^workers is needed, 2 or more: .* GPUs to compute on, is {number}$'):
        launch.run(LaunchOptions(None, ('train', *words)))


@pytest.mark.parametrize(('gpus', 'message'), [('3', 'there is 1 GPU'), ('3,5', 'there are 2 GPUs')])
def test_workers_do_not_share_a_gpu(stub, monkeypatch, gpus, message):
    """NCCL would refuse that, after minutes."""
    monkeypatch.setenv('CUDA_VISIBLE_DEVICES', gpus)
    with pytest.raises(OptionError, match=f'workers=3 needs 3 GPUs, but {message}. .* `CUDA_VISIBLE_DEVICES= deeplab'):
        run(stub, 3)
    options = LaunchOptions(3, ('train', f'--out={stub}', '--clone_on_cpu'))
    assert launch.run(options) == ('train 3 0 \ndone 0', 0)


def test_words_after_two_dashes_are_the_command():
    program = find_program('launch')
    values = parse_flags(program, ['--workers=2', '--', 'train', '--train_logdir=a b', '--seed=3', '-x'])
    options = program.to_options(values)
    assert options == LaunchOptions(2, ('train', '--train_logdir=a b', '--seed=3', '-x'))


@pytest.mark.parametrize(
    ('command', 'message'),
    [
        ((), 'after --, write train or train_image_classifier, and its flags'),
        (('eval',), 'after --, write train or'),
        (('train', '--task=1'), 'launch itself sets --task of each worker; omit it'),
        (('train', '--worker_hosts=a:1,b:1'), 'sets --worker_hosts'),
    ],
)
def test_commands_that_are_refused(command, message):
    with pytest.raises(OptionError, match=message):
        LaunchOptions(2, command)
    LaunchOptions(2, ('train', '--task=panoptic'))


@pytest.mark.slow
def test_a_training_with_a_killed_worker_equals_an_undisturbed_one(tmp_path):
    """Weights and losses, to the byte; the chief is killed after its first checkpoint of a step."""
    from tests.helpers import training_setup

    data = training_setup.write_data(tmp_path / 'records')
    network = training_setup.write_plugin(tmp_path)

    def start(name):
        words = [
            '--workers=2', '--restarts=2', '--', 'train', f'--dataset={data.name}', f'--dataset_dir={data.directory}',
            f'--train_logdir={tmp_path / name}', '--train_crop_size=33,33', '--train_batch_size=4', *network,
            f'--training_number_of_steps={STEPS}', '--log_steps=1', '--worker_timeout_secs=5', '--save_interval_secs=1',
        ]  # fmt: skip
        root = pathlib.Path(__file__).parents[2]
        return subprocess.Popen(
            [sys.executable, '-m', 'deeplab', 'launch', *words],
            cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    with start('plain') as plain:
        assert f'Trained to step {STEPS}' in plain.communicate(timeout=200)[0]
    with start('killed') as killed:
        command = ['pgrep', '-o', '-f', rf'train_logdir={tmp_path / "killed"} .*--task=0']
        while not (chief := subprocess.run(command, capture_output=True, text=True).stdout):
            assert killed.poll() is None
        while not list((tmp_path / 'killed').glob('model.ckpt-[1-9]*.index')):
            assert killed.poll() is None
            time.sleep(0.01)
        os.killpg(int(chief), signal.SIGKILL)
        output, log = killed.communicate(timeout=200)
    assert killed.returncode == 0, log
    assert 'Worker 0 was killed. It is started again.' in log
    assert 'Restart 1 of 2' in log
    assert f'Trained to step {STEPS}' in output
    assert training_setup.losses(tmp_path / 'killed') == training_setup.losses(tmp_path / 'plain')
    for path in (tmp_path / 'plain').glob(f'model.ckpt-{STEPS}.*'):
        assert path.read_bytes() == (tmp_path / 'killed' / path.name).read_bytes()
