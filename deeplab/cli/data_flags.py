"""Flags of data sets, builders and augmentation."""

from __future__ import annotations

import dataclasses
from typing import Any

from deeplab.cli.links import flag_of, of
from deeplab.cli.words import Entry, Flag, Group
from deeplab.options import (
    AugmentOptions,
    BuilderOptions,
    BuildFolderOptions,
    DatasetOptions,
    ModelOptions,
    ResizeOptions,
)

_KEEP_ASPECT_RATIO = Flag(
    'keep_aspect_ratio', 'boolean', True, 'Accepted for compatibility with old command lines; it has no effect.'
)
RESIZE = (of(ResizeOptions), _KEEP_ASPECT_RATIO)
RESIZE_FLAGS = {flag.name: flag.fields[0] for flag in of(ResizeOptions)()}  # with the fields that they set
DEFAULT_CROP = ['513', '513']  # of the original's programs; a network of unknown size has None in the options
# Ends of the meaning of the crop size.
_OF_LARGER_IMAGES = {
    'train': '.',
    'eval': '. If it is not given and an image is larger, the smallest size into which every image fits is used.',
    'vis': ', and no image may be larger.',
}


def data_group(prefix: str, split: str, *more: Entry, **crop: Any) -> Group:
    """Returns the flags of the data that a program reads.

    Args:
      prefix: train, eval or vis.
      split: default of the split.
      *more: further flags.
      **crop: default and meaning of the crop size, if they differ from the usual ones.
    """
    meaning = (
        'Height and width, in pixels, of the input of the network: 513,513, or one flag for each. Multiples of '
        f'--output_stride plus 1 are best{_OF_LARGER_IMAGES[prefix]}'
    )
    crop = {'default': DEFAULT_CROP, 'meaning': meaning, **crop}
    return Group(
        'Data',
        (
            of(DatasetOptions, 'directory', 'name'),
            flag_of(DatasetOptions, 'split', name=f'{prefix}_split', default=split),
            flag_of(ModelOptions, 'crop_size', name=f'{prefix}_crop_size', **crop),
            *more,
            *RESIZE,
            of(DatasetOptions, without=['directory', 'name']),
        ),
    )


AUGMENTATION = Group('Augmentation of training images', (of(AugmentOptions),))
_FORMATS = of(BuilderOptions, 'image_format', 'label_format')
_RECORDS = Group('Records', (of(BuilderOptions, without=['image_format', 'label_format', 'output_dir']),))


def builder_groups(kind: type, has_formats: bool) -> tuple[Group, ...]:
    """Returns the flags of a builder.

    Args:
      kind: class of its options.
      has_formats: whether its files have one format that users choose, and any classes; otherwise the classes are known
        and the files may have any format.
    """
    shared = [field.name for field in dataclasses.fields(BuilderOptions) if field.name != 'output_dir']
    files = of(kind, without=shared)
    if has_formats:
        return Group('Files', (files, _FORMATS)), _RECORDS
    return Group('Files', (files,)), Group(_RECORDS.title, (of(BuilderOptions, 'num_shards', 'num_workers'),))


BUILD_FOLDER = (
    Group(
        'Files',
        (
            of(
                BuildFolderOptions,
                'image_folder',
                'mask_folder',
                'mask_suffix',
                'allow_unmatched',
                'annotations',
                'output_dir',
            ),
        ),
    ),
    Group('Splits', (of(BuildFolderOptions, 'list_folder', 'val_fraction', 'group_pattern'),)),
    Group('Classes', (of(BuildFolderOptions, 'class_names', 'colors', 'dataset', 'unlabeled', 'label_map'),)),
    _RECORDS,
)
