"""The command line: the only file with flags.

`main(['train', '--train_logdir=...', ...])` is what all spellings of a call end in. A program is one record in
`PROGRAMS`: its flags in groups, and a function that makes its options of their values. Each call builds a `FlagValues`
of its own, so several programs can run in one process, and flags of one name may have other defaults elsewhere. A
program's module, and TensorFlow with it, is imported only when the program runs, so that help and mistakes are quick.

The words of a call are read twice: first by `command_words`, which knows the mistakes that people make and
says how to mend them, then by absl, which knows the values.

To add a program: a `Program` in `PROGRAMS`, a function `..._options`, and flags that no group has yet.
"""

# The names, types and defaults of most flags are a contract with the command lines that exist:
# tests/test_flags.py holds them.

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import importlib
import logging as standard_logging
import os
import re
import shlex
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from absl import flags, logging  # noqa: TID251 (this is the one file that may)

import deeplab
from deeplab import common, log_files, names, options, presets, start
from deeplab.command_words import (
    Flag,
    Group,
    UsageError,
    check_words,
    normalised,
    parse_number,
    with_named,
    without_undefined,
)
from deeplab.core import scopes, signals
from deeplab.datasets import descriptor
from deeplab.errors import OutputError, UserError
from deeplab.utils import receipt, run_flags

HELP_WORDS = ('--help', '-h', '-help', '--helpfull', '--helpshort', '-?')
HELP_WIDTH = 100
USAGE_STATUS = 2
ERROR_STATUS = 1
INTERRUPTED_STATUS = start.INTERRUPTED_STATUS
PREVIEW_FILE = 'preview.png'

_NVIDIA_DRIVER = '/proc/driver/nvidia'
_IMPORT_CHATTER = re.compile(rb'I\d{4} |WARNING: All log messages before absl::InitializeLog')


# --- Types of flags that absl does not have -----------------------------------------------------------


class _NumbersParser(flags.ArgumentParser[list[Any]]):
    """Numbers with commas between them."""

    def __init__(self, number: type, word: str | None = None) -> None:
        super().__init__()
        self._number = number
        self._word = word

    def parse(self, argument: Any) -> list[Any]:
        """Returns the list of numbers in `argument`: a text, or (the default) numbers already; or of the word in it."""
        if self._word is not None and argument == self._word:
            return [argument]
        parts = argument.split(',') if isinstance(argument, str) and argument.strip() else argument or ()
        return [parse_number(part, self._number) for part in parts]


class _NumbersFlag(flags.Flag[list[Any]]):
    """A flag for several numbers, in both dialects: `--f=6 --f=12` and `--f=6,12`.

    Single numbers add up. A list replaces what stood before where `replaces` is set, as absl's own list flags do.
    """

    def __init__(self, flag: Flag) -> None:
        self._replaces = flag.kind == 'list'
        parser = _NumbersParser(float if flag.kind == 'repeated float' else int, flag.word)
        super().__init__(parser, flags.CsvListSerializer(','), flag.name, flag.default, flag.meaning)

    def parse(self, argument: Any) -> None:
        """Takes in one occurrence of the flag."""
        numbers = self._parse(argument) or []
        replaces = not self.present or (self._replaces and len(numbers) > 1)
        self.value = numbers if replaces else [*(self.value or ()), *numbers]
        self.present += 1


def _define(flag: Flag, values: flags.FlagValues) -> None:
    """Defines `flag` on `values`."""
    if flag.holds_numbers:
        flags.DEFINE_flag(_NumbersFlag(flag), flag_values=values)
    elif flag.kind == 'enum':
        flags.DEFINE_enum(flag.name, flag.default, flag.choices, flag.meaning, flag_values=values)
    else:
        define = getattr(flags, f'DEFINE_{flag.kind}')
        define(flag.name, flag.default, flag.meaning, flag_values=values)


# --- The flags, by heading -------------------------------------------------------------------------------------------

_SEED = Flag('seed', 'integer', 0, 'Where all random choices start from. Two runs with one seed do the same.')
_KEEP_ASPECT_RATIO = Flag(
    'keep_aspect_ratio', 'boolean', True, 'Accepted for old command lines; it has never had an effect.'
)
_RESIZE = (
    Flag('min_resize_value', 'integer', None, 'Resize each image until its shorter side has this many pixels.'),
    Flag('max_resize_value', 'integer', None, 'The longer side gets no more pixels than this when images are resized.'),
    Flag(
        'resize_factor',
        'integer',
        None,
        'Resized sides become a multiple of this plus 1; it should equal --output_stride.',
    ),
    _KEEP_ASPECT_RATIO,
)


def _data_group(prefix: str, split: str, *more: Flag) -> Group:
    """The flags that say what is read: `prefix` is train, eval or vis."""
    return Group(
        'Data',
        (
            Flag('dataset_dir', 'string', None, 'Folder of the TFRecord shards that a builder wrote.'),
            Flag(
                'dataset',
                'string',
                'pascal_voc_seg',
                'The data set: a known name (ade20k, camvid, cityscapes, pascal_voc_seg), a Python module that '
                'defines DATASET, or a JSON or YAML file.',
            ),
            Flag(f'{prefix}_split', 'string', split, 'Which split to read: the shards named SPLIT-*.'),
            Flag(
                f'{prefix}_crop_size',
                'list',
                ['513', '513'],
                'Height and width, in pixels, that the network sees: 513,513, or the flag twice with one number '
                'each. Best is a multiple of --output_stride plus 1'
                + ('.' if prefix == 'train' else ', and no image may be larger.'),
            ),
            *more,
            *_RESIZE,
            Flag(
                'skip_corrupt_records',
                'boolean',
                False,
                'Leave out, and count, records that cannot be read, instead of stopping at the first.',
            ),
        ),
    )


_PRESET = Flag(
    'preset',
    'string',
    None,
    'A published checkpoint, such as mobilenetv2_coco_voc_trainaug: sets the flags that it needs, data set and crop '
    'included. A flag that stands on the line wins. deeplab presets lists them. Not set: none.',
)

_NETWORK = Group(
    'Network',
    (
        _PRESET,
        Flag(
            'model_variant',
            'string',
            'mobilenet_v2',
            'The backbone, such as mobilenet_v2, xception_41, xception_65 or xception_71.',
        ),
        Flag(
            'output_stride',
            'integer',
            16,
            'Input pixels to one step of the last feature map: 8 is finer and slower than 16. Double --atrous_rates '
            'when you halve it.',
        ),
        Flag('depth_multiplier', 'float', 1.0, 'Factor on the number of channels of a MobileNet.'),
        Flag(
            'divisible_by',
            'integer',
            None,
            "Round a MobileNet's channels to multiples of this; not set: the network's own rule.",
        ),
        Flag(
            'multi_grid',
            'repeated integer',
            None,
            "Factors on the atrous rates of the units in a ResNet's or an Xception's last block, three of them.",
        ),
        Flag('use_bounded_activation', 'boolean', False, 'Use relu6 instead of relu, which suits 8-bit inference.'),
        Flag(
            'batch_norm_decay',
            'float',
            0.9997,
            'How slowly the moving averages of every batch norm follow. When it is not given each part keeps its '
            'own (0.9997, MobileNets 0.997, ResNets 0.95); small data and short runs want less, such as 0.99.',
        ),
        Flag('image_pyramid', 'repeated float', None, 'Scales at which the network sees each input; not set: 1.0.'),
        Flag(
            'merge_method',
            'enum',
            'max',
            'How the logits of several --image_pyramid scales become one.',
            options.MERGE_METHODS,
        ),
        Flag(
            'quantize_delay_step',
            'integer',
            -1,
            'Step at which training starts to imitate 8-bit arithmetic; negative: never.',
        ),
        Flag('nas_stem_output_num_conv_filters', 'integer', 20, 'Channels of the stem of a nas_* network.'),
        Flag('nas_remove_os32_stride', 'boolean', False, 'Leave out the stride from 16 to 32 in a nas_* network.'),
        Flag('nas_use_classification_head', 'boolean', False, "Keep a nas_* network's head for classification."),
    ),
)

