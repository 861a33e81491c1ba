"""A process that waits for its child: signals, exit status, and messages if the child dies."""

import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import time

import pytest

from deeplab import cli, start
from deeplab.cli import run
from deeplab.errors import LostWorkerError
from deeplab.system import memory, watched_process

ROOT = pathlib.Path(__file__).parents[2]
# The parent ends with the child's status; the child goes on with what follows.
HEAD = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from deeplab.system import watched_process
status = watched_process.fork('deeplab train', lambda: 'Do this.')
if status is not None:
    sys.exit(status)
"""
# A child that counts signals for a second after the first one.
COUNTS = """
count = []
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, frame: count.append(number))
print('ready', flush=True)
while not count: time.sleep(0.01)
time.sleep(0.5)
print(*map(int, count), flush=True)
sys.exit(100 + len(count))
"""


def start_child(code, **options):
    return subprocess.Popen(
        [sys.executable, '-c', HEAD + code], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, **options,
    )  # fmt: skip


def test_output_input_and_exit_status_pass_through():
    with start_child('print(input()); sys.exit(3)') as process:
        assert process.communicate('given\n', timeout=30) == ('given\n', '')
    assert process.returncode == 3


def test_a_child_that_asks_for_it_runs_again(tmp_path):
    """Each in a new process, with signals as in the first one."""
    code = f"""
runs = watched_process.earlier_runs()
blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
print(runs, 'module' in globals(), sorted(blocked), flush=True)
module = True
sys.exit({watched_process.AGAIN_STATUS} if runs < 2 else 3)
"""
    with start_child(code) as process:
        output, errors = process.communicate(timeout=30)
    assert output.splitlines() == [f'{runs} False []' for runs in range(3)]
    assert (process.returncode, errors) == (3, '')


def test_a_worker_with_restarts_left_runs_again(monkeypatch, caplog):
    """Without a parent, a scheduler that knows the exit status starts it."""
    error = LostWorkerError('Worker 1 has ended')
    monkeypatch.setenv('DEEPLAB_EARLIER_RUNS', '1')
    assert run._may_run_again(error, 2)
    assert 'Worker 1 has ended. Restart 2 of 2: waiting for the others.' in caplog.text
    assert not run._may_run_again(error, 1)
    monkeypatch.delenv('DEEPLAB_EARLIER_RUNS')
    assert not run._may_run_again(error, 0)
    assert run._may_run_again(error, 1)
    assert 'Worker 1 has ended. It ends with exit status 75' in caplog.text


@pytest.mark.parametrize(
    ('number', 'words'),
    [
        (signal.SIGKILL, 'killed (SIGKILL), probably by the system because it ran out of memory'),
        (signal.SIGSEGV, 'crashed in native code (SIGSEGV)'),
        (signal.SIGBUS, 'SIGBUS'),
        (signal.SIGABRT, 'SIGABRT'),
        (signal.SIGILL, 'SIGILL'),
    ],
)
def test_a_child_that_dies_is_told_of_in_one_line(number, words):
    with start_child(f'os.kill(os.getpid(), {int(number)}); time.sleep(30)') as process:
        _, said = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert said.count('\n') == 1
    assert said.startswith('deeplab train: error: the process ')
    assert words in said
    assert said.endswith('. Do this.\n')


def test_a_child_that_a_signal_stopped_is_no_crash():
    with start_child('os.kill(os.getpid(), signal.SIGTERM); time.sleep(30)') as process:
        assert process.communicate(timeout=30)[1] == 'deeplab train: error: stopped by SIGTERM\n'
    assert process.returncode == 143


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_parent_alone_reaches_the_child_once(number):
    with start_child(COUNTS) as process:
        assert process.stdout.readline() == 'ready\n'
        process.send_signal(number)
        output, said = process.communicate(timeout=30)
    assert (process.returncode, output, said) == (101, f'{int(number)}\n', '')


def test_under_nohup_sighup_ends_neither():
    with start_child(
        COUNTS.replace(', signal.SIGHUP', ''), preexec_fn=lambda: signal.signal(1, signal.SIG_IGN)
    ) as process:
        assert process.stdout.readline() == 'ready\n'
        process.send_signal(signal.SIGHUP)
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=30)
    assert (process.returncode, output) == (101, '15\n')


def test_ctrl_c_of_a_terminal_reaches_the_child_once():
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, '-c', HEAD + COUNTS])
    said = b''

    def read_until(word):
        nonlocal said
        end = time.monotonic() + 30
        while word not in said and time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    said += os.read(terminal, 1000)
                except OSError:  # the other side is closed
                    break
        assert word in said

    read_until(b'ready')
    os.write(terminal, b'\x03')
    read_until(b'2\r\n')
    assert b'2 2' not in said
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 101
    os.close(terminal)


def test_the_child_dies_with_its_parent():
    with start_child('print("ready", flush=True); time.sleep(30)') as process:
        assert process.stdout.readline() == 'ready\n'
        process.kill()
        assert process.stdout.read() == ''  # the pipe closes when the child has ended
        assert process.wait(timeout=30) == -signal.SIGKILL


@pytest.fixture
def forks(monkeypatch):
    seen = []
    monkeypatch.setattr(watched_process, 'fork', lambda name, advice: seen.append((name, advice())) or 7)
    return seen


@pytest.mark.parametrize('program', memory.PROGRAMS)
def test_programs_that_compute_are_watched_by_all_their_names(forks, program):
    found = cli.find_program(program)
    for name in (program, *found.aliases, f'{program}.py', program.replace('_', '-')):
        assert watched_process.fork_for([name, '--seed=1']) == 7
    assert set(forks) == {(f'deeplab {program}', memory.advice(program))}


def test_the_advice_names_the_flags_of_the_program():
    assert '--train_batch_size' in start._advice('train')
    assert '--inference_scales' in start._advice('export_model')
    assert 'same command resumes the demo' in start._advice('demo')


@pytest.mark.parametrize(
    'words',
    [[], ['--help'], ['help', 'train'], ['train', '--help'], ['eval', '-h'], ['presets'], ['checkpoint', 'FILE']],
)
def test_help_and_light_programs_are_not(forks, words):
    assert watched_process.fork_for(words) is None
    assert not forks


def test_the_door_waits_and_python_s_own_calls_do_not(forks, capsys):
    before = signal.getsignal(signal.SIGINT)
    try:
        assert start.main(['train']) == 7
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(forks) == 1
    assert cli.main(['train']) == cli.USAGE_STATUS
    assert len(forks) == 1
