"""Facts about the parts of a split, kept in a file so that only changed parts are inspected again."""

from __future__ import annotations

import array
import collections
import hashlib
import io
import itertools
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from deeplab.checks.facts import Case, Facts
from deeplab.checks.inspection import Criteria, inspect
from deeplab.checks.sources import RecordSplit
from deeplab.datasets.planes import Plane, of_dataset
from deeplab.datasets.record_index import Records
from deeplab.datasets.segmentation_dataset import SegmentationDataset
from deeplab.files import storage, writing

_VERSION = 6  # format of cached facts; increase it when their content changes


class CheckCache:
    """Facts about the parts of a split (`SegmentationDataset.signatures`), each valid while its files are the same.

    Attributes:
      key: changes with anything that the facts depend on.
      parts: number of parts.
    """

    def __init__(
        self,
        dataset: SegmentationDataset,
        num_classes: int,
        needs_labels: bool,
        folder: str | None,
        planes: Sequence[Plane] = (),
    ) -> None:
        """Takes the arguments of `record_check.check`; `folder` is where facts are kept, None for nowhere."""
        descriptor, skips = dataset.descriptor, dataset.skip_corrupt_records
        self._criteria = Criteria(
            descriptor, num_classes, needs_labels, decodes_images=skips, planes=of_dataset(planes, descriptor)
        )
        self._dataset = dataset
        self._folder = None if folder is None else pathlib.Path(folder)
        # The bytes that records are made of depend on how masks are converted, as by the colors of a palette or a file.
        sources = {id(item.source): item.source for item in dataset.items if item.source is not None}
        settings = [
            *(_VERSION, num_classes, needs_labels, skips, repr(self._criteria.planes), descriptor.ignore_label),
            *(descriptor.image_channels, descriptor.image_bits, descriptor.label_divisor),
            *sorted(source.key for source in sources.values()),
        ]
        digest = _key(settings)  # once: the settings have the keys of all masks
        self._part_keys = [_key([digest, signature]) for signature in dataset.signatures()]
        self.key = _key(self._part_keys)
        self.parts = len(self._part_keys)
        self._name = f'record_check-{dataset.split}-{_key([digest, storage.absolute(dataset.directory)])[:12]}.npz'

    def inspect(self, index: Records, cached: Mapping[int, Facts]) -> dict[int, Facts]:
        """Returns the facts about all parts; inspects only the parts that are not `cached` (see `load`)."""
        stops = itertools.accumulate(index.parts())
        others = {
            place: range(stop - size, stop)
            for place, (size, stop) in enumerate(zip(index.parts(), stops, strict=True))
            if place not in cached
        }
        facts = inspect(RecordSplit(self._dataset.split, index), others, self._criteria)
        for place in others if index.damaged else ():
            shard = self._dataset.shards[place]
            for line in index.damaged:
                if line.startswith((f'{shard}: ', f'{shard}, record ')):
                    facts[place].note('corrupt', line)
                    facts[place].unread += line.startswith(f'{shard}: ')  # else damage begins at a record
        parts = {**cached, **facts}
        return {place: parts[place] for place in sorted(parts)}

    def load(self) -> dict[int, Facts]:
        """Returns the facts about each part that has not changed, by the place of the part in the split."""
        if self._folder is None:
            return {}
        try:
            with np.load(io.BytesIO((self._folder / self._name).read_bytes())) as content:
                parts = _unpacked({name: content[name] for name in content.files})
        except Exception:  # damaged files make zipfile and NumPy raise anything
            return {}
        return {place: parts[key] for place, key in enumerate(self._part_keys) if key in parts}

    def save(self, parts: Mapping[int, Facts]) -> None:
        """Keeps the facts about parts without errors; if that fails, the next run checks again.

        Parts with files that the system could not read are not kept: it may be able to read them the next time.
        """
        parts = {place: facts for place, facts in parts.items() if not facts.unread}
        if self._folder is None or not parts:
            return
        content = io.BytesIO()  # NumPy before 2.0 complains on stderr if the file cannot be written
        np.savez_compressed(content, **_packed({self._part_keys[place]: facts for place, facts in parts.items()}))
        writing.remove_leftovers(str(self._folder), r'record_check-.+\.npz')
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            writing.write(self._folder / self._name, content.getvalue())
        except OSError as error:
            logging.warning('The check result of the records could not be cached in %s: %s', self._folder, error)


def _key(content: Any) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


_COUNTS = ('counts', 'pixels_beside')
_ARRAYS = ('records', 'sizes', 'sums')


def _packed(parts: Mapping[str, Facts]) -> dict[str, Any]:
    """Returns arrays by name for a file, with the facts that the check of records needs."""
    numbers = [
        (part.samples, part.problems['sixteen_bits'], part.oriented, *(len(getattr(part, name)) for name in _ARRAYS))
        for part in parts.values()
    ]
    corrupt = [[case.text for case in part.cases.get('corrupt', ())] for part in parts.values()]
    return {
        'keys': np.array(list(parts)),
        'numbers': np.array(numbers, np.int64),
        'corrupt': np.array(json.dumps(corrupt)),
        **{name: np.stack([getattr(part, name) for part in parts.values()]) for name in _COUNTS},
        **{
            name: np.concatenate([np.array(getattr(part, name), np.int64) for part in parts.values()])
            for name in _ARRAYS
        },
    }


def _unpacked(content: Mapping[str, np.ndarray]) -> dict[str, Facts]:
    parts = {}
    corrupt = json.loads(str(content['corrupt']))
    ends = np.cumsum(content['numbers'][:, 3:], axis=0)  # [parts, arrays]
    arrays = {name: np.split(content[name], ends[:-1, i]) for i, name in enumerate(_ARRAYS)}
    for place, key in enumerate(content['keys'].tolist()):
        samples, sixteen_bits, oriented = content['numbers'][place, :3].tolist()
        problems = collections.Counter(corrupt=len(corrupt[place]), sixteen_bits=sixteen_bits)
        facts = Facts(samples, oriented=oriented, problems=problems)
        facts.cases['corrupt'] = [Case(text) for text in corrupt[place]]
        for name in _COUNTS:
            setattr(facts, name, content[name][place].astype(np.int64))
        for name in _ARRAYS:
            setattr(facts, name, array.array('q', arrays[name][place].astype(np.int64).tobytes()))
        parts[key] = facts
    return parts
