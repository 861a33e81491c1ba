"""Published checkpoints and data sets, from the cache, from an archive that a user has put there, or by download."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re

from absl import logging

from deeplab.errors import DownloadError
from deeplab.files import writing
from deeplab.options import FetchOptions
from deeplab.zoo import archives, cache, catalog

_MOST_FILES = 200_000  # of a data set; PASCAL VOC has 40,000
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
    return cache.place_of(catalog.get(name), options or FetchOptions())


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


def root_of(place: cache.Place) -> str:
    """Returns the path of the folder that the builder of a data set reads."""
    return os.path.join(place.folder, catalog.all_data_sets()[place.name].root)


def obtain_data_set(place: cache.Place) -> cache.Content | None:
    """Downloads and unpacks a data set, unless it is there. Other files in its folder, such as records, stay.

    Returns:
      Size and SHA-256 of the archive; None for files that a user has unpacked there.

    Raises:
      DownloadError: it cannot be downloaded, or is not what was published or noted.
      OutputError: the cache folder cannot be written.
    """
    data_set, root = catalog.all_data_sets()[place.name], root_of(place)
    with cache.held(place), contextlib.ExitStack() as stack:
        noted = cache.read(place.note)
        if os.path.isdir(root):
            return None if noted is None else noted.archive
        note = stack.enter_context(cache.archive(place, noted))
        temporary = writing.temporary_name(place.folder)
        stack.callback(writing.remove, temporary)
        _require_published(place.archive, data_set)
        archives.unpack(place.archive, temporary, _MOST_FILES)
        unpacked = os.path.join(temporary, data_set.root)
        if not os.path.isdir(unpacked):
            raise DownloadError(f'{place.archive} has no folder {data_set.root}. It is not the published archive.')
        cache.write(note, place.note)
        if os.path.isdir(place.folder):
            os.makedirs(os.path.dirname(root), exist_ok=True)
            os.replace(unpacked, root)
        else:
            os.replace(temporary, place.folder)
    return note.archive


def _require_published(archive: str, data_set: catalog.DataSet) -> None:
    """Raises `DamagedArchiveError` unless an archive has the size and checksum that were published."""
    size = os.path.getsize(archive)
    kind, _, wanted = data_set.checksum.partition(':')
    checksum = cache.checksum(archive, kind) if kind else ''
    if data_set.size not in (None, size) or checksum != wanted:
        published = '' if data_set.size is None else f'{data_set.size:,} bytes and '
        raise archives.DamagedArchiveError(
            f'{archive} has {size:,} bytes and {kind} {checksum}, but {data_set.title} was published with {published}'
            f'{kind} {wanted}. It is damaged or another file.'
        )
