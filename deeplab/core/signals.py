"""Ctrl-C and SIGTERM, noticed at once and obeyed between two steps."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """While active, SIGINT and SIGTERM are noted in `received` instead of raising; a second Ctrl-C ends the process.

    Python runs its signal handlers only between two operations of the main thread, and one training step is a single
    operation of seconds. So a thread reads the signals from a pipe that Python's C handler writes to, answers at once,
    and can end the process although the main thread is busy.

    Outside the main thread, where no handler can be set, it does nothing.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._old_handlers: dict[int, object] = {}
        self._ends: tuple[socket.socket, socket.socket] | None = None
        self._old_wakeup = -1
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is not threading.main_thread():
            return self
        self._ends = socket.socketpair()
        for end in self._ends:
            end.setblocking(False)
        self._ends[0].setblocking(True)
        self._old_wakeup = signal.set_wakeup_fd(self._ends[1].fileno(), warn_on_full_buffer=False)
        for number in SIGNALS:
            self._old_handlers[number] = signal.signal(number, _ignore)
        self._thread = threading.Thread(target=self._watch, name='deeplab-signals', daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ends is None:
            return
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_wakeup)
        self._ends[1].close()  # ends the watching thread
        if self._thread is not None:
            self._thread.join(timeout=5)
        self._ends[0].close()
        self._ends = None

    def _watch(self) -> None:
        assert self._ends is not None
        while True:
            numbers = self._ends[0].recv(64)
            if not numbers:
                return
            for number in numbers:
                if number in SIGNALS:
                    self._note(number)

    def _note(self, number: int) -> None:
        if self.received is None:
            self.received = number
            again = ' Ctrl-C again quits at once.' if number == signal.SIGINT else ''
            _tell(f'{signal.Signals(number).name}: finishing this step and saving a checkpoint.{again}')
        elif number == signal.SIGINT:
            _tell('SIGINT again: quitting without a checkpoint of this step.')
            os._exit(128 + number)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Does nothing: that a handler is set is what keeps Python from raising."""


def _tell(message: str) -> None:
    """Writes one line to standard error without the logging module's locks, which the main thread may hold."""
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f'\n{message}\n'.encode())
