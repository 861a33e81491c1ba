"""Entry point of every program; from the beginning, Ctrl-C ends it with a message of one line.

It imports very little, because imports before `main` has set its signal handler can still be interrupted.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # as in `typing`, whose import takes a sixth of the time of `deeplab --help`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

INTERRUPTED_STATUS = 130


def main(argv: list[str] | None = None) -> int:
    """Runs the command line `deeplab ARGV...`, see `cli.main`; None for the arguments of this process.

    Programs that may need much memory run in a child process, see `watched_process`; `cli.main` runs them in this one.
    """
    try:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a job in the background ignores it
            signal.signal(signal.SIGINT, _QuitAtOnce())
        words = list(sys.argv[1:] if argv is None else argv)
        if _has_shown_overview(words):
            return 0
        from deeplab.system import watched_process

        status = watched_process.fork_for(words, _advice)
        if status is not None:
            return status
        return _command_line()(words)
    except KeyboardInterrupt:
        return _report_interrupt(2)


def _command_line() -> Callable[[list[str]], int]:
    """Returns `cli.main`; imports it without the garbage collector, which would find nothing, slowly."""
    import gc

    was_enabled = gc.isenabled()
    gc.disable()
    from deeplab import cli

    if was_enabled:
        gc.enable()
    return cli.main


def run_program(name: str) -> NoReturn:
    """Runs a program with the arguments of this process, and ends the process; for `python -m deeplab.NAME`."""
    sys.exit(main([name, *sys.argv[1:]]))


def _has_shown_overview(words: list[str]) -> bool:
    """Prints the overview of all programs if `words` ask for it; returns whether it has been printed."""
    from deeplab import overview

    if len(words) != 1 or words[0] not in overview.HELP_WORDS:
        return False
    try:
        print(overview.text(), flush=True)
    except OSError:  # `cli.main` fails to print it in the same way, and reports why
        return False
    return True


def _advice(program: str) -> str:
    """Returns what to do if a program runs out of memory, with the flags of its command line."""
    from deeplab import wording
    from deeplab.cli.program import find_program
    from deeplab.system import memory

    with wording.flag_names(find_program(program).flag_names):
        return memory.advice(program)


def begin_to_run() -> None:
    """Makes Ctrl-C raise KeyboardInterrupt again, for a program that has to clean up."""
    if isinstance(signal.getsignal(signal.SIGINT), _QuitAtOnce):
        signal.signal(signal.SIGINT, signal.default_int_handler)


class _QuitAtOnce:
    """Signal handler that ends the process: an exception during an import could be replaced or lost."""

    def __init__(self) -> None:
        try:
            self._console = os.dup(2)  # the command line holds standard error back while TensorFlow is imported
        except OSError:  # there is no standard error
            self._console = -1

    def __call__(self, number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # a terminal and a watching process may both send it
        os._exit(_report_interrupt(self._console))


def _report_interrupt(descriptor: int) -> int:
    """Reports that the program was interrupted; returns its exit status."""
    try:
        os.write(descriptor, b'deeplab: interrupted\n')
    except OSError:  # standard error is closed
        pass
    return INTERRUPTED_STATUS


if __name__ == '__main__':  # `python -m deeplab.start` is the `deeplab` command
    from deeplab import start

    sys.exit(start.main())
