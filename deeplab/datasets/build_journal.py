"""Journals of builders: finished shards and digests of their inputs, so that no shard is built twice.

The journal of a split lies beside its shards as `.SPLIT.shards.jsonl`. A line is written when a shard is finished,
while the shard and the journal have temporary names; a build that is killed thus leaves finished shards that the next
one of the same inputs takes over. Shards of an earlier build whose inputs have not changed are kept as they are.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import IO, Any

from absl import logging

from deeplab.datasets.pairs import SourceFiles
from deeplab.datasets.totals import Totals
from deeplab.files import documents, writing

_FORMAT = 1  # increase it when the same inputs become other bytes


@dataclasses.dataclass(frozen=True)
class Shard:
    """A shard of a split.

    Attributes:
      path: path of the shard.
      items: the source files of its records.
      inputs: digest of the names, sizes and times of these files, and of the settings.
      file: path of the finished file, the final or a temporary one; None for a shard to be built.
      totals: totals over the records of a finished file.
    """

    path: str
    items: Sequence[SourceFiles]
    inputs: str
    file: str | None = None
    totals: Totals | None = None


def path_of(folder: str | os.PathLike[str], split: str) -> str:
    """Returns the path of the journal of a split."""
    return os.path.join(folder, f'.{split}.shards.jsonl')


def inputs_of(items: Sequence[SourceFiles], settings: Sequence[Any]) -> str:
    """Returns the digest of the inputs of a shard: names, sizes and times of change of the files, and settings."""
    digest = hashlib.sha256(repr((_FORMAT, *settings)).encode())
    state = functools.lru_cache(16)(state_of)  # the masks of many items may be made from one file
    for item in items:
        label = None if item.label is None else (item.label, state(item.label))
        key = None if item.source is None else item.source.key
        values = (item.name, item.image, state_of(item.image), label, key, *(files.key for files in item.planes))
        if (part := getattr(item.embedded, 'key', None)) is not None:
            values = (*values, part)
        if item.max_side is not None:
            values = (*values, f'max_side {item.max_side}')
        digest.update(repr(values).encode('utf-8', 'surrogateescape'))
    return digest.hexdigest()


def state_of(path: str) -> tuple[int, int] | None:
    """Returns size and time of change of a file; None if it does not exist."""
    try:
        stat = os.stat(path)
    except (OSError, ValueError):
        return None
    return stat.st_size, stat.st_mtime_ns


def find(folder: str, split: str, shards: Sequence[Shard]) -> list[Shard]:
    """Finds finished shards, also of killed builds; removes the unfinished shards of killed builds.

    Args:
      folder: folder of the shards; need not exist.
      split: name of the split.
      shards: the shards of the split.

    Returns:
      The shards, with the files of the finished ones.
    """
    own = rf'{re.escape(split)}-\d+-of-\d+\.tfrecord|{re.escape(os.path.basename(path_of(folder, split)))}'
    left = set(writing.leftovers(folder, own))
    entries = collections.defaultdict(list)
    journal = path_of(folder, split)
    for path in [*sorted(path for path in left if path.startswith(journal)), journal]:
        with contextlib.suppress(OSError):  # there is none
            for entry in documents.load_lines(path):
                if isinstance(entry, Mapping) and isinstance(entry.get('shard'), str):
                    entries[entry['shard']].append(entry)
    checked, reasons = [], collections.Counter[str]()
    for shard in shards:
        finished = _finished(shard, entries[os.path.basename(shard.path)], left)
        if isinstance(finished, str) and os.path.exists(shard.path):
            reasons[finished] += 1
        checked.append(shard if isinstance(finished, str) else finished)
    kept = {shard.file for shard in checked if shard.file is not None}
    for path in {path for path in left if not path.startswith(journal)} - kept:
        writing.remove(path)
    _log(split, len(shards), len(kept), reasons)
    return checked


def _finished(shard: Shard, entries: Sequence[Mapping[str, Any]], left: set[str]) -> Shard | str:
    """Returns a shard with its finished file, or why it has to be built."""
    fitting = [entry for entry in entries if entry.get('inputs') == shard.inputs]
    if not fitting:
        return (
            'their source files or the settings have changed' if entries else 'nothing is known of their source files'
        )
    folder = os.path.dirname(shard.path)
    for entry in fitting:
        for path in (shard.path, os.path.join(folder, os.path.basename(str(entry.get('file'))))):
            is_own = path == writing.temporary_name(shard.path)  # it would be removed before it could be taken over
            is_same = state_of(path) == (entry.get('size'), entry.get('modified'))
            if is_same and (path == shard.path or (path in left and not is_own)):
                try:
                    return dataclasses.replace(shard, file=path, totals=Totals.from_dict(entry['tally']))
                except (ValueError, KeyError, TypeError, IndexError, AttributeError):
                    continue
    return 'they have been changed'


def _log(split: str, total: int, kept: int, reasons: Mapping[str, int]) -> None:
    if kept:
        logging.info(
            "Split '%s': %d of %d shards exist already and are kept, because their source files and the settings have "
            'not changed.',
            split,
            kept,
            total,
        )
    for reason, number in reasons.items():
        logging.info("Split '%s': %d existing shards are built again: %s.", split, number, reason)


def add(journal: IO[str], shard: Shard, file: str, totals: Totals) -> None:
    """Adds a line for a shard to a journal.

    Args:
      journal: the journal.
      shard: the shard.
      file: present path of the file.
      totals: totals over its records.
    """
    stat = os.stat(file)
    entry = {
        'shard': os.path.basename(shard.path),
        'inputs': shard.inputs,
        'file': os.path.basename(file),
        'size': stat.st_size,
        'modified': stat.st_mtime_ns,
        'tally': totals.as_dict(),
    }
    journal.write(json.dumps(entry) + '\n')
    journal.flush()


def remove_leftovers(folder: str, split: str) -> None:
    """Removes the journals of builds that were killed."""
    writing.remove_leftovers(folder, re.escape(os.path.basename(path_of(folder, split))))