_HEAD = Group(
    'Head and decoder',
    (
        Flag(
            'atrous_rates',
            'repeated integer',
            None,
            'Rates of the atrous branches (ASPP), the flag once for each: 6, 12, 18 at output stride 16, twice as '
            'much at 8. Not set: no such branch.',
        ),
        Flag('add_image_level_feature', 'boolean', True, 'Add the branch that averages over the whole image.'),
        Flag(
            'image_pooling_crop_size',
            'list',
            None,
            'Height and width over which that branch averages; not set: the whole crop.',
        ),
        Flag('image_pooling_stride', 'list', ['1', '1'], 'Vertical and horizontal stride of that average.'),
        Flag('aspp_convs_filters', 'integer', 256, 'Channels of every branch and of their projection.'),
        Flag('aspp_with_batch_norm', 'boolean', True, 'Have an ASPP; without it the logits read the backbone.'),
        Flag('aspp_with_separable_conv', 'boolean', True, 'Make the atrous branches depthwise separable.'),
        Flag('aspp_with_concat_projection', 'boolean', True, 'Project the joined branches by a 1x1 convolution.'),
        Flag(
            'aspp_with_squeeze_and_excitation',
            'boolean',
            False,
            'Let the image-level branch gate the others instead of joining them.',
        ),
        Flag('image_se_uses_qsigmoid', 'boolean', False, 'That gate is the piecewise linear sigmoid.'),
        Flag(
            'dense_prediction_cell_json',
            'string',
            '',
            'Use the searched head that this JSON file describes instead of ASPP.',
        ),
        Flag(
            'decoder_output_stride',
            'list',
            None,
            'Strides at which the decoder takes in finer features: 4, or several, descending. Not set: no decoder.',
        ),
        Flag('decoder_filters', 'integer', 256, "Channels of the decoder's convolutions."),
        Flag('decoder_use_separable_conv', 'boolean', True, 'Make those convolutions depthwise separable.'),
        Flag('decoder_use_sum_merge', 'boolean', False, 'Add the finer features instead of concatenating them.'),
        Flag(
            'decoder_output_is_logits',
            'boolean',
            False,
            "Take the decoder's output as the logits; --decoder_filters must then be the number of classes.",
        ),
        Flag('logits_kernel_size', 'integer', 1, 'Kernel of the last convolution; not 1 only without ASPP.'),
        Flag(
            'prediction_with_upsampled_logits',
            'boolean',
            True,
            'Enlarge the logits before a class is chosen; false: enlarge the classes, which is faster.',
        ),
    ),
)

_AUGMENTATION = Group(
    'Random changes to training images',
    (
        Flag('min_scale_factor', 'float', 0.5, 'Smallest random factor on the size of an image.'),
        Flag('max_scale_factor', 'float', 2.0, 'Largest random factor on the size of an image.'),
        Flag(
            'scale_factor_step_size',
            'float',
            0.25,
            'About how far apart the possible factors are; 0: any factor in the range.',
        ),
        Flag(
            'jitter_brightness',
            'float',
            0.0,
            'Change how bright images are: by a random factor from 1 minus this to 1 plus this, such as 0.2. 0: off, '
            'here and below; deeplab preview draws what they do.',
        ),
        Flag('jitter_contrast', 'float', 0.0, 'Change the contrast of images, likewise.'),
        Flag('jitter_saturation', 'float', 0.0, 'Change how strong their colours are, likewise.'),
        Flag('jitter_hue', 'float', 0.0, 'Turn colours by up to this share of the colour circle, such as 0.02.'),
        Flag(
            'rotation_degrees',
            'float',
            0.0,
            'Turn images by up to this angle, either way. What comes into view from outside does not count.',
        ),
        Flag('blur_sigma', 'float', 0.0, 'Blur images with a Gaussian of up to this standard deviation in pixels.'),
        Flag('blur_probability', 'float', 0.5, 'Share of the images that --blur_sigma blurs.'),
        Flag('cutout_size', 'integer', 0, 'Hide squares of this many pixels a side; they do not count in the loss.'),
        Flag('cutout_count', 'integer', 1, 'How many squares --cutout_size hides.'),
        Flag(
            'rare_class_sampling',
            'float',
            0.0,
            'Share of the crops that are placed where a class is, the rarer in the split the more often, such as 0.5.',
        ),
    ),
)

_LABEL_WEIGHTS = Flag(
    'label_weights',
    'repeated float',
    None,
    'Weight of each class in the loss, the flag once for each class (or once for all); or auto: the rarer a class is '
    'in the training split, the more it weighs. It acts in training alone.',
    word='auto',
)

_LOSS = Group(
    'Loss',
    (
        Flag(
            'loss',
            'string',
            'softmax',
            'What training makes small: softmax, focal, dice, jaccard, lovasz or tversky, or a weighted sum of them '
            'such as softmax+0.5*dice.',
        ),
        _LABEL_WEIGHTS,
        Flag(
            'label_smoothing',
            'float',
            0.0,
            'Share of the truth of each pixel that all classes split evenly, in softmax and focal.',
        ),
        Flag('focal_gamma', 'float', 2.0, 'How fast the focal loss fades where the network is right already.'),
        Flag('tversky_alpha', 'float', 0.3, 'What a false alarm costs in the Tversky loss.'),
        Flag('tversky_beta', 'float', 0.7, 'What a miss costs in the Tversky loss.'),
        Flag('upsample_logits', 'boolean', True, "Enlarge the logits to the labels' size; false: shrink the labels."),
        Flag('top_k_percent_pixels', 'float', 1.0, 'Share of the pixels, the hardest ones, that count in the end.'),
        Flag('hard_example_mining_step', 'integer', 0, 'Step until which that share falls from 1; 0: at once.'),
        Flag('weight_decay', 'float', 0.00004, 'Factor of the penalty on convolution weights.'),
    ),
)

_INITIALIZE_LAST_LAYER = Flag(
    'initialize_last_layer',
    'boolean',
    True,
    'Take what is behind the backbone from that checkpoint too. False when the classes are others.',
)
_LAST_LAYERS_CONTAIN_LOGITS_ONLY = Flag(
    'last_layers_contain_logits_only',
    'boolean',
    False,
    'Only the logits count as "behind the backbone", here and for --initialize_last_layer.',
)

_CHECKPOINT_EXCLUDE_SCOPES = Flag(
    'checkpoint_exclude_scopes',
    'string',
    None,
    'Variables that begin with one of these names, with commas between them, are not taken from that checkpoint and '
    'start anew, such as logits or decoder,logits. Not set: none.',
)
_CHECKPOINT_RENAME_MAP = Flag(
    'checkpoint_rename_map',
    'string',
    None,
    'For a checkpoint with other variable names: old_prefix=new_prefix,... or a JSON or YAML file of such pairs. '
    'Names begin with the old one in the checkpoint and with the new one here; the longest counts. Not set: the '
    'names are the same.',
)

_OPTIMISATION = Group(
    'Optimisation',
    (
        Flag('training_number_of_steps', 'integer', 30000, 'Step at which training ends.'),
        Flag('train_batch_size', 'integer', 8, 'Images in one step, over all clones.'),
        Flag(
            'accumulation_steps',
            'integer',
            1,
            'Take the images of a step in this many equal parts, one after the other, and apply their mean gradient '
            'once: a batch for which the memory is too small. Batch norms see one part at a time.',
        ),
        Flag(
            'fine_tune_batch_norm',
            'boolean',
            True,
            'Let batch norms learn the statistics of this data. False for batches of fewer than about 12 images '
            'when you start from a checkpoint.',
        ),
        Flag(
            'optimizer',
            'enum',
            'momentum',
            'How gradients change the weights. adam has a constant rate of its own; all others follow the '
            'learning-rate flags below. With adamw, lars and lamb weight decay is part of the update, not of the loss.',
            options.OPTIMIZERS,
        ),
        Flag('momentum', 'float', 0.9, 'Momentum of momentum, rmsprop and lars.'),
        Flag('adam_learning_rate', 'float', 0.001, 'The constant learning rate of adam.'),
        Flag('adam_epsilon', 'float', 1e-8, 'The epsilon of adam, adamw and lamb.'),
        Flag('rmsprop_decay', 'float', 0.9, 'Share of the mean square gradient that stays in a step of rmsprop.'),
        Flag('rmsprop_epsilon', 'float', 1e-10, 'What rmsprop adds to the mean square gradient.'),
        Flag(
            'clip_gradient_norm',
            'float',
            None,
            'Make all gradients smaller, by one factor, where their norm (of all together) is larger than this. Not '
            'set: they stay as they are.',
        ),
        Flag(
            'learning_policy',
            'enum',
            'poly',
            'How the learning rate falls. polynomial is another word for poly.',
            options.LEARNING_POLICIES,
        ),
        Flag('base_learning_rate', 'float', 0.0001, 'Learning rate at the start.'),
        Flag('end_learning_rate', 'float', 0.0, 'Learning rate at the end of poly and cosine.'),
        Flag('learning_power', 'float', 0.9, 'Exponent of the poly policy.'),
        Flag('decay_steps', 'float', 0.0, 'Steps that poly and cosine take; 0: all steps after the slow start.'),
        Flag('learning_rate_decay_factor', 'float', 0.1, 'Factor of the policies step and exponential.'),
        Flag('learning_rate_decay_step', 'integer', 2000, 'Steps over which the rate changes by that factor.'),
        Flag('slow_start_step', 'integer', 0, 'Steps of slow start, before the policy begins.'),
        Flag('slow_start_learning_rate', 'float', 0.0001, 'Learning rate of the slow start.'),
        Flag(
            'slow_start_burnin_type',
            'enum',
            'none',
            'none: the slow start has one rate. linear: it climbs from there to --base_learning_rate.',
            options.SLOW_START_BURNIN_TYPES,
        ),
        Flag(
            'last_layer_gradient_multiplier', 'float', 1.0, 'Factor on the gradients of everything behind the backbone.'
        ),
        _LAST_LAYERS_CONTAIN_LOGITS_ONLY,
        Flag(
            'trainable_scopes',
            'string',
            None,
            'Only variables that begin with one of these names train, with commas between them, such as '
            'logits,aspp. All else stays as it is, the statistics of batch norms too. Not set: everything trains.',
        ),
        Flag('drop_path_keep_prob', 'float', 1.0, 'Share of the paths that a nas_* network keeps while it trains.'),
        Flag(
            'moving_average_decay',
            'float',
            None,
            'Keep a moving average of the weights too, of which this share stays in each step: 0.99 averages over '
            'about 100 steps, 0.9999 over 10000. eval, vis and export_model take it with --use_moving_average. Not '
            'set: none is kept.',
        ),
        Flag(
            'on_nan',
            'enum',
            'stop',
            'What follows a loss or gradient that is not finite: training stops; or the batch is left out with a line '
            'in the log, and training stops at the tenth in a row.',
            options.ON_NAN,
        ),
        _SEED,
    ),
)

