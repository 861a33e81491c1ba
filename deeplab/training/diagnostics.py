"""Configuration warnings logged before step 1: one line for each finding, with its fix.

Each of these configurations may be intended, so none is refused. Invalid options are refused earlier, elsewhere.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from absl import logging

from deeplab import common
from deeplab.checks import checkpoint_network
from deeplab.checks.record_check import CheckResult
from deeplab.core import checkpoints, quantization
from deeplab.datasets import description_file, label_checks
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.options import AugmentOptions, LearningRateOptions, TrainOptions
from deeplab.registry import AUGMENTATIONS, BACKBONES, HEADS, LEARNING_POLICIES, OPTIMIZERS, Registry
from deeplab.wording import option

# With fewer images in a clone's batch, batch statistics are worse than a checkpoint's own.
SMALLEST_BATCH_FOR_STATISTICS = 12

_LOGITS_WEIGHTS = f'{common.LOGITS_SCOPE}/{common.OUTPUT_TYPE}/weights'


def warn(options: TrainOptions, descriptor: DatasetDescriptor, check_result: CheckResult) -> None:
    """Logs the findings of `label_checks.labels`, `folders`, `batch_norm`, `learning_rate` and `unused`."""
    findings = label_checks.labels(descriptor, check_result, options.dataset.split, options.loss)
    for line in (*findings, *folders(options), *batch_norm(options), *learning_rate(options), *unused(options)):
        logging.warning('%s', line)


def warn_of_restore(options: TrainOptions, variables: Mapping[str, Sequence[int]]) -> None:
    """Logs the findings of `backbone`, `backbone_shapes` and `last_layers` about the initial checkpoint.

    Args:
      options: of the training.
      variables: shapes of the network's variables, by name.

    Raises:
      CheckpointError: the checkpoint does not exist or cannot be read.
    """
    if not options.initial_checkpoint or options.restore.rename_map:  # with a map, missing variables are an error
        return
    held = checkpoints.entries(options.initial_checkpoint)
    names = quantization.without_ranges_to_measure(variables, held)
    found = backbone(options, names, held) or backbone_shapes(options, variables, held)
    if options.initialize_last_layer and not options.restore.exclude_scopes:  # else the exclusion is deliberate
        found += last_layers(options, names, held)
    for line in found:
        logging.warning('%s', line)


def folders(options: TrainOptions) -> list[str]:
    """Returns a finding on a training that writes into the folder of its records."""
    records = description_file.folder_of(options.dataset.directory)
    if os.path.realpath(records) != os.path.realpath(options.train_logdir):
        return []
    folder = option('TrainOptions.train_logdir', options.train_logdir)
    return [
        f'{folder} is the folder of the records, too. Checkpoints are not taken for records, but whoever removes the '
        'run may remove the records: set another folder.'
    ]


def batch_norm(options: TrainOptions) -> list[str]:
    """Returns findings on batch norms that replace a checkpoint's statistics by those of too small batches."""
    batch = options.clone_batch_size
    # With trainable scopes, the other layers keep their statistics, and those selected are selected on purpose.
    updates = options.fine_tune_batch_norm and not options.optimizer.trainable_scopes
    if not (options.initial_checkpoint and updates and batch < SMALLEST_BATCH_FOR_STATISTICS):
        return []
    clones, parts = options.clones.num_clones, options.accumulation_steps
    each = f'{batch} images' if clones == 1 else f'{batch} images in each of {clones} clones'
    each += f' per micro-batch ({option("TrainOptions.accumulation_steps", parts)})' if parts > 1 else ''
    enough = SMALLEST_BATCH_FOR_STATISTICS * clones * parts
    return [
        f'{option("TrainOptions.fine_tune_batch_norm", True)} computes batch statistics from {each}, too few to '
        'improve on those of the initial checkpoint. Set '
        f'{option("TrainOptions.fine_tune_batch_norm", False)}, or {option("TrainOptions.batch_size", enough)} or more.'
    ]


