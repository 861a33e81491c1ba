"""Flags of training: loss, optimization, validation, checkpoints, machines."""

from __future__ import annotations

from deeplab import options
from deeplab.cli.data_flags import SEED
from deeplab.cli.words import (
    Flag,
    Group,
)

LABEL_WEIGHTS = Flag(
    'label_weights',
    'repeated float',
    None,
    'Weight of each class in the loss, the flag once for each class (or once for all); or auto: the rarer a class is '
    'in the training split, the more it weighs. It acts in training alone.',
    word='auto',
)
LOSS = Group(
    'Loss',
    (
        Flag(
            'loss',
            'string',
            'softmax',
            'What training makes small: softmax, focal, dice, jaccard, lovasz or tversky, or a weighted sum of them '
            'such as softmax+0.5*dice.',
        ),
        LABEL_WEIGHTS,
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
INITIALIZE_LAST_LAYER = Flag(
    'initialize_last_layer',
    'boolean',
    True,
    'Take what is behind the backbone from that checkpoint too. False when the classes are others.',
)
LAST_LAYERS_CONTAIN_LOGITS_ONLY = Flag(
    'last_layers_contain_logits_only',
    'boolean',
    False,
    'Only the logits count as "behind the backbone", here and for --initialize_last_layer.',
)
CHECKPOINT_EXCLUDE_SCOPES = Flag(
    'checkpoint_exclude_scopes',
    'string',
    None,
    'Variables that begin with one of these names, with commas between them, are not taken from that checkpoint and '
    'start anew, such as logits or decoder,logits. Not set: none.',
)
CHECKPOINT_RENAME_MAP = Flag(
    'checkpoint_rename_map',
    'string',
    None,
    'For a checkpoint with other variable names: old_prefix=new_prefix,... or a JSON or YAML file of such pairs. '
    'Names begin with the old one in the checkpoint and with the new one here; the longest counts. Not set: the '
    'names are the same.',
)
OPTIMISATION = Group(
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
        LAST_LAYERS_CONTAIN_LOGITS_ONLY,
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
        SEED,
    ),
)
TRAIN_LOGS = Group(
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
        INITIALIZE_LAST_LAYER,
        CHECKPOINT_EXCLUDE_SCOPES,
        Flag(
            'ignore_missing_vars',
            'boolean',
            True,
            'Let variables that the checkpoint lacks start anew, with a warning; false: refuse such a checkpoint. With '
            '--checkpoint_rename_map it is refused unless this flag is given.',
        ),
        CHECKPOINT_RENAME_MAP,
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
VALIDATION = Group(
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
MASTER = Flag('master', 'string', '', 'Address of the TensorFlow server that computes; empty: this process.')
TRAIN_MACHINES = Group(
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
        MASTER,
        Flag('num_replicas', 'integer', 1, 'Number of machines that train together.'),
        Flag('num_ps_tasks', 'integer', 0, 'Number of parameter servers; 0: none.'),
        Flag('task', 'integer', 0, 'Number of this machine among them.'),
        Flag('startup_delay_steps', 'integer', 15, 'Steps by which each machine starts after the one before.'),
    ),
)
UNUSED_HERE = Group('Accepted so that one set of flags fits all programs', (LABEL_WEIGHTS,))
