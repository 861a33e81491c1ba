"""Builder of TFRecord files from CamVid, in each of its usual layouts."""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and errors do not wait for TensorFlow
    import os
    import sys

    if not __package__:  # started by its path: put the folder above deeplab/ on the path instead of this file's
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    from deeplab import start

    start.run_program('build_camvid_data')

import io
import os
import pathlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging
from PIL import Image

from deeplab.datasets import build_data, color_tables, descriptor, file_pairs, folders, images, mask_sources, pairs
from deeplab.errors import DataError
from deeplab.files import documents
from deeplab.options import BuildCamvidOptions
from deeplab.wording import option

DEFAULT_NUM_SHARDS = 4
_SPLITS = ('train', 'val', 'test')
_MASKS_OF_SPLIT = ('{}annot', '{}_labels')  # folders of the masks beside the folders train, val and test
_FLAT = (('701_StillsRaw_full', 'LabeledApproved_full'), ('images', 'labels'))
_CODES = 'codes.txt'
_MASK_SUFFIXES = ('_L', '_P', '')
# The names of the 32 classes in each of the 11; Void is in none. Source: SegNet, arXiv:1511.00561.
_GROUPS = {
    'sky': 'Sky',
    'building': 'Archway Bridge Building Tunnel Wall',
    'pole': 'Column_Pole TrafficCone',
    'road': 'LaneMkgsDriv LaneMkgsNonDriv Road',
    'pavement': 'ParkingBlock RoadShoulder Sidewalk',
    'tree': 'Tree VegetationMisc',
    'sign': 'Misc_Text SignSymbol TrafficLight',
    'fence': 'Fence',
    'car': 'Car OtherMoving SUVPickupTruck Train Truck_Bus',
    'pedestrian': 'Animal CartLuggagePram Child Pedestrian',
    'bicyclist': 'Bicyclist MotorcycleScooter',
}
_VOID_INDEX = 11  # of masks of 11 classes
_IGNORED = 255
# Frames of the split val, and the first of sequence 0001TP in test, which has all of Seq05VD, too; the rest is train.
_VAL_FRAMES = range(7959, 8160)
_FIRST_TEST_FRAME = 8550
_FRAME = re.compile(r'(?P<sequence>0001TP|0006R0|0016E5|Seq05VD)_f?(?P<number>\d+)')


def run(options: BuildCamvidOptions) -> dict[str, Any]:
    """Writes the splits train, val and test, and the description of the data set.

    Returns:
      A summary of what was written (`build_data.write_known`).

    Raises:
      DataError: A folder or file is missing, has no partner, or is invalid.
    """
    dataset = descriptor.load('camvid' if options.classes == '11' else 'camvid32')
    return build_data.write_known(_find_items(options, dataset), options, dataset, DEFAULT_NUM_SHARDS)


def _find_items(
    options: BuildCamvidOptions, dataset: descriptor.DatasetDescriptor
) -> dict[str, list[pairs.SourceFiles]]:
    """Finds the records of every split, sorted by name."""
    folders.require_folder(options.camvid_root, 'BuildCamvidOptions.camvid_root')
    splits = _of_folders(options.camvid_root) or _of_frames(options.camvid_root)
    if not splits:
        flat = ' and '.join(_FLAT[0])
        raise DataError(
            f"'{options.camvid_root}' has neither the folders train and trainannot (or train_labels), nor {flat}, nor "
            f'images and labels. {folders.summary(options.camvid_root)} Set '
            f'{option("BuildCamvidOptions.camvid_root")}, or use build_voc2012_data for the layout of PASCAL VOC.'
        )
    first = next(mask for split in splits.values() for _, mask in split.values())
    source = _source(options, dataset, first)
    return {
        split: [pairs.SourceFiles(image, mask, stem, source) for stem, (image, mask) in files.items()]
        for split, files in splits.items()
    }


def _of_folders(root: str) -> dict[str, dict[str, tuple[str, str]]]:
    """Returns the files of each split if the splits are folders."""
    splits = {}
    for split in _SPLITS:
        images_folder = os.path.join(root, split)
        masks = [os.path.join(root, pattern.format(split)) for pattern in _MASKS_OF_SPLIT]
        masks = [folder for folder in masks if os.path.isdir(folder)]
        if os.path.isdir(images_folder) and masks:
            splits[split] = file_pairs.matched(split, images_folder, masks[0], _mask_suffix(masks[0]))
    return splits


