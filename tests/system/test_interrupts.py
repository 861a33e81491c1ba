"""Handling of Ctrl-C, SIGTERM and SIGHUP."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from deeplab.system import interrupts as signals
from deeplab.system.interrupts import REPEAT_SECS, StoppedError, deferred, raised, status_of

ROOT = pathlib.Path(__file__).parents[2]


def wait_until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_is_noted_and_handlers_come_back(number):
    before = signal.getsignal(number)
    with deferred() as interrupts:
        assert interrupts.received is None
        os.kill(os.getpid(), number)
        wait_until(lambda: interrupts.received == number)
    assert signal.getsignal(number) is before
    assert signal.set_wakeup_fd(-1) == -1


@pytest.fixture
def sighup_ignored():
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGHUP, before)


def test_under_nohup_sighup_stays_ignored(sighup_ignored):
    with deferred() as interrupts, raised():
        os.kill(os.getpid(), signal.SIGHUP)
        time.sleep(0.05)
        assert interrupts.received is None


@pytest.fixture
def long_repeats(monkeypatch):
    """However busy the machine is, signals that are sent at once arrive within the time of a repeat."""
    monkeypatch.setattr(signals, 'REPEAT_SECS', 600.0)


def test_a_signal_delivered_twice_is_one(long_repeats):
    """A second Ctrl-C would end the process here and now."""
    with deferred() as interrupts:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGINT)
            wait_until(lambda: interrupts.received is not None)
    assert interrupts.received == signal.SIGINT


@pytest.mark.parametrize(
    ('number', 'kind', 'status'),
    [
        (signal.SIGINT, KeyboardInterrupt, 130),
        (signal.SIGTERM, StoppedError, 143),
        (signal.SIGHUP, StoppedError, 129),
    ],
)
def test_a_signal_raises_once_so_that_clean_up_runs_to_its_end(long_repeats, number, kind, status):
    before, cleaned = signal.getsignal(number), []
    with pytest.raises(kind) as raised_error, raised():
        try:
            os.kill(os.getpid(), number)
            time.sleep(10)
        finally:
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), signal.SIGTERM)
            cleaned.append(True)
    assert cleaned
    assert raised_error.type is kind
    assert status_of(raised_error.value) == status
    assert signal.getsignal(number) is before


def test_a_signal_that_comes_out_as_another_error_is_still_the_signal():
    """As raised by TensorFlow's device scopes."""
    with pytest.raises(StoppedError), raised():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
        finally:
            raise RuntimeError('Exiting device scope without proper scope nesting.')


def test_repeated_sigterm_does_not_end_the_process():
    with deferred() as interrupts:
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until(lambda: interrupts.received is not None)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.05)
        assert interrupts.received == signal.SIGTERM


def test_outside_the_main_thread_it_does_nothing():
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def enter():
        with deferred() as interrupts:
            seen.append((interrupts.received, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [(None, before)]


@pytest.mark.parametrize(('flags', 'status'), [('wording.flag_names({})', 130), ('contextlib.nullcontext()', 7)])
def test_second_ctrl_c_ends_a_busy_program_at_once_and_interrupts_python(flags, status):
    code = (
        'import contextlib, sys, time\n'
        'from deeplab import wording\n'
        'from deeplab.system.interrupts import deferred\n'
        'try:\n'
        f'    with {flags}, deferred() as interrupts:\n'
        '        print("ready", flush=True)\n'
        '        end = time.monotonic() + 30\n'
        '        while time.monotonic() < end: sum(range(10 ** 7))\n'  # the main thread looks at no signals in here
        'except KeyboardInterrupt:\n'
        '    sys.exit(7)\n'
    )
    process = subprocess.Popen(
        [sys.executable, '-c', code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout.readline() == 'ready\n'
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == '\n'
        assert process.stderr.readline().startswith('SIGINT: finishing this step and saving a checkpoint. Ctrl-C again')
        time.sleep(2 * REPEAT_SECS)  # sooner, it would be taken for the same one
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == status


@pytest.mark.parametrize(('number', 'kind'), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, StoppedError)])
def test_the_first_signal_is_noted_and_the_next_one_raises(number, kind):
    before = signal.getsignal(number)
    with signals.noted() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)  # the same one, delivered twice
        wait_until(stop.is_set)
        time.sleep(REPEAT_SECS)
        with pytest.raises(kind):
            os.kill(os.getpid(), number)
            time.sleep(1)
    assert signal.getsignal(number) is before
