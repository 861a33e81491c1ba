"""Configuration warnings logged before step 1: one line for each finding, with its fix.

Each of these configurations may be intended, so none is refused. Invalid options are refused earlier, elsewhere.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import Any

from absl import logging

from deeplab.checks.record_check import CheckResult
from deeplab.datasets import description_file, label_checks, task_data
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.options import AugmentOptions, LearningRateOptions, TrainOptions
from deeplab.registry import (
    AUGMENTATIONS,
    BACKBONES,
    LEARNING_POLICIES,
    LOGGERS,
    OPTIMIZERS,
    PREPROCESSINGS,
    TASKS,
    Registry,
)
from deeplab.wording import option

# Batch statistics of fewer images are worse than a checkpoint's own.
SMALLEST_BATCH_FOR_STATISTICS = 12


def warn(options: TrainOptions, descriptor: DatasetDescriptor, check_result: CheckResult) -> None:
    """Logs the findings of `label_checks.labels`, `folders`, `batch_norm`, `learning_rate` and `unused`."""
    findings: list[str] = []
    if task_data.needs_labels(options.model):
        pixels, ignored, images = check_result.class_pixels, check_result.ignored_pixels, len(check_result.records)
        findings = label_checks.labels(descriptor, pixels, ignored, images, options.dataset.split, options.loss)
    for line in (*findings, *folders(options), *batch_norm(options), *learning_rate(options), *unused(options)):
        logging.warning('%s', line)


def folders(options: TrainOptions) -> Iterator[str]:
    """Yields a finding on a training that writes into the folder of its records."""
    records = description_file.folder_of(options.dataset.directory)
    if os.path.realpath(records) == os.path.realpath(options.train_logdir):
        yield (
            f'{option("TrainOptions.train_logdir", options.train_logdir)} is the folder of the records, too. '
            'Training works, but deleting the run would also delete the records: set another folder.'
        )


def batch_norm(options: TrainOptions) -> Iterator[str]:
    """Yields a finding on batch norms that replace a checkpoint's statistics by statistics of too small batches."""
    parts = options.accumulation_steps
    groups = 1 if options.clones.sync_batch_norm else options.clones.parts  # each with statistics of its own
    batch = options.batch_size // (groups * parts)
    # With trainable scopes, the other layers keep their statistics, and those selected are selected on purpose.
    updates = options.fine_tune_batch_norm and not options.optimizer.trainable_scopes
    if options.model.is_per_image and not BACKBONES.get(options.model.model_variant).has_batch_norm:
        return
    if not (options.initial_checkpoint and updates and batch < SMALLEST_BATCH_FOR_STATISTICS):
        return
    kind = 'workers' if options.clones.num_clones == 1 else 'clones'
    images = f'{batch} images' if groups == 1 else f'{batch} images in each of {groups} {kind}'
    images += f' per micro-batch ({option("TrainOptions.accumulation_steps", parts)})' if parts > 1 else ''
    enough = SMALLEST_BATCH_FOR_STATISTICS * groups * parts
    can_sync = not options.xla and not options.unlabeled.is_on  # which sync_batch_norm is refused with
    is_enough_together = options.batch_size // parts >= SMALLEST_BATCH_FOR_STATISTICS
    sync = f'{option("CloneOptions.sync_batch_norm", True)}, ' if can_sync and is_enough_together else ''
    yield (
        f'{option("TrainOptions.fine_tune_batch_norm", True)} computes batch statistics from {images}, too few to '
        f'improve on the statistics of the initial checkpoint. Set {sync}'
        f'{option("TrainOptions.fine_tune_batch_norm", False)}, or {option("TrainOptions.batch_size", enough)} or more.'
    )


def learning_rate(options: TrainOptions) -> Iterator[str]:
    """Yields findings on an optimizer that does not suit a task, and on a rate outside the range known to work.

    Source: arXiv:1706.02677, section 2.1 (a rate in proportion to the batch).
    """
    optimizer = options.optimizer
    for task in TASKS.chosen(options.model):
        if optimizer.name in task.unfit_optimizers:
            yield (
                f'The losses of the task {task.name} diverge with {option("OptimizerOptions.name", optimizer.name)}. '
                f'Set {option("OptimizerOptions.name", "adam")}.'
            )
    record = OPTIMIZERS.get(optimizer.name)
    rates = record.usual_rates
    if rates is None:
        return
    constant = optimizer.constant_learning_rate
    rate = optimizer.learning_rate.base if constant is None else constant
    scale = options.batch_size / rates.batch_size if rates.batch_size else 1.0
    usual = rates.usual * scale
    shown = option(record.rate_field, rate)
    if rate < rates.least * scale:
        yield f'{shown} is unusually low for {record.name}. If the loss does not decrease, try {usual:g}.'
    elif rates.most is None or rate <= rates.most * scale:
        return
    elif rates.batch_size is None:
        yield f'{shown} is unusually high for {record.name}. If the loss jumps or does not decrease, try {usual:g}.'
    else:
        yield (
            f'{shown} is {rate / usual:.2g} times the rate known to work with a batch size of {options.batch_size}: '
            f'{usual:.2g}, scaled linearly from the usual {rates.usual:g} for {rates.batch_size}. '
            'If the loss jumps or does not decrease, try that.'
        )


