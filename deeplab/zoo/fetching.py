"""Published checkpoints, from the cache, from an archive that a user has put there, or by download."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re

from absl import logging

from deeplab.errors import DownloadError
from deeplab.files import writing
from deeplab.options import FetchOptions
from deeplab.zoo import archives, cache, catalog

_SERVER = 'https://storage.googleapis.com/download.tensorflow.org/models'
_INDEX = '.index'
_STEP = re.compile(r'-(\d+)$')


@dataclasses.dataclass(frozen=True)
class Fetched:
    """A published checkpoint on this machine.

    Attributes:
      checkpoint: path of the checkpoint, without `.index`.
      note: sizes and checksums.
      is_new: whether it was unpacked just now.
    """

    checkpoint: str
    note: cache.Manifest
    is_new: bool


def fetch(name: str, options: FetchOptions | None = None) -> str:
    """Returns the path of a published checkpoint, which is downloaded if it is not in the cache.

    Args:
      name: name of the preset, such as 'mobilenetv2_coco_voc_trainaug'.
      options: mirror and cache folder; None for the defaults.

    Returns:
      Path of the checkpoint without `.index`.

    Raises:
      OptionError: there is no such preset.
      DownloadError: it cannot be downloaded, or is not what was noted at the first download.
      OutputError: the cache folder cannot be written.
    """
    return obtain(name, options).checkpoint


def place_of(name: str, options: FetchOptions | None = None) -> cache.Place:
    """Returns source and folder of a published checkpoint; for arguments and errors see `fetch`."""
    preset = catalog.get(name)
    address = f'{_SERVER}/{preset.archive}'
    return cache.place_of(name, preset.archive, preset.folder, address, preset.size, options or FetchOptions())


def obtain(name: str, options: FetchOptions | None = None) -> Fetched:
    """Does what `fetch` does; returns also where the files are, and what was noted about them."""
    place = place_of(name, options)
    fetched = _in_cache(place)
    if fetched is None:
        with cache.held(place):
            fetched = _in_cache(place) or _get(place)
    return fetched


def _in_cache(place: cache.Place) -> Fetched | None:
    """Returns a checkpoint that is in the cache already, verified; None if it is not."""
    if not os.path.isdir(place.folder):
        return None
    note = cache.read(place.note)
    if note is None:  # a user has put the unpacked files there
        return None
    cache.verify(note, place)
    return Fetched(_checkpoint(place, note), note, False)


def _get(place: cache.Place) -> Fetched:
    """Takes files that a user has put into the cache, or downloads and unpacks the archive."""
    noted = cache.read(place.note)
    if os.path.isdir(place.folder):
        logging.info('Taking %s, which was put there by hand.', place.folder)
        note = cache.Manifest('', None, cache.contents_of(place.folder))
        checkpoint = _checkpoint(place, note)
        cache.write(note, place.note)
        return Fetched(checkpoint, note, True)
    with cache.archive(place, noted) as note, writing.atomic_path(place.folder) as temporary:
        archives.unpack(place.archive, temporary)
        note = dataclasses.replace(note, files=cache.contents_of(temporary))
        checkpoint = _checkpoint(place, note)  # before anything is kept
        cache.write(note, place.note)
    return Fetched(checkpoint, note, True)


def _checkpoint(place: cache.Place, note: cache.Manifest) -> str:
    """Returns the path of the checkpoint with the highest step among the unpacked files.

    Raises:
      DownloadError: there is none.
    """
    indices = [pathlib.PurePath(name) for name in note.files if name.endswith(_INDEX)]
    stems = [path.with_suffix('') for path in indices if not path.name.startswith('._')]  # those are notes of a Mac
    complete = [stem for stem in stems if any(name.startswith(f'{stem}.data-') for name in note.files)]
    if not complete:
        raise DownloadError(
            f'{os.path.basename(place.archive)} has no checkpoint (*{_INDEX} and *.data-*). It is not the published '
            'archive.'
        )
    newest = max(complete, key=lambda stem: int((_STEP.search(stem.name) or (0, -1))[1]))
    return os.path.join(place.folder, newest)
