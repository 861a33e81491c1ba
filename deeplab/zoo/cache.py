"""The cache folder of downloaded checkpoints and data sets: its lock, its archives, notes to verify what it holds."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import time
from collections.abc import Iterator

from absl import logging

from deeplab import names
from deeplab.errors import DownloadError, OptionError, OutputError
from deeplab.files import documents, folder_lock, writing
from deeplab.options import FetchOptions
from deeplab.wording import option
from deeplab.zoo import transfer
from deeplab.zoo.archives import DamagedArchiveError
from deeplab.zoo.catalog import DataSet, Preset

_VARIABLE = 'DEEPLAB_CACHE'
_CACHE_DIR = 'FetchOptions.cache_dir'
_WAIT_SECS = 0.5


def folder(cache_dir: str | None = None) -> str:
    """Returns the absolute path of the cache folder.

    Args:
      cache_dir: path of the folder; None for the environment variable DEEPLAB_CACHE, else `deeplab` in XDG_CACHE_HOME
        or ~/.cache.
    """
    given = cache_dir or os.environ.get(_VARIABLE)
    if given:
        return os.path.abspath(os.path.expanduser(given))
    base = os.environ.get('XDG_CACHE_HOME', '')
    if not os.path.isabs(base):  # such values are to be ignored (XDG Base Directory Specification)
        base = os.path.join(os.path.expanduser('~'), '.cache')
    return os.path.join(base, 'deeplab')


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a checkpoint or data set comes from, and where it is kept.

    Attributes:
      name: name of the checkpoint or data set.
      address: address of the archive.
      size: number of bytes of the archive; None if it is unknown.
      cache: path of the cache folder.
      archive: path of the archive, which is removed after unpacking unless the user has put it there.
      folder: path of the folder with the unpacked files.
    """

    name: str
    address: str
    size: float | None
    cache: str
    archive: str
    folder: str

    @property
    def note(self) -> str:
        """Path of the note with sizes and checksums."""
        return f'{self.folder}.json'


def place_of(published: Preset | DataSet, options: FetchOptions) -> Place:
    """Returns where a checkpoint or data set comes from and goes to.

    Args:
      published: the checkpoint or data set.
      options: mirror and cache; a mirror is the address of the folder of the archive.

    Raises:
      DownloadError: the address of the mirror is not one.
    """
    mirror, cache = transfer.mirror_of(options), folder(options.cache_dir)
    address = f'{mirror}/{published.archive}' if mirror else published.address
    paths = (os.path.join(cache, published.archive), os.path.join(cache, published.folder))
    return Place(published.name, address, published.size, cache, *paths)


@contextlib.contextmanager
def held(place: Place) -> Iterator[None]:
    """Excludes other processes that get the same checkpoint or data set into a cache; waits until they are done.

    Raises:
      OutputError: The cache folder, or a file that the block writes to it, cannot be written.
    """
    path, program = place.cache, f'download-{place.name}'
    is_told = False
    try:
        os.makedirs(path, exist_ok=True)
        with contextlib.ExitStack() as stack:
            while True:
                try:
                    stack.enter_context(folder_lock.held(path, program, _CACHE_DIR))
                    break
                except OptionError:  # another process holds it
                    owner = folder_lock.owner(path, program)
                if not is_told:
                    logging.info('Waiting for %s, which downloads %s.', owner or 'another process', place.name)
                is_told = True
                time.sleep(_WAIT_SECS)
            yield
    except OSError as error:
        reason = error.strerror or error
        raise OutputError(
            f'{option(_CACHE_DIR, path)}: {error.filename or path} cannot be written ({reason}). Set another folder, '
            f'or {_VARIABLE}.'
        ) from error


