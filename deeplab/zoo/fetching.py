"""Published checkpoints, from the cache, from an archive that a user has put there, or by download."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import time
from collections.abc import Iterator

from absl import logging

from deeplab.errors import DownloadError, OptionError, OutputError
from deeplab.options import FetchOptions
from deeplab.utils import files, folder_lock
from deeplab.wording import option
from deeplab.zoo import archives, cache, catalog, transfer

_VARIABLE = 'DEEPLAB_MIRROR'
_SERVER = pathlib.Path(__file__).with_name('server.json')
_CACHE_DIR = 'FetchOptions.cache_dir'
_WAIT_SECS = 0.5
_INDEX = '.index'
_STEP = re.compile(r'-(\d+)$')


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a published checkpoint comes from, and where it is kept.

    Attributes:
      preset: the checkpoint.
      address: of its archive on the server.
      cache: the cache folder.
    """

    preset: catalog.Preset
    address: str
    cache: str

    @property
    def archive(self) -> str:
        """Path of the archive, which is removed after unpacking unless the user has put it there."""
        return os.path.join(self.cache, self.preset.archive)

    @property
    def folder(self) -> str:
        """Path of the folder with the unpacked files."""
        return os.path.join(self.cache, self.preset.folder)

    @property
    def note(self) -> str:
        """Path of the note with sizes and checksums."""
        return f'{self.folder}.json'


@dataclasses.dataclass(frozen=True)
class Fetched:
    """A published checkpoint on this machine.

    Attributes:
      checkpoint: its path, without `.index`.
      place: where it is kept.
      note: sizes and checksums.
      is_new: whether it was unpacked just now.
    """

    checkpoint: str
    place: Place
    note: cache.Note
    is_new: bool


def fetch(name: str, options: FetchOptions | None = None) -> str:
    """Returns the path of a published checkpoint, which is downloaded if it is not in the cache.

    Args:
      name: of the preset, such as 'mobilenetv2_coco_voc_trainaug'.
      options: where it comes from, and where it is kept.

    Returns:
      Path of the checkpoint without `.index`.

    Raises:
      OptionError: there is no such preset.
      DownloadError: it cannot be downloaded, or is not what was noted at the first download.
      OutputError: the cache folder cannot be written.
    """
    return obtain(name, options).checkpoint


def place_of(name: str, options: FetchOptions | None = None) -> Place:
    """Returns where a published checkpoint comes from, and where it is kept; for arguments and errors see `fetch`."""
    options = options or FetchOptions()
    preset = catalog.get(name)
    mirror, field = options.mirror, option('FetchOptions.mirror')
    if not mirror:
        mirror, field = os.environ.get(_VARIABLE), _VARIABLE
    base = mirror or str(json.loads(_SERVER.read_text(encoding='utf-8'))['address'])
    transfer.check_address(base, field)
    return Place(preset, f'{base.rstrip("/")}/{preset.archive}', cache.folder(options.cache_dir))


def obtain(name: str, options: FetchOptions | None = None) -> Fetched:
    """Does what `fetch` does; returns also where the files are, and what was noted about them."""
    place = place_of(name, options)
    found = in_cache(place)
    if found is None:
        try:
            with _lock(place):
                found = in_cache(place) or _get(place)
        except OSError as error:
            raise OutputError(
                f'{option(_CACHE_DIR, place.cache)}: {error.filename or place.cache} cannot be written '
                f'({error.strerror}). Set another folder, or DEEPLAB_CACHE.'
            ) from error
    return found


def in_cache(place: Place) -> Fetched | None:
    """Returns a checkpoint that is in the cache already, verified; None if it is not."""
    if not os.path.isdir(place.folder):
        return None
    note = cache.read(place.note)
    if note is None:  # a user has put the unpacked files there
        return None
    cache.verify(note, place.folder, place.note)
    return Fetched(_checkpoint(place, note), place, note, False)


