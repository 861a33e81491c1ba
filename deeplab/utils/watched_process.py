"""A child process that does the work while this one waits for it, so that no way to die goes without a word.

Where memory runs out, the system kills a process at once, or native code in it crashes: it cannot say why itself. The
parent holds next to no memory, says what has happened, and passes on the child's exit status.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Sequence

from deeplab.utils import memory

_PR_SET_PDEATHSIG = 1
_ALIASES = {'evaluate': 'eval', 'visualize': 'vis', 'visualise': 'vis', 'export': 'export_model'}
_SENT_BY_THE_KERNEL = 0x80  # si_code of the signals of a terminal, which go to all processes in its foreground
_CRASHES = {
    'SIGKILL': 'was killed (SIGKILL), probably by the system because the memory was used up',
    'SIGSEGV': 'crashed in native code (SIGSEGV), as happens where too little memory is left',
    'SIGBUS': 'crashed in native code (SIGBUS), as happens where memory, or the disk under a mapped file, is used up',
    'SIGABRT': 'was aborted by native code (SIGABRT): the lines above say why; std::bad_alloc means too little memory',
    'SIGILL': 'met an instruction that this processor does not have (SIGILL); TensorFlow was built for another one',
}


def fork_for(words: Sequence[str]) -> int | None:
    """`fork` for a command line whose program computes; does nothing for others, nor where help is asked for.

    Args:
      words: the line behind `deeplab`.
    """
    name = words[0].replace('-', '_').removesuffix('.py').rpartition('/')[2] if words else ''
    name = _ALIASES.get(name, name)
    if name not in memory.ADVICE or any(word.lstrip('-').startswith('help') or word in ('-h', '-?') for word in words):
        return None
    return fork(f'deeplab {name}', memory.ADVICE[name])


def fork(name: str, advice: str) -> int | None:
    """Goes on in a child process, which dies when this one does; this one waits for it.

    Nothing that starts threads may have been imported before. Without Linux's means it does nothing. Signals that are
    sent to this process alone are passed on; those of a terminal reach the child directly.

    Args:
      name: what the message of a crash begins with, such as `deeplab train`.
      advice: what to do after a crash.

    Returns:
      None in the child, and where there is none; in the parent the exit status: the child's own, or 128 and the number
      of the signal that ended it.
    """
    if not (sys.platform == 'linux' and hasattr(os, 'fork') and hasattr(signal, 'sigwaitinfo')):
        return None
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # what waits here would be written twice
    watched = {signal.SIGINT, signal.SIGTERM, signal.SIGCHLD}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        watched.add(signal.SIGHUP)
    on_end = signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored, statuses are lost
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    parent = os.getpid()
    try:
        child = os.fork()
    except OSError:  # no more processes are allowed: go on unwatched
        child = None
    if child:
        return _exit_status(_wait(child, watched), lambda text: _say(f'{name}: error: {text}'), advice)
    if child == 0:
        _die_with(parent)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    signal.signal(signal.SIGCHLD, on_end)
    return None


def _die_with(parent: int) -> None:
    """Has the system kill this process when `parent` ends, in whatever way."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):  # another C library: the child may outlive a parent that is killed
        return
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


def _wait(child: int, watched: set[signal.Signals]) -> int:
    """Waits until `child` has ended, and passes signals on to it; returns what `waitpid` says of it."""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        received = signal.sigwaitinfo(watched)
        if received.si_signo != signal.SIGCHLD and received.si_code != _SENT_BY_THE_KERNEL:
            os.kill(child, received.si_signo)


def _exit_status(status: int, say: Callable[[str], None], advice: str) -> int:
    """The exit status for what `waitpid` says of a process; tells of a signal that ended it."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f'signal {-code}'
    say(f'the process {_CRASHES[name]}. {advice}' if name in _CRASHES else f'stopped by {name}')
    return 128 - code


def _say(text: str) -> None:
    """Writes a line to standard error, below whatever stands there."""
    try:
        os.write(2, f'{text}\n'.encode(errors='replace'))
    except OSError:  # there is nobody to tell
        pass
