"""Unpacking of archives that may be hostile: nothing leaves the folder, and files and sizes are limited."""

from __future__ import annotations

import contextlib
import errno
import functools
import gzip
import io
import os
import pathlib
import stat
import tarfile
import zipfile
from collections.abc import Callable, Generator, Iterator
from typing import IO, NamedTuple

from deeplab import names
from deeplab.errors import DownloadError

LARGEST_UNPACKED = 4 << 30  # bytes of all files; the largest published archive has half a gigabyte
MOST_FILES = 1000
# Weights hardly compress. Small archives may: a graph as text shrinks well.
_LARGEST_RATIO = 20
_NO_BOMB = 64 << 20  # bytes
_LARGEST_HEADER = 1 << 20  # bytes between the contents of two files
_DEEPEST = 50  # folders in each other; Python makes and removes them recursively
_CHUNK = 1 << 20


class DamagedArchiveError(DownloadError):
    """An archive is damaged; getting it again may help. The message does not say how."""


class _TooLargeError(Exception):
    """More was read than is allowed; not a ValueError, which tarfile catches in places."""


class _Entry(NamedTuple):
    """A file, folder or something else in an archive."""

    name: str  # path in the archive
    size: int  # number of bytes as announced
    is_folder: bool
    is_file: bool
    open: Callable[[], IO[bytes] | None]  # returns the content of a regular file


def unpack(archive: str, folder: str, most_files: int = MOST_FILES) -> None:
    """Unpacks an archive: .zip by its extension, else .tar.gz or .tar.

    Only regular files and folders are allowed; owners, permissions and times in the archive are ignored.

    Args:
      archive: path of the archive.
      folder: an empty or missing folder to unpack into. After an error it may hold files.
      most_files: limit on the number of files; the default is for checkpoints.

    Raises:
      DamagedArchiveError: the archive is damaged.
      DownloadError: it is too large, or has something else than files inside the folder.
      OSError: a file cannot be written.
    """
    packed, unpacked = os.path.getsize(archive), 0
    limit = min(LARGEST_UNPACKED, max(_NO_BOMB, _LARGEST_RATIO * packed))
    os.makedirs(folder, exist_ok=True)
    with contextlib.closing(_zip_entries(archive) if archive.endswith('.zip') else _tar_entries(archive)) as entries:
        for count, entry in enumerate(entries):
            unpacked += max(entry.size, 0)
            if count >= most_files:
                raise _refused(archive, f'it has more than {most_files} files')
            if unpacked > limit:
                raise _refused(archive, f'its {packed:,} bytes unpack to at least {unpacked:,}')
            _unpack_one(archive, entry, folder)


def _zip_entries(archive: str) -> Generator[_Entry, None, None]:
    """Yields the entries of a .zip archive; a file's size and checksum are checked where its content ends."""
    with _reading(archive):
        content = zipfile.ZipFile(archive)
    with content:
        for member in content.infolist():
            is_file = stat.S_IFMT(member.external_attr >> 16) in (0, stat.S_IFREG)
            open_file = functools.partial(content.open, member)
            yield _Entry(member.filename, member.file_size, member.is_dir(), is_file, open_file)


def _tar_entries(archive: str) -> Generator[_Entry, None, None]:
    """Yields the entries of a .tar or .tar.gz archive; each header may read no more than its due."""
    with contextlib.ExitStack() as stack:
        with _reading(archive):
            plain = stack.enter_context(open(archive, 'rb') if archive.endswith('.tar') else gzip.open(archive, 'rb'))
            reader = _Reader(plain)
            members = stack.enter_context(tarfile.open(fileobj=reader, mode='r|'))  # type: ignore[call-overload]
        place = ''
        while True:
            reader.allowed = _LARGEST_HEADER
            with _reading(archive, place):
                member = members.next()
            if member is None:
                break
            reader.allowed = member.size + _LARGEST_HEADER
            is_file = member.isreg() and not member.issparse()
            open_file = functools.partial(members.extractfile, member)
            yield _Entry(member.name, member.size, member.isdir(), is_file, open_file)
            place = f"behind '{names.shown(member.name)}'"
        with _reading(archive, 'behind the last file'):
            while reader.read(_CHUNK):  # up to the checksum
                pass


@contextlib.contextmanager
def _reading(archive: str, place: str = '') -> Iterator[None]:
    """Turns whatever is raised when an archive is read into a `DownloadError`; nothing may be written in the block.

    The libraries raise nearly anything for a damaged archive: `OSError` for a wrong offset, errors of each compression.
    """
    try:
        yield
    except _TooLargeError:
        raise _refused(archive, f'it has more than {_LARGEST_HEADER:,} bytes that belong to no file') from None
    except Exception as error:
        kind = next((kind for kind in ('.zip', '.tar') if archive.endswith(kind)), '.tar.gz')
        reason = str(error) or type(error).__name__
        where = place or f'or no {kind} archive'
        raise DamagedArchiveError(f'{archive} is damaged {where} ({reason}).') from None


def _unpack_one(archive: str, entry: _Entry, folder: str) -> None:
    """Writes one file, which must be new, or makes a folder; raises `DownloadError` if its name does not allow that."""
    path = os.path.join(folder, *_parts(archive, entry))
    try:
        if entry.is_folder:
            os.makedirs(path, exist_ok=True)
        else:
            _write(archive, entry, path)
    except (FileExistsError, IsADirectoryError, NotADirectoryError):
        raise _refused(archive, f"it has '{names.shown(entry.name)}' twice, or as file and as folder") from None
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise _refused(archive, f"the name '{names.shown(entry.name)}' is too long") from None


def _write(archive: str, entry: _Entry, path: str) -> None:
    place = f"at '{names.shown(entry.name)}'"
    with _reading(archive, place):
        content = entry.open()
    assert content is not None  # it is a regular file
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with content, open(path, 'xb') as file:
        while True:
            with _reading(archive, place):
                chunk = content.read(_CHUNK)
            if not chunk:
                return
            file.write(chunk)


def _parts(archive: str, entry: _Entry) -> tuple[str, ...]:
    """Returns the folders and the name of an entry; raises `DownloadError` unless it is a file or folder inside."""
    name, shown = entry.name, names.shown(entry.name)
    if not entry.is_folder and not entry.is_file:
        raise _refused(archive, f"'{shown}' is neither a file nor a folder but a link, device or the like")
    path = pathlib.PurePosixPath(name)
    parts = tuple(part for part in path.parts if part != '.')
    leaves = path.is_absolute() or '..' in parts or '\\' in name or ':' in name
    if leaves or not name.isprintable() or (not parts and not entry.is_folder):
        raise _refused(archive, f"'{shown}' is not a path inside the folder that it is unpacked to")
    if len(parts) > _DEEPEST:
        raise _refused(archive, f"'{shown}' lies in more than {_DEEPEST} folders")
    return parts


def _refused(archive: str, reason: str) -> DownloadError:
    return DownloadError(f'{archive} is not unpacked: {reason}. Published archives have nothing of the kind.')


class _Reader:
    """Reads a file, as far as it is allowed to."""

    def __init__(self, file: io.BufferedIOBase) -> None:
        self._file = file
        self.allowed = _LARGEST_HEADER  # bytes that may still be read

    def read(self, size: int) -> bytes:
        """Reads up to `size` bytes; raises `_TooLargeError` if that is more than allowed."""
        data = self._file.read(size)
        self.allowed -= len(data)
        if self.allowed < 0:
            raise _TooLargeError
        return data
