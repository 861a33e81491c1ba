"""Flags of data sets."""

from __future__ import annotations

from typing import Any

from deeplab.cli.links import flag_of, of
from deeplab.cli.words import Entry, Flag, Group
from deeplab.options import DatasetOptions, ModelOptions, ResizeOptions

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
