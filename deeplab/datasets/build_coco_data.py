"""Builder of TFRecord files from COCO: panoptic segments or instances as semantic masks."""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and errors do not wait for TensorFlow
    import os
    import sys

    if not __package__:  # started by its path: put the folder above deeplab/ on the path instead of this file's
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    from deeplab import start

    start.run_program('build_coco_data')

import itertools
import os
import pathlib
from typing import Any

from absl import logging

from deeplab.datasets import build_data, coco_annotations, coco_folders, file_pairs, folders, pairs
from deeplab.datasets.annotations import rasterizer
from deeplab.errors import DataError
from deeplab.names import shown
from deeplab.options import BuildCocoOptions
from deeplab.wording import option

DEFAULT_NUM_SHARDS = 10


def run(options: BuildCocoOptions) -> dict[str, Any]:
    """Writes the splits train and val whose annotations exist, and the description of the data set.

    Returns:
      A summary of what was written (`build_data.write_known`).

    Raises:
      DataError: A folder or file is missing or invalid, or the files of the splits have different categories.
    """
    folders.require_folder(options.coco_root, 'BuildCocoOptions.coco_root')
    loaded = _load(options)
    splits = {}
    for split, content in loaded.items():
        classes = coco_annotations.classes(content, options.masks, options.classes)
        splits[split] = _find_items(split, content, classes, options)
    return build_data.write_known(splits, options, classes.dataset, DEFAULT_NUM_SHARDS)


def _load(options: BuildCocoOptions) -> dict[str, coco_annotations.Annotations]:
    loaded: dict[str, coco_annotations.Annotations] = {}
    for split in coco_folders.SPLITS:
        path = os.path.join(options.coco_root, 'annotations', f'{options.masks}_{split}{options.year}.json')
        if not os.path.isfile(path):
            continue
        if coco_folders.images(options.coco_root, split, options.year) is None:  # both splits are in one archive
            logging.warning('There is no folder of the images of %s%d: the split is not built.', split, options.year)
            continue
        loaded[split] = coco_annotations.load(path, options.masks)
    if not loaded:
        raise DataError(
            f"'{options.coco_root}' has no annotations/{options.masks}_train{options.year}.json with images in "
            f'train{options.year} or images/train{options.year} (or the same of val). '
            f'{coco_folders.summary(options.coco_root)} Set {option("BuildCocoOptions.coco_root")}, or '
            f'{option("BuildCocoOptions.year")}.'
        )
    first, *others = loaded.values()
    for other in others:
        if [category['id'] for category in other.categories] != [category['id'] for category in first.categories]:
            raise DataError(f"'{first.path}' and '{other.path}' have different categories: build them one by one.")
    return loaded


def _find_items(
    split: str,
    annotations: coco_annotations.Annotations,
    classes: coco_annotations.Classes,
    options: BuildCocoOptions,
) -> list[pairs.SourceFiles]:
    """Finds the records of a split, sorted by the names of the images."""
    folder = coco_folders.images(options.coco_root, split, options.year)
    assert folder is not None  # of a split that is loaded
    listed = sorted(annotations.images, key=lambda image: image['file_name'])
    names = [os.path.basename(image['file_name']) for image in listed]
    images = _paths(f"images of split '{split}'", annotations.path, folder, names)
    stems = [os.path.splitext(name)[0] for name in names]
    if options.masks == 'panoptic':
        files = {
            image_id: os.path.basename(listed[0]['file_name']) for image_id, listed in annotations.of_image.items()
        }
        names = [files.get(image['id'], f'{stem}.png') for image, stem in zip(listed, stems, strict=True)]
        masks = _paths(f"masks of split '{split}'", annotations.path, _panoptic_folder(annotations.path), names)
        source = coco_annotations.PanopticMasks(annotations, classes, options.instances)
        return [pairs.SourceFiles(*paths, source) for paths in zip(images, masks, stems, strict=True)]
    instances = itertools.chain.from_iterable(annotations.of_image.values())
    if any(isinstance(instance['instances'], list) for instance in instances):
        rasterizer.require_pycocotools()
    items = []
    for image, path, stem in zip(listed, images, stems, strict=True):
        own = annotations.of_image.get(image['id'], ())
        drawn = coco_annotations.InstanceMasks(own, image, classes, options.instances)
        items.append(pairs.SourceFiles(path, annotations.path, stem, drawn))
    return items


def _panoptic_folder(path: str) -> str:
    """Returns the folder of the masks of a JSON file: it has the name of the file."""
    beside = os.path.splitext(path)[0]
    above = os.path.join(os.path.dirname(os.path.dirname(path)), os.path.basename(beside))
    return above if os.path.isdir(above) and not os.path.isdir(beside) else beside


def _paths(what: str, listing: str, folder: str, names: list[str]) -> list[str]:
    """Returns the paths of files that a JSON file names; raises `DataError` if some are missing."""
    search = folders.Search()
    paths = [search.find(pathlib.Path(folder, name)) for name in names]
    missing = [shown(name) for name, path in zip(names, paths, strict=True) if not os.path.isfile(path)]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(names)} {what} in '{listing}' are not in '{folder}': {file_pairs.named(missing)}. "
            'Complete the folder, or remove them from the file.'
        )
    return list(map(str, paths))
