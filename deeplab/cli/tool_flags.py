"""Flags of programs that describe a network without a data set."""

from __future__ import annotations

from deeplab.cli.links import flag_of
from deeplab.cli.words import Flag, Group
from deeplab.options import DatasetOptions, ModelOptions

# None is "not given" here: the data set, or the checkpoint, then has the numbers.
CLASSES = Group(
    'Classes',
    (
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
            meaning='Number of channels of the images; overrides --dataset. Not set: as in the data set, or 3 '
            'without one.',
        ),
    ),
)