def learning_rate(options: TrainOptions) -> list[str]:
    """Returns findings on a learning rate outside the range known to work for the optimizer and batch size.

    Source: arXiv:1706.02677, section 2.1 (a rate in proportion to the batch).
    """
    optimizer = options.optimizer
    record = OPTIMIZERS.get(optimizer.name)
    known = record.usual_rates
    if known is None:
        return []
    constant = optimizer.constant_learning_rate
    rate = optimizer.learning_rate.base if constant is None else constant
    scale = options.batch_size / known.batch_size if known.batch_size else 1.0
    usual = known.usual * scale
    shown = option(record.rate_field, rate)
    if rate < known.least * scale:
        return [f'{shown} is unusually low for {record.name}. If the loss does not decrease, try {usual:g}.']
    if known.most is None or rate <= known.most * scale:
        return []
    if known.batch_size is None:
        return [f'{shown} is unusually high for {record.name}. If the loss jumps or does not decrease, try {usual:g}.']
    return [
        f'{shown} is {rate / usual:.2g} times the rate known to work with a batch size of {options.batch_size}: '
        f'{usual:.2g}, scaled linearly from the usual {known.usual:g} for {known.batch_size}. '
        'If the loss jumps or does not decrease, try that.'
    ]


def unused(options: TrainOptions) -> list[str]:
    """Returns findings on options that differ from their defaults, and that another option leaves without effect."""
    optimizer, loss = options.optimizer, options.loss
    by = option('OptimizerOptions.name', optimizer.name)
    found = [*_unread('OptimizerOptions', optimizer.settings, OPTIMIZERS, optimizer.name, by)]
    constant = optimizer.constant_learning_rate
    if constant is None:
        found += _unused_of_schedule(optimizer.learning_rate)
    elif optimizer.learning_rate != LearningRateOptions():
        rate = option(OPTIMIZERS.get(optimizer.name).rate_field, constant)
        changed = ', '.join(_changed(optimizer.learning_rate))
        found.append(f'No effect with {by}, whose learning rate is the constant {rate}: {changed}.')
    if loss.hard_example_mining_step and loss.top_k_percent_pixels == 1.0:
        found.append(
            f'{option("LossOptions.hard_example_mining_step", loss.hard_example_mining_step)} has no effect without '
            f'{option("LossOptions.top_k_percent_pixels")}.'
        )
    return [*found, *_unused_of_augmentations(options.augment)]


def _unread(
    kind: str, settings: Iterable[tuple[str, Any]], registry: Registry[Any], chosen: str, by: str
) -> Iterator[str]:
    """Yields findings on parameters of records that are not the chosen one, which the option `by` names."""
    for name, value in settings:
        readers = registry.readers(name)
        if chosen not in readers:
            yield f'{option(f"{kind}.{name}", value)} has no effect with {by}: it applies to {", ".join(readers)}.'


def _changed(schedule: LearningRateOptions) -> list[str]:
    """Returns the options of a learning rate schedule that differ from their defaults, with their values."""
    names = [field.name for field in dataclasses.fields(schedule) if field.name != 'settings']
    fields = [(name, getattr(schedule, name)) for name in names]
    changed = [(name, value) for name, value in fields if value != getattr(LearningRateOptions, name)]
    return [option(f'LearningRateOptions.{name}', value) for name, value in (*changed, *schedule.settings)]


def _unused_of_schedule(schedule: LearningRateOptions) -> list[str]:
    """Returns findings on parameters of other learning policies, and on a slow start of no steps."""
    by = option('LearningRateOptions.policy', schedule.policy)
    found = [*_unread('LearningRateOptions', schedule.settings, LEARNING_POLICIES, schedule.policy, by)]
    for name in ('slow_start_rate', 'slow_start_burnin_type'):
        value = getattr(schedule, name)
        if not schedule.slow_start_steps and value != getattr(LearningRateOptions, name):
            steps = option('LearningRateOptions.slow_start_steps')
            found.append(f'{option(f"LearningRateOptions.{name}", value)} has no effect without {steps}.')
    return found


def _unused_of_augmentations(augment: AugmentOptions) -> list[str]:
    """Returns findings on parameters of augmentations that are off."""
    active = {record.name for record in augment.active}
    found = []
    for name, value in augment.settings:
        readers = AUGMENTATIONS.readers(name)
        if value and active.isdisjoint(readers):  # 0 is what switches one off
            switch = option(f'AugmentOptions.{AUGMENTATIONS.get(readers[0]).parameters[0].name}')
            found.append(f'{option(f"AugmentOptions.{name}", value)} has no effect without {switch}.')
    return found


