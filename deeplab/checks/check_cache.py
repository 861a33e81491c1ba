"""Cache of what the check of records found, by part of a split, so that only changed parts are checked again."""

from __future__ import annotations

import array
import dataclasses
import hashlib
import io
import json
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from absl import logging

from deeplab.datasets.segmentation_dataset import SegmentationDataset
from deeplab.files import storage, writing

_VERSION = 4  # format of cached check results; increase it when their content changes


def _integers() -> array.array[int]:
    return array.array('q')


def _counts() -> np.ndarray:
    return np.zeros(256, np.int64)


@dataclasses.dataclass
class Found:
    """Findings in some records.

    Attributes:
      records: numbers of the valid ones.
      sizes: height and width of each valid one, one after the other.
      sums: length and checksum of each valid one, one after the other; empty for records in shards.
      all_counts: [256], pixels of each id in every readable mask.
      counts: [256], those in the valid masks.
      pixels_beside: [256], all labeled pixels of the valid masks that contain the id.
      wrong: (kind, text) of invalid images and masks.
      corrupt: one line for each record that cannot be read.
      cut_to_8_bits: number of images that lose bits.
      oriented: number of images with an EXIF orientation.
    """

    records: array.array[int] = dataclasses.field(default_factory=_integers)
    sizes: array.array[int] = dataclasses.field(default_factory=_integers)
    sums: array.array[int] = dataclasses.field(default_factory=_integers)
    all_counts: np.ndarray = dataclasses.field(default_factory=_counts)
    counts: np.ndarray = dataclasses.field(default_factory=_counts)
    pixels_beside: np.ndarray = dataclasses.field(default_factory=_counts)
    wrong: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    corrupt: list[str] = dataclasses.field(default_factory=list)
    cut_to_8_bits: int = 0
    oriented: int = 0

    def add(self, other: Found) -> None:
        """Adds the findings of `other`, whose records follow."""
        self.records += other.records
        self.sizes += other.sizes
        self.sums += other.sums
        self.all_counts += other.all_counts
        self.counts += other.counts
        self.pixels_beside += other.pixels_beside
        self.wrong += other.wrong
        self.corrupt += other.corrupt
        self.cut_to_8_bits += other.cut_to_8_bits
        self.oriented += other.oriented


@dataclasses.dataclass
class Part:
    """Findings in a part of a split (`SegmentationDataset.signatures`).

    Attributes:
      total: number of its records.
      found: the findings; numbers of records count from the start of the part.
      damaged: one line for each remainder of a shard that cannot be read.
    """

    total: int
    found: Found
    damaged: tuple[str, ...] = ()


class CheckCache:
    """Findings in a file, each part valid while its files and the arguments of the check do not change.

    Attributes:
      key: changes with anything that the findings depend on.
    """

    def __init__(self, folder: str | None, dataset: SegmentationDataset, arguments: Sequence[object]) -> None:
        """Finds the name of the file; `arguments` are those of the check, `folder` is None for no cache."""
        self._folder = None if folder is None else pathlib.Path(folder)
        descriptor = dataset.descriptor
        settings = [_VERSION, *arguments, descriptor.image_channels, descriptor.image_bits]
        self._signatures = dataset.signatures()
        # The bytes that records are made of depend on how masks are converted, as by the colors of a palette or a file.
        sources = {id(item.source): item.source for item in dataset.items if item.source is not None}
        settings += sorted(source.key for source in sources.values())
        self._part_keys = [_key([settings, signature]) for signature in self._signatures]
        self.key = _key(self._part_keys)
        self._name = f'record_check-{dataset.split}-{_key([settings, storage.absolute(dataset.directory)])[:12]}.npz'

    def load(self) -> list[Part | None]:
        """Returns the findings of each part; None for those that are not known."""
        none: list[Part | None] = [None] * len(self._part_keys)
        if self._folder is None:
            return none
        try:
            with np.load(io.BytesIO((self._folder / self._name).read_bytes())) as content:
                known = _unpacked({name: content[name] for name in content.files})
        except Exception:  # damaged files make zipfile and NumPy raise anything
            return none
        return [known.get(key) for key in self._part_keys]

    def save(self, parts: Sequence[Part | None]) -> None:
        """Keeps the findings of parts without invalid records; if that fails, the next run checks again."""
        if self._folder is None:
            return
        good = {
            key: part
            for key, part in zip(self._part_keys, parts, strict=True)
            if part is not None and not part.found.wrong
        }
        if not good:
            return
        content = io.BytesIO()  # NumPy before 2.0 complains on stderr if the file cannot be written
        np.savez_compressed(content, **_packed(good))
        writing.remove_leftovers(str(self._folder), r'record_check-.+\.npz')
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with writing.atomic_write(self._folder / self._name, 'wb') as stream:
                stream.write(content.getvalue())
        except OSError as error:
            logging.warning('The check result of the records could not be cached in %s: %s', self._folder, error)


def _key(content: Any) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


_COUNTS = ('all_counts', 'counts', 'pixels_beside')
_ARRAYS = ('records', 'sizes', 'sums')


def _packed(parts: dict[str, Part]) -> dict[str, Any]:
    """Returns arrays by name for a file."""
    found = [part.found for part in parts.values()]
    lines = [[list(part.damaged), part.found.corrupt] for part in parts.values()]
    numbers = [
        (part.total, part.found.cut_to_8_bits, part.found.oriented, *(len(getattr(part.found, n)) for n in _ARRAYS))
        for part in parts.values()
    ]
    return {
        'keys': np.array(list(parts)),
        'numbers': np.array(numbers, np.int64),
        'lines': np.array(json.dumps(lines)),
        **{name: np.stack([getattr(one, name) for one in found]) for name in _COUNTS},
        **{name: np.concatenate([np.array(getattr(one, name), np.int64) for one in found]) for name in _ARRAYS},
    }


def _unpacked(content: dict[str, np.ndarray]) -> dict[str, Part]:
    """Returns the parts by key."""
    found = {}
    lines = json.loads(str(content['lines']))
    starts = dict.fromkeys(_ARRAYS, 0)
    for place, key in enumerate(content['keys'].tolist()):
        total, cut, oriented, *lengths = content['numbers'][place].tolist()
        part = Found(cut_to_8_bits=cut, oriented=oriented, corrupt=lines[place][1])
        for name in _COUNTS:
            setattr(part, name, content[name][place].astype(np.int64))
        for name, length in zip(_ARRAYS, lengths, strict=True):
            values = content[name][starts[name] : starts[name] + length]
            setattr(part, name, array.array('q', values.astype(np.int64).tobytes()))
            starts[name] += length
        found[key] = Part(total, part, tuple(lines[place][0]))
    return found


def joined(parts: Iterable[Part]) -> tuple[Found, tuple[str, ...]]:
    """Returns the findings in all parts with the numbers of the records in the split, and all damage."""
    found, first = Found(), 0
    damaged: list[str] = []
    for part in parts:
        here = dataclasses.replace(part.found)
        here.records = array.array('q', (np.array(part.found.records, np.int64) + first).tobytes())
        found.add(here)
        damaged += part.damaged
        first += part.total
    return found, tuple(damaged)
