"""Flags of evaluation, visualization and export."""

from __future__ import annotations

import dataclasses
from typing import Any

from deeplab import options
from deeplab.cli.data_flags import RESIZE
from deeplab.cli.words import (
    Flag,
    Group,
)

_EVAL_SCALES = Flag(
    'eval_scales',
    'repeated float',
    [1.0],
    'Scales whose predictions are averaged, the flag once for each, such as 0.5, 0.75, ... 1.75.',
)
INFERENCE_SCALES = dataclasses.replace(_EVAL_SCALES, name='inference_scales')
ADD_FLIPPED_IMAGES = Flag(
    'add_flipped_images',
    'boolean',
    False,
    'Average over mirrored images too; it acts only where the scales are not 1.0 alone.',
)
PREDICTION = Group('Scales and flips', (_EVAL_SCALES, ADD_FLIPPED_IMAGES))
_CHECKPOINT_DIR = Flag(
    'checkpoint_dir',
    'string',
    None,
    'Folder of the checkpoints, which is the --train_logdir of training; or one checkpoint.',
)
_USE_MOVING_AVERAGE = Flag(
    'use_moving_average',
    'boolean',
    False,
    'Take the moving average of the weights instead of the weights, from a training with --moving_average_decay.',
)


def _wait_flags(rounds: Flag) -> tuple[Flag, ...]:
    """The flags that say how a program waits for checkpoints."""
    return (
        Flag('eval_interval_secs', 'integer', 300, 'Least number of seconds between the starts of two rounds.'),
        rounds,
        Flag(
            'timeout_secs',
            'float',
            None,
            'Give up after this many seconds without a new checkpoint. Not set: with a number of rounds, when no '
            'training runs in the folder, or begins there within 60 seconds; else never.',
        ),
    )


EVAL_RESULTS = Group(
    'Checkpoints and results',
    (
        _CHECKPOINT_DIR,
        _USE_MOVING_AVERAGE,
        Flag('eval_logdir', 'string', None, 'Folder for the figures: metrics-STEP.json and TensorBoard summaries.'),
        *_wait_flags(
            Flag('max_number_of_evaluations', 'integer', 0, 'Checkpoints to evaluate; 0: wait for more, for ever.')
        ),
    ),
)
VIS_RESULTS = Group(
    'Checkpoints and results',
    (
        _CHECKPOINT_DIR,
        _USE_MOVING_AVERAGE,
        Flag('vis_logdir', 'string', None, 'Folder for the pictures.'),
        Flag(
            'colormap_type',
            'enum',
            'pascal',
            "Colours of the classes. When it is not given the data set's own are taken.",
            options.COLORMAP_TYPES,
        ),
        Flag('also_save_raw_predictions', 'boolean', False, 'Also write the class ids, as grey PNG files.'),
        *_wait_flags(
            Flag('max_number_of_iterations', 'integer', 0, 'Checkpoints to visualise; 0: wait for more, for ever.')
        ),
    ),
)
EXPORT_FILES = Group(
    'Checkpoint and export',
    (
        Flag(
            'checkpoint_path',
            'string',
            None,
            'The checkpoint, such as logs/train/model.ckpt-30000 (without .index); of a folder its newest one is '
            'taken.',
        ),
        _USE_MOVING_AVERAGE,
        Flag('export_path', 'string', None, 'File that the frozen graph becomes, or folder of the SavedModel.'),
        Flag(
            'export_format',
            'enum',
            'frozen_graph',
            'frozen_graph is one file that holds graph and weights; saved_model a folder with a serving signature.',
            options.EXPORT_FORMATS,
        ),
        Flag(
            'save_inference_graph',
            'boolean',
            False,
            'Also write the graph with its variables as text, inference_graph.pbtxt beside the export.',
        ),
    ),
)
EXPORT_SIZES = Group(
    'Classes, sizes and channels',
    (
        Flag('num_classes', 'integer', 21, 'Number of classes that the checkpoint was trained for.'),
        Flag('image_channels', 'integer', 3, 'Channels of the images that it was trained on.'),
        Flag('image_bits', 'integer', 8, '16 where those have 16 bits; the export then takes images of uint16.'),
        Flag(
            'crop_size',
            'repeated integer',
            [513, 513],
            'Height and width, in pixels, of the largest image that the export takes: 513,513, or the flag twice '
            'with one number each.',
        ),
        *RESIZE,
    ),
)


def with_default(flag: Flag, name: str, default: Any) -> Flag:
    """`flag`; with another default if it is the one called `name`."""
    return dataclasses.replace(flag, default=default) if flag.name == name else flag
