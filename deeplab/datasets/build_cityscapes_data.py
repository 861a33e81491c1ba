"""Builder of TFRecord files from the Cityscapes folders leftImg8bit and gtFine or gtCoarse."""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and errors do not wait for TensorFlow
    import os
    import sys

    if not __package__:  # started by its path: put the folder above deeplab/ on the path instead of this file's
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    from deeplab import start

    start.run_program('build_cityscapes_data')

import pathlib
from collections.abc import Mapping
from typing import Any

from absl import logging

from deeplab.datasets import build_data, cityscapes_labels, descriptor, folders, mask_sources, pairs
from deeplab.errors import DataError
from deeplab.options import BuildCityscapesOptions
from deeplab.wording import option

DEFAULT_NUM_SHARDS = 10
_IMAGE_SUFFIX = '_leftImg8bit'
# Ends of the names of files from which a mask may be made, after gtFine or gtCoarse; the first that exists is taken.
_SOURCES: Mapping[str, mask_sources.MaskSource | None] = {
    '_labelTrainIds.png': None,
    '_labelIds.png': cityscapes_labels.id_table(),
    '_polygons.json': cityscapes_labels.FromPolygons(),
}
# By kind of annotations: the folder of the masks, and the folders of the images of each split.
_KINDS: Mapping[str, tuple[str, Mapping[str, tuple[str, ...]]]] = {
    'fine': ('gtFine', {'train_fine': ('train',), 'val_fine': ('val',), 'test_fine': ('test',)}),
    'coarse': ('gtCoarse', {'train_coarse': ('train', 'train_extra'), 'val_coarse': ('val',)}),
}


def run(options: BuildCityscapesOptions) -> dict[str, Any]:
    """Writes the splits of the chosen annotations whose images exist.

    These are train_fine, val_fine and test_fine, or else train_coarse and val_coarse. The test split may have no masks,
    because its masks are not public. All files are searched for before anything is written.

    Returns:
      A summary of what was written (`build_data.write_splits`).

    Raises:
      DataError: A folder or file is missing, or a file is invalid (`build_data.write_split`).
    """
    splits = _find_items(options)
    build_data.warn_of_ignored_class(options.num_classes, options.ignore_label)
    return build_data.write_splits(splits, options, DEFAULT_NUM_SHARDS, [descriptor.load('cityscapes')])


def _find_items(options: BuildCityscapesOptions) -> dict[str, list[pairs.SourceFiles]]:
    """Finds the records of every split whose images exist, sorted by folder, city and name."""
    folders.require_folder(options.cityscapes_root, 'BuildCityscapesOptions.cityscapes_root')
    root = pathlib.Path(options.cityscapes_root)
    mask_folder, folders_of = _KINDS[options.annotations]
    images = {folder: _images(root, folder, options) for inner in folders_of.values() for folder in inner}
    if not any(images.values()):
        hint = ''
        for city in sorted((root / 'leftImg8bit').glob('*/*')):
            hint = hint or build_data.hint_format(str(city), options.image_format)
        pattern = f'leftImg8bit/{{{",".join(images)}}}/*/*{_IMAGE_SUFFIX}.{options.image_format}'
        raise DataError(
            f"There is no image in '{root}', searched for as {pattern}.{hint} "
            f'Set {option("BuildCityscapesOptions.cityscapes_root")} to the folder of leftImg8bit and {mask_folder}.'
        )
    splits = {}
    for split, inner in folders_of.items():
        for folder in inner:
            if not images[folder]:
                logging.warning(
                    "There is no image in '%s': split %s is built without it.", root / 'leftImg8bit' / folder, split
                )
        paths = [path for folder in inner for path in images[folder]]
        if paths:
            splits[split] = _items(split, paths, root / mask_folder, options)
    return splits


def _images(root: pathlib.Path, folder: str, options: BuildCityscapesOptions) -> list[pathlib.Path]:
    """Returns the images of a folder of leftImg8bit, sorted by city and name."""
    others = build_data.other_formats(options.image_format, 'leftImg8bit', 'gtFine')
    paths = folders.of_extensions((root / 'leftImg8bit' / folder).glob('*/*'), options.image_format, others)
    return [path for path in paths if path.stem.endswith(_IMAGE_SUFFIX)]


def _items(
    split: str, paths: list[pathlib.Path], masks: pathlib.Path, options: BuildCityscapesOptions
) -> list[pairs.SourceFiles]:
    is_test = split.startswith('test')  # its other masks hold nothing but ignored pixels
    endings = [ending for ending in _SOURCES if not is_test or _SOURCES[ending] is None]
    search = folders.Search()
    items, missing = [], []
    for path in paths:
        name = path.stem.removesuffix(_IMAGE_SUFFIX)
        city = masks / path.parent.parent.name / path.parent.name
        labels = ((search.find(city / f'{name}_{masks.name}{ending}'), _SOURCES[ending]) for ending in endings)
        label, source = next(((str(label), source) for label, source in labels if label.is_file()), (None, None))
        if options.instances and label is not None and not is_test:
            label, source = _with_instances(search, city / f'{name}_{masks.name}', label, source)
        items.append(pairs.SourceFiles(str(path), label, name, source))
        if label is None:
            missing.append(f'{name}_{masks.name}{endings[-1]}')
    if is_test and len(missing) == len(items):
        logging.warning('The test split has no masks: its records can be visualized, but not evaluated.')
        return items
    pattern = f'{masks}/*/*/*_{masks.name}{{{",".join(endings)}}}'
    build_data.require_files(split, missing, len(items), pattern)
    made = sum(item.source is not None for item in items)
    if made:
        logging.info(
            "Split '%s': %d of %d masks are made from *_labelIds.png or *_polygons.json.", split, made, len(items)
        )
    return items


def _with_instances(
    search: folders.Search, start: pathlib.Path, label: str, source: mask_sources.MaskSource | None
) -> tuple[str, mask_sources.MaskSource]:
    """Returns the file and the source of the masks of classes and instances, from file and source of the class mask.

    `start` is the beginning of the paths of all annotations of the image.
    """
    instances, polygons = (
        search.find(start.with_name(start.name + end)) for end in ('_instanceIds.png', '_polygons.json')
    )
    if instances.is_file():
        return label, mask_sources.FileBeside(str(instances), source, cityscapes_labels.instance_table())
    if polygons.is_file():
        return str(polygons), cityscapes_labels.FromPolygons(with_instances=True)
    raise DataError(
        f"'{start}' has instances neither in *_instanceIds.png nor in *_polygons.json. Complete the folder, or omit "
        f'{option("BuildCityscapesOptions.instances", True)}.'
    )
