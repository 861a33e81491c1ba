"""Flags of evaluation, visualization, prediction and export."""

from __future__ import annotations

from deeplab.cli.data_flags import RESIZE
from deeplab.cli.links import flag_of, of
from deeplab.cli.training_flags import NUM_THREADS
from deeplab.cli.words import Entry, Flag, Group
from deeplab.options import (
    ConversionOptions,
    EngineOptions,
    EvalOptions,
    ExportOptions,
    FetchOptions,
    ModelOptions,
    PredictionOptions,
    PredictOptions,
    PredictorOptions,
    ProofOptions,
    VisOptions,
    WaitOptions,
    WindowOptions,
)

PREDICTION = Group('Scales and flips', (of(PredictionOptions),))
WINDOWS = Group('Large images', (of(WindowOptions),))
_EVAL_RESULTS = ('checkpoint_dir', 'all_checkpoints', 'use_moving_average', 'eval_logdir')
_OUTSIDE = ('master', 'batch_size')  # fields with flags in the groups of the machine and of the data


def _wait(rounds: str, meaning: str) -> tuple[Entry, ...]:
    """Returns the flags that say how a program waits for checkpoints; `rounds` names the limit of their number."""
    return (
        of(WaitOptions, without=['max_rounds']),
        flag_of(WaitOptions, 'max_rounds', name=rounds, meaning=f'{meaning}; 0: wait for new ones forever.'),
    )


def engine_group(*first: Entry) -> Group:
    """Returns the flags of the engine, after the flags of the machine."""
    return Group('Machines and engines', (*first, of(EngineOptions), NUM_THREADS))


METRIC_FLAGS = Group('Metrics', (of(EvalOptions, without=[*_EVAL_RESULTS, *_OUTSIDE]),))
EVAL_RESULTS = Group(
    'Checkpoints and results',
    (
        of(EvalOptions, *_EVAL_RESULTS),
        *_wait('max_number_of_evaluations', 'Number of checkpoints to evaluate'),
    ),
)
VIS_RESULTS = Group(
    'Checkpoints and results',
    (of(VisOptions, without=_OUTSIDE), *_wait('max_number_of_iterations', 'Number of checkpoints to visualize')),
)
EXPORT_FILES = Group('Checkpoint and export', (of(ExportOptions, without=['image_bits']),))
EXPORT_SIZES = Group(
    'Classes, sizes and channels',
    (
        Flag(
            'num_classes',
            'integer',
            21,  # of the original's flag; the options have no default
            'Number of classes of the checkpoint.',
            fields=('ModelOptions.outputs_to_num_classes',),
        ),
        flag_of(ModelOptions, 'input_channels', name='image_channels'),
        of(ExportOptions, 'image_bits'),
        flag_of(
            ModelOptions,
            'crop_size',
            name='crop_size',
            kind='repeated integer',
            default=[513, 513],  # of the original's flag; a network of unknown size has None in the options
            meaning='Height and width, in pixels, of the largest image that the export accepts: 513,513, or one flag '
            'for each.',
        ),
        *RESIZE,
    ),
)
EXPORT_CONVERSION = Group('Conversion to tflite, onnx and openvino; layout of saved_model', (of(ConversionOptions),))
EXPORT_PROOF = Group('Comparison with the checkpoint', (of(ProofOptions),))
PREDICT_FILES = Group(
    'Images and results',
    (of(PredictOptions, without=['checkpoint_dir', 'export_path']), of(PredictorOptions, 'classes')),
)
_SIZES = ('crop_size', 'batch_size')
PREDICT_NETWORK = Group(
    'Network: one of --checkpoint_dir, --export_path and --preset',
    (
        of(PredictOptions, 'checkpoint_dir', 'export_path'),
        of(FetchOptions),
        of(PredictorOptions, without=['classes', *_SIZES]),
    ),
)
PREDICT_SIZES = Group(
    'Sizes',
    (
        of(PredictorOptions, *_SIZES),
        flag_of(
            WindowOptions,
            'window',
            meaning='Height and width of the overlapping windows in which a larger image is predicted, such as '
            '513,513. Not set: 513,513, or --eval_crop_size, for images of more than 4,194,304 pixels.',
        ),
        of(WindowOptions, without=['window']),
        *RESIZE,
    ),
)
