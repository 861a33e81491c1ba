"""Flags of training: loss, optimization, validation, checkpoints, machines."""

from __future__ import annotations

from deeplab.cli.links import flag_of, of
from deeplab.cli.recipes import RECIPE
from deeplab.cli.words import Flag, Group
from deeplab.options import (
    CloneOptions,
    LearningRateOptions,
    LossOptions,
    NasOptions,
    OptimizerOptions,
    RestoreOptions,
    TrainOptions,
    ValidationOptions,
)

LABEL_WEIGHTS = flag_of(LossOptions, 'label_weights')
LOSS = Group('Loss', (of(LossOptions), of(OptimizerOptions, 'weight_decay')))
# Fields of TrainOptions by the heading of their flags; all others are about optimization.
_LOGS = ('train_logdir', 'initial_checkpoint', 'initialize_last_layer')
_SAVED = (
    'save_interval_secs',
    'save_summaries_secs',
    'save_summaries_images',
    'log_steps',
    'profile_logdir',
    'repeats',
)
_MACHINES = ('precision', 'xla')
OPTIMIZATION = Group(
    'Optimization',
    (
        RECIPE,
        of(TrainOptions, without=[*_LOGS, *_SAVED, *_MACHINES]),
        of(OptimizerOptions, without=['weight_decay']),
        of(LearningRateOptions),
        of(NasOptions, 'drop_path_keep_prob'),
    ),
)
TRAIN_LOGS = Group('Checkpoints and logs', (of(TrainOptions, *_LOGS), of(RestoreOptions), of(TrainOptions, *_SAVED)))
VALIDATION = Group('Validation during training', (of(ValidationOptions),))
# Read by `early.limit_threads`, before TensorFlow is imported.
NUM_THREADS = Flag(
    'num_threads',
    'integer',
    None,
    'Number of threads that compute, to run several programs at the same time. Not set: one per core.',
)
TRAIN_MACHINES = Group('Machines', (of(TrainOptions, *_MACHINES), NUM_THREADS, of(CloneOptions)))
UNUSED_HERE = Group('Accepted so that the same flags can be passed to all programs', (LABEL_WEIGHTS,))
