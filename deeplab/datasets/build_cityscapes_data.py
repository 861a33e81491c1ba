"""Builder of TFRecord files from the Cityscapes folders leftImg8bit and gtFine."""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and errors do not wait for TensorFlow
    import os
    import sys

    if not __package__:  # started by its path: put the folder above deeplab/ on the path instead of this file's
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    from deeplab import start

    sys.exit(start.main(['build_cityscapes_data', *sys.argv[1:]]))

import pathlib
import sys
from typing import Any

from absl import logging

from deeplab.datasets import build_data, folders, pairs
from deeplab.errors import DataError
from deeplab.options import BuildCityscapesOptions
from deeplab.wording import option

DEFAULT_NUM_SHARDS = 10
FOLDERS = ('train', 'val', 'test')
SPLIT_SUFFIX = '_fine'
_IMAGE_SUFFIX = '_leftImg8bit'
_LABEL_SUFFIX = '_gtFine_labelTrainIds'


def run(options: BuildCityscapesOptions) -> dict[str, Any]:
    """Writes those of the splits train_fine, val_fine and test_fine whose images exist.

    The test split may have no masks, because its masks are not public. All files are searched for before anything is
    written.

    Args:
      options: the input and the output.

    Returns:
      A summary of what was written (`build_data.write_splits`).

    Raises:
      DataError: A folder or file is missing, or a file is invalid (`build_data.write_split`).
    """
    splits = find_items(options)
    build_data.warn_of_ignored_class(options.num_classes, options.ignore_label)
    return build_data.write_splits(splits, options, DEFAULT_NUM_SHARDS)


def find_items(options: BuildCityscapesOptions) -> dict[str, list[pairs.Item]]:
    """Finds the records of every split whose images exist, sorted by city and name.

    Args:
      options: the input.

    Returns:
      Records by split.

    Raises:
      DataError: A folder, or the mask of an image, is missing.
    """
    build_data.require_folder(options.cityscapes_root, 'BuildCityscapesOptions.cityscapes_root')
    root = pathlib.Path(options.cityscapes_root)
    pattern = f'*/*{_IMAGE_SUFFIX}.{options.image_format}'
    images = {
        folder: [
            path
            for path in folders.of_extension((root / 'leftImg8bit' / folder).glob('*/*'), options.image_format)
            if path.stem.endswith(_IMAGE_SUFFIX)
        ]
        for folder in FOLDERS
    }
    if not any(images.values()):
        hint = ''
        for city in sorted((root / 'leftImg8bit').glob('*/*')):
            hint = hint or build_data.hint_format(str(city), options.image_format)
        raise DataError(
            f"There is no image in '{root}', searched for as leftImg8bit/{{{','.join(FOLDERS)}}}/{pattern}.{hint} "
            f'Set {option("BuildCityscapesOptions.cityscapes_root")} to the folder of leftImg8bit and gtFine.'
        )
    splits = {}
    for folder, paths in images.items():
        if paths:
            splits[folder + SPLIT_SUFFIX] = _items(folder, paths, root, options)
        else:
            logging.warning("There is no image in '%s': %s is not built.", root / 'leftImg8bit' / folder, folder)
    return splits


def _items(
    folder: str, paths: list[pathlib.Path], root: pathlib.Path, options: BuildCityscapesOptions
) -> list[pairs.Item]:
    """Finds the records of one split."""
    names = [path.stem.removesuffix(_IMAGE_SUFFIX) for path in paths]
    search = folders.Search()
    labels = [
        search.find(root / 'gtFine' / folder / path.parent.name / f'{name}{_LABEL_SUFFIX}.{options.label_format}')
        for path, name in zip(paths, names, strict=True)
    ]
    missing = [str(label) for label in labels if not label.is_file()]
    if folder == 'test' and len(missing) == len(labels):
        logging.warning('The test split has no masks: its records can be visualized, but not evaluated.')
        return [pairs.Item(str(path), None, name) for path, name in zip(paths, names, strict=True)]
    build_data.require_files(
        folder + SPLIT_SUFFIX,
        missing,
        len(labels),
        str(root / 'gtFine' / folder / '*' / f'*{_LABEL_SUFFIX}.{options.label_format}'),
        ' Create them with cityscapesscripts: CITYSCAPES_DATASET=ROOT csCreateTrainIdLabelImgs, or its script '
        'createTrainIdLabelImgs.py.',
    )
    return [pairs.Item(str(path), str(label), name) for path, label, name in zip(paths, labels, names, strict=True)]