def unused(options: TrainOptions) -> Iterator[str]:
    """Yields findings on options that differ from their defaults, and that another option leaves without effect."""
    optimizer, loss = options.optimizer, options.loss
    by = option('OptimizerOptions.name', optimizer.name)
    yield from _unread('OptimizerOptions', dict(optimizer.settings), OPTIMIZERS, optimizer.name, by)
    constant = optimizer.constant_learning_rate
    if constant is None:
        yield from _unused_of_schedule(optimizer.learning_rate)
    elif optimizer.learning_rate != LearningRateOptions():
        rate = option(OPTIMIZERS.get(optimizer.name).rate_field, constant)
        changed = ', '.join(_changed(optimizer.learning_rate))
        yield f'No effect with {by}, whose learning rate is the constant {rate}: {changed}.'
    if loss.hard_example_mining_step and loss.top_k_percent_pixels == 1.0:
        yield (
            f'{option("LossOptions.hard_example_mining_step", loss.hard_example_mining_step)} has no effect without '
            f'{option("LossOptions.top_k_percent_pixels")}.'
        )
    yield from _unused_of_augmentations(options.augment)
    yield from _unused_without_class_ids(options)
    yield from _unused_of_batch_norms(options)
    yield from _unused_of_last_layers(options)
    yield from _unused_of_summaries(options)
    if options.model.is_per_image:
        yield from _unused_per_image(options)


def _unused_without_class_ids(options: TrainOptions) -> Iterator[str]:
    """Yields a finding on crops at rare classes if no mask of classes is read."""
    fraction = options.augment.rare_class_sampling
    # Networks with a vector for each image refuse whatever places crops.
    if fraction and not options.model.is_per_image and not task_data.needs_labels(options.model):
        yield (
            f'{option("AugmentOptions.rare_class_sampling", fraction)} has no effect with '
            f'{option("ModelOptions.task", options.model.task)}, which reads no class ids.'
        )


def _unused_of_batch_norms(options: TrainOptions) -> Iterator[str]:
    """Yields findings on options that act with batch statistics only, if batch norms keep their statistics."""
    kept = option('TrainOptions.fine_tune_batch_norm', False)
    for field, value, default in (
        ('ModelOptions.batch_norm_decay', options.model.batch_norm_decay, None),
        ('CloneOptions.sync_batch_norm', options.clones.sync_batch_norm, False),
        ('NasOptions.drop_path_keep_prob', options.model.nas.drop_path_keep_prob, 1.0),
    ):
        if value != default and not options.fine_tune_batch_norm:
            yield f'{option(field, value)} has no effect with {kept}.'


def _unused_of_last_layers(options: TrainOptions) -> Iterator[str]:
    """Yields a finding on options of the last layers that the optimizer, or a decoder that makes the logits, undoes."""
    optimizer = options.optimizer
    factor = optimizer.last_layer_gradient_multiplier
    multiplier = option('OptimizerOptions.last_layer_gradient_multiplier', factor)
    if not (optimizer.last_layers_contain_logits_only and options.model.decoder.output_is_logits):
        if factor not in (0.0, 1.0) and OPTIMIZERS.get(optimizer.name).normalizes_gradients:
            yield (
                f'{multiplier} has almost no effect with {option("OptimizerOptions.name", optimizer.name)}, which '
                'normalizes the gradients of each variable. Omit it, or set '
                f'{option("OptimizerOptions.name", "momentum")}; {option("OptimizerOptions.trainable_scopes")} trains '
                'the last layers alone.'
            )
        return
    unused = []
    if options.initial_checkpoint and not options.initialize_last_layer:
        unused.append(option('TrainOptions.initialize_last_layer', False))
    if factor != 1.0:
        unused.append(multiplier)
    if unused:
        logits_only = option('OptimizerOptions.last_layers_contain_logits_only', True)
        yield (
            f'No effect with {logits_only} and {option("DecoderOptions.output_is_logits", True)}, as there is no layer '
            f'after the decoder: {", ".join(unused)}. Omit {logits_only} to mean all layers after the backbone.'
        )


