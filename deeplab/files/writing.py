"""Atomic writing of files, and removal of unfinished files of killed processes.

A file is written as `NAME.PID-MACHINE.partial` and renamed when it is complete. The next run removes the unfinished
file of a killed process, unless a process with that id is running. Processes of other machines and containers, which
may share the folder, cannot be seen from here: their files are removed when nobody has written to them for a day.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence

from deeplab.errors import DataError

_NAME = re.compile(r'(?P<target>.+)\.(?P<pid>\d+)(?:-(?P<machine>[0-9a-f]{4}))?\.partial', re.DOTALL)
_ABANDONED_SECS = 24 * 3600  # without a change, of a file of another machine


def temporary_name(path: str | os.PathLike[str]) -> str:
    """Returns the name under which this process writes `path` before it is complete."""
    return f'{os.fspath(path)}.{os.getpid()}-{_machine()}.partial'


@functools.cache
def _machine() -> str:
    """Returns four hexadecimal digits that differ between machines, and between containers of one machine."""
    try:
        namespace = os.readlink('/proc/self/ns/pid')
    except OSError:  # not on Linux
        namespace = ''
    return hashlib.sha256(f'{platform.node()} {namespace}'.encode()).hexdigest()[:4]


def write(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Writes a file that replaces `path` when it is complete; if it fails, `path` stays as it was.

    Text is written in UTF-8, and names of files that are not in UTF-8 with their own bytes.
    """
    with atomic_path(path) as temporary, open(temporary, 'wb') as stream:
        stream.write(content.encode('utf-8', 'surrogateescape') if isinstance(content, str) else content)


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yields the name of a new file that replaces `path` when the block ends; if the block fails, it is removed.

    The caller may also make a folder of that name where `path` is missing or an empty folder.
    """
    with atomic_paths([path]) as (temporary,):
        yield temporary


@contextlib.contextmanager
def atomic_paths(
    paths: Sequence[str | os.PathLike[str]], keeps: Callable[[], bool] = lambda: False
) -> Iterator[list[str]]:
    """As `atomic_path`, for several files that are renamed together, after the last one has been written.

    If the block fails and `keeps` returns true, the new files stay, for a later process to take them over.
    """
    temporaries = [temporary_name(path) for path in paths]
    try:
        for temporary in temporaries:
            remove(temporary)  # of an earlier process of the same number
        yield temporaries
        for temporary, path in zip(temporaries, paths, strict=True):
            os.replace(temporary, path)
    except BaseException:
        for temporary in [] if keeps() else temporaries:
            with contextlib.suppress(OSError):
                remove(temporary)
        raise


@contextlib.contextmanager
def explained(path: str | os.PathLike[str], advice: str = '') -> Iterator[None]:
    """Turns a failure to write `path` into a `DataError` that names it and ends with `advice`."""
    try:
        yield
    except OSError as error:
        text = f"Cannot write '{os.fspath(path)}': {error.strerror or error}. {advice}"
        raise DataError(text.rstrip()) from None


def leftovers(folder: str, targets: str | re.Pattern[str]) -> list[str]:
    """Finds unfinished files and folders of processes that have ended.

    Files of other running processes are not among them, nor files of other machines that changed in the last day. Call
    it before this process writes any: files with its own number count as leftovers of an earlier process with the same
    number.

    Args:
      folder: path of the folder; need not exist.
      targets: matches the whole final names of the files that the caller writes. Other files are never touched.

    Returns:
      Their paths, sorted.
    """
    try:
        names = sorted(os.listdir(folder or '.'))
    except OSError:
        return []
    paths = []
    for name in names:
        match = _NAME.fullmatch(name)
        if match is None or not re.fullmatch(targets, match['target']):
            continue
        path, pid = os.path.join(folder, name), int(match['pid'])
        if match['machine'] not in (None, _machine()):  # None: of an earlier release
            is_left = _unchanged_secs(path) > _ABANDONED_SECS
        else:
            is_left = pid == os.getpid() or not is_running(pid)
        if is_left:
            paths.append(path)
    return paths


def _unchanged_secs(path: str) -> float:
    """Returns for how long a file, or a folder and the files in it, have not changed; 0 if it is gone."""
    try:
        inside = [entry.stat().st_mtime for entry in os.scandir(path)] if os.path.isdir(path) else []
        return time.time() - max(os.stat(path).st_mtime, *inside, 0)
    except OSError:
        return 0


def remove_leftovers(folder: str, targets: str | re.Pattern[str]) -> list[str]:
    """Removes what `leftovers` finds; returns the paths that were removed."""
    removed = []
    for path in leftovers(folder, targets):
        with contextlib.suppress(OSError):
            remove(path)
            removed.append(path)
    return removed


def is_running(pid: int) -> bool:
    """Returns whether there is a process with that id on this machine."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it belongs to another user
        return True
    return True


def remove(path: str) -> None:
    """Removes a file, or a folder with its content, if it exists."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):  # a read-only disk refuses to remove what is not there
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)


def begins_as(path: str, pattern: re.Pattern[bytes]) -> bool:
    """Returns whether the first 16 bytes of a file begin with a pattern; False for what cannot be read."""
    try:
        with open(path, 'rb') as file:
            return pattern.match(file.read(16)) is not None
    except OSError:
        return False


def size_of(path: str) -> int:
    """Returns the size in bytes of a file, or of all files in a folder."""
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names)
