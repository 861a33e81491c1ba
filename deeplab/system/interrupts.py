"""Handling of SIGINT, SIGTERM and SIGHUP: deferred between two training steps, or raised to clean up files."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Container, Iterator
from types import FrameType

from deeplab import wording

# A signal that comes again within this time is the same one, delivered twice: `timeout` and others signal a process and
# then its whole group.
REPEAT_SECS = 0.1


class StoppedError(KeyboardInterrupt):
    """A signal other than Ctrl-C asked the process to end; `number` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(f'stopped by {signal.Signals(number).name}')
        self.number = number


def handled() -> tuple[signal.Signals, ...]:
    """Returns the signals that end a run in an orderly way; without SIGHUP if it is ignored, as under nohup."""
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    return tuple(numbers)


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """Makes SIGTERM and SIGHUP raise `StoppedError`, as SIGINT raises `KeyboardInterrupt`, so that clean-up code runs.

    While that code runs, more of them are ignored; another Ctrl-C is not. Outside the main thread, and for a signal
    with a handler that somebody else has set, it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stopped: KeyboardInterrupt | None = None
    stopped_at = 0.0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal stopped, stopped_at
        if stopped is None:
            stopped = KeyboardInterrupt() if number == signal.SIGINT else StoppedError(number)
            stopped_at = time.monotonic()
            raise stopped
        if number == signal.SIGINT and time.monotonic() - stopped_at >= REPEAT_SECS:
            raise stopped

    defaults = (signal.SIG_DFL, signal.default_int_handler)
    old = {number: signal.getsignal(number) for number in handled()}
    taken = [number for number in old if old[number] in defaults]
    for number in taken:
        signal.signal(number, handle)
    try:
        yield
    except Exception as error:
        if stopped is None:
            raise
        raise stopped from error  # a signal in the midst of TensorFlow's own code can come out as something else
    finally:
        for number in taken:
            signal.signal(number, old[number])


def status_of(error: KeyboardInterrupt) -> int:
    """Returns the exit status of a process that `error` ended: 128 and the signal's number."""
    return 128 + (error.number if isinstance(error, StoppedError) else signal.SIGINT)


class Interrupts:
    """The signal that was received within the `with` block of `deferred`."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._received_at = 0.0

    def watch(self, signals: socket.socket, numbers: Container[int]) -> None:
        """Notes signals that arrive as bytes, until the other end of the pipe is closed."""
        while received := signals.recv(64):
            for number in received:
                if number in numbers:
                    self._note(number)

    def _note(self, number: int) -> None:
        if self.received is None:
            self.received, self._received_at = number, time.monotonic()
            again = ' Ctrl-C again quits at once.' if number == signal.SIGINT else ''
            _tell(f'{signal.Signals(number).name}: finishing this step and saving a checkpoint.{again}')
        elif number == signal.SIGINT and time.monotonic() - self._received_at >= REPEAT_SECS:
            self._received_at = time.monotonic()
            _tell('SIGINT again: quitting without a checkpoint of this step.')
            if wording.current_flag_names() is not None:  # a program of the command line
                os._exit(128 + number)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(threading.main_thread().ident or 0), ctypes.py_object(KeyboardInterrupt)
            )


@contextlib.contextmanager
def deferred() -> Iterator[Interrupts]:
    """Makes signals set `received` of the yielded object instead of raising; a second Ctrl-C ends the work at once.

    Python runs its signal handlers only between two operations of the main thread, and one training step is a single
    operation of seconds. So a thread reads the signals from a pipe that Python's C handler writes to, answers at once,
    and at a second Ctrl-C ends a program of the command line although the main thread is busy. In Python, as in a
    notebook, the main thread raises `KeyboardInterrupt` after its operation.

    Outside the main thread, where no handler can be set, it does nothing.
    """
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    readable, writable = socket.socketpair()
    writable.setblocking(False)
    old_wakeup = signal.set_wakeup_fd(writable.fileno(), warn_on_full_buffer=False)
    # A handler that is set keeps Python from raising.
    old_handlers = {number: signal.signal(number, lambda *_: None) for number in handled()}
    thread = threading.Thread(
        target=interrupts.watch, args=(readable, old_handlers), name='deeplab-signals', daemon=True
    )
    thread.start()
    try:
        yield interrupts
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(old_wakeup)
        writable.close()  # ends the thread
        thread.join(timeout=5)
        readable.close()


def _tell(message: str) -> None:
    """Writes one line to standard error without the logging module's locks, which the main thread may hold."""
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f'\n{message}\n'.encode())


@contextlib.contextmanager
def noted() -> Iterator[threading.Event]:
    """Makes the first signal set the yielded event instead of raising; the next one raises as `raised` does.

    For work that goes on until it is stopped. Outside the main thread, where no handler can be set, it does nothing.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    old = {number: signal.getsignal(number) for number in handled()}
    noted_at = 0.0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal noted_at
        if not stop.is_set():
            noted_at = time.monotonic()
            stop.set()
        elif time.monotonic() - noted_at >= REPEAT_SECS:
            raise KeyboardInterrupt if number == signal.SIGINT else StoppedError(number)

    for number in old:
        signal.signal(number, handle)
    try:
        yield stop
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
