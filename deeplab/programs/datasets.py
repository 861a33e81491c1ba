"""List of the registered data sets, or of the data sets in a folder (`deeplab datasets`)."""

from __future__ import annotations

if __name__ == '__main__':  # `python -m deeplab.datasets`; first, so that help does not wait for TensorFlow
    from deeplab import start

    start.run_program('datasets')

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from deeplab.datasets import descriptor, listing
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.datasets.listing import FolderFacts, ListedSplit
from deeplab.errors import DataError, OptionError
from deeplab.names import aligned, byte_size, counted
from deeplab.options import ListDatasetsOptions
from deeplab.registry.datasets import DATASETS
from deeplab.wording import option

_NAMES_SHOWN = 8


@dataclasses.dataclass(frozen=True)
class DatasetsReport:
    """What `deeplab datasets` prints.

    Attributes:
      report: text for the user.
      status: 1 if a data set in the folder is not complete, else 0.
    """

    report: str
    status: int = 0


def run(options: ListDatasetsOptions) -> DatasetsReport:
    """Lists data sets; writes indexes of records if asked.

    Raises:
      OptionError: An index is asked for without a folder.
      DataError: The folder cannot be read, or holds no data set; an index cannot be written.
    """
    if options.directory is None:
        if options.index:
            raise OptionError(
                f'{option("ListDatasetsOptions.index", True)} needs a folder of records. Pass the folder.'
            )
        datasets = [descriptor.load(name) for name in DATASETS.names()]
        as_json = json.dumps([_as_json(dataset) for dataset in datasets], indent=1)
        return DatasetsReport(as_json if options.json else '\n'.join(_table(datasets)))
    written = listing.write_indexes(options.directory) if options.index else []
    folders = listing.in_folder(options.directory)
    if not folders:
        raise DataError(
            f"There are neither records nor a description of a data set in '{options.directory}', nor in the folders "
            'in it.'
        )
    if options.json:
        report = json.dumps([_folder_as_json(facts) for facts in folders], indent=1)
    else:
        lines = [f'Written: {path}' for path in written]
        for facts in folders:
            lines += ['', *_lines(facts)] if lines else _lines(facts)
        report = '\n'.join(lines)
    return DatasetsReport(report, int(not all(facts.is_complete for facts in folders)))


def _table(datasets: list[DatasetDescriptor]) -> Iterator[str]:
    rows = [('name', 'classes', 'ignored', 'splits')]
    for dataset in datasets:
        splits = ', '.join(name if count is None else f'{name} {count}' for name, count in dataset.splits.items())
        rows.append((dataset.name, str(dataset.num_classes), str(dataset.ignore_label), splits))
    head, *lines = aligned(rows, left=(0, 3))
    yield head
    indent = ' ' * (2 + max(len(name) for name, *_ in rows))
    for dataset, line in zip(datasets, lines, strict=True):
        yield line
        for name, text in (('source', dataset.source), ('license', dataset.license)):
            if text:
                yield f'{indent}{name}: {text}'
    yield ''
    yield '--dataset=NAME sets one of them; `deeplab datasets FOLDER` lists what lies in a folder.'


def _as_json(dataset: DatasetDescriptor) -> dict[str, Any]:
    return {
        'name': dataset.name,
        'summary': dataset.summary,
        'num_classes': dataset.num_classes,
        'ignore_label': dataset.ignore_label,
        'class_names': [dataset.class_name(number) for number in range(dataset.num_classes)],
        'palette': dataset.palette[: dataset.num_classes].tolist(),
        'image_channels': dataset.image_channels,
        'image_bits': dataset.image_bits,
        'things': dataset.things,
        'splits': dict(dataset.splits),
        'source': dataset.source or None,
        'license': dataset.license,
    }


def _folder_as_json(facts: FolderFacts) -> dict[str, Any]:
    return {
        'folder': facts.folder,
        'description': facts.description,
        'dataset': facts.dataset and _as_json(facts.dataset),
        'problem': facts.problem,
        'image_folder': facts.image_folder,
        'is_complete': facts.is_complete,
        'splits': [dataclasses.asdict(split) for split in facts.splits],
    }


def _lines(facts: FolderFacts) -> Iterator[str]:
    kind = 'records' if facts.image_folder is None else f'images and masks in {facts.image_folder}'
    yield f'{facts.folder}: {kind}'
    if facts.description is None:
        yield '  no description: pass --dataset to the programs that read them'
    elif facts.dataset is not None:
        dataset = facts.dataset
        names = [dataset.class_name(number) for number in range(min(dataset.num_classes, _NAMES_SHOWN))]
        more = ', ...' if dataset.num_classes > _NAMES_SHOWN else ''
        yield f'  {facts.description}: {dataset.num_classes} classes ({", ".join(names)}{more})'
    if facts.problem:
        yield f'  not usable: {facts.problem}'
    width = max((len(split.name) for split in facts.splits), default=0)
    for split in facts.splits:
        yield f'  {split.name:{width}}  {_state(split)}'


def _state(split: ListedSplit) -> str:
    """Returns the facts of a split in words."""
    if split.problem is not None:
        return f'not usable: {split.problem}'
    parts = [counted(split.images or 0, 'image')]
    if split.shards is not None and split.size is not None:
        parts[0] += f' in {counted(split.shards, "shard")}, {byte_size(split.size)}'
        parts.append('complete')
        parts.append('indexed' if split.is_indexed else 'no index')
        if split.since_described is not None:
            parts.append(f'{split.since_described} since it was described')
    return ', '.join(parts)
