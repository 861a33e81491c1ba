"""Builder of TFRecord files from Mapillary Vistas, version 1.2 or 2.0."""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and errors do not wait for TensorFlow
    import os
    import sys

    if not __package__:  # started by its path: put the folder above deeplab/ on the path instead of this file's
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    from deeplab import start

    start.run_program('build_mapillary_data')

import os
import pathlib
from typing import Any

import numpy as np
from absl import logging

from deeplab.datasets import build_data, descriptor, file_pairs, folders, mask_sources, pairs
from deeplab.errors import DataError, OptionError
from deeplab.files import documents
from deeplab.options import IMAGE_FORMATS, MAPILLARY_VERSIONS, BuildMapillaryOptions
from deeplab.wording import option

DEFAULT_NUM_SHARDS = 10
IGNORED = 255
_SPLITS = {'train': 'training', 'val': 'validation', 'test': 'testing'}
_MOST_LABELS = 255
_MOST_INSTANCES = 256  # of a label in an image


def run(options: BuildMapillaryOptions) -> dict[str, Any]:
    """Writes the splits train, val and test whose images exist, and the description of the data set.

    Labels that the configuration file excludes from evaluation are ignored; the others are the classes, in the order of
    the file. The split test has no masks.

    Returns:
      A summary of what was written (`build_data.write_known`).

    Raises:
      DataError: A folder or file is missing, has no partner, or is invalid.
    """
    folders.require_folder(options.mapillary_root, 'BuildMapillaryOptions.mapillary_root')
    version, config = _config(options)
    dataset, classes, instance_table = _read_labels(config, version)
    splits = _find_items(options, version, classes, instance_table)
    return build_data.write_known(splits, options, dataset, DEFAULT_NUM_SHARDS)


def _config(options: BuildMapillaryOptions) -> tuple[str, str]:
    """Returns the version to build, and the path of its configuration file."""
    root = options.mapillary_root
    for version in [options.annotation_version] if options.annotation_version else MAPILLARY_VERSIONS:
        names = [f'config_{version}.json', *(['config.json'] if version == MAPILLARY_VERSIONS[0] else [])]
        for path in (os.path.join(root, name) for name in names):
            if os.path.isfile(path):
                return version, path
    wanted = f'config_{options.annotation_version or MAPILLARY_VERSIONS[0]}.json'
    raise DataError(
        f"There is no {wanted} (or config.json) in '{root}'. {folders.summary(root)} Set "
        f'{option("BuildMapillaryOptions.mapillary_root")} to the folder of training and validation.'
    )


def _read_labels(path: str, version: str) -> tuple[descriptor.DatasetDescriptor, mask_sources.IdTable, np.ndarray]:
    """Reads a configuration file.

    Returns the data set, whose classes are the evaluated labels in their order; the class of each label; and the
    instance id of each value of a mask of instances, [65536] uint16.
    """
    try:
        entries = documents.load(path)['labels']
        names = [(str(entry['readable']), str(entry['name'])) for entry in entries]
        colors = [entry['color'] for entry in entries]
        classes = [number for number, entry in enumerate(entries) if entry['evaluate']]
        has_instances = [entry.get('instances') for entry in entries]
    except documents.DocumentError as error:
        raise DataError(f"'{path}' {error}.") from None
    except (KeyError, TypeError):
        raise DataError(
            f"'{path}' is not a configuration of Mapillary Vistas: it needs a list 'labels' of objects with color, "
            'name, readable and evaluate.'
        ) from None
    if not classes or len(entries) > _MOST_LABELS:
        raise DataError(
            f"'{path}' has {len(entries)} labels; 1 to {_MOST_LABELS}, at least one of them evaluated, are allowed."
        )
    readable, unique = ([names[number][kind] for number in classes] for kind in (0, 1))
    ids = {number: classes.index(number) if number in classes else IGNORED for number in range(len(entries))}
    things = [number for number in classes if has_instances[number]]
    # Values of a mask of instances are label * 256 + number, and things are numbered from 0 on within a label.
    instances = np.zeros((_MOST_LABELS + 1, _MOST_INSTANCES), np.uint16)
    instances[things] = np.arange(1, _MOST_INSTANCES + 1)
    try:
        dataset = descriptor.DatasetDescriptor(
            name='mapillary_vistas' if version == MAPILLARY_VERSIONS[0] else f'mapillary_vistas_{version}',
            num_classes=len(classes),
            class_names=readable if len(set(readable)) == len(readable) else unique,
            palette=[colors[number] for number in classes],
            things=None if set(has_instances) == {None} else [ids[number] for number in things],
        )
    except OptionError as error:
        raise DataError(f"Cannot use '{path}': {error}") from None
    return dataset, mask_sources.IdTable(ids), instances.reshape(-1)


def _find_items(
    options: BuildMapillaryOptions, version: str, classes: mask_sources.IdTable, instance_table: np.ndarray
) -> dict[str, list[pairs.SourceFiles]]:
    """Finds the records of every split whose images exist, sorted by name."""
    root = pathlib.Path(options.mapillary_root)
    splits = {}
    for split, folder in _SPLITS.items():
        images = str(root / folder / 'images')
        if not os.path.isdir(images):
            logging.warning("There is no folder '%s': split %s is not built.", images, split)
        elif split == 'test':
            splits[split] = [
                pairs.SourceFiles(path, None, stem)
                for stem, path in sorted(file_pairs.by_stem(images, IMAGE_FORMATS).items())
            ]
        else:
            masks = _masks(root / folder, version, 'labels')
            matched = file_pairs.matched(split, images, masks)
            sources: dict[str, mask_sources.MaskSource] = dict.fromkeys(matched, classes)
            if options.instances:
                instances = file_pairs.matched(split, images, _masks(root / folder, version, 'instances'))
                sources = {
                    stem: mask_sources.FileBeside(path, classes, instance_table)
                    for stem, (_, path) in instances.items()
                }
            splits[split] = [pairs.SourceFiles(*files, stem, sources[stem]) for stem, files in matched.items()]
    splits = {split: items for split, items in splits.items() if items}
    if not splits:
        raise DataError(
            f"'{root}' has none of the folders {', '.join(f'{folder}/images' for folder in _SPLITS.values())}. "
            f'{folders.summary(root)} Set {option("BuildMapillaryOptions.mapillary_root")}.'
        )
    return splits


def _masks(folder: pathlib.Path, version: str, kind: str) -> str:
    """Returns the folder of the masks of a split, of labels or of instances; raises `DataError` if there is none."""
    inner = folder / version / kind
    masks = str(inner if inner.is_dir() else folder / kind)
    folders.require_folder(masks)
    return masks
