"""Flags of training: loss, optimization, validation, checkpoints, machines."""

from __future__ import annotations

from collections.abc import Sequence

from deeplab import options
from deeplab.cli.data_flags import SEED
from deeplab.cli.links import each_with_summary, linked, parameters
from deeplab.cli.recipes import RECIPE
from deeplab.cli.words import Flag, Group
from deeplab.registry import LEARNING_POLICIES, LOSSES, OPTIMIZERS

LABEL_WEIGHTS = linked(
    'label_weights',
    'LossOptions.label_weights',
    'Loss weights of the classes, one flag per class (or a single one for all); auto: weights that are larger for '
    'classes that are rare in the training split. They have an effect in training only.',
    kind='repeated float',
    word='auto',
)
LABEL_WEIGHTS_POWER = linked(
    'label_weights_power',
    'LossOptions.label_weights_power',
    'Exponent of the weights of --label_weights=auto, above 0 and at most 1; 0.5: their square roots.',
)


def _loss() -> list[Flag]:
    """Returns --loss, which names all registered losses."""
    known = ', '.join(LOSSES.names())
    meaning = f'The training loss: {known}, or a weighted sum of several, such as softmax+0.5*dice.'
    return [linked('loss', 'LossOptions.formula', meaning)]


LOSS = Group(
    'Loss',
    (
        _loss,
        LABEL_WEIGHTS,
        LABEL_WEIGHTS_POWER,
        parameters('LossOptions'),
        linked(
            'upsample_logits',
            'LossOptions.upsample_logits',
            'Upsample the logits to the size of the labels; false: downsample the labels.',
        ),
        linked(
            'loss_stride',
            'LossOptions.stride',
            'Compute the loss at every n-th row and column of pixels only; 2 leaves a quarter of its time and memory. '
            '1: all pixels.',
        ),
        linked(
            'top_k_percent_pixels',
            'LossOptions.top_k_percent_pixels',
            'Hard example mining: fraction of the pixels, those with the highest loss, that the loss averages over; '
            '1.0: all pixels.',
        ),
        linked(
            'hard_example_mining_step',
            'LossOptions.hard_example_mining_step',
            'Step at which --top_k_percent_pixels is reached, falling linearly from 1; 0: from the start.',
        ),
        linked('weight_decay', 'OptimizerOptions.weight_decay', 'Weight decay of the convolution weights.'),
    ),
)
INITIALIZE_LAST_LAYER = linked(
    'initialize_last_layer',
    'TrainOptions.initialize_last_layer',
    'Also restore the last layers (all after the backbone) from the checkpoint. Set it to false if the classes differ.',
    also=('CheckpointOptions.initialize_last_layer',),
)
LAST_LAYERS_CONTAIN_LOGITS_ONLY = linked(
    'last_layers_contain_logits_only',
    'OptimizerOptions.last_layers_contain_logits_only',
    'Only the logits are last layers, for --last_layer_gradient_multiplier and --initialize_last_layer.',
)
CHECKPOINT_EXCLUDE_SCOPES = linked(
    'checkpoint_exclude_scopes',
    'RestoreOptions.exclude_scopes',
    'Comma-separated prefixes of variables that are not restored from the checkpoint but initialized, such as '
    'logits or decoder,logits. Not set: none.',
    kind='string',
)
CHECKPOINT_RENAME_MAP = linked(
    'checkpoint_rename_map',
    'RestoreOptions.rename_map',
    'For a checkpoint with other variable names: old_prefix=new_prefix,... or a JSON or YAML file of such pairs. The '
    'old prefix is that of the checkpoint, the new one that of the network; the longest match applies. Not set: the '
    'names are equal.',
    is_path=True,
)


def _learning_policy() -> list[Flag]:
    """Returns --learning_policy, which names all registered learning policies."""
    meaning = f'Learning rate schedule. {each_with_summary(LEARNING_POLICIES)}'
    return [linked('learning_policy', 'LearningRateOptions.policy', meaning, choices=LEARNING_POLICIES.names())]


