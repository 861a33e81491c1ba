"""Files of data sets: on local disks, and in other storages.

Paths that begin with a scheme (`gs://bucket/records`) go through `remote`; all others are read with the system's own
calls.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from deeplab.files import remote, writing
from deeplab.system import overlap

_SCHEME = re.compile(r'[A-Za-z][A-Za-z0-9+.-]+://')
_Result = TypeVar('_Result')
PARALLEL_READS = remote.PARALLEL_READS


class Stat(NamedTuple):
    """What tells whether a file has changed: its size in bytes and its last modification.

    The latter is in nanoseconds on local disks, and in other storages a number that changes with it.
    """

    size: int
    modified: int


class File:
    """An open file on a local disk; it may be read by several threads at once.

    Attributes:
      size: its size in bytes, if opening it has determined it, as for a file in another storage.
    """

    size: int | None = None

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read_at(self, size: int, offset: int) -> bytes:
        """Reads up to `size` bytes from `offset` on; raises `OSError`."""
        return os.pread(self._descriptor, size, offset)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)


def is_remote(path: str) -> bool:
    """Returns whether a path is not on a local disk: whether it begins with a scheme such as gs://."""
    return _SCHEME.match(path) is not None


def is_on_web_server(path: str) -> bool:
    """Returns whether a path is the address of a web server, which does not have to list a folder."""
    return is_remote(path) and remote.scheme_of(path) in remote.WEB_SCHEMES


def require_known_scheme(path: str, is_data_set: bool = True) -> None:
    """Raises `DataError` if a path begins with a scheme that cannot be read; TensorFlow knows more with some packages.

    Args:
      path: the path. TensorFlow is imported for some schemes.
      is_data_set: whether the path is of a data set; other files are read by TensorFlow alone.
    """
    if is_remote(path):
        (remote.of if is_data_set else remote.require_any_file)(path)


def absolute(path: str) -> str:
    """Returns a path that does not depend on the current folder."""
    return path if is_remote(path) else os.path.abspath(path)


def is_folder(path: str) -> bool:
    """Returns whether there is a folder of that path; always on a web server, which has none."""
    if not is_remote(path):
        return os.path.isdir(path)
    return remote.tried(path, lambda storage: storage.is_folder(path))


def is_file(path: str) -> bool:
    """Returns whether there is a file of that path."""
    if not is_remote(path):
        return os.path.isfile(path)
    return remote.tried(path, lambda storage: storage.is_file(path))


def file_names(folder: str) -> list[str]:
    """Returns the sorted names of the files in a folder, without folders.

    Raises:
      OSError: The folder cannot be read.
    """
    if not is_remote(folder):
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_file())
    return sorted(remote.tried(folder, lambda storage: storage.file_names(folder)))


def stat(path: str) -> Stat:
    """Returns size and time of a file.

    Raises:
      OSError: There is no such file.
    """
    if not is_remote(path):
        status = os.stat(path)
        return Stat(status.st_size, status.st_mtime_ns)
    return Stat(*remote.tried(path, lambda storage: storage.stat(path)))


def parallel_map(function: Callable[[str], _Result], paths: Sequence[str]) -> Iterator[_Result]:
    """Maps a function of a path, in threads that wait for a storage if the paths are not on a local disk."""
    if not any(map(is_remote, paths)):
        return map(function, paths)
    return overlap.map_in_order(function, paths, remote.PARALLEL_READS, remote.PARALLEL_READS)


def read(path: str) -> bytes:
    """Returns the content of a file.

    Raises:
      OSError: It cannot be read.
    """
    if not is_remote(path):
        with open(path, 'rb') as file:
            return file.read()
    return remote.tried(path, lambda storage: storage.read(path))


def write(path: str, content: bytes) -> None:
    """Writes a file, on a local disk completely or not at all.

    Raises:
      OSError: It cannot be written.
    """
    if not is_remote(path):
        writing.write(path, content)
        return
    remote.tried(path, lambda storage: storage.write(path, content))


def opened(path: str, size: int | None = None) -> File:
    """Opens a file for reading in any order.

    Args:
      path: path of the file.
      size: its size in bytes if it is known, which saves a request to another storage.

    Raises:
      OSError: It cannot be opened.
    """
    return _RemoteFile(path, size) if is_remote(path) else File(path)


class _RemoteFile(File):
    """A file in another storage; it may be read by several threads at once."""

    size: int

    def __init__(self, path: str, size: int | None) -> None:
        self._path = path
        self.size = stat(path).size if size is None else size
        self._idle: list[Any] = []

    def read_at(self, size: int, offset: int) -> bytes:
        wanted = min(size, self.size - offset)
        if wanted <= 0:  # a request beyond the end is an error in some storages
            return b''
        return remote.tried(self._path, lambda storage: storage.read_part(self._path, wanted, offset, self._idle))

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
