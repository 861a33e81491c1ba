"""Unpacking of archives that may be hostile: nothing leaves the folder, and files and sizes are limited."""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import pathlib
import tarfile
import zlib
from collections.abc import Iterator
from typing import IO

from deeplab.errors import DownloadError
from deeplab.utils import names

LARGEST_UNPACKED = 4 << 30  # bytes of all files; the largest published archive has half a gigabyte
MOST_FILES = 1000
# Weights hardly compress. Small archives may: a graph as text shrinks well.
_LARGEST_RATIO = 20
_NO_BOMB = 64 << 20  # bytes
_LARGEST_HEADER = 1 << 20  # bytes between the contents of two files
_CHUNK = 1 << 20


class _TooLargeError(Exception):
    """More was read than is allowed; not a ValueError, which tarfile catches in places."""


def unpack(archive: str, folder: str) -> None:
    """Unpacks a .tar.gz archive.

    Only regular files and folders are allowed; owners, permissions and times in the archive are ignored.

    Args:
      archive: path of the archive.
      folder: an empty or missing folder to unpack into. After an error it may hold files.

    Raises:
      DownloadError: the archive is damaged, too large, or has something else than files inside the folder.
    """
    limit = _limit(os.path.getsize(archive))
    try:
        with gzip.open(archive, 'rb') as plain:
            reader = _Reader(plain)
            with tarfile.open(fileobj=reader, mode='r|') as members:  # type: ignore[call-overload]
                _unpack_all(members, reader, folder, limit)
            reader.allow(_LARGEST_HEADER)
            while reader.read(_CHUNK):  # up to the checksum
                pass
    except _TooLargeError:
        raise _refused(archive, f'it has more than {_LARGEST_HEADER:,} bytes that belong to no file') from None
    except DownloadError:
        raise
    # ValueError: tarfile does not check all numbers in headers.
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError) as error:
        raise DownloadError(f'{archive} is damaged or no .tar.gz archive ({_reason(error)}). Get it again.') from None


def _limit(packed: int) -> int:
    """Returns how many bytes an archive of `packed` bytes may hold."""
    return min(LARGEST_UNPACKED, max(_NO_BOMB, _LARGEST_RATIO * packed))


def _unpack_all(members: tarfile.TarFile, reader: _Reader, folder: str, limit: int) -> None:
    """Writes the files of an archive."""
    archive = str(reader.name)
    os.makedirs(folder, exist_ok=True)
    size = 0
    for count, member in enumerate(_members(members, reader)):
        size += max(member.size, 0)
        if count >= MOST_FILES:
            raise _refused(archive, f'it has more than {MOST_FILES} files')
        if size > limit:
            raise _refused(archive, f'its {os.path.getsize(archive):,} bytes unpack to at least {size:,}')
        path = os.path.join(folder, *_parts(archive, member))
        if member.isdir():
            with _as_new(archive, member):
                os.makedirs(path, exist_ok=True)
            continue
        reader.allow(member.size + _LARGEST_HEADER)
        content = members.extractfile(member)
        assert content is not None  # it is a regular file
        _write(content, path, archive, member)


def _members(members: tarfile.TarFile, reader: _Reader) -> Iterator[tarfile.TarInfo]:
    """Yields the entries of an archive; each header may read no more than its due."""
    while True:
        reader.allow(_LARGEST_HEADER)
        member = members.next()
        if member is None:
            return
        yield member


def _write(content: IO[bytes], path: str, archive: str, member: tarfile.TarInfo) -> None:
    """Writes one file, which must be new."""
    with _as_new(archive, member):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        file = open(path, 'xb')
    with file:
        while chunk := content.read(_CHUNK):
            file.write(chunk)


@contextlib.contextmanager
def _as_new(archive: str, member: tarfile.TarInfo) -> Iterator[None]:
    """Raises `DownloadError` if an entry cannot be made because of its name."""
    try:
        yield
    except (FileExistsError, IsADirectoryError, NotADirectoryError):
        raise _refused(archive, f"it has '{names.shown(member.name)}' twice, or as file and as folder") from None
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise _refused(archive, f"the name '{names.shown(member.name)}' is too long") from None


def _parts(archive: str, member: tarfile.TarInfo) -> tuple[str, ...]:
    """Returns the folders and the name of an entry; raises `DownloadError` unless it is a file or folder inside."""
    shown = names.shown(member.name)
    if not (member.isdir() or (member.isreg() and not member.issparse())):
        raise _refused(archive, f"'{shown}' is neither a file nor a folder but a link, device or the like")
    path = pathlib.PurePosixPath(member.name)
    parts = tuple(part for part in path.parts if part != '.')
    leaves = path.is_absolute() or '..' in parts or '\\' in member.name or ':' in member.name
    if leaves or not member.name.isprintable() or (not parts and not member.isdir()):
        raise _refused(archive, f"'{shown}' is not a path inside the folder that it is unpacked to")
    return parts


def _refused(archive: str, reason: str) -> DownloadError:
    return DownloadError(f'{archive} is not unpacked: {reason}. Published archives have nothing of the kind.')


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


class _Reader:
    """Reads a file, at most as much as was allowed since the last call of `allow`."""

    def __init__(self, file: gzip.GzipFile) -> None:
        self._file = file
        self._allowed = _LARGEST_HEADER
        self.name = file.name

    def allow(self, size: int) -> None:
        """Allows to read `size` bytes from here on."""
        self._allowed = size

    def read(self, size: int) -> bytes:
        """Reads up to `size` bytes.

        Raises:
          _TooLargeError: more is read than allowed.
        """
        data = self._file.read(size)
        self._allowed -= len(data)
        if self._allowed < 0:
            raise _TooLargeError
        return data