_SCHEDULE = (
    _learning_policy,
    linked('base_learning_rate', 'LearningRateOptions.base', 'Initial learning rate.'),
    parameters('LearningRateOptions'),
    linked(
        'slow_start_step',
        'LearningRateOptions.slow_start_steps',
        'Number of slow start (warmup) steps before the schedule begins.',
    ),
    linked('slow_start_learning_rate', 'LearningRateOptions.slow_start_rate', 'Learning rate of the slow start.'),
    linked(
        'slow_start_burnin_type',
        'LearningRateOptions.slow_start_burnin_type',
        'none: the learning rate of the slow start is constant; linear: it rises to --base_learning_rate.',
        choices=options.SLOW_START_BURNIN_TYPES,
    ),
)


def _optimizer() -> list[Flag]:
    """Returns --optimizer, which names all registered optimizers."""
    records = OPTIMIZERS.records()
    constant = [record.name for record in records if record.learning_rate_parameter]
    has = (
        'has a constant learning rate of its own' if len(constant) == 1 else 'have constant learning rates of their own'
    )
    decoupled = [record.name for record in records if record.decouples_weight_decay]
    meaning = (
        f'The optimizer. {_and(constant)} {has}; all others follow the learning rate flags below. {_and(decoupled)} '
        'decouple weight decay from the loss.'
    )
    return [linked('optimizer', 'OptimizerOptions.name', meaning, choices=OPTIMIZERS.names())]


def _and(names: Sequence[str]) -> str:
    """Returns 'a, b and c'."""
    return ' and '.join(filter(None, (', '.join(names[:-1]), *names[-1:])))


