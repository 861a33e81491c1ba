"""Flags that several programs share: the network, how it predicts, and the data."""

from __future__ import annotations

from typing import Any

from deeplab.cli.links import flag_of, of
from deeplab.cli.words import Entry, Flag, Group
from deeplab.options import (
    AsppOptions,
    DatasetOptions,
    DecoderOptions,
    EngineOptions,
    ModelOptions,
    NasOptions,
    PredictionOptions,
    ResizeOptions,
    WindowOptions,
)

_PRESET = Flag(
    'preset',
    'string',
    None,
    'Name of a published checkpoint, such as mobilenetv2_coco_voc_trainaug: sets the flags that this checkpoint '
    'needs, including the data set and crop size. Flags given on the command line override it. deeplab presets lists '
    'the names. Not set: no preset.',
    fields=('PredictOptions.preset',),
)
_OF_HEAD = (
    'image_pooling_crop_size',
    'image_pooling_stride',
    'dense_prediction_cell_json',
    'logits_kernel_size',
    'prediction_with_upsampled_logits',
)
NETWORK = Group('Network', _PRESET, of(ModelOptions, without=_OF_HEAD), of(NasOptions, without=['drop_path_keep_prob']))
HEAD = Group('Head and decoder', of(AsppOptions), of(ModelOptions, *_OF_HEAD), of(DecoderOptions))
# Of programs that describe a network without a data set: None is "not given", and the data set, or the checkpoint, then
# has the numbers.
CLASSES = Group(
    'Classes',
    flag_of(
        DatasetOptions,
        'name',
        default=None,
        meaning='The data set that defines the number of classes and channels, as in training.',
    ),
    Flag(
        'num_classes',
        'integer',
        None,
        'Number of classes; overrides --dataset.',
        fields=('ModelOptions.outputs_to_num_classes',),
    ),
    flag_of(
        ModelOptions,
        'input_channels',
        name='image_channels',
        default=None,
        meaning='Number of channels of the images; overrides --dataset. Not set: as in the data set, or 3 without one.',
    ),
)
PREDICTION = Group('Scales and flips', of(PredictionOptions))
WINDOWS = Group('Large images', of(WindowOptions))
# Read by `early.limit_threads`, before TensorFlow is imported.
NUM_THREADS = Flag(
    'num_threads',
    'integer',
    None,
    'Number of compute threads, for running several programs at the same time. Not set: one per core.',
)


def engine_group(*first: Entry) -> Group:
    """Returns the flags of the engine, after the flags of the machine."""
    return Group('Machines and engines', *first, of(EngineOptions), NUM_THREADS)


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
        'Height and width, in pixels, of the network input: 513,513, or one flag for each. Multiples of '
        f'--output_stride plus 1 are best{_OF_LARGER_IMAGES[prefix]}'
    )
    crop = {'default': DEFAULT_CROP, 'meaning': meaning, **crop}
    return Group(
        'Data',
        of(DatasetOptions, 'directory', 'name'),
        flag_of(DatasetOptions, 'split', name=f'{prefix}_split', default=split),
        flag_of(ModelOptions, 'crop_size', name=f'{prefix}_crop_size', **crop),
        *more,
        *RESIZE,
        of(DatasetOptions, without=['directory', 'name']),
    )
