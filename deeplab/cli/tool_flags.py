"""Flags of the smaller programs."""

from __future__ import annotations

from deeplab.cli.words import (
    Flag,
    Group,
)

JSON = Flag('json', 'boolean', False, 'Answer in JSON, for programs.')
CLASSES = Group(
    'Classes',
    (
        Flag('dataset', 'string', None, 'The data set that says how many classes there are, as in training.'),
        Flag('num_classes', 'integer', None, 'Number of classes; it wins over --dataset.'),
        Flag(
            'image_channels',
            'integer',
            None,
            "Channels of the images; it wins over --dataset. Not set: the data set's, else 3.",
        ),
    ),
)
