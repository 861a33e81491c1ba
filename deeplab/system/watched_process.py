"""Runs a program in a child process, so that the parent can report why it was killed or crashed.

When memory runs out, the system kills a process at once, or native code in it crashes, and it cannot report why. The
parent uses little memory, reports what has happened, and returns the child's exit status. It runs the program again if
the child asks for that.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence

from deeplab.system import child_process, interrupts, memory

AGAIN_STATUS = 75  # exit status of a child that is to run again; EX_TEMPFAIL of sysexits.h
_RUNS = 'DEEPLAB_EARLIER_RUNS'  # environment variable of a child: how often it has run before
_ALIASES = {'evaluate': 'eval', 'visualize': 'vis', 'visualise': 'vis', 'export': 'export_model'}
_SENT_BY_THE_KERNEL = 0x80  # si_code of the signals of a terminal, which go to all processes in its foreground
_CRASHES = {
    'SIGKILL': 'was killed (SIGKILL), probably by the system because it ran out of memory',
    'SIGSEGV': 'crashed in native code (SIGSEGV), which may be due to too little memory',
    'SIGBUS': 'crashed in native code (SIGBUS), which may be due to too little memory, or a full disk under a mapped '
    'file',
    'SIGABRT': 'was aborted by native code (SIGABRT), see the lines above; std::bad_alloc means too little memory',
    'SIGILL': 'used an instruction that this processor does not have (SIGILL); TensorFlow was built for another one',
}


def fork_for(words: Sequence[str], advice: Callable[[str], str] = memory.advice) -> int | None:
    """Calls `fork` for a command line whose program may need much memory, unless it asks for help.

    Args:
      words: the words after `deeplab`.
      advice: called after a crash with the name of the program; returns what to do.
    """
    name = words[0].replace('-', '_').removesuffix('.py').rpartition('/')[2] if words else ''
    name = _ALIASES.get(name, name)
    if name not in memory.PROGRAMS or any(
        word.lstrip('-').startswith('help') or word in ('-h', '-?') for word in words
    ):
        return None
    return fork(f'deeplab {name}', lambda: advice(name))


def fork(name: str, advice: Callable[[], str]) -> int | None:
    """Continues in a child process, which is killed when this process ends; the parent waits for it.

    Nothing that starts threads may have been imported before. Does nothing on systems other than Linux. Signals that
    are sent to this process alone are passed on; signals of a terminal reach the child directly.

    Args:
      name: prefix of the message about a crash, such as `deeplab train`.
      advice: called after a crash; returns what to do.

    Returns:
      None in the child, and if there is none; in the parent the exit status of the last child: its own, or 128 plus
      the number of the signal that ended it. A child with the status `AGAIN_STATUS` is followed by another one.
    """
    if not (sys.platform == 'linux' and hasattr(os, 'fork') and hasattr(signal, 'sigwaitinfo')):
        return None
    watched = {*interrupts.handled(), signal.SIGCHLD}
    on_end = signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it is ignored, statuses are lost
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    os.environ[_RUNS] = '0'
    while child := child_process.fork():
        status = _exit_status(_wait(child, watched), name, advice)
        if status != AGAIN_STATUS:
            return status
        os.environ[_RUNS] = str(int(os.environ[_RUNS]) + 1)
    if child is None:  # this process continues without a parent
        del os.environ[_RUNS]
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    signal.signal(signal.SIGCHLD, on_end)
    return None


def earlier_runs() -> int | None:
    """Returns how often this child has run before; None without a parent that would run it again."""
    runs = os.environ.get(_RUNS)
    return None if runs is None else int(runs)


def _wait(child: int, watched: set[signal.Signals]) -> int:
    """Waits until `child` has ended, and passes signals on to it; returns its status from `waitpid`."""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        received = signal.sigwaitinfo(watched)
        if received.si_signo != signal.SIGCHLD and received.si_code != _SENT_BY_THE_KERNEL:
            os.kill(child, received.si_signo)


def _exit_status(status: int, program: str, advice: Callable[[], str]) -> int:
    """Returns the exit status for a status from `waitpid`; reports a signal that ended the process."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f'signal {-code}'
    text = f'the process {_CRASHES[name]}. {advice()}' if name in _CRASHES else f'stopped by {name}'
    with contextlib.suppress(OSError):  # standard error may be closed
        os.write(2, f'{program}: error: {text}\n'.encode(errors='replace'))
    return 128 - code