def _of_frames(root: str) -> dict[str, dict[str, tuple[str, str]]]:
    """Returns the files of each split if all images are in one folder; the names of the frames tell their split."""
    for names in _FLAT:
        image_folder, mask_folder = (os.path.join(root, name) for name in names)
        if not (os.path.isdir(image_folder) and os.path.isdir(mask_folder)):
            continue
        splits: dict[str, dict[str, tuple[str, str]]] = {split: {} for split in _SPLITS}
        lost = []
        for stem, paths in file_pairs.matched('all', image_folder, mask_folder, _mask_suffix(mask_folder)).items():
            split = split_of(stem)
            if split is None:
                lost.append(stem)
            else:
                splits[split][stem] = paths
        if lost:
            raise DataError(
                f"{len(lost)} images in '{image_folder}' are not named like frames of CamVid, such as "
                f'0016E5_07959: {file_pairs.named(lost)}. Remove them, or use build_folder_data.'
            )
        return {split: files for split, files in splits.items() if files}
    return {}


def split_of(stem: str) -> str | None:
    """Returns the split of a frame, such as 0016E5_07959, in the usual division; None if the name is not a frame's."""
    match = _FRAME.fullmatch(stem)
    if match is None:
        return None
    sequence, number = match['sequence'], int(match['number'])
    if sequence == 'Seq05VD' or (sequence == '0001TP' and number >= _FIRST_TEST_FRAME):
        return 'test'
    return 'val' if sequence == '0016E5' and number in _VAL_FRAMES else 'train'


def _mask_suffix(folder: str) -> str:
    """Returns the suffix that the names of the masks have in addition to the names of the images."""
    return next(suffix for suffix in _MASK_SUFFIXES if file_pairs.by_stem(folder, ('png',), suffix) or not suffix)


def _source(options: BuildCamvidOptions, dataset: descriptor.DatasetDescriptor, first: str) -> mask_sources.MaskSource:
    """Returns the conversion of the masks, chosen by the first mask."""
    ids = _new_ids(dataset.class_names if options.classes == '11' else None)
    codes = pathlib.Path(options.camvid_root, _CODES)
    if codes.is_file():
        try:
            names = documents.entries_of(documents.load_text(codes))
        except documents.DocumentError as error:
            raise DataError(f"'{codes}' {error}.") from None
        if unknown := [name for name in names if _plain(name) not in ids]:
            raise DataError(f"'{codes}' has names that are not classes of CamVid: {', '.join(unknown[:3])}.")
        return mask_sources.IdTable({number: ids[_plain(name)] for number, name in enumerate(names)})
    with pairs.naming(first):
        content = mask_sources.contents(first)
        mask = images.read_mask(content)
    counts = mask.counts
    can_be_ids = counts is not None and set(np.flatnonzero(counts)) <= {*range(_VOID_INDEX + 1), _IGNORED}
    if counts is None or (mask.is_palette and (_has_colors_of_classes(content) or not can_be_ids)):
        logging.info('The masks have colors, which are converted to ids.')
        return color_tables.ColorTable(
            [color_tables.Entry(ids[_plain(name)], color, name) for name, color, _ in classes()]
        )
    if options.classes != '11':
        raise DataError(
            f"The masks in '{options.camvid_root}' hold the ids of 11 classes ('{first}'). Set "
            f'{option("BuildCamvidOptions.classes", "11")}, or get the masks of 32 colors.'
        )
    same = {number: number for number in range(dataset.num_classes)}
    return mask_sources.IdTable({**same, _VOID_INDEX: dataset.ignore_label, dataset.ignore_label: dataset.ignore_label})


def classes() -> list[tuple[str, color_tables.Color, str | None]]:
    """Returns name, color, and class of 11 (None for pixels that are ignored) of the 32 classes, by id."""
    dataset = descriptor.load('camvid32')
    groups = {name: group for group, names in _GROUPS.items() for name in names.split()}
    colors: list[color_tables.Color] = list(map(tuple, dataset.palette.tolist()))
    return [(name, color, groups.get(name)) for name, color in zip(dataset.class_names or (), colors, strict=True)]


def _new_ids(names_of_11: Sequence[str] | None) -> dict[str, int]:
    """Returns the id of each of the 32 names (`_plain`), as one of 11 classes whose names are given, or of 32."""
    ids = {}
    for number, (name, _, group) in enumerate(classes()):
        if names_of_11 is not None:
            number = _IGNORED if group is None else names_of_11.index(group)
        ids[_plain(name)] = number
    return ids


def _plain(name: str) -> str:
    """Returns letters and digits in lower case, since files spell the same class Column_Pole or column pole."""
    return ''.join(sign for sign in name.lower() if sign.isalnum())


def _has_colors_of_classes(content: bytes) -> bool:
    """Returns whether every color in a mask with a palette is a class color; if so, its indices are arbitrary."""
    with Image.open(io.BytesIO(content)) as image:
        colors = image.convert('RGB').getcolors(maxcolors=256) or []
    class_colors = {color for _, color, _ in classes()}
    return all(color in class_colors for _, color in colors)
