"""Child processes that end with this one; one of them can work during the import of TensorFlow."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

_PR_SET_PDEATHSIG = 1


_begun: dict[str, tuple[int, int]] = {}  # by name of the work: id of the process, end of the pipe for the result


def fork() -> int | None:
    """Forks this process, which must have no other threads; the system kills the child when this process ends.

    Returns what `os.fork` does, or None if no more processes are allowed.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # buffered output would be written twice
    parent = os.getpid()
    try:
        process = os.fork()
    except OSError:
        return None
    if process == 0:
        die_with(parent)
    return process


def die_with(parent: int) -> None:
    """Makes the system kill this process when `parent` ends for any reason."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):  # another C library: the child may outlive a parent that is killed
        return
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


def begin(name: str, work: Callable[[], Any]) -> None:
    """Begins work in a child process, if this one may be forked and there is a processor for it.

    The import of TensorFlow takes seconds and one processor. After it, this process has threads and must not be forked.

    Args:
      name: under which `result` gives the result.
      work: returns something that can be pickled, without TensorFlow. What it raises means that there is no result.
    """
    if not _may_fork() or name in _begun:
        return
    readable, writable = os.pipe()
    process = fork()
    if process == 0:
        os.close(readable)
        _do(work, writable)
    os.close(writable)
    if process is None:
        os.close(readable)
        return
    _begun[name] = process, readable


def result(name: str) -> Any:
    """Waits for the result of work that has begun under a name; None if there is none. It is given once."""
    if name not in _begun:
        return None
    process, readable = _begun.pop(name)
    try:
        with os.fdopen(readable, 'rb') as pipe:
            content = pipe.read()
    except BaseException:  # such as Ctrl-C
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        raise
    finally:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process, 0)
    return pickle.loads(content) if content else None


def _may_fork() -> bool:
    """Returns whether this process has no threads that a fork would lose, and more than one processor."""
    if sys.platform != 'linux' or 'tensorflow' in sys.modules or threading.active_count() > 1:
        return False
    return len(os.sched_getaffinity(0)) > 1


def _do(work: Callable[[], Any], pipe: int) -> None:
    """Sends the result of `work` through `pipe`, and ends this process."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all processes; the parent ends this one
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        logging.disable()  # the parent opens the same files, and logs what there is to say
        import tqdm  # here, because programs without such work start faster without it

        # Otherwise the lock of progress bars is shared with the parent, which would wait forever for a child that is
        # killed while it holds the lock.
        tqdm.tqdm.set_lock(threading.RLock())
        content = pickle.dumps(work())
        with os.fdopen(pipe, 'wb') as stream:
            stream.write(content)
    finally:
        os._exit(0)  # with what is raised: the parent does the work itself, and reports it
