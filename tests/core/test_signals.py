"""Signals: noted in this process; a second Ctrl-C in a process of its own."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from deeplab.core.signals import Interrupts

ROOT = pathlib.Path(__file__).parents[2]


def wait_until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_signal_is_noted_and_handlers_come_back(number):
    before = signal.getsignal(number)
    with Interrupts() as interrupts:
        assert interrupts.received is None
        os.kill(os.getpid(), number)
        wait_until(lambda: interrupts.received == number)
    assert signal.getsignal(number) is before
    assert signal.set_wakeup_fd(-1) == -1


def test_repeated_sigterm_does_not_end_the_process():
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until(lambda: interrupts.received is not None)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.05)
        assert interrupts.received == signal.SIGTERM


def test_outside_the_main_thread_it_does_nothing():
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def enter():
        with Interrupts() as interrupts:
            seen.append((interrupts.received, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [(None, before)]


def test_second_ctrl_c_ends_a_busy_process_at_once():
    code = (
        'import sys, time\n'
        'from deeplab.core.signals import Interrupts\n'
        'with Interrupts() as interrupts:\n'
        '    print("ready", flush=True)\n'
        '    end = time.monotonic() + 30\n'
        '    while time.monotonic() < end: sum(range(10 ** 8))\n'  # the main thread does not look at signals in here
    )
    process = subprocess.Popen(
        [sys.executable, '-c', code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout.readline() == 'ready\n'
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == '\n'
        assert process.stderr.readline().startswith('SIGINT: finishing this step and saving a checkpoint. Ctrl-C again')
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
