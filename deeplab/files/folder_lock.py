"""Lock files that allow one run of a program at a time in an output folder."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import fcntl
import json
import os
import shlex
import sys
import time
from collections.abc import Iterator

from absl import logging

from deeplab.errors import OptionError
from deeplab.files import writing
from deeplab.wording import option

_ATTEMPTS = 5  # `owner` in another process holds the lock for a moment
_PAUSE_SECS = 0.05
_MOST_SHOWN = 80  # largest number of characters of a command line in a message


@dataclasses.dataclass(frozen=True)
class Owner:
    """The process that holds a folder."""

    pid: int = 0  # 0 if unknown
    host: str = ''
    started: str = ''  # when it took the lock, as local time to the second
    command: str = ''

    def __str__(self) -> str:
        if not self.pid:
            return 'an unknown process'
        command = self.command if len(self.command) <= _MOST_SHOWN else f'{self.command[:_MOST_SHOWN]}...'
        return f'process {self.pid} on {self.host}, started {self.started} ({command})'


def path_of(folder: str, program: str) -> str:
    """Returns the path of the lock file of `program` in `folder`."""
    return os.path.join(folder, f'.{program}.lock')


@contextlib.contextmanager
def held(folder: str, program: str, field: str, is_beside: bool = False) -> Iterator[None]:
    """Excludes other runs of a program from a folder while the `with` block runs.

    A missing folder is created, and removed at the end if it is empty. If the folder is not writable there is no lock
    and no error: the first write to the folder reports it.

    Args:
      folder: path of the folder.
      program: kind of program; different kinds may share a folder.
      field: option that sets the folder, such as 'TrainOptions.train_logdir'.
      is_beside: whether the lock file is beside the folder, which is not created: the program makes it at its end.

    Raises:
      OptionError: another process holds the lock; the message names that process.
    """
    path = path_of(folder, program)
    if is_beside:
        parent, name = os.path.split(os.path.abspath(folder))
        path = path_of(parent, f'{name}.{program}')
    made = _make(os.path.dirname(path))
    descriptor = _take(path)
    if isinstance(descriptor, Owner):
        _remove_empty(made)
        raise OptionError(
            f'{option(field, folder)}: another {program} is running in this folder: {descriptor}. Wait until it ends, '
            'stop it, or set another folder'
        )
    try:
        yield
    finally:
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.remove(path)
            os.close(descriptor)
        _remove_empty(made)


def owner(folder: str, program: str) -> Owner | None:
    """Returns the process that currently holds the lock of `program` in `folder`; None if none does."""
    try:
        descriptor = os.open(path_of(folder, program), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        holder = _read(descriptor)
        return None if _locks(descriptor, fcntl.LOCK_SH, holder) else holder or Owner()
    finally:
        os.close(descriptor)


def _make(folder: str) -> list[str]:
    """Creates a folder and its parents; returns the missing folders, the innermost first."""
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


def _take(path: str) -> int | Owner | None:
    """Locks the file; returns its descriptor, None if it cannot be created, or the process that holds the lock."""
    for attempt in range(_ATTEMPTS):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError:
            return None
        holder = _read(descriptor)
        is_locked = _locks(descriptor, fcntl.LOCK_EX, holder)
        if is_locked and _is_same_file(path, descriptor):
            if holder is not None:
                logging.info('Taking over %s: its process has ended (%s).', path, holder)
            _write(descriptor)
            return descriptor
        os.close(descriptor)
        if not is_locked and attempt == _ATTEMPTS - 1:
            return holder or Owner()
        time.sleep(_PAUSE_SECS)
    return None


def _locks(descriptor: int, kind: int, holder: Owner | None) -> bool:
    """Locks a file unless another process holds it, which the file names as `holder`; returns whether it could."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # no locks on this file system; a process on another machine is taken to have ended
        if holder is None or not holder.pid or holder.host != os.uname().nodename:
            return True
        return not writing.is_running(holder.pid)
    return True


def _is_same_file(path: str, descriptor: int) -> bool:
    """Returns whether the file is still the one that was opened, and was not removed by its previous owner."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False


def _read(descriptor: int) -> Owner | None:
    """Returns the process that the file names; None if it names none."""
    try:
        content = json.loads(os.pread(descriptor, 1 << 16, 0))
        return Owner(int(content['pid']), str(content['host']), str(content['started']), str(content['command']))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(descriptor: int) -> None:
    """Writes this process to the file, if the disk has space."""
    now = datetime.datetime.now().isoformat(' ', 'seconds')
    note = Owner(os.getpid(), os.uname().nodename, now, shlex.join(sys.argv)[:1000])
    with contextlib.suppress(OSError):
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, (json.dumps(dataclasses.asdict(note)) + '\n').encode(), 0)
