"""What is hardly meant, said before the first step: one line for each finding, with the mend.

Everything here may be right all the same, so nothing is refused. What cannot work is refused elsewhere, before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from absl import logging

from deeplab import common
from deeplab.core import checkpoints
from deeplab.core.backbones import registry
from deeplab.datasets import label_checks
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.datasets.record_check import Verdict
from deeplab.options import TrainOptions

# Fewer images in a clone's batch give statistics that are worse than a checkpoint's own (Flag fine_tune_batch_norm).
SMALLEST_BATCH_FOR_STATISTICS = 12
# The published momentum rate, and the batch that it was for (arXiv:1802.02611, section 4).
PUBLISHED_RATE, PUBLISHED_BATCH = 0.007, 16
RATE_TOLERANCE = 2.0  # times the published rate, scaled to the batch
LARGEST_ADAM_RATE = 0.01
SMALLEST_LARS_RATE = 0.05

_LOGITS_WEIGHTS = f'{common.LOGITS_SCOPE}/{common.OUTPUT_TYPE}/weights'


def warn(options: TrainOptions, descriptor: DatasetDescriptor, verdict: Verdict) -> None:
    """Warns of what `label_checks.labels`, `batch_norm` and `learning_rate` find."""
    findings = label_checks.labels(descriptor, verdict, options.dataset.split, options.loss)
    for line in (*findings, *batch_norm(options), *learning_rate(options)):
        logging.warning('%s', line)


def warn_of_restore(options: TrainOptions, variables: Iterable[str]) -> None:
    """Warns of what `backbone` and `last_layers` find in the initial checkpoint.

    Args:
      options: of the training.
      variables: names of the network's variables.

    Raises:
      CheckpointError: there is no such checkpoint, or it cannot be read.
    """
    if not options.initial_checkpoint or options.restore.rename_map:  # with a map, what is missing is refused
        return
    names, held = list(variables), checkpoints.entries(options.initial_checkpoint)
    found = backbone(options, names, held)
    if options.initialize_last_layer and not options.restore.exclude_scopes:  # else the user knows what comes
        found += last_layers(options, names, held)
    for line in found:
        logging.warning('%s', line)


def batch_norm(options: TrainOptions) -> list[str]:
    """What to say of batch norms that take their statistics from few images, and lose those of a checkpoint."""
    batch = options.clone_batch_size
    learn = options.fine_tune_batch_norm and not options.optimizer.trainable_scopes  # others keep theirs, or are meant
    if not (options.initial_checkpoint and learn and batch < SMALLEST_BATCH_FOR_STATISTICS):
        return []
    clones, parts = options.clones.num_clones, options.accumulation_steps
    each = f'{batch} images' if clones == 1 else f'{batch} images in each of {clones} clones'
    each += f' at a time (--accumulation_steps={parts})' if parts > 1 else ''
    return [
        f'--fine_tune_batch_norm=true takes statistics from {each}, which is too few to better those of the initial '
        'checkpoint. Set --fine_tune_batch_norm=false, or --train_batch_size='
        f'{SMALLEST_BATCH_FOR_STATISTICS * clones * parts} or more.'
    ]


def learning_rate(options: TrainOptions) -> list[str]:
    """What to say of a learning rate beyond what the batch stands.

    Source: arXiv:1706.02677, section 2.1 (a rate in proportion to the batch).
    """
    optimizer = options.optimizer
    if optimizer.name == 'adam' and optimizer.adam_learning_rate > LARGEST_ADAM_RATE:
        return [
            f'--adam_learning_rate={optimizer.adam_learning_rate:g} is more than Adam usually stands. Should the loss '
            'jump or not fall, try 0.001.'
        ]
    rate, batch = optimizer.learning_rate.base, options.batch_size
    if optimizer.name in ('adamw', 'lamb') and rate > LARGEST_ADAM_RATE:
        return [
            f'--base_learning_rate={rate:g} is more than {optimizer.name} usually stands. Should the loss jump or not '
            'fall, try 0.001.'
        ]
    if optimizer.name == 'lars' and rate < SMALLEST_LARS_RATE:
        return [
            f'--base_learning_rate={rate:g} is little for lars, whose steps move a layer by a thousandth of its norm '
            'times the rate. Should the loss not fall, try 2.'
        ]
    known = PUBLISHED_RATE * batch / PUBLISHED_BATCH
    if optimizer.name != 'momentum' or rate <= RATE_TOLERANCE * known:
        return []
    return [
        f'--base_learning_rate={rate:g} is {rate / known:.2g} times what is known to work with a batch of {batch}: '
        f'{known:.2g}, in proportion to the published {PUBLISHED_RATE:g} for a batch of {PUBLISHED_BATCH}. Should the '
        'loss jump or not fall, try that.'
    ]


def backbone(options: TrainOptions, variables: Sequence[str], held: Collection[str]) -> list[str]:
    """What to say of an initial checkpoint with some of the network's variables, but none of its backbone's.

    Networks share the names of what stands behind their backbones, so some of another network's always fit.

    Args:
      options: of the training.
      variables: names of the network's variables.
      held: names of what the checkpoint holds.
    """
    variant = options.model.model_variant
    scope = registry.get(variant).scope
    ours = {name for name in variables if name.startswith(f'{scope}/')}
    excluded = {name for name in ours if name.startswith(options.restore.exclude_scopes)}
    if ours == excluded or not ours.isdisjoint(held) or set(variables).isdisjoint(held):
        return []
    there = {name.partition('/')[0] for name in held}
    known = [name for name in registry.names() if registry.get(name).scope in there]
    mend = 'Set the --model_variant that the checkpoint was made with (deeplab checkpoint FILE tells)'
    if known:
        has = ' and '.join(sorted({registry.get(name).scope for name in known}))
        mend = f'The checkpoint has {has}, which is --model_variant={" or ".join(known)}. Set that'
    return [
        f'Nothing of the backbone {variant} is in the initial checkpoint, so all of it starts anew. {mend}, or name '
        f'{scope} in --checkpoint_exclude_scopes if this is meant.'
    ]


def last_layers(options: TrainOptions, variables: Sequence[str], held: Mapping[str, checkpoints.Entry]) -> list[str]:
    """What to say of last layers that an initial checkpoint is to fill but cannot.

    A checkpoint of a backbone alone has none, and nothing is said of it.

    Args:
      options: of the training; `initialize_last_layer` is set.
      variables: names of the network's variables.
      held: what the checkpoint holds.
    """
    scopes = tuple(f'{scope}' for scope in common.LAST_LAYER_SCOPES)
    ours = [name for name in variables if name.startswith(scopes)]
    there = {name for name in held if name.startswith(scopes)}
    if not there:
        return []
    found = []
    classes = held[_LOGITS_WEIGHTS].shape[-1] if _LOGITS_WEIGHTS in held else None
    if classes is not None and classes != options.model.num_classes:
        found.append(
            f'The logits are not restored: the initial checkpoint has {classes} classes, the data set '
            f'{options.model.num_classes}. That is right for other classes; say so with --initialize_last_layer=false '
            '(all behind the backbone starts anew), with --last_layers_contain_logits_only beside it the logits alone.'
        )
    missing = [name for name in ours if name not in there]
    if missing:
        found.append(
            f'The initial checkpoint has another head: {len(missing)} of {len(ours)} variables behind the backbone are '
            f'not in it and start anew ({checkpoints.shortened(missing, 3)}). Give the flags that it was trained with '
            '(--atrous_rates, --decoder_output_stride, ...: deeplab checkpoint FILE tells), or '
            '--initialize_last_layer=false.'
        )
    return found