_TRAIN_LOGS = Group(
    'Checkpoints and logs',
    (
        Flag(
            'train_logdir',
            'string',
            None,
            'Folder for checkpoints and logs. Training goes on from its last checkpoint.',
        ),
        Flag(
            'tf_initial_checkpoint',
            'string',
            None,
            'Checkpoint to start from, such as .../model.ckpt (without .index). It does nothing once --train_logdir '
            'holds a checkpoint.',
        ),
        _INITIALIZE_LAST_LAYER,
        _CHECKPOINT_EXCLUDE_SCOPES,
        Flag(
            'ignore_missing_vars',
            'boolean',
            True,
            'Let variables that the checkpoint lacks start anew, with a warning; false: refuse such a checkpoint. With '
            '--checkpoint_rename_map it is refused unless this flag is given.',
        ),
        _CHECKPOINT_RENAME_MAP,
        Flag(
            'save_interval_secs', 'integer', 1200, 'Seconds between two checkpoints; 0: the first and the last alone.'
        ),
        Flag('save_summaries_secs', 'integer', 600, 'Seconds between two summaries for TensorBoard; 0: none.'),
        Flag('save_summaries_images', 'boolean', False, 'Put images, labels and predictions into the summaries.'),
        Flag('log_steps', 'integer', 10, 'Steps between two lines of the log.'),
        Flag('profile_logdir', 'string', None, 'Folder for a profile of some steps; not set: none is made.'),
        Flag(
            'from',
            'string',
            None,
            'Repeat the run that this receipt (the run.json of a --train_logdir) tells of: its flags count, but for '
            'those that stand on this line, such as another --train_logdir; --NAME= with nothing behind it sets a flag '
            'to "not set" again. Not set: nothing is repeated.',
        ),
    ),
)

_VALIDATION = Group(
    'Validation while training',
    (
        Flag(
            'eval_split',
            'string',
            None,
            'Measure mIoU on this split while training, and keep the best checkpoint in TRAIN_LOGDIR/best; not set: '
            'no validation.',
        ),
        Flag('eval_every', 'integer', None, 'Steps between two such validations; the last step has one too.'),
        Flag(
            'eval_crop_size',
            'list',
            None,
            'Height and width, in pixels, that the network sees then; no image may be larger. Not set: the smallest '
            'good size that holds every image of the split.',
        ),
        Flag(
            'early_stop_evals',
            'integer',
            None,
            'End training after this many validations in a row without a better mIoU; not set: never.',
        ),
    ),
)

_MASTER = Flag('master', 'string', '', 'Address of the TensorFlow server that computes; empty: this process.')

_TRAIN_MACHINES = Group(
    'Machines',
    (
        Flag(
            'precision',
            'enum',
            'float32',
            'Type in which convolutions and activations compute: the shorter ones are faster and smaller on hardware '
            'that has them. Weights, checkpoints and the loss stay float32.',
            options.PRECISIONS,
        ),
        Flag('xla', 'boolean', False, 'Let XLA compile the network: a slower start, often faster steps.'),
        Flag('num_clones', 'integer', 1, 'Copies of the network, one a GPU, that share each batch evenly.'),
        Flag('clone_on_cpu', 'boolean', False, 'Put the copies on CPUs.'),
        _MASTER,
        Flag('num_replicas', 'integer', 1, 'Number of machines that train together.'),
        Flag('num_ps_tasks', 'integer', 0, 'Number of parameter servers; 0: none.'),
        Flag('task', 'integer', 0, 'Number of this machine among them.'),
        Flag('startup_delay_steps', 'integer', 15, 'Steps by which each machine starts after the one before.'),
    ),
)

_EVAL_SCALES = Flag(
    'eval_scales',
    'repeated float',
    [1.0],
    'Scales whose predictions are averaged, the flag once for each, such as 0.5, 0.75, ... 1.75.',
)
_INFERENCE_SCALES = dataclasses.replace(_EVAL_SCALES, name='inference_scales')
_ADD_FLIPPED_IMAGES = Flag(
    'add_flipped_images',
    'boolean',
    False,
    'Average over mirrored images too; it acts only where the scales are not 1.0 alone.',
)
_PREDICTION = Group('Scales and flips', (_EVAL_SCALES, _ADD_FLIPPED_IMAGES))

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


_UNUSED_HERE = Group('Accepted so that one set of flags fits all programs', (_LABEL_WEIGHTS,))

