"""Builder of TFRecord files from COCO-Stuff: images and pixel maps of things and stuff."""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and errors do not wait for TensorFlow
    import os
    import sys

    if not __package__:  # started by its path: put the folder above deeplab/ on the path instead of this file's
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    from deeplab import start

    start.run_program('build_coco_stuff_data')

import os
import pathlib
from typing import Any

from absl import logging

from deeplab.datasets import build_data, coco_folders, descriptor, file_pairs, folders, mask_sources, pairs
from deeplab.errors import DataError
from deeplab.options import BuildCocoStuffOptions
from deeplab.wording import option

DEFAULT_NUM_SHARDS = 10
IGNORED = 255
_MASK_FOLDERS = ('annotations', 'stuffthingmaps', 'stuffthingmaps_trainval2017', '')
# Ids and names of things that COCO lists, but for which it has no annotations; the other ids up to 181 are classes.
_ABSENT = {
    11: 'street sign', 25: 'hat', 28: 'shoe', 29: 'eye glasses', 44: 'plate', 65: 'mirror', 67: 'window', 68: 'desk',
    70: 'door', 82: 'blender', 90: 'hair brush',
}  # fmt: skip
PRESENT = tuple(number for number in range(182) if number not in _ABSENT)
_CONTIGUOUS = '_labelTrainIds'  # end of the names of masks that some toolkits convert to the 171 classes


def run(options: BuildCocoStuffOptions) -> dict[str, Any]:
    """Writes the splits train and val whose images and masks exist, and the description of the data set.

    Returns:
      A summary of what was written (`build_data.write_known`).

    Raises:
      DataError: A folder or file is missing, has no partner, or is invalid.
    """
    dataset = descriptor.load('coco_stuff')
    if options.classes == '182':
        names = {**_ABSENT, **dict(zip(PRESENT, dataset.class_names or (), strict=True))}
        labels = [names[number] for number in sorted(names)]
        dataset = descriptor.DatasetDescriptor(name='coco_stuff_182', num_classes=len(labels), class_names=labels)
    return build_data.write_known(_find_items(options), options, dataset, DEFAULT_NUM_SHARDS)


def _find_items(options: BuildCocoStuffOptions) -> dict[str, list[pairs.SourceFiles]]:
    """Finds the records of every split whose images and masks exist, sorted by name."""
    folders.require_folder(options.coco_root, 'BuildCocoStuffOptions.coco_root')
    splits = {}
    for split in coco_folders.SPLITS:
        images = coco_folders.images(options.coco_root, split, options.year)
        masks = coco_folders.first(options.coco_root, _MASK_FOLDERS, f'{split}{options.year}', without=images)
        if images is None or masks is None:
            lost = 'images' if images is None else 'masks'
            logging.warning('There is no folder of the %s of %s%d: the split is not built.', lost, split, options.year)
            continue
        is_contiguous = bool(file_pairs.by_stem(masks, ('png',), _CONTIGUOUS))
        source = _source(is_contiguous, options)
        matched = file_pairs.matched(split, images, masks, _CONTIGUOUS if is_contiguous else '')
        splits[split] = [pairs.SourceFiles(*files, stem, source) for stem, files in matched.items()]
    if not splits:
        year = options.year
        if any(pathlib.Path(options.coco_root, 'annotations').glob('*.mat')):
            raise DataError(
                f"'{options.coco_root}' is COCO-Stuff 10k, whose MATLAB files are not read. Convert them to PNG files "
                'of ids and use build_folder_data, or use the PNG files of all images (stuffthingmaps_trainval2017).'
            )
        raise DataError(
            f"'{options.coco_root}' has no split with images (train{year}, or images/train{year}) and masks "
            f'(annotations/train{year}, or stuffthingmaps/train{year}). {coco_folders.summary(options.coco_root)} Set '
            f'{option("BuildCocoStuffOptions.coco_root")}.'
        )
    return splits


def _source(is_contiguous: bool, options: BuildCocoStuffOptions) -> mask_sources.MaskSource:
    old = range(len(PRESENT)) if is_contiguous else PRESENT
    new = PRESENT if options.classes == '182' else range(len(PRESENT))
    return mask_sources.IdTable({**dict(zip(old, new, strict=True)), IGNORED: IGNORED})