OPTIMIZATION = Group(
    'Optimization',
    (
        RECIPE,
        linked(
            'training_number_of_steps',
            'TrainOptions.number_of_steps',
            'Number of training steps, those before a resume included.',
            also=('NasOptions.total_training_steps',),
        ),
        linked('train_batch_size', 'TrainOptions.batch_size', 'Images per step, over all clones.'),
        linked(
            'accumulation_steps',
            'TrainOptions.accumulation_steps',
            'Gradient accumulation: process the batch of a step in this many equal micro-batches and apply their mean '
            'gradient once, if the whole batch does not fit into memory. Batch norms see one micro-batch at a time.',
        ),
        linked(
            'fine_tune_batch_norm',
            'TrainOptions.fine_tune_batch_norm',
            'Train the batch norms and update their statistics. Set it to false for batches of fewer than about 12 '
            'images if you start from a checkpoint.',
        ),
        _optimizer,
        parameters('OptimizerOptions'),
        linked(
            'clip_gradient_norm',
            'OptimizerOptions.clip_gradient_norm',
            'Clip the global L2 norm of the gradients to this value. Not set: no clipping.',
        ),
        *_SCHEDULE,
        linked(
            'last_layer_gradient_multiplier',
            'OptimizerOptions.last_layer_gradient_multiplier',
            'Multiplier of the gradients of the last layers (all after the backbone).',
        ),
        LAST_LAYERS_CONTAIN_LOGITS_ONLY,
        linked(
            'trainable_scopes',
            'OptimizerOptions.trainable_scopes',
            'Comma-separated prefixes of the variables to train, such as logits,aspp. All others are frozen, including '
            'their batch norm statistics. Not set: all variables train.',
            kind='string',
        ),
        linked(
            'drop_path_keep_prob',
            'NasOptions.drop_path_keep_prob',
            'Probability that a nas_* network keeps a path during training.',
        ),
        linked(
            'moving_average_decay',
            'TrainOptions.moving_average_decay',
            'Keep an exponential moving average (EMA) of the weights with this decay: 0.99 averages over about 100 '
            'steps, 0.9999 over 10000. Other programs then use it in place of the weights. Not set: no EMA.',
        ),
        linked(
            'on_nan',
            'TrainOptions.on_nan',
            'What to do about a loss or gradient that is not finite. stop: training stops; skip: the batch is skipped '
            'with a warning, and training stops at the tenth in a row.',
            choices=options.ON_NAN,
        ),
        SEED,
    ),
)
TRAIN_LOGS = Group(
    'Checkpoints and logs',
    (
        linked(
            'train_logdir',
            'TrainOptions.train_logdir',
            'Folder for checkpoints and logs. Training resumes from the newest checkpoint in it.',
            is_path=True,
        ),
        linked(
            'tf_initial_checkpoint',
            'TrainOptions.initial_checkpoint',
            'Checkpoint to start from, such as .../model.ckpt (without .index). Ignored if --train_logdir contains a '
            'checkpoint.',
            is_path=True,
        ),
        INITIALIZE_LAST_LAYER,
        CHECKPOINT_EXCLUDE_SCOPES,
        Flag(
            'ignore_missing_vars',
            'boolean',
            True,  # of the original's flag; None in the options, for "unless there is a rename map"
            'Initialize variables that the checkpoint lacks, with a warning; false: refuse such a checkpoint. With '
            '--checkpoint_rename_map the default is false.',
            fields=('RestoreOptions.ignore_missing_vars',),
        ),
        CHECKPOINT_RENAME_MAP,
        linked(
            'save_interval_secs',
            'TrainOptions.save_interval_secs',
            'Seconds between two checkpoints; 0: only the first and the last.',
            kind='integer',
        ),
        linked(
            'save_summaries_secs',
            'TrainOptions.save_summaries_secs',
            'Seconds between two TensorBoard summaries; 0: none.',
            kind='integer',
        ),
        linked(
            'save_summaries_images',
            'TrainOptions.save_summaries_images',
            'Include images, labels and predictions in the summaries.',
        ),
        linked('log_steps', 'TrainOptions.log_steps', 'Number of steps between two log messages.'),
        linked(
            'profile_logdir',
            'TrainOptions.profile_logdir',
            'Folder for a profile of some steps. Not set: no profile.',
            is_path=True,
        ),
        linked(
            'from',
            'TrainOptions.repeats',
            'Repeat the run of this run manifest (run.json in its --train_logdir) with the same flags. Flags given on '
            'the command line override them, such as another --train_logdir; --NAME= without a value resets a flag to '
            '"not set". Not set: no run is repeated.',
            is_path=True,
        ),
    ),
)
VALIDATION = Group(
    'Validation during training',
    (
        linked(
            'eval_split',
            'ValidationOptions.split',
            'Split on which mIoU is measured during training; the best checkpoint is kept in TRAIN_LOGDIR/best. Not '
            'set: no validation.',
        ),
        linked(
            'eval_every',
            'ValidationOptions.every',
            'Number of steps between two validations; there is also one after the last step.',
        ),
        linked(
            'eval_crop_size',
            'ValidationOptions.crop_size',
            'Height and width, in pixels, of the input of the network in validation; no image may be larger. Not set: '
            'the smallest suitable size that holds every image of the split.',
            kind='list',
        ),
        linked(
            'early_stop_evals',
            'ValidationOptions.early_stop',
            'Early stopping: end training after this many consecutive validations without a better mIoU. Not set: '
            'never.',
        ),
    ),
)
MASTER = linked(
    'master',
    'CloneOptions.master',
    'Address of the TensorFlow server to compute on; empty: this process.',
    also=('EvalOptions.master', 'VisOptions.master'),
)
# Read by `early.limit_threads`, before TensorFlow is imported.
NUM_THREADS = Flag(
    'num_threads',
    'integer',
    None,
    'Number of threads that compute, to run several programs at the same time. Not set: one per core.',
)
TRAIN_MACHINES = Group(
    'Machines',
    (
        linked(
            'precision',
            'TrainOptions.precision',
            'Data type of convolutions and activations: 16-bit types need less memory and are faster on hardware that '
            'supports them. Weights, checkpoints and the loss stay float32.',
            choices=options.PRECISIONS,
        ),
        linked('xla', 'TrainOptions.xla', 'Compile the network with XLA: a slower start, often faster steps.'),
        linked(
            'num_clones',
            'CloneOptions.num_clones',
            'Number of clones of the network, one per GPU, that share each batch.',
        ),
        linked('clone_on_cpu', 'CloneOptions.clone_on_cpu', 'Place the clones on CPUs.'),
        NUM_THREADS,
        MASTER,
        linked('num_replicas', 'CloneOptions.num_replicas', 'Number of machines that train together.'),
        linked('num_ps_tasks', 'CloneOptions.num_ps_tasks', 'Number of parameter servers; 0: none.'),
        linked('task', 'CloneOptions.task', 'Index of this machine among the --num_replicas, from 0.'),
        linked(
            'startup_delay_steps',
            'CloneOptions.startup_delay_steps',
            'Machine k starts to train once this many times k steps are done.',
        ),
    ),
)
UNUSED_HERE = Group('Accepted so that the same flags can be passed to all programs', (LABEL_WEIGHTS,))