@dataclasses.dataclass(frozen=True)
class Content:
    """Size in bytes and SHA-256, in hexadecimal, of a file."""

    size: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What was noted when an archive was unpacked for the first time.

    Attributes:
      address: address of the archive; empty for an archive that a user has put into the folder.
      archive: size and checksum of the archive; None if a user has put the unpacked files there.
      files: sizes and checksums of the unpacked files, by path in the folder.
    """

    address: str
    archive: Content | None
    files: dict[str, Content]


@contextlib.contextmanager
def archive(place: Place, noted: Manifest | None) -> Iterator[Manifest]:
    """Downloads an archive, unless it is there, and yields a note about it, without files.

    Of a `DamagedArchiveError` in the block, the message is completed with what to do.

    A downloaded archive is removed when the block ends, or rejects it with a `DownloadError`. If the block is
    interrupted or fails otherwise, for example on a full disk, the archive stays, and the next call takes it.

    Args:
      place: address and path of the archive. The file ARCHIVE.source holds the address of a downloaded archive.
      noted: what was noted at the first download; None if nothing was.

    Raises:
      DownloadError: It cannot be downloaded, or is another one than at the first download.
      OSError: It cannot be written.
    """
    path, source = place.archive, f'{place.archive}.source'
    writing.remove_leftovers(place.cache, re.escape(os.path.basename(place.folder)))
    # Beside a user's archive, there may be the note and the rest of a download that was not completed.
    is_downloaded = os.path.isfile(source) and not os.path.exists(transfer.part_of(path))
    is_by_hand = os.path.isfile(path) and not is_downloaded
    if is_by_hand:
        logging.info('Taking %s, which was put there by hand.', path)
    elif not os.path.isfile(path):
        _download(place, source)
    try:
        content = content_of(path)
        if noted and noted.archive and noted.archive != content:
            raise DownloadError(
                f'{path} has {content.size:,} bytes with SHA-256 {content.sha256}; at the first download it had '
                f'{noted.archive.size:,} with {noted.archive.sha256}. It was changed on the server or on the way. If '
                f'you trust the new one, remove {place.note}.'
            )
        yield Manifest('' if is_by_hand else pathlib.Path(source).read_text('utf-8'), content, {})
    except DownloadError as error:
        if not is_by_hand:
            _remove(path, source)
        if not isinstance(error, DamagedArchiveError):
            raise
        fix = 'It was removed: run the same command again.'
        if is_by_hand:
            fix = (
                'It was put there by hand, so it stays: replace it, or remove it to have it downloaded, and run the '
                'same command again.'
            )
        raise DamagedArchiveError(f'{error} {fix}') from None
    if not is_by_hand:
        _remove(path, source)


def _download(place: Place, source: str) -> None:
    """Downloads an archive, and notes its address before it gets its name."""
    shown = '' if place.size is None else f' ({names.byte_size(place.size)})'
    logging.info('Downloading %s%s to %s.', place.address, shown, place.cache)
    writing.write(source, place.address)
    try:
        transfer.download(place.address, place.archive)
    except BaseException as error:
        writing.remove(source)
        if isinstance(error, DownloadError):
            raise type(error)(
                f'{error} Or fetch {place.address} on another machine and put it, not unpacked, at {place.archive}; '
                f'the same command then uses it. {option("FetchOptions.mirror")} or {transfer.MIRROR_VARIABLE} names '
                'another server.'
            ) from None
        raise


def _remove(path: str, source: str) -> None:
    """Removes a downloaded archive; the note last, so that the archive is never taken for a user's."""
    writing.remove(path)
    writing.remove(source)


def checksum(path: str, kind: str = 'sha256') -> str:
    """Returns a checksum of a file, in hexadecimal; `kind` is a name that hashlib has."""
    with open(path, 'rb') as file:
        return hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()


def content_of(path: str) -> Content:
    """Returns size and checksum of a file."""
    return Content(os.path.getsize(path), checksum(path))


def contents_of(folder: str) -> dict[str, Content]:
    """Returns sizes and checksums of all files in a folder, by their paths in it."""
    paths = sorted(path for path in pathlib.Path(folder).rglob('*') if path.is_file())
    return {str(path.relative_to(folder)): content_of(str(path)) for path in paths}


def read(path: str) -> Manifest | None:
    """Returns the note in a file; None if there is none.

    Raises:
      DownloadError: the file is not a note.
    """
    try:
        note = documents.load(path)
        archive = note['archive']
        contents = {str(name): Content(**content) for name, content in note['files'].items()}
        return Manifest(str(note['address']), Content(**archive) if archive else None, contents)
    except FileNotFoundError:
        return None
    except (documents.DocumentError, KeyError, TypeError, AttributeError) as error:
        raise DownloadError(f'{path} is damaged ({error}). Remove it, and run `deeplab download` again.') from None


def write(note: Manifest, path: str) -> None:
    """Writes a note."""
    writing.write(path, json.dumps(dataclasses.asdict(note), indent=1))


def verify(note: Manifest, place: Place) -> None:
    """Compares the unpacked files with a note.

    Raises:
      DownloadError: a file is missing or differs. Further files do not matter.
    """
    for name, content in note.files.items():
        file = os.path.join(place.folder, name)
        try:
            reason = '' if content_of(file) == content else 'differs from what was noted when it was unpacked'
        except OSError as error:
            reason = f'cannot be read ({error.strerror})'
        if reason:
            raise DownloadError(
                f'{names.shown(file)} {reason} in {place.note}. Remove the folder {place.folder} to get the checkpoint '
                'again.'
            )
