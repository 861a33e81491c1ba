"""Published data sets: where their archives are, and a cache of what was downloaded and unpacked.

The facts are in data_sets.json in the same folder. Size and checksum are known for some archives. For others, they
are noted at the first download, and compared from then on.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import re

from deeplab.errors import DownloadError
from deeplab.files import writing
from deeplab.options import FetchOptions
from deeplab.zoo import archives, cache, transfer

_FACTS = pathlib.Path(__file__).with_name('data_sets.json')
_MOST_FILES = 200_000  # PASCAL VOC has 40,000


@dataclasses.dataclass(frozen=True)
class DataSet:
    """A data set.

    Attributes:
      name: what `deeplab download` calls it.
      title: name in texts.
      address: address of the archive; empty if it cannot be downloaded without an account.
      archive: file name of the archive.
      size: size of the archive in bytes; None if it is not certain.
      checksum: checksum of the archive, such as 'md5:...'; empty if it is not certain.
      root: folder in the archive that the builder reads.
      by_hand: what users do who have to fetch it themselves.
    """

    name: str
    title: str
    address: str = ''
    archive: str = ''
    size: int | None = None
    checksum: str = ''
    root: str = ''
    by_hand: str = ''


@dataclasses.dataclass(frozen=True)
class Place(cache.Place):
    """Where a data set comes from, and where it is kept.

    Attributes:
      data_set: the data set.
    """

    data_set: DataSet

    @property
    def root(self) -> str:
        """Path of the folder that the builder reads."""
        return os.path.join(self.folder, *self.data_set.root.split('/'))


@functools.cache
def all_data_sets() -> dict[str, DataSet]:
    """Returns all data sets by name."""
    data_sets = [DataSet(**facts) for facts in json.loads(_FACTS.read_text(encoding='utf-8'))]
    return {data_set.name: data_set for data_set in data_sets}


def place_of(name: str, options: FetchOptions) -> Place:
    """Returns where a data set comes from and goes to.

    Args:
      name: name of a data set that can be downloaded.
      options: mirror and cache; a mirror is the address of the folder of the archive.

    Raises:
      DownloadError: the address of the mirror is not one.
    """
    data_set = all_data_sets()[name]
    mirror = transfer.mirror_of(options)
    address = f'{mirror}/{data_set.archive}' if mirror else data_set.address
    return Place(cache.folder(options.cache_dir), address, data_set.archive, f'data_{data_set.name}', data_set)


def obtain(place: Place) -> cache.Content | None:
    """Downloads and unpacks a data set, unless it is there.

    Returns:
      Size and SHA-256 of the archive; None for files that a user has unpacked there.

    Raises:
      DownloadError: it cannot be downloaded, or is not what was published or noted.
      OutputError: the cache folder cannot be written.
    """
    with cache.held(place.cache, place.data_set.name):
        note = cache.read(place.note)
        if not os.path.isdir(place.root):
            note = _get(place, note)
        return None if note is None else note.archive


def _get(place: Place, noted: cache.Manifest | None) -> cache.Manifest:
    """Downloads the archive, or takes the one that a user has put there, and unpacks it."""
    writing.remove_leftovers(place.cache, re.escape(place.folder_name))
    advice = (
        f'Without a connection: fetch {place.address} on another machine and put it, not unpacked, at {place.archive}; '
        'the same command then uses it.'
    )
    with cache.archive(place, place.data_set.size, advice) as address:
        note = cache.Manifest(address, _verified(place, noted), {})
        with writing.atomic_path(place.folder) as temporary:
            archives.unpack(place.archive, temporary, _MOST_FILES)
            if not os.path.isdir(os.path.join(temporary, place.data_set.root)):
                raise DownloadError(
                    f'{place.archive} has no folder {place.data_set.root}. It is not the published archive.'
                )
            cache.write(note, place.note)
    return note


def _verified(place: Place, noted: cache.Manifest | None) -> cache.Content:
    """Returns size and checksum of the archive; raises `DownloadError` unless they are as published and noted."""
    content, data_set = cache.content_of(place.archive), place.data_set
    kind, _, wanted = data_set.checksum.partition(':')
    checksum = _checksum(place.archive, kind) if kind else ''
    if data_set.size not in (None, content.size) or checksum != wanted:
        size = '' if data_set.size is None else f'{data_set.size:,} bytes and '
        raise archives.DamagedArchiveError(
            f'{place.archive} has {content.size:,} bytes and {kind} {checksum}, but {data_set.title} was published '
            f'with {size}{kind} {wanted}. It is damaged or another file.'
        )
    cache.require_noted(noted, content, place.archive, place.note)
    return content


def _checksum(path: str, kind: str) -> str:
    """Returns a checksum of a file, in hexadecimal."""
    with open(path, 'rb') as file:
        return hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()
