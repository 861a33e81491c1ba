"""Index files beside shards, so that a split of a million records opens without reading its shards.

`index_SPLIT.npz` has the lengths and checksums of all records. It is used for a shard if size and time of modification
have not changed since, and if the last record is where the index says. A storage other than a local disk gives the time
of the copy; there, the checksum of the last record counts instead.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Sequence

import numpy as np
from absl import logging

from deeplab.datasets import tfrecord
from deeplab.datasets.record_index import Columns, RecordIndex
from deeplab.files import storage, writing

_FORMAT = 1
# With so many records, opening without an index takes long enough to be worth a line in the log.
WORTH_AN_INDEX = 100_000


def path_of(directory: str, split: str) -> str:
    """Returns the path of the index of a split, which no pattern `SPLIT-*` matches."""
    return os.path.join(directory, f'index_{split}.npz')


def write(directory: str, split: str, index: RecordIndex) -> str:
    """Writes the index of a split.

    Args:
      directory: the folder of the shards.
      split: name of the split.
      index: index of all records of the split, without damage.

    Returns:
      Path of the file.

    Raises:
      DataError: It cannot be written.
    """
    path = path_of(directory, split)
    stats = list(storage.parallel_map(storage.stat, index.shards))
    content = io.BytesIO()
    np.savez(
        content,
        format=np.int64(_FORMAT),
        shards=np.array([os.path.basename(shard) for shard in index.shards]),
        sizes=np.array([stat.size for stat in stats], np.int64),
        modified=np.array([stat.modified for stat in stats], np.int64),
        records=np.array(index.parts(), np.int64),
        length=index.length.astype(np.min_scalar_type(index.length.max(initial=0))),
        checksum=index.checksum,
    )
    with writing.explained(path):
        storage.write(path, content.getvalue())
    return path


def load(directory: str, split: str, shards: Sequence[str]) -> dict[str, Columns]:
    """Reads the index of a split.

    Args:
      directory: the folder of the shards.
      split: name of the split.
      shards: paths of the shards.

    Returns:
      The records of each shard that has not changed since the index was written, by path. A file that is missing or
      damaged has none.
    """
    path = path_of(directory, split)
    try:
        with np.load(io.BytesIO(storage.read(path))) as content:
            if int(content['format']) != _FORMAT:
                return {}
            names = content['shards'].tolist()
            numbers = np.stack([content['sizes'], content['modified'], content['records']], 1).tolist()
            length, checksum = content['length'], content['checksum']
        first = np.cumsum([0, *(number[2] for number in numbers)])
        if not len(length) == len(checksum) == first[-1] or len(names) != len(numbers):
            return {}
    except FileNotFoundError:
        return {}
    except Exception as error:  # damaged files make zipfile and NumPy raise anything
        logging.warning("The index '%s' cannot be read (%s); the shards are read instead.", path, error)
        return {}
    by_name = {os.path.basename(shard): shard for shard in shards}
    indexed = {}
    for number, (name, (size, modified, _)) in enumerate(zip(names, numbers, strict=True)):
        here = slice(first[number], first[number + 1])
        if name in by_name:
            columns = Columns.of_lengths(length[here], checksum[here])
            indexed[by_name[name]] = (storage.Stat(size, modified), columns)
    are_true = storage.parallel_map(lambda path: _is_true(path, *indexed[path]), list(indexed))
    unchanged = {
        path: columns for (path, (_, columns)), is_true in zip(indexed.items(), are_true, strict=True) if is_true
    }
    if len(unchanged) < len(shards):
        logging.info(
            "%d of %d shards of split '%s' have changed since '%s' was written; they are read instead.",
            len(shards) - len(unchanged), len(shards), split, path,
        )  # fmt: skip
    return unchanged


def _is_true(path: str, stat: storage.Stat, columns: Columns) -> bool:
    """Returns whether a shard has not changed, and its last record is where the index says."""
    is_remote = storage.is_remote(path)
    try:
        there = storage.stat(path)
        if there.size != stat.size or (there.modified != stat.modified and not is_remote):
            return False
        if not len(columns.offset):
            return stat.size == 0
        offset, length = int(columns.offset[-1]), int(columns.length[-1])
        if offset + length + tfrecord.FOOTER_BYTES != stat.size:
            return False
        with contextlib.closing(storage.opened(path)) as file:
            if is_remote:
                footer = file.read_at(tfrecord.FOOTER_BYTES, offset + length)
                if footer != columns.checksum[-1:].astype('<u4').tobytes():
                    return False
            return tfrecord.is_record_at(file.read_at, offset, length)
    except OSError:
        return False