def by_hand(place: Place) -> str:
    """Returns what a user can do who cannot download here."""
    return (
        f'Or fetch {place.address} on another machine and put it, not unpacked, at {place.archive}; '
        f'the same command then uses it. {option("FetchOptions.mirror")} or {_VARIABLE} names another server.'
    )


@contextlib.contextmanager
def _lock(place: Place) -> Iterator[None]:
    """Excludes other processes that get the same checkpoint; waits until they are done."""
    program = f'download-{place.preset.name}'
    os.makedirs(place.cache, exist_ok=True)
    is_told = False
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(folder_lock.held(place.cache, program, _CACHE_DIR))
                break
            except OptionError:  # another process holds it
                owner = folder_lock.owner(place.cache, program)
            if not is_told:
                logging.info('Waiting for %s, which downloads %s.', owner or 'another process', place.preset.name)
            is_told = True
            time.sleep(_WAIT_SECS)
        yield


def _get(place: Place) -> Fetched:
    """Takes files that a user has put into the cache, or downloads and unpacks the archive."""
    noted = cache.read(place.note)
    if os.path.isdir(place.folder):
        logging.info('Taking %s, which was put there by hand.', place.folder)
        note = cache.Note('', None, cache.contents_of(place.folder))
        checkpoint = _checkpoint(place, note)
        cache.write(note, place.note)
        return Fetched(checkpoint, place, note, True)
    files.remove_leftovers(place.cache, re.escape(place.preset.folder))
    is_given = os.path.isfile(place.archive)
    if is_given:
        logging.info('Taking %s, which was put there by hand.', place.archive)
    else:
        _download(place)
    address = '' if is_given else place.address
    try:
        note = _unpack(place, address, noted)
    finally:
        if not is_given:
            files.remove(place.archive)
    return Fetched(_checkpoint(place, note), place, note, True)


def _download(place: Place) -> None:
    """Downloads the archive."""
    size = '' if place.preset.megabytes is None else f' ({place.preset.megabytes:g} MB)'
    logging.info('Downloading %s%s to %s.', place.address, size, place.cache)
    try:
        transfer.download(place.address, place.archive)
    except DownloadError as error:
        raise type(error)(f'{error} {by_hand(place)}') from None


def _unpack(place: Place, address: str, noted: cache.Note | None) -> cache.Note:
    """Compares the archive with what was noted, unpacks it and notes the files."""
    archive = cache.content_of(place.archive)
    if noted and noted.archive and noted.archive != archive:
        raise DownloadError(
            f'{place.preset.archive} has {archive.size:,} bytes with SHA-256 {archive.sha256}; at the first download '
            f'it had {noted.archive.size:,} with {noted.archive.sha256}. It was changed on the server or on the way. '
            f'If you trust the new one, remove {place.note}.'
        )
    with files.written_beside(place.folder) as temporary:
        archives.unpack(place.archive, temporary)
        note = cache.Note(address, archive, cache.contents_of(temporary))
        _checkpoint(place, note)  # before anything is kept
        cache.write(note, place.note)
    return note


def _checkpoint(place: Place, note: cache.Note) -> str:
    """Returns the path of the checkpoint among the unpacked files, that of the highest step if there are several.

    Raises:
      DownloadError: there is none.
    """
    indices = [pathlib.PurePath(name) for name in note.files if name.endswith(_INDEX)]
    stems = [path.with_suffix('') for path in indices if not path.name.startswith('._')]  # those are notes of a Mac
    complete = [stem for stem in stems if any(name.startswith(f'{stem}.data-') for name in note.files)]
    if not complete:
        raise DownloadError(
            f'{place.preset.archive} has no checkpoint (*{_INDEX} and *.data-*). It is not the published archive.'
        )
    newest = max(complete, key=lambda stem: int((_STEP.search(stem.name) or (0, -1))[1]))
    return os.path.join(place.folder, newest)