_EVAL_RESULTS = Group(
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

_VIS_RESULTS = Group(
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

_EXPORT_FILES = Group(
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

_EXPORT_SIZES = Group(
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
        *_RESIZE,
    ),
)


def _with_default(flag: Flag, name: str, default: Any) -> Flag:
    """`flag`; with another default if it is the one called `name`."""
    return dataclasses.replace(flag, default=default) if flag.name == name else flag


_LOG_FLAGS = (
    Flag('logtostderr', 'boolean', False, 'Accepted for old command lines: the log goes to standard error anyway.'),
    Flag('alsologtostderr', 'boolean', False, 'The same.'),
    Flag('v', 'integer', None, 'How much is logged: 1 more, 0 as usual, -1 warnings and errors alone.'),
    Flag('verbosity', 'integer', None, 'The same as --v.'),
    Flag('showprefixforinfo', 'boolean', True, 'Begin each line of the log with time and place.'),
    Flag('log_dir', 'string', None, 'Folder that gets a file with the log, too. Not set: no file.'),
    Flag(
        'stderrthreshold',
        'string',
        None,
        'Least severity that reaches standard error: info, warning, error or fatal, or 0 to 3. Not set: all that is '
        'logged.',
    ),
)
_LOG = Group('Log', _LOG_FLAGS)


_NUM_WORKERS = Flag('num_workers', 'integer', None, 'Threads that read and check files; not set: one a core.')

_BUILDER = Group(
    'Records',
    (
        Flag('num_shards', 'integer', None, "Files that each split becomes; not set: the data set's usual number."),
        _NUM_WORKERS,
        Flag('num_classes', 'integer', None, 'Refuse masks with ids beyond this many classes; not set: not checked.'),
        Flag('ignore_label', 'integer', 255, 'The id of pixels that do not count; always allowed in masks.'),
        _SEED,
    ),
)


def _builder_groups(*paths: Flag) -> tuple[Group, ...]:
    """The groups of a builder that reads and writes at `paths`."""
    formats = (
        Flag(
            'image_format',
            'enum',
            'png',
            'Extension of the image files; npy is for arrays [height, width, channels] of uint8 or uint16.',
            options.IMAGE_FORMATS,
        ),
        Flag('label_format', 'enum', 'png', 'Extension of the mask files.', options.LABEL_FORMATS),
    )
    return Group('Files', (*paths, *formats)), _BUILDER, _LOG


# --- From values to options ------------------------------------------------------------------------------------------


class Values:
    """The values of one command line, by flag name; a thin read-only view of absl's FlagValues.

    Attributes:
      words: the line itself, behind the program's name.
      notes: lines for the log, once there is one.
    """

    def __init__(self, values: flags.FlagValues, words: Sequence[str] = ()) -> None:
        self._values = values
        self.words = tuple(words)
        self.notes: list[str] = []

    def __getitem__(self, name: str) -> Any:
        return self._values[name].value

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def given(self, name: str) -> bool:
        """Whether the flag stands on the line."""
        return bool(self._values[name].present)

    def if_given(self, name: str) -> Any:
        """Its value, or None when it does not stand on the line."""
        return self[name] if self.given(name) else None

    def path(self, name: str) -> Any:
        """A path; `~`, which a shell leaves alone behind `=`, is the home folder."""
        value = self[name]
        return os.path.expanduser(value) if value else None

    def numbers(self, name: str) -> Any:
        """Several numbers as a tuple, or None where they are not set."""
        return None if self[name] is None else tuple(self[name])

    def size(self, name: str) -> Any:
        """Height and width, or None where they are not set, or set to nothing."""
        size = self.numbers(name) or None
        if size is not None and len(size) == 1:
            raise UsageError(
                f'--{name}={size[0]} is one number, but a size is height and width: write --{name}={size[0]},{size[0]}.'
            )
        options.check_size(name, size)
        return size

    def names(self, name: str) -> tuple[str, ...]:
        """Names with commas between them; none where they are not set."""
        return tuple(part.strip() for part in (self[name] or '').split(',') if part.strip())

    def above_zero(self, name: str) -> Any:
        """A number, or None where it is 0 or less, which means "not set"."""
        return self[name] if self[name] > 0 else None


def _model_of_dataset(values: Values, crop_flag: str) -> options.ModelOptions:
    """The network that the line describes, for the classes and channels of the data set on it."""
    dataset = descriptor.load(values.path('dataset'))
    return _model_options(values, dataset.num_classes, values.size(crop_flag), dataset.image_channels)


def _model_options(
    values: Values, num_classes: int, crop_size: tuple[int, int] | None, image_channels: int = 3
) -> options.ModelOptions:
    """The network that the line describes."""
    return options.ModelOptions(
        outputs_to_num_classes={common.OUTPUT_TYPE: num_classes},
        crop_size=crop_size,
        model_variant=values['model_variant'],
        output_stride=values['output_stride'],
        depth_multiplier=values['depth_multiplier'],
        divisible_by=values['divisible_by'],
        multi_grid=values.numbers('multi_grid'),
        image_pooling_crop_size=values.size('image_pooling_crop_size'),
        image_pooling_stride=values.size('image_pooling_stride'),
        image_pyramid=values.numbers('image_pyramid'),
        merge_method=values['merge_method'],
        prediction_with_upsampled_logits=values['prediction_with_upsampled_logits'],
        logits_kernel_size=values['logits_kernel_size'],
        use_bounded_activation=values['use_bounded_activation'],
        dense_prediction_cell_json=values.path('dense_prediction_cell_json'),
        # The default on paper (0.9997) is not what every part uses, so only a decay that is given counts.
        batch_norm_decay=values.if_given('batch_norm_decay'),
        quantize_delay_step=values['quantize_delay_step'] if values['quantize_delay_step'] >= 0 else None,
        input_channels=image_channels,
        aspp=_aspp_options(values),
        decoder=_decoder_options(values),
        nas=_nas_options(values),
    )


def _aspp_options(values: Values) -> options.AsppOptions:
    return options.AsppOptions(
        rates=values.numbers('atrous_rates') or (),
        filters=values['aspp_convs_filters'],
        image_level_feature=values['add_image_level_feature'],
        with_batch_norm=values['aspp_with_batch_norm'],
        with_concat_projection=values['aspp_with_concat_projection'],
        with_separable_conv=values['aspp_with_separable_conv'],
        with_squeeze_and_excitation=values['aspp_with_squeeze_and_excitation'],
        image_se_uses_qsigmoid=values['image_se_uses_qsigmoid'],
    )


def _decoder_options(values: Values) -> options.DecoderOptions:
    return options.DecoderOptions(
        output_strides=values.numbers('decoder_output_stride') or (),
        filters=values['decoder_filters'],
        use_separable_conv=values['decoder_use_separable_conv'],
        use_sum_merge=values['decoder_use_sum_merge'],
        output_is_logits=values['decoder_output_is_logits'],
    )


def _nas_options(values: Values) -> options.NasOptions:
    return options.NasOptions(
        stem_output_filters=values['nas_stem_output_num_conv_filters'],
        remove_os32_stride=values['nas_remove_os32_stride'],
        use_classification_head=values['nas_use_classification_head'],
        # Only train has these flags; elsewhere every path is kept.
        drop_path_keep_prob=values['drop_path_keep_prob'] if 'drop_path_keep_prob' in values else 1.0,
        total_training_steps=values['training_number_of_steps'] if 'training_number_of_steps' in values else None,
    )


def _dataset_options(values: Values, split_flag: str) -> options.DatasetOptions:
    return options.DatasetOptions(
        split=values[split_flag],
        directory=values.path('dataset_dir'),
        name=values.path('dataset'),
        skip_corrupt_records=values['skip_corrupt_records'],
    )


def _resize_options(values: Values) -> options.ResizeOptions:
    return options.ResizeOptions(values['min_resize_value'], values['max_resize_value'], values['resize_factor'])


def _wait_options(values: Values, rounds_flag: str) -> options.WaitOptions:
    return options.WaitOptions(
        interval_secs=values['eval_interval_secs'],
        max_rounds=values.above_zero(rounds_flag),
        timeout_secs=values['timeout_secs'],
    )


def _prediction_options(values: Values, scales_flag: str = 'eval_scales') -> options.PredictionOptions:
    return options.PredictionOptions(values.numbers(scales_flag), values['add_flipped_images'], scales_flag)


def _learning_rate_options(values: Values) -> options.LearningRateOptions:
    return options.LearningRateOptions(
        policy=values['learning_policy'],
        base=values['base_learning_rate'],
        decay_steps=values['decay_steps'] or None,
        end=values['end_learning_rate'],
        power=values['learning_power'],
        decay_factor=values['learning_rate_decay_factor'],
        decay_step=values['learning_rate_decay_step'],
        slow_start_steps=values['slow_start_step'],
        slow_start_rate=values['slow_start_learning_rate'],
        slow_start_burnin_type=values['slow_start_burnin_type'],
    )


def _optimizer_options(values: Values) -> options.OptimizerOptions:
    return options.OptimizerOptions(
        name=values['optimizer'],
        learning_rate=_learning_rate_options(values),
        momentum=values['momentum'],
        adam_learning_rate=values['adam_learning_rate'],
        adam_epsilon=values['adam_epsilon'],
        rmsprop_decay=values['rmsprop_decay'],
        rmsprop_epsilon=values['rmsprop_epsilon'],
        clip_gradient_norm=values['clip_gradient_norm'],
        weight_decay=values['weight_decay'],
        last_layer_gradient_multiplier=values['last_layer_gradient_multiplier'],
        last_layers_contain_logits_only=values['last_layers_contain_logits_only'],
        trainable_scopes=values.names('trainable_scopes'),
    )


def _restore_options(values: Values) -> options.RestoreOptions:
    # deeplab checkpoint shows what is missing, whatever training would say to it.
    has_missing = 'ignore_missing_vars' in values
    return options.RestoreOptions(
        exclude_scopes=values.names('checkpoint_exclude_scopes'),
        ignore_missing_vars=values.if_given('ignore_missing_vars') if has_missing else None,
        rename_map=values.path('checkpoint_rename_map'),
    )


def _loss_options(values: Values) -> options.LossOptions:
    label_weights = values.numbers('label_weights')
    is_auto = bool(label_weights) and label_weights[0] == _LABEL_WEIGHTS.word
    return options.LossOptions(
        formula=values['loss'],
        label_smoothing=values['label_smoothing'],
        focal_gamma=values['focal_gamma'],
        tversky_alpha=values['tversky_alpha'],
        tversky_beta=values['tversky_beta'],
        upsample_logits=values['upsample_logits'],
        label_weights=None if is_auto else label_weights,
        auto_label_weights=is_auto,
        top_k_percent_pixels=values['top_k_percent_pixels'],
        hard_example_mining_step=values['hard_example_mining_step'],
    )


def _clone_options(values: Values) -> options.CloneOptions:
    return options.CloneOptions(
        num_clones=values['num_clones'],
        clone_on_cpu=values['clone_on_cpu'],
        task=values['task'],
        num_replicas=values['num_replicas'],
        num_ps_tasks=values['num_ps_tasks'],
        master=values['master'],
        startup_delay_steps=values['startup_delay_steps'],
    )


def _validation_options(values: Values) -> options.ValidationOptions:
    return options.ValidationOptions(
        split=values['eval_split'] or None,
        every=values['eval_every'],
        crop_size=values.size('eval_crop_size'),
        early_stop=values['early_stop_evals'],
    )


# Flags whose value is a path; what training reads (some of it by another name too, which only its ending tells from a
# file), and what it writes.
_READ_PATHS = ('dataset_dir', 'tf_initial_checkpoint', 'dense_prediction_cell_json')
_READ_FILES = {'dataset': descriptor.PATH_SUFFIXES, 'checkpoint_rename_map': scopes.FILE_SUFFIXES}
_WRITTEN_PATHS = ('train_logdir', 'profile_logdir')


def _with_repeated(words: Sequence[str]) -> list[str]:
    """Lets the flags of the run that --from=FILE names stand before those of the line; one that it has wins.

    One that it has without a value, and that may be not set, stands on neither.
    """
    known = find_program('train').flags
    given = dict(normalised(words, known))
    if 'from' not in given:
        return list(words)
    unset = {name for name, value in given.items() if not value and name in known and known[name].default is None}
    run = receipt.load(os.path.expanduser(given['from']))
    if not run['command']:
        raise UsageError(f'--from={given["from"]}: that run was started from Python; there is no line to repeat.')
    repeated = [
        f'--{name}={_seen_from_here(name, value, run.get("folder", ""))}' if name in known else name
        for name, value in normalised(run['command'], known)
        if name not in given
    ]
    empty = {f'{dashes}{name}=' for name in unset for dashes in ('-', '--')}
    return [*repeated, *(word for word in words if word not in empty)]


def _seen_from_here(name: str, value: str, folder: str) -> str:
    """The value of a flag on a line that was given in `folder`: a relative path becomes one that leads there."""
    there = os.path.join(folder, os.path.expanduser(value))
    is_path = name in _WRITTEN_PATHS
    if name in _READ_PATHS or value.endswith(_READ_FILES.get(name, ())):
        is_path = os.path.exists(there) or os.path.exists(f'{there}.index')
    return there if value and is_path and folder != os.getcwd() else value


def _command(values: Values) -> tuple[str, ...]:
    """The line, what it repeats included, as flags that give the same again."""
    known = find_program('train').flags
    read = normalised(values.words, known)  # preview has flags beside those of train
    return tuple(f'--{name}={value}' for name, value in read if name in known and name != 'from')


def train_options(values: Values) -> options.TrainOptions:
    """The options of train."""
    return options.TrainOptions(
        model=_model_of_dataset(values, 'train_crop_size'),
        dataset=_dataset_options(values, 'train_split'),
        train_logdir=values.path('train_logdir'),
        resize=_resize_options(values),
        augment=options.AugmentOptions(**{flag.name: values[flag.name] for flag in _AUGMENTATION.flags}),
        optimizer=_optimizer_options(values),
        loss=_loss_options(values),
        clones=_clone_options(values),
        validation=_validation_options(values),
        batch_size=values['train_batch_size'],
        number_of_steps=values['training_number_of_steps'],
        fine_tune_batch_norm=values['fine_tune_batch_norm'],
        initial_checkpoint=values.path('tf_initial_checkpoint'),
        initialize_last_layer=values['initialize_last_layer'],
        restore=_restore_options(values),
        log_steps=values['log_steps'],
        save_interval_secs=values['save_interval_secs'] or None,
        save_summaries_secs=values['save_summaries_secs'] or None,
        save_summaries_images=values['save_summaries_images'],
        profile_logdir=values.path('profile_logdir'),
        seed=values['seed'],
        precision=values['precision'],
        xla=values['xla'],
        moving_average_decay=values['moving_average_decay'],
        accumulation_steps=values['accumulation_steps'],
        on_nan=values['on_nan'],
        command=_command(values),
        repeats=values.path('from'),
    )


def eval_options(values: Values) -> options.EvalOptions:
    """The options of eval."""
    return options.EvalOptions(
        model=_model_of_dataset(values, 'eval_crop_size'),
        dataset=_dataset_options(values, 'eval_split'),
        checkpoint_dir=values.path('checkpoint_dir'),
        eval_logdir=values.path('eval_logdir'),
        resize=_resize_options(values),
        prediction=_prediction_options(values),
        wait=_wait_options(values, 'max_number_of_evaluations'),
        batch_size=values['eval_batch_size'],
        master=values['master'],
        use_moving_average=values['use_moving_average'],
    )


def vis_options(values: Values) -> options.VisOptions:
    """The options of vis."""
    return options.VisOptions(
        model=_model_of_dataset(values, 'vis_crop_size'),
        dataset=_dataset_options(values, 'vis_split'),
        checkpoint_dir=values.path('checkpoint_dir'),
        vis_logdir=values.path('vis_logdir'),
        resize=_resize_options(values),
        prediction=_prediction_options(values),
        wait=_wait_options(values, 'max_number_of_iterations'),
        batch_size=values['vis_batch_size'],
        colormap_type=values.if_given('colormap_type'),
        also_save_raw_predictions=values['also_save_raw_predictions'],
        master=values['master'],
        use_moving_average=values['use_moving_average'],
    )


def export_options(values: Values) -> options.ExportOptions:
    """The options of export_model."""
    return options.ExportOptions(
        model=_model_options(values, values['num_classes'], values.size('crop_size'), values['image_channels']),
        checkpoint_path=values.path('checkpoint_path'),
        export_path=values.path('export_path'),
        resize=_resize_options(values),
        prediction=_prediction_options(values, 'inference_scales'),
        export_format=values['export_format'],
        save_inference_graph=values['save_inference_graph'],
        use_moving_average=values['use_moving_average'],
        image_bits=values['image_bits'],
    )


_PATH_FIELD = re.compile(r'(_folder|_dir|_root|^workdir)$')


def _plain_options(kind: type) -> Callable[[Values], Any]:
    """Returns a function that fills the options class `kind`, whose fields are named as the flags."""

    def value_of(values: Values, name: str) -> Any:
        # A folder that is left empty on the line stays the empty text: these fields are texts, never None.
        return values.path(name) or '' if _PATH_FIELD.search(name) else values[name]

    def to_options(values: Values) -> Any:
        return kind(**{field.name: value_of(values, field.name) for field in dataclasses.fields(kind)})

    return to_options


# --- The programs ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Program:
    """One program.

    Attributes:
      name: how `deeplab NAME` calls it.
      module: where its `run(options)` is; imported when the program runs.
      summary: what it does, in a line.
      example: flags of an example.
      groups: its flags.
      to_options: makes its options of the values of its flags.
      required: names of flags that must be given.
      aliases: other names.
      runs_others: whether its `run` takes a second argument, `run_program`.
      prepare: changes the words of a line before they are read.
      positional: name of the flag whose value may stand alone, as FILE in `deeplab checkpoint FILE`; empty for none.
    """

    name: str
    module: str
    summary: str
    example: str
    groups: tuple[Group, ...]
    to_options: Callable[[Values], Any]
    required: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    runs_others: bool = False
    positional: str = ''
    prepare: Callable[[Sequence[str]], list[str]] = list

    @property
    def flags(self) -> dict[str, Flag]:
        """Its flags by name."""
        return {flag.name: flag for group in self.groups for flag in group.flags}


_TRAIN = Program(
    name='train',
    module='deeplab.train',
    summary='Train a network on the records of a data set.',
    example='--dataset_dir=tfrecord --train_logdir=logs/train --train_crop_size=513,513 --train_batch_size=8',
    groups=(
        _data_group('train', 'train'),
        _AUGMENTATION,
        _NETWORK,
        _HEAD,
        _LOSS,
        _OPTIMISATION,
        _VALIDATION,
        _TRAIN_LOGS,
        _TRAIN_MACHINES,
        _LOG,
    ),
    to_options=train_options,
    required=('train_logdir', 'dataset_dir'),
    prepare=_with_repeated,
)


def preview_options(values: Values) -> options.PreviewOptions:
    """The options of preview."""
    folder = values.path('train_logdir') or '.'
    path = values.path('preview_path') or os.path.join(folder, PREVIEW_FILE)
    if path.endswith(os.sep) or os.path.isdir(path):
        path = os.path.join(path, PREVIEW_FILE)
    return options.PreviewOptions(
        train=train_options(values), path=path, images=values['preview_images'], samples=values['preview_samples']
    )


_PREVIEW = Program(
    name='preview',
    module='deeplab.preview',
    summary='Draw what training would see: records, what each random change does to them, whole samples.',
    example='--dataset_dir=tfrecord --train_crop_size=513,513 --rotation_degrees=10 --jitter_brightness=0.2',
    groups=(
        Group(
            'Preview; all flags of train may stand beside these',
            (
                Flag(
                    'preview_path',
                    'string',
                    None,
                    'File of the sheet, a PNG, or its folder. Not set: preview.png in --train_logdir, or where you '
                    'are without one.',
                ),
                Flag('preview_images', 'integer', 4, 'Records that are drawn with what each change does to them.'),
                Flag('preview_samples', 'integer', 8, 'Complete samples, from the first on, that are drawn.'),
            ),
        ),
        *_TRAIN.groups,
    ),
    to_options=preview_options,
    required=('dataset_dir',),
    prepare=_TRAIN.prepare,
)

_EVAL = Program(
    name='eval',
    module='deeplab.eval',
    summary='Measure checkpoints: mean IoU, and the IoU of each class.',
    example='--dataset_dir=tfrecord --checkpoint_dir=logs/train --eval_logdir=logs/eval --max_number_of_evaluations=1',
    groups=(
        _data_group(
            'eval', 'val', Flag('eval_batch_size', 'integer', 1, 'Images that go through the network together.')
        ),
        _EVAL_RESULTS,
        _PREDICTION,
        _NETWORK,
        _HEAD,
        Group('Machines', (_MASTER,)),
        _UNUSED_HERE,
        _LOG,
    ),
    to_options=eval_options,
    required=('checkpoint_dir', 'eval_logdir', 'dataset_dir'),
    aliases=('evaluate',),
)

_VIS = Program(
    name='vis',
    module='deeplab.vis',
    summary='Picture the predictions of a checkpoint.',
    example='--dataset_dir=tfrecord --checkpoint_dir=logs/train --vis_logdir=logs/vis --max_number_of_iterations=1',
    groups=(
        _data_group('vis', 'val', Flag('vis_batch_size', 'integer', 1, 'Images that go through the network together.')),
        _VIS_RESULTS,
        _PREDICTION,
        _NETWORK,
        _HEAD,
        Group('Machines', (_MASTER,)),
        _UNUSED_HERE,
        _LOG,
    ),
    to_options=vis_options,
    required=('checkpoint_dir', 'vis_logdir', 'dataset_dir'),
    aliases=('visualize', 'visualise'),
)

_BUILD_VOC = Program(
    name='build_voc2012_data',
    module='deeplab.datasets.build_voc2012_data',
    summary='Write records of a data set laid out as PASCAL VOC: images, masks, lists.',
    example='--image_folder=JPEGImages --image_format=jpg --list_folder=lists --output_dir=tfrecord',
    groups=_builder_groups(
        Flag('image_folder', 'string', './VOCdevkit/VOC2012/JPEGImages', 'Folder of the images.'),
        Flag(
            'semantic_segmentation_folder',
            'string',
            './VOCdevkit/VOC2012/SegmentationClassRaw',
            'Folder of the masks: PNG files whose grey value, or palette index, is the class.',
        ),
        Flag(
            'list_folder',
            'string',
            './VOCdevkit/VOC2012/ImageSets/Segmentation',
            'Folder of one SPLIT.txt for each split: a file name without extension a line.',
        ),
        Flag('output_dir', 'string', './tfrecord', 'Folder that gets the records.'),
    ),
    to_options=_plain_options(options.BuildVocOptions),
)

_BUILD_CITYSCAPES = Program(
    name='build_cityscapes_data',
    module='deeplab.datasets.build_cityscapes_data',
    summary='Write records of Cityscapes.',
    example='--cityscapes_root=cityscapes --output_dir=cityscapes/tfrecord',
    groups=_builder_groups(
        Flag('cityscapes_root', 'string', './cityscapes', 'Folder that holds leftImg8bit and gtFine.'),
        Flag('output_dir', 'string', './tfrecord', 'Folder that gets the records.'),
    ),
    to_options=_plain_options(options.BuildCityscapesOptions),
)

_ADE20K_ROOT = './ADE20K/ADEChallengeData2016'
_BUILD_ADE20K = Program(
    name='build_ade20k_data',
    module='deeplab.datasets.build_ade20k_data',
    summary='Write records of ADE20K.',
    example='--image_format=jpg --output_dir=ADE20K/tfrecord',
    groups=_builder_groups(
        Flag('train_image_folder', 'string', f'{_ADE20K_ROOT}/images/training', 'Folder of the training images.'),
        Flag('train_image_label_folder', 'string', f'{_ADE20K_ROOT}/annotations/training', 'Folder of their masks.'),
        Flag('val_image_folder', 'string', f'{_ADE20K_ROOT}/images/validation', 'Folder of the validation images.'),
        Flag('val_image_label_folder', 'string', f'{_ADE20K_ROOT}/annotations/validation', 'Folder of their masks.'),
        Flag('output_dir', 'string', './ADE20K/tfrecord', 'Folder that gets the records.'),
    ),
    to_options=_plain_options(options.BuildAde20kOptions),
)

_REMOVE_COLORMAP = Program(
    name='remove_gt_colormap',
    module='deeplab.datasets.remove_gt_colormap',
    summary='Turn masks with a colour palette into masks of plain class ids.',
    example='--original_gt_folder=SegmentationClass --output_dir=SegmentationClassRaw',
    groups=(
        Group(
            'Files',
            (
                Flag(
                    'original_gt_folder',
                    'string',
                    './VOCdevkit/VOC2012/SegmentationClass',
                    'Folder of the masks with a palette.',
                ),
                Flag('segmentation_format', 'string', 'png', 'Their extension.'),
                Flag(
                    'output_dir',
                    'string',
                    './VOCdevkit/VOC2012/SegmentationClassRaw',
                    'Folder that gets the plain masks, under the same names.',
                ),
                _NUM_WORKERS,
            ),
        ),
        _LOG,
    ),
    to_options=_plain_options(options.RemoveColormapOptions),
)

_JSON = Flag('json', 'boolean', False, 'Answer in JSON, for programs.')


def presets_options(values: Values) -> options.PresetsOptions:
    """The options of presets."""
    return options.PresetsOptions(values['name'], values['json'])


_PRESETS = Program(
    name='presets',
    module='deeplab.presets',
    summary='List the published checkpoints, and show how each is used.',
    example='mobilenetv2_coco_voc_trainaug',
    groups=(
        Group(
            'Presets',
            (Flag('name', 'string', None, 'The preset to show (--name= may be left away); not set: all.'), _JSON),
        ),
        _LOG,
    ),
    to_options=presets_options,
    aliases=('preset',),
    positional='name',
)

_CLASSES = Group(
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


def _model_of_classes(values: Values, crop_size: tuple[int, int] | None) -> options.ModelOptions:
    """The network that the line describes, for the classes and channels that it gives, itself or by a data set."""
    classes, channels = values['num_classes'], values['image_channels']
    if values['dataset'] and (classes is None or channels is None):
        dataset = descriptor.load(values.path('dataset'))
        classes = dataset.num_classes if classes is None else classes
        channels = dataset.image_channels if channels is None else channels
    return _model_options(values, 21 if classes is None else classes, crop_size, 3 if channels is None else channels)


def networks_options(values: Values) -> options.NetworksOptions:
    """The options of networks."""
    variant, stride = values.if_given('model_variant'), values.if_given('output_stride')
    return options.NetworksOptions(
        model=_model_of_classes(values, values.size('crop_size')),
        variants=variant and (variant,),
        output_strides=(stride,) if stride else (16, 8),
        prediction=_prediction_options(values, 'eval_scales'),
        json=values['json'],
    )


_NETWORKS = Program(
    name='networks',
    module='deeplab.networks',
    summary='List all networks, with parameters and multiply-adds counted from their graphs.',
    example='--model_variant=xception_65 --atrous_rates=6,12,18 --decoder_output_stride=4',
    groups=(
        Group(
            'Table',
            (
                Flag('crop_size', 'list', ['513', '513'], 'Height and width of the image that is counted for.'),
                _JSON,
            ),
        ),
        _CLASSES,
        _PREDICTION,
        _NETWORK,
        _HEAD,
        _LOG,
    ),
    to_options=networks_options,
)


def _spread_against(words: Sequence[str]) -> list[str]:
    """Lets --against be followed by flags, or hold them in quotes, or name a preset."""
    spread = []
    for word in words:
        name, equals, value = word.partition('=')
        if name.lstrip('-') != 'against' or not equals or value.lower() in ('true', 'false', '1', '0'):
            spread.append(word)
        elif value.startswith('-'):
            spread += ['--against', *shlex.split(value)]
        else:
            spread += ['--against', f'--preset={value}']
    return spread


def checkpoint_options(values: Values) -> options.CheckpointOptions:
    """The options of checkpoint."""
    names = [flag.name for group in (_NETWORK, _HEAD, _CLASSES) for flag in group.flags]
    names.append('checkpoint_exclude_scopes')
    is_asked = values['against'] or any(values.given(name) for name in names)
    takes_classes = values['num_classes'] is None and values['dataset'] is None
    only_logits = values['last_layers_contain_logits_only']
    return options.CheckpointOptions(
        file=values.path('file'),
        against=_model_of_classes(values, None) if is_asked else None,
        takes_classes=takes_classes,
        initialize_last_layer=values['initialize_last_layer'],
        last_layer_scopes=options.OptimizerOptions(last_layers_contain_logits_only=only_logits).last_layer_scopes,
        restore=_restore_options(values),
        presets=_preset_networks(),
        list_variables=values['variables'],
        json=values['json'],
    )


@functools.cache
def _preset_networks() -> dict[str, options.ModelOptions]:
    """The networks of the published checkpoints, by preset."""
    found = {}
    for name, preset in presets.all_presets().items():
        if not preset.is_backbone:
            values = parse_flags(_NETWORKS, [f'--preset={name}'])
            found[name] = _model_of_classes(values, values.size('crop_size'))
    return found


_CHECKPOINT = Program(
    name='checkpoint',
    module='deeplab.inspect_checkpoint',
    summary='Say what is in a checkpoint, which network it fits, and what another would take of it.',
    example='logs/train/model.ckpt-30000 --against --model_variant=mobilenet_v2 --num_classes=21',
    groups=(
        Group(
            'Checkpoint',
            (
                Flag(
                    'file',
                    'string',
                    None,
                    'A checkpoint, one of its files, or a folder, such as an unpacked archive, for its newest one '
                    '(--file= may be left away).',
                ),
                Flag('variables', 'boolean', True, 'List each variable with its shape.'),
                _JSON,
            ),
        ),
        Group(
            'Comparison with a network, the one that the flags from here on describe',
            (
                Flag(
                    'against',
                    'boolean',
                    False,
                    'Say what the network would take. Any flag of a network asks for it too, and --against=NAME '
                    'is --preset=NAME.',
                ),
                _INITIALIZE_LAST_LAYER,
                _LAST_LAYERS_CONTAIN_LOGITS_ONLY,
                _CHECKPOINT_EXCLUDE_SCOPES,
                _CHECKPOINT_RENAME_MAP,
            ),
        ),
        dataclasses.replace(
            _CLASSES, title='Classes; where neither is given, the network has as many as the checkpoint'
        ),
        _NETWORK,
        _HEAD,
        _LOG,
    ),
    to_options=checkpoint_options,
    required=('file',),
    positional='file',
    prepare=_spread_against,
)

_DEMO = Program(
    name='demo',
    module='deeplab.demo.demo',
    summary='Show the whole job in a few minutes: draw a data set, build, train, evaluate, picture.',
    example='--workdir=deeplab_demo',
    groups=(
        Group(
            'Demo',
            (
                Flag('workdir', 'string', './deeplab_demo', 'Folder that gets everything the demo makes.'),
                Flag('steps', 'integer', None, "Training steps; not set: the demo's own number."),
                _SEED,
            ),
        ),
        _LOG,
    ),
    to_options=_plain_options(options.DemoOptions),
    runs_others=True,
)

_EXPORT = Program(
    name='export_model',
    module='deeplab.export_model',
    summary='Turn a checkpoint into one file that runs without this package.',
    example='--checkpoint_path=logs/train/model.ckpt-30000 --export_path=frozen_inference_graph.pb --output_stride=16',
    groups=(
        _EXPORT_FILES,
        _EXPORT_SIZES,
        Group('Scales and flips', (_INFERENCE_SCALES, _ADD_FLIPPED_IMAGES)),
        Group('Network', tuple(_with_default(flag, 'output_stride', 8) for flag in _NETWORK.flags)),
        _HEAD,
        _UNUSED_HERE,
        _LOG,
    ),
    to_options=export_options,
    required=('checkpoint_path', 'export_path'),
    aliases=('export',),
)


def server_options(values: Values) -> options.ServerOptions:
    """The options of server."""
    return options.ServerOptions(
        values['job_name'], values['task'], values.names('worker_hosts') or (), values.names('ps_hosts') or ()
    )


_SERVER = Program(
    name='server',
    module='deeplab.server',
    summary='Serve as one machine of several that train together.',
    example='--job_name=ps --task=0 --ps_hosts=one:2222 --worker_hosts=one:2223,two:2223',
    groups=(
        Group(
            'Cluster',
            (
                Flag(
                    'job_name',
                    'enum',
                    'worker',
                    'What this server is: ps holds weights, worker computes.',
                    options.JOBS,
                ),
                Flag('task', 'integer', 0, 'Its number among the servers of its kind.'),
                Flag('worker_hosts', 'string', None, 'HOST:PORT of all that compute, with commas between them.'),
                Flag('ps_hosts', 'string', None, 'HOST:PORT of all that hold weights; not set: none.'),
            ),
        ),
        _LOG,
    ),
    to_options=server_options,
    required=('worker_hosts',),
)

PROGRAMS = (
    _DEMO,
    _BUILD_VOC,
    _BUILD_CITYSCAPES,
    _BUILD_ADE20K,
    _REMOVE_COLORMAP,
    _PREVIEW,
    _TRAIN,
    _EVAL,
    _VIS,
    _EXPORT,
    _NETWORKS,
    _CHECKPOINT,
    _PRESETS,
    _SERVER,
)

# Programs of the original that are still to come, and what they will do.
PLANNED = {
    'convert_to_tflite': 'converting an exported network to TensorFlow Lite',
    'eval_coco_format': 'evaluation in the COCO panoptic format',
}


# --- From words to values --------------------------------------------------------------------------------------------


def owners_of(name: str) -> list[str]:
    """Names of the programs that have a flag `name`."""
    return [program.name for program in PROGRAMS if name in program.flags]


def parse_flags(program: Program, words: Sequence[str]) -> Values:
    """Reads the words behind a program's name.

    Args:
      program: the program that is called.
      words: what stands behind its name on the line.

    Returns:
      The values of all its flags.

    Raises:
      UsageError: for anything that cannot be understood, with the mend.
    """
    values = flags.FlagValues()
    for flag in program.flags.values():
        _define(flag, values)
    values.set_gnu_getopt(True)
    try:
        # Flags may stand in a file, --flagfile=FILE, one a line.
        words = values.read_flags_from_files(list(words), force_gnu=True)
        words = program.prepare(without_undefined(words, program.flags))
        if program.positional:
            words = with_named(words, program.flags, program.positional)
        check_words(words, program.name, program.flags, owners_of)
        values([program.name, *words])
    except flags.Error as error:
        raise UsageError(str(error).removeprefix('ERROR:: ') + '.') from error
    parsed = Values(values, words)
    log_files.level_of(parsed['stderrthreshold'])
    if 'preset' in values and parsed['preset']:
        _apply_preset(parsed['preset'], program, values)
    _check_required(program, parsed)
    _apply_run(program, values, parsed)
    return parsed


def _apply_run(program: Program, values: flags.FlagValues, parsed: Values) -> None:
    """Gives network flags that neither the line nor its preset has those of the training that wrote the checkpoint."""
    path = next((parsed.path(name) for name in ('checkpoint_dir', 'checkpoint_path') if name in program.flags), None)
    beside = run_flags.run_beside(path) if path else None
    if beside is None:
        return
    file, run = beside
    try:
        trained = parse_flags(_TRAIN, run['command'])
    except UserError as error:
        parsed.notes.append(f'{file} has no flags that can be read here: {error}')
        return
    names = [flag.name for group in (_NETWORK, _HEAD) for flag in group.flags if trained.given(flag.name)]
    found = {name: trained[name] for name in names if name not in ('preset', 'batch_norm_decay')}
    if found.get('dense_prediction_cell_json'):
        cell = found['dense_prediction_cell_json']
        found['dense_prediction_cell_json'] = _seen_from_here(
            'dense_prediction_cell_json', cell, run.get('folder') or ''
        )
    found |= run_flags.facts_of_data(run)
    taken = []
    for name, value in found.items():
        if name in program.flags and not values[name].present and values[name].value != value:
            values[name].value = value
            shown = ','.join(str(part) for part in value) if isinstance(value, (list, tuple)) else value
            taken.append(f'--{name}={str(shown).lower() if isinstance(shown, bool) else shown}')
    if taken:
        parsed.notes.append(f'Taken from {file}, as neither the line nor a preset has them: {" ".join(taken)}')


def _apply_preset(name: str, program: Program, values: flags.FlagValues) -> None:
    """Gives the flags of a preset to those that do not stand on the line."""
    given = {flag: values[flag].value for flag in program.flags if values[flag].present}
    for flag, texts in presets.settings(presets.get(name), program.name, given).items():
        for text in texts if flag in values else ():
            values[flag].parse(text)


def _check_required(program: Program, values: Values) -> None:
    """Raises `UsageError` that names all required flags that are missing, and what each is."""
    missing = [program.flags[name] for name in program.required if not values[name]]
    if missing:
        shown = ' and '.join(
            f'--{flag.name} ({_lower_first(flag.meaning.partition(". ")[0]).rstrip(".")})' for flag in missing
        )
        raise UsageError(f'{program.name} needs {shown}.')


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


# --- Help ------------------------------------------------------------------------------------------------------------


def overview() -> str:
    """The text of `deeplab --help`."""
    width = max(len(program.name) for program in PROGRAMS)
    lines = ['DeepLab: semantic segmentation, from images and masks to a trained, measured and pictured network.', '']
    lines += ['Usage: deeplab PROGRAM --flag=value ...', '', 'Programs:']
    lines += [f'  {program.name:{width}}  {program.summary}' for program in PROGRAMS]
    lines += ['', 'deeplab PROGRAM --help lists the flags of a program; deeplab --version says which version this is.']
    lines += ['', 'Examples:', '  deeplab demo', f'  deeplab {_TRAIN.name} {_TRAIN.example}']
    return '\n'.join(lines)


def program_help(program: Program) -> str:
    """The text of `deeplab PROGRAM --help`."""
    lines = [f'deeplab {program.name}: {_lower_first(program.summary)}', '']
    lines += [f'Usage: deeplab {program.name} --flag=value ...', f'Example: deeplab {program.name} {program.example}']
    for group in program.groups:
        lines += ['', f'{group.title}:']
        for flag in group.flags:
            lines += _flag_help(flag, flag.name in program.required)
    return '\n'.join(lines)


def _flag_help(flag: Flag, is_required: bool) -> list[str]:
    """The lines of one flag."""
    shapes = {'string': 'TEXT', 'integer': 'N', 'float': 'X', 'enum': '|'.join(flag.choices), 'list': 'N,N'}
    shapes |= {'repeated integer': 'N', 'repeated float': 'X'}
    head = f'  --[no]{flag.name}' if flag.kind == 'boolean' else f'  --{flag.name}={shapes[flag.kind]}'
    if flag.kind.startswith('repeated'):
        head += ' (may be repeated)'
    text = f'{flag.meaning} {"Required." if is_required else _default_text(flag)}'.rstrip()
    return [head, *textwrap.wrap(text, HELP_WIDTH, initial_indent=' ' * 6, subsequent_indent=' ' * 6)]


def _default_text(flag: Flag) -> str:
    """Says what holds when the flag is not given."""
    if flag.default is None:
        return '' if 'not set' in flag.meaning.lower() else 'Default: not set.'
    if flag.kind == 'boolean':
        return f'Default: {str(flag.default).lower()}.'
    if flag.holds_numbers:
        return f'Default: {",".join(str(number) for number in flag.default)}.'
    return f'Default: {flag.default}.' if flag.default != '' else 'Default: empty.'


# --- Running a program -----------------------------------------------------------------------------------------------


def find_program(name: str) -> Program:
    """The program of that name; raises `UsageError` that says which there are."""
    plain = name.replace('-', '_').removesuffix('.py').rpartition('/')[2]
    for program in PROGRAMS:
        if plain == program.name or plain in program.aliases:
            return program
    if plain in PLANNED:
        raise UsageError(f'deeplab {plain} is not built yet: {PLANNED[plain]} is still to come.')
    names = [program.name for program in PROGRAMS]
    near = difflib.get_close_matches(plain.lower(), names, n=1)
    hint = f'Did you mean {near[0]}? ' if near else ''
    raise UsageError(f"Unknown program '{name}'. {hint}Known: {', '.join(names)}.")


def options_of(name: str, words: Sequence[str]) -> Any:
    """The options that a line gives: `options_of('train', ['--train_logdir=...', ...])`.

    Raises:
      UserError: for anything wrong with the line.
    """
    program = find_program(name)
    return program.to_options(parse_flags(program, words))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `deeplab ARGV...`.

    Args:
      argv: the words behind `deeplab`; None for those that this process was called with.

    Returns:
      The exit status: 0, 1 for an error while running, 2 for a line that cannot be understood, 128 and a signal's
      number where that ended it (130 for Ctrl-C).
    """
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, 'reconfigure'):
            stream.reconfigure(errors='backslashreplace')  # an output that takes ASCII alone gets escapes
    try:
        return _dispatch(words)
    except BrokenPipeError:
        # Whoever read our output has gone (`deeplab train --help | head`); nothing may be written at exit either.
        _drop_output()
        return 0
    except OutputError as error:
        return _fail('deeplab', error, ERROR_STATUS)


def _dispatch(words: Sequence[str]) -> int:
    """Answers calls for help, else runs a program."""
    name, *rest = words or ['--help']
    if name == 'help':
        name, *rest = [*rest, '--help']
    if name in HELP_WORDS:
        _say(overview())
        return 0 if words else USAGE_STATUS
    if name == '--version':
        _say(f'deeplab {deeplab.__version__}')
        return 0
    try:
        program = find_program(name)
    except UsageError as error:
        return _fail('deeplab', error, USAGE_STATUS)
    if any(word in HELP_WORDS for word in rest):
        _say(program_help(program))
        return 0
    try:
        values = parse_flags(program, rest)
        program_options = program.to_options(values)
    except UserError as error:
        return _fail(f'deeplab {program.name}', error, USAGE_STATUS)
    return _run(program, values, program_options)


def _run(program: Program, values: Values, program_options: Any) -> int:
    """Runs `program` and says what came out of it; returns the exit status."""
    try:
        start_logging(values)
        log_files.start(program.name, values.path('log_dir'), values['stderrthreshold'])
        for note in values.notes:
            logging.info('%s', note)
        with _without_import_chatter():
            run = importlib.import_module(program.module).run
        start.begin_to_run()
        with signals.raised():
            result = run(program_options, run_program) if program.runs_others else run(program_options)
    except UserError as error:
        if isinstance(error, OutputError) and error.report:
            _say(error.report)
        return _fail(f'deeplab {program.name}', error, ERROR_STATUS)
    except KeyboardInterrupt as error:
        return _fail(f'deeplab {program.name}', str(error) or 'interrupted', signals.status_of(error))
    report = _report(result)
    if report:
        _say(report)
    # A program that a signal stopped has done its duty, but whoever called it must be able to tell.
    return getattr(result, 'status', 0)


def run_program(name: str, words: Sequence[str]) -> Any:
    """Runs a program in this process as its command line would, report included, for a program that runs others.

    Raises:
      UserError: what is wrong with the line, or what the program raises.
    """
    program_options = options_of(name, words)
    with _without_import_chatter():
        run = importlib.import_module(find_program(name).module).run
    result = run(program_options)
    report = _report(result)
    if report:
        _say(report)
    return result


def start_logging(values: Values) -> None:
    """Sends the log to standard error, from level INFO on; and quiets the libraries' own chatter.

    This happens when a program runs, never at import: other users of this process keep their settings until then.
    """
    # Without a GPU, all that TensorFlow's C++ has to say (3: nothing less than fatal) is that there is none. With one,
    # its warnings (1) say why it is not used.
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '1' if os.path.exists(_NVIDIA_DRIVER) else '3')
    # Which of TensorFlow's functions are deprecated concerns this project, and its tests, but no user.
    standard_logging.getLogger('tensorflow').setLevel(standard_logging.ERROR)
    # absl's logging reads its flags from the global FLAGS; ours have values of their own (cli only hands them on).
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()
    logging.use_absl_handler()
    logging.get_absl_handler().python_handler.setStream(sys.stderr)
    logging.set_verbosity(logging.INFO)
    for flag in _LOG_FLAGS:
        if values.given(flag.name):
            setattr(flags.FLAGS, flag.name, values[flag.name])


@contextlib.contextmanager
def _without_import_chatter() -> Iterator[None]:
    """Holds standard error back during an import, and lets pass all but TensorFlow's C++ messages of level INFO.

    They come before any setting of theirs can be read, so this is the only place to stop them.
    """
    with contextlib.ExitStack() as stack:
        try:
            held = stack.enter_context(tempfile.TemporaryFile())
            stderr = os.dup(2)
        except OSError:  # there is no standard error, or no folder for temporary files
            held = None
        if held is None:
            yield
            return
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            held.seek(0)
            for line in held:
                with contextlib.suppress(OSError):
                    os.write(2, b'' if _IMPORT_CHATTER.match(line) else line)


def _report(result: Any) -> str:
    """What a program has to say at its end: its result's report, or what a builder wrote."""
    if not isinstance(result, Mapping):
        return getattr(result, 'report', '') or ''
    lines = [f'Written to {result["output_dir"]}:']
    for split, facts in result.get('splits', {}).items():
        masks = '' if facts['labelled'] else ', without masks'
        lines.append(f'  {split}: {facts["images"]} images in {facts["shards"]} shards{masks}')
    if 'masks' in result:
        lines.append(f'  {result["masks"]} masks')
    return '\n'.join(lines)


def _say(text: str) -> None:
    """Writes `text` on standard output; raises `OutputError` where that cannot be written, `BrokenPipeError` too."""
    try:
        print(names.printable(text), flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        _drop_output()
        raise OutputError(f'standard output cannot be written ({error.strerror}). Is the disk full?') from None


def _drop_output() -> None:
    """Lets what standard output still holds go nowhere: Python would try to write it once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(who: str, message: Any, status: int) -> int:
    """Writes an error on standard error; returns `status`."""
    with contextlib.suppress(OSError):  # the status tells where standard error cannot be written either
        print(names.printable(f'{who}: error: {message}'), file=sys.stderr, flush=True)
    return status
