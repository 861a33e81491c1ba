"""Files of data sets: on local disks, and by `tf.io.gfile` wherever TensorFlow can read (gs://, ...).

Paths that begin with a scheme (`gs://bucket/records`) go through TensorFlow, which is imported only for them; all
others are read with the system's own calls, which are faster and safe in several threads.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from deeplab.errors import DataError
from deeplab.files import writing

_SCHEME = re.compile(r'[A-Za-z][A-Za-z0-9+.-]+://')
_IN_MEMORY = 'ram'  # the scheme of files in memory, which is not suggested


class Stat(NamedTuple):
    """What tells whether a file has changed: its size in bytes and its last modification in nanoseconds."""

    size: int
    modified: int


class File:
    """An open file on a local disk; it may be read by several threads at once."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read_at(self, size: int, offset: int) -> bytes:
        """Reads up to `size` bytes from `offset` on; raises `OSError`."""
        return os.pread(self._descriptor, size, offset)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)


def is_remote(path: str) -> bool:
    """Returns whether a path is read by TensorFlow: whether it begins with a scheme such as gs://."""
    return _SCHEME.match(path) is not None


def require_known_scheme(path: str) -> None:
    """Raises `DataError` if a path begins with a scheme that TensorFlow cannot read; it knows more with some packages.

    Imports TensorFlow for paths with a scheme.
    """
    if not is_remote(path):
        return
    import tensorflow as tf

    scheme = path.partition('://')[0]
    schemes = set(filter(None, tf.io.gfile.get_registered_schemes()))
    if scheme not in schemes:
        shown = ', '.join(f'{name}://' for name in sorted(schemes - {_IN_MEMORY}))
        raise DataError(
            f"'{path}' cannot be used: this TensorFlow knows {shown}, but not {scheme}://. Give another path."
        )


def absolute(path: str) -> str:
    """Returns a path that does not depend on the current folder."""
    return path if is_remote(path) else os.path.abspath(path)


def is_folder(path: str) -> bool:
    """Returns whether there is a folder of that path."""
    if not is_remote(path):
        return os.path.isdir(path)
    with _as_os_error(path):
        return bool(_gfile(path).isdir(path))


def is_file(path: str) -> bool:
    """Returns whether there is a file of that path."""
    if not is_remote(path):
        return os.path.isfile(path)
    with _as_os_error(path):
        return bool(_gfile(path).exists(path)) and not _gfile(path).isdir(path)


def file_names(folder: str) -> list[str]:
    """Returns the sorted names of the files in a folder, without folders.

    Raises:
      OSError: The folder cannot be read.
    """
    if not is_remote(folder):
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_file())
    with _as_os_error(folder):
        return sorted(name for name in _gfile(folder).listdir(folder) if not name.endswith('/'))


def stat(path: str) -> Stat:
    """Returns size and time of a file.

    Raises:
      OSError: There is no such file.
    """
    if not is_remote(path):
        status = os.stat(path)
        return Stat(status.st_size, status.st_mtime_ns)
    with _as_os_error(path):
        facts = _gfile(path).stat(path)
        return Stat(int(facts.length), int(facts.mtime_nsec))


def read(path: str) -> bytes:
    """Returns the content of a file.

    Raises:
      OSError: It cannot be read.
    """
    if not is_remote(path):
        with open(path, 'rb') as file:
            return file.read()
    with _as_os_error(path), _gfile(path).GFile(path, 'rb') as file:
        content: bytes = file.read()
        return content


def write(path: str, content: bytes) -> None:
    """Writes a file, on a local disk completely or not at all.

    Raises:
      OSError: It cannot be written.
    """
    if not is_remote(path):
        writing.write(path, content)
        return
    with _as_os_error(path), _gfile(path).GFile(path, 'wb') as file:
        file.write(content)


def opened(path: str) -> File:
    """Opens a file for reading in any order.

    Raises:
      OSError: It cannot be opened.
    """
    return _RemoteFile(path) if is_remote(path) else File(path)


class _RemoteFile(File):
    """A file that TensorFlow reads; one thread at a time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        with _as_os_error(path):
            self._file = _gfile(path).GFile(path, 'rb')
            self._size = int(self._file.size())  # it also opens the file

    def read_at(self, size: int, offset: int) -> bytes:
        with self._lock, _as_os_error(self._path):
            if offset >= self._size:  # a seek beyond the end is an error in some storages
                return b''
            self._file.seek(offset)
            content: bytes = self._file.read(min(size, self._size - offset))
            return content

    def close(self) -> None:
        self._file.close()


def _gfile(path: str) -> Any:
    import tensorflow as tf  # here, because local files do without it

    # Of an unknown scheme its functions say that there is no such folder, or do not name the known ones.
    require_known_scheme(path)
    return tf.io.gfile


@contextlib.contextmanager
def _as_os_error(path: str) -> Iterator[None]:
    """Converts errors of TensorFlow to `OSError`."""
    from tensorflow import errors

    try:
        yield
    except errors.OpError as error:
        missing = isinstance(error, errors.NotFoundError)
        text = 'No such file or directory' if missing else (error.message or type(error).__name__).split('\n')[0]
        raise OSError(errno.ENOENT if missing else errno.EIO, text, path) from None  # the first is FileNotFoundError
