"""One run of a program at a time in an output folder: a lock file that vanishes with its process."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import os
import shlex
import sys
import time
from collections.abc import Iterator

from absl import logging

from deeplab.errors import OptionError

try:
    import fcntl
except ImportError:  # not on this system: process numbers have to do
    fcntl = None  # type: ignore[assignment]

_ATTEMPTS = 5  # somebody who only looks (`owner`) holds the lock for a moment
_PAUSE_SECS = 0.05
_MOST_SHOWN = 80  # characters of a command line that a message has room for


@dataclasses.dataclass(frozen=True)
class Owner:
    """The process that holds a folder.

    Attributes:
      pid: its number; 0 where it is not known.
      host: name of its machine.
      started: when it took the folder, as local time to the second.
      command: its command line.
    """

    pid: int = 0
    host: str = ''
    started: str = ''
    command: str = ''

    def __str__(self) -> str:
        if not self.pid:
            return 'a process that left no name'
        command = self.command if len(self.command) <= _MOST_SHOWN else f'{self.command[:_MOST_SHOWN]}...'
        return f'process {self.pid} on {self.host}, started {self.started} ({command})'


def path_of(folder: str, program: str) -> str:
    """Path of the lock file of `program` in `folder`."""
    return os.path.join(folder, f'.{program}.lock')


@contextlib.contextmanager
def held(folder: str, program: str, flag: str) -> Iterator[None]:
    """Keeps other runs of a program out of a folder while the `with` block runs.

    A folder that is not there is made, and removed at the end if nothing came to lie in it. Where nothing can be
    written there is no lock, and no error: that is for whoever writes there first.

    Args:
      folder: path of the folder.
      program: kind of program; different kinds may share a folder.
      flag: the flag that names the folder.

    Raises:
      OptionError: another process holds it; the message names that process.
    """
    made = _make(folder)
    path = path_of(folder, program)
    try:
        descriptor = _take(path)
    except _InUseError as error:
        _remove_empty(made)
        raise OptionError(
            f"--{flag}: another {program} is running in the folder '{folder}': {error.owner}. Wait until it ends or "
            'stop it, or give another folder'
        ) from None
    try:
        yield
    finally:
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.remove(path)
            os.close(descriptor)
        _remove_empty(made)


def owner(folder: str, program: str) -> Owner | None:
    """The process that holds `folder` for `program` at this moment; None where none does."""
    try:
        descriptor = os.open(path_of(folder, program), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = _read(descriptor)
        is_free = _lock(descriptor, exclusive=False)
        if is_free is None:  # no locks on this file system
            is_free = not _is_alive(found)
        return None if is_free else found or Owner()
    finally:
        os.close(descriptor)


class _InUseError(Exception):
    """The lock is held; `owner` says by whom."""

    def __init__(self, holder: Owner) -> None:
        super().__init__()
        self.owner = holder


def _make(folder: str) -> list[str]:
    """Makes a folder with those above it; returns those that were not there, the innermost first."""
    made = []
    above = os.path.abspath(folder)
    while not os.path.lexists(above):
        made.append(above)
        above = os.path.dirname(above)
    with contextlib.suppress(OSError):
        os.makedirs(folder, exist_ok=True)
    return made


def _remove_empty(folders: list[str]) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def _take(path: str) -> int | None:
    """Locks the file; its descriptor, or None where there can be none. Raises `_InUseError`."""
    for attempt in range(_ATTEMPTS):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError:
            return None
        found = _read(descriptor)
        is_locked = _lock(descriptor, exclusive=True)
        if is_locked is None:  # no locks on this file system
            is_locked = not _is_alive(found)
        if is_locked and _is_same_file(path, descriptor):
            if found is not None:
                logging.info('Taking over %s: its process is gone (%s).', path, found)
            _write(descriptor)
            return descriptor
        os.close(descriptor)
        if not is_locked and attempt == _ATTEMPTS - 1:
            raise _InUseError(found or Owner())
        time.sleep(_PAUSE_SECS)
    return None


def _lock(descriptor: int, exclusive: bool) -> bool | None:
    """Whether the lock could be had; None where the file system has none."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_same_file(path: str, descriptor: int) -> bool:
    """Whether the file was not removed, by the one who held it, between opening and locking it."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False


def _is_alive(found: Owner | None) -> bool:
    """Whether the process runs on this machine; of other machines nobody knows."""
    if found is None or not found.pid or found.host != os.uname().nodename:
        return False
    try:
        os.kill(found.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _read(descriptor: int) -> Owner | None:
    """What the file says of its process; None where it says nothing."""
    try:
        content = json.loads(os.pread(descriptor, 1 << 16, 0))
        return Owner(int(content['pid']), str(content['host']), str(content['started']), str(content['command']))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(descriptor: int) -> None:
    """Notes this process in the file; without a note on a full disk."""
    now = datetime.datetime.now().isoformat(' ', 'seconds')
    note = Owner(os.getpid(), os.uname().nodename, now, shlex.join(sys.argv)[:1000])
    with contextlib.suppress(OSError):
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, (json.dumps(dataclasses.asdict(note)) + '\n').encode(), 0)