def backbone(options: TrainOptions, variables: Sequence[str], held: Collection[str]) -> list[str]:
    """Returns findings on an initial checkpoint with some of the network's variables, but none of its backbone's.

    Networks share the variable names of head and decoder, so some variables of another network always match.

    Args:
      options: of the training.
      variables: names of the network's variables.
      held: names of the checkpoint's variables.
    """
    variant = options.model.model_variant
    scope = BACKBONES.get(variant).scope
    ours = {name for name in variables if name.startswith(f'{scope}/')}
    excluded = {name for name in ours if name.startswith(options.restore.exclude_scopes)}
    if ours == excluded or not ours.isdisjoint(held) or set(variables).isdisjoint(held):
        return []
    there = {name.partition('/')[0] for name in held}
    known = [name for name in BACKBONES.names() if BACKBONES.get(name).scope in there]
    variant_name = option('ModelOptions.model_variant')
    fix = f'Set {variant_name} to the backbone of the checkpoint (`deeplab checkpoint FILE` shows it)'
    if known:
        has = ' and '.join(sorted({BACKBONES.get(name).scope for name in known}))
        fix = f'The checkpoint has {has}: set {" or ".join(option("ModelOptions.model_variant", k) for k in known)}'
    return [
        f'The initial checkpoint has no variables of the backbone {variant}, so the whole backbone is trained from '
        f'random values. {fix}. If this is intended, add {scope} to {option("RestoreOptions.exclude_scopes")}.'
    ]


def backbone_shapes(
    options: TrainOptions, variables: Mapping[str, Sequence[int]], held: Mapping[str, checkpoints.Entry]
) -> list[str]:
    """Returns findings on an initial checkpoint whose backbone has other widths than the network's.

    Args:
      options: of the training.
      variables: shapes of the network's variables, by name.
      held: the checkpoint's variables.
    """
    scope = BACKBONES.get(options.model.model_variant).scope
    excluded = options.restore.exclude_scopes
    ours = [name for name in variables if name.startswith(f'{scope}/') and not name.startswith(excluded)]
    different = [name for name in ours if name in held and held[name].shape != tuple(variables[name])]
    if 2 * len(different) <= len(ours):
        return []
    found = checkpoint_network.find_backbone({name: entry.shape for name, entry in held.items()})
    fix = f'Set the options of the checkpoint (`deeplab checkpoint {options.initial_checkpoint}` shows them)'
    if found is not None:
        fix = f'The backbone of the checkpoint is that of {" ".join(checkpoint_network.settings_of(found.options))}'
    return [
        f'{len(different)} of {len(ours)} variables of the backbone have other shapes in the initial checkpoint, and '
        f'are trained from random values. {fix}. If this is intended, add {scope} to '
        f'{option("RestoreOptions.exclude_scopes")}.'
    ]


def last_layers(options: TrainOptions, variables: Sequence[str], held: Mapping[str, checkpoints.Entry]) -> list[str]:
    """Returns findings on last layers that the initial checkpoint should restore but cannot.

    A checkpoint of a backbone alone has no last layers and gives no findings.

    Args:
      options: of the training; `initialize_last_layer` is set.
      variables: names of the network's variables.
      held: the checkpoint's variables.
    """
    scopes = HEADS.last_layer_scopes()
    ours = [name for name in variables if name.startswith(scopes)]
    there = {name for name in held if name.startswith(scopes)}
    if not there:
        return []
    found = []
    classes = held[_LOGITS_WEIGHTS].shape[-1] if _LOGITS_WEIGHTS in held else None
    if classes is not None and classes != options.model.num_classes:
        found.append(
            f'The logits are not restored: the initial checkpoint has {classes} classes, the data set '
            f'{options.model.num_classes}. If the classes are different ones, set '
            f'{option("TrainOptions.initialize_last_layer", False)} to restore the backbone alone; add '
            f'{option("OptimizerOptions.last_layers_contain_logits_only", True)} to leave out only the logits.'
        )
    missing = [name for name in ours if name not in there]
    if missing:
        found.append(
            f'The initial checkpoint has a different head or decoder: it lacks {len(missing)} of {len(ours)} variables '
            f'after the backbone, which keep their initial values ({checkpoints.shortened(missing, 3)}). Set '
            f'{option("AsppOptions.rates")}, {option("DecoderOptions.output_strides")} and so on as the checkpoint was '
            f'trained (`deeplab checkpoint FILE` shows it), or {option("TrainOptions.initialize_last_layer", False)}.'
        )
    return found
