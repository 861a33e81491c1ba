"""Records that builders wrote in parts, joined into the folder that one builder would have written."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from deeplab.datasets import build_data, build_journal, label_file, shard_names
from deeplab.datasets.build_data import Summary
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.datasets.totals import Totals
from deeplab.errors import DataError
from deeplab.files import documents, folder_lock, writing
from deeplab.files.part_folders import PartFolder
from deeplab.names import counted
from deeplab.options import BuilderOptions


def merge(folder: str, parts: Sequence[PartFolder]) -> str:
    """Moves all shards to the folder, and writes journals, index and description; returns the report.

    Raises:
      DataError: a shard is missing, or a file cannot be written. The next merge continues.
    """
    settings = parts[0].settings
    options = BuilderOptions(
        output_dir=folder, num_classes=settings['num_classes'], ignore_label=settings['ignore_label']
    )
    classes = options.num_classes, options.ignore_label
    with folder_lock.held(folder, 'builder', 'BuilderOptions.output_dir'), writing.explained(folder):
        summaries = []
        for split, of_split in settings['splits'].items():
            totals = _move(folder, split, of_split['shards'], parts)
            shards = [os.path.join(folder, name) for name in shard_names.of(split, of_split['shards'])]
            index = build_data.finish_split(folder, split, shards, totals, classes)
            if len(index) != of_split['images']:
                raise DataError(
                    f"Split '{split}' has {len(index)} records for {of_split['images']} images. Build it again."
                )
            summaries.append(
                Summary(split, len(index), of_split['labeled'], tuple(shards), 0.0, totals.counts, index.digest())
            )
        with contextlib.suppress(FileNotFoundError):  # builders of masks write none
            os.replace(os.path.join(parts[0].path, label_file.FILE_NAME), os.path.join(folder, label_file.FILE_NAME))
        result = build_data.describe(options, _candidates(parts), summaries)
    lines = [f'Written to {folder}:']
    lines += [f'  {s.split}: {counted(s.images, "image")} in {counted(len(s.shards), "shard")}' for s in summaries]
    return '\n'.join([*lines, *(f'  {path}' for path in (result.get('description'),) if path)])


def _move(folder: str, split: str, total: int, parts: Sequence[PartFolder]) -> Totals:
    """Moves the shards and journals of a split; returns its totals."""
    entries: dict[str, Mapping[str, Any]] = {}
    for path in [*(part.path for part in parts), folder]:
        journal = build_journal.path_of(path, split)
        for entry in documents.load_lines(journal) if os.path.exists(journal) else []:
            entries.setdefault(entry['shard'], entry)
    totals = Totals()
    names = shard_names.of(split, total)
    for name in names:
        paths = [os.path.join(path, name) for path in [*(part.path for part in parts), folder]]
        there = [path for path in paths if os.path.exists(path)]
        entry = entries.get(name, {})
        if not there or build_journal.state_of(there[0]) != (entry.get('size'), entry.get('modified')):
            raise DataError(f"The shard '{name}' is missing, or has been changed. Build its part again.")
        totals.merge(Totals.from_dict(entry['tally']))
        os.replace(there[0], os.path.join(folder, name))
    lines = ''.join(f'{json.dumps(entries[name])}\n' for name in names)
    writing.write(build_journal.path_of(folder, split), lines)
    return totals


def _candidates(parts: Sequence[PartFolder]) -> list[DatasetDescriptor]:
    """Returns the descriptions that the records may have; instances of a class may be in one part alone."""
    candidates = []
    for contents in zip(*(part.facts['candidates'] for part in parts), strict=True):
        things = {thing for content in contents for thing in content.get('things', ())}
        candidates.append(DatasetDescriptor(**contents[0] | ({'things': sorted(things)} if things else {})))
    return candidates
