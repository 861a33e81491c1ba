"""The door of every program: from its first moment on, Ctrl-C ends it in one line.

It imports next to nothing, because what is imported before `main` has set its handler can still be interrupted.
"""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED_STATUS = 130


def main(argv: list[str] | None = None) -> int:
    """Runs the command line `deeplab ARGV...`, see `cli.main`; None for the words that this process was called with.

    Programs that compute run in a child process, see `watched_process`; `cli.main` runs them in this one.
    """
    try:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a job in the background ignores it
            signal.signal(signal.SIGINT, _QuitAtOnce())
        words = list(sys.argv[1:] if argv is None else argv)
        from deeplab.utils import watched_process

        status = watched_process.fork_for(words)
        if status is not None:
            return status
        from deeplab import cli

        return cli.main(words)
    except KeyboardInterrupt:
        return _tell(2)


def begin_to_run() -> None:
    """Makes Ctrl-C raise KeyboardInterrupt again, for a program that has something to clean up."""
    if isinstance(signal.getsignal(signal.SIGINT), _QuitAtOnce):
        signal.signal(signal.SIGINT, signal.default_int_handler)


class _QuitAtOnce:
    """Ends the process: an exception within an import would come out as another one, or be lost."""

    def __init__(self) -> None:
        try:
            self._console = os.dup(2)  # the command line holds standard error back while TensorFlow is imported
        except OSError:  # there is no standard error
            self._console = -1

    def __call__(self, number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # a terminal and a watching process may both send it
        os._exit(_tell(self._console))


def _tell(descriptor: int) -> int:
    """Says that the program was interrupted; returns its status."""
    try:
        os.write(descriptor, b'deeplab: interrupted\n')
    except OSError:  # there is nobody to tell
        pass
    return INTERRUPTED_STATUS