def _unused_of_summaries(options: TrainOptions) -> Iterator[str]:
    """Yields findings on the content of summaries if there are none."""
    if options.save_summaries_secs is None:
        cause = f'without {option("TrainOptions.save_summaries_secs")}'
    elif not any(LOGGERS.get(name).takes_summaries for name in options.loggers.names):
        cause = f'without a logger that takes summaries ({option("LoggerOptions.names", options.loggers.names)})'
    else:
        return
    for name in ('save_summaries_images', 'save_summaries_miou'):
        if getattr(options, name):
            yield f'{option(f"TrainOptions.{name}", True)} has no effect {cause}.'


def _unused_per_image(options: TrainOptions) -> Iterator[str]:
    """Yields a finding on options of sizes and scales, in place of which a preprocessing of classifiers decides."""
    preprocessing = PREPROCESSINGS.of_network(options.model)
    if preprocessing is None:
        return
    scales = ('min_scale_factor', 'max_scale_factor', 'scale_factor_step_size')
    sizes = [field.name for field in dataclasses.fields(options.resize)]
    changed = [
        option(f'{type(chosen).__name__}.{name}', getattr(chosen, name))
        for chosen, names in ((options.augment, scales), (options.resize, sizes))
        for name in names
        if getattr(chosen, name) != getattr(type(chosen)(), name)
    ]
    if changed:
        by = option('ModelOptions.preprocessing_name', preprocessing.name)
        yield f'No effect with {by}, which chooses size and scale of the images: {", ".join(changed)}.'


def _unread(kind: str, settings: Mapping[str, Any], registry: Registry[Any], chosen: str, by: str) -> Iterator[str]:
    """Yields findings on parameters of records that are not the chosen one, which the option `by` names."""
    for name, value in settings.items():
        readers = registry.readers(name)
        if chosen not in readers:
            yield f'{option(f"{kind}.{name}", value)} has no effect with {by}: it applies to {", ".join(readers)}.'


def _changed(schedule: LearningRateOptions) -> list[str]:
    """Returns the options of a learning rate schedule that differ from their defaults, with their values."""
    names = [field.name for field in dataclasses.fields(schedule) if field.name != 'settings']
    fields = [(name, getattr(schedule, name)) for name in names]
    changed = [(name, value) for name, value in fields if value != getattr(LearningRateOptions, name)]
    return [
        option(f'LearningRateOptions.{name}', value) for name, value in (*changed, *dict(schedule.settings).items())
    ]


def _unused_of_schedule(schedule: LearningRateOptions) -> Iterator[str]:
    """Yields findings on parameters of other learning policies, and of a slow start without steps or a rate."""
    by = option('LearningRateOptions.policy', schedule.policy)
    yield from _unread('LearningRateOptions', dict(schedule.settings), LEARNING_POLICIES, schedule.policy, by)
    for name in ('slow_start_rate', 'slow_start_burnin_type'):
        value = getattr(schedule, name)
        if not schedule.slow_start_steps and value != getattr(LearningRateOptions, name):
            steps = option('LearningRateOptions.slow_start_steps')
            yield f'{option(f"LearningRateOptions.{name}", value)} has no effect without {steps}.'
    rate, burnin = schedule.slow_start_rate, schedule.slow_start_burnin_type
    if schedule.slow_start_steps and burnin == 'minimum' and rate != LearningRateOptions.slow_start_rate:
        yield (
            f'{option("LearningRateOptions.slow_start_rate", rate)} has no effect with '
            f'{option("LearningRateOptions.slow_start_burnin_type", burnin)}, which rises from 0.'
        )


def _unused_of_augmentations(augment: AugmentOptions) -> Iterator[str]:
    """Yields findings on parameters of augmentations that are off."""
    active = {record.name for record in augment.active}
    for name, value in dict(augment.settings).items():
        readers = AUGMENTATIONS.readers(name)
        if value and active.isdisjoint(readers):  # 0 is what switches one off
            switch = option(f'AugmentOptions.{AUGMENTATIONS.get(readers[0]).parameters[0].name}')
            yield f'{option(f"AugmentOptions.{name}", value)} has no effect without {switch}.'
