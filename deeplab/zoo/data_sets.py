"""Published data sets: where their archives are, and a cache of what was downloaded and unpacked.

The facts are in data_sets.json in the same folder. Size and checksum are known for some archives. For others, they
are noted at the first download, and compared from then on.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pathlib

from deeplab.errors import DownloadError
from deeplab.files import writing
from deeplab.options import FetchOptions
from deeplab.zoo import archives, cache

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


@functools.cache
def all_data_sets() -> dict[str, DataSet]:
    """Returns all data sets by name."""
    data_sets = [DataSet(**facts) for facts in json.loads(_FACTS.read_text(encoding='utf-8'))]
    return {data_set.name: data_set for data_set in data_sets}


def place_of(name: str, options: FetchOptions) -> cache.Place:
    """Returns where a data set, which can be downloaded, comes from and goes to.

    Raises:
      DownloadError: the address of the mirror is not one.
    """
    data_set = all_data_sets()[name]
    return cache.place_of(name, data_set.archive, f'data_{name}', data_set.address, data_set.size, options)


def root_of(place: cache.Place) -> str:
    """Returns the path of the folder that the builder of a data set reads."""
    return os.path.join(place.folder, all_data_sets()[place.name].root)


def obtain(place: cache.Place) -> cache.Content | None:
    """Downloads and unpacks a data set, unless it is there.

    Returns:
      Size and SHA-256 of the archive; None for files that a user has unpacked there.

    Raises:
      DownloadError: it cannot be downloaded, or is not what was published or noted.
      OutputError: the cache folder cannot be written.
    """
    data_set = all_data_sets()[place.name]
    with cache.held(place):
        noted = cache.read(place.note)
        if os.path.isdir(root_of(place)):
            return None if noted is None else noted.archive
        with cache.archive(place, noted) as note, writing.atomic_path(place.folder) as temporary:
            _require_published(place.archive, data_set)
            archives.unpack(place.archive, temporary, _MOST_FILES)
            if not os.path.isdir(os.path.join(temporary, data_set.root)):
                raise DownloadError(f'{place.archive} has no folder {data_set.root}. It is not the published archive.')
            cache.write(note, place.note)
        return note.archive


def _require_published(archive: str, data_set: DataSet) -> None:
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
