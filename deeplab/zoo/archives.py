"""Unpacking of archives that may be hostile: nothing leaves the folder, and files and sizes are limited."""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import pathlib
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from typing import IO, Any

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


def unpack(archive: str, folder: str, most_files: int | None = None) -> None:
    """Unpacks an archive: .zip by its extension, else .tar.gz or .tar.

    Only regular files and folders are allowed; owners, permissions and times in the archive are ignored.

    Args:
      archive: path of the archive.
      folder: an empty or missing folder to unpack into. After an error it may hold files.
      most_files: limit on the number of files; None for the limit for checkpoints.

    Raises:
      DamagedArchiveError: the archive is damaged.
      DownloadError: it is too large, or has something else than files inside the folder.
      OSError: a file cannot be written.
    """
    limit = _limit(os.path.getsize(archive))
    most_files = MOST_FILES if most_files is None else most_files
    if archive.endswith('.zip'):
        _unpack_zip(archive, folder, limit, most_files)
        return
    with contextlib.ExitStack() as stack:
        with _reading(archive):
            plain = stack.enter_context(_plain(archive))
            reader = _Reader(plain)
            members = stack.enter_context(tarfile.open(fileobj=reader, mode='r|'))  # type: ignore[call-overload]
        _unpack_all(members, reader, folder, limit, most_files)
        reader.allow(_LARGEST_HEADER)
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


def _at(name: str) -> str:
    """Returns where an archive is damaged: at an entry."""
    return f"at '{names.shown(name)}'"


def _plain(archive: str) -> Any:
    """Opens a .tar archive, or the one in a .tar.gz."""
    return open(archive, 'rb') if archive.endswith('.tar') else gzip.open(archive, 'rb')


def _unpack_zip(archive: str, folder: str, limit: int, most_files: int) -> None:
    """Unpacks a .zip archive."""
    with _reading(archive):
        content = zipfile.ZipFile(archive)
    with content:
        members = content.infolist()
        size = sum(member.file_size for member in members)
        if len(members) > most_files:
            raise _refused(archive, f'it has more than {most_files} files')
        _check_size(archive, size, limit)
        os.makedirs(folder, exist_ok=True)
        for member in members:
            _unpack_one(content, member, archive, folder)


def _unpack_one(content: zipfile.ZipFile, member: zipfile.ZipInfo, archive: str, folder: str) -> None:
    """Writes one file of a .zip archive, no longer than it is announced to be."""
    kind = stat.S_IFMT(member.external_attr >> 16)
    path = os.path.join(folder, *_inner(archive, member.filename, member.is_dir(), kind in (0, stat.S_IFREG)))
    if member.is_dir():
        with _as_new(archive, member.filename):
            os.makedirs(path, exist_ok=True)
        return
    with _reading(archive, _at(member.filename)):
        source = content.open(member)
    with source:  # which checks size and checksum at the end
        _write(source, path, archive, member.filename)


def _limit(packed: int) -> int:
    """Returns how many bytes an archive of `packed` bytes may hold."""
    return min(LARGEST_UNPACKED, max(_NO_BOMB, _LARGEST_RATIO * packed))


def _unpack_all(members: tarfile.TarFile, reader: _Reader, folder: str, limit: int, most_files: int) -> None:
    """Writes the files of an archive."""
    archive = str(reader.name)
    os.makedirs(folder, exist_ok=True)
    size = 0
    for count, member in enumerate(_members(members, reader)):
        size += max(member.size, 0)
        if count >= most_files:
            raise _refused(archive, f'it has more than {most_files} files')
        _check_size(archive, size, limit)
        is_file = member.isreg() and not member.issparse()
        path = os.path.join(folder, *_inner(archive, member.name, member.isdir(), is_file))
        if member.isdir():
            with _as_new(archive, member.name):
                os.makedirs(path, exist_ok=True)
            continue
        reader.allow(member.size + _LARGEST_HEADER)
        with _reading(archive, _at(member.name)):
            content = members.extractfile(member)
        assert content is not None  # it is a regular file
        _write(content, path, archive, member.name)


def _check_size(archive: str, size: int, limit: int) -> None:
    """Raises `DownloadError` if the files of an archive have more bytes than allowed."""
    if size > limit:
        raise _refused(archive, f'its {os.path.getsize(archive):,} bytes unpack to at least {size:,}')


def _members(members: tarfile.TarFile, reader: _Reader) -> Iterator[tarfile.TarInfo]:
    """Yields the entries of an archive; each header may read no more than its due."""
    place = ''
    while True:
        reader.allow(_LARGEST_HEADER)
        with _reading(str(reader.name), place):
            member = members.next()
        if member is None:
            return
        yield member
        place = f"behind '{names.shown(member.name)}'"


def _write(content: IO[bytes], path: str, archive: str, name: str) -> None:
    """Writes one file, which must be new."""
    with _as_new(archive, name):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        file = open(path, 'xb')
    with file:
        while True:
            with _reading(archive, _at(name)):
                chunk = content.read(_CHUNK)
            if not chunk:
                return
            file.write(chunk)


@contextlib.contextmanager
def _as_new(archive: str, name: str) -> Iterator[None]:
    """Raises `DownloadError` if an entry cannot be made because of its name."""
    try:
        yield
    except (FileExistsError, IsADirectoryError, NotADirectoryError):
        raise _refused(archive, f"it has '{names.shown(name)}' twice, or as file and as folder") from None
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise _refused(archive, f"the name '{names.shown(name)}' is too long") from None


def _inner(archive: str, name: str, is_folder: bool, is_file: bool) -> tuple[str, ...]:
    """Returns the folders and the name of an entry; raises `DownloadError` unless it is a file or folder inside."""
    shown = names.shown(name)
    if not is_folder and not is_file:
        raise _refused(archive, f"'{shown}' is neither a file nor a folder but a link, device or the like")
    path = pathlib.PurePosixPath(name)
    parts = tuple(part for part in path.parts if part != '.')
    leaves = path.is_absolute() or '..' in parts or '\\' in name or ':' in name
    if leaves or not name.isprintable() or (not parts and not is_folder):
        raise _refused(archive, f"'{shown}' is not a path inside the folder that it is unpacked to")
    if len(parts) > _DEEPEST:
        raise _refused(archive, f"'{shown}' lies in more than {_DEEPEST} folders")
    return parts


def _refused(archive: str, reason: str) -> DownloadError:
    return DownloadError(f'{archive} is not unpacked: {reason}. Published archives have nothing of the kind.')


class _Reader:
    """Reads a file, at most as much as was allowed since the last call of `allow`."""

    def __init__(self, file: IO[bytes]) -> None:
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
