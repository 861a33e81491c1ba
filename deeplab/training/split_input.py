"""The training split: its checked records, label weights from its histogram, and its input pipelines."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from absl import logging

from deeplab import input_preprocess, names
from deeplab.checks import label_weights
from deeplab.core import feature_extractor
from deeplab.datasets import task_data
from deeplab.datasets.segmentation_dataset import DataSource
from deeplab.errors import DataError, OptionError
from deeplab.evaluation import runner
from deeplab.evaluation.runner import CheckedSplit
from deeplab.options import TrainOptions
from deeplab.registry import PREPROCESSINGS, TASKS
from deeplab.registry.augmentations import TARGETS
from deeplab.training import unlabeled_input
from deeplab.utils import input_generator
from deeplab.wording import option


@dataclasses.dataclass(frozen=True)
class TrainingSplit(CheckedSplit):
    """A training split.

    Attributes:
      unlabeled: the images without labels; None for none.
    """

    unlabeled: CheckedSplit | None = dataclasses.field(default=None, kw_only=True)


def open_data(options: TrainOptions, source: DataSource) -> CheckedSplit:
    """Opens the split and checks all its records, before the graph is built.

    Raises:
      UserError: there is no such split, or its records or masks are invalid.
    """
    dataset = source.split()
    runner.require_channels(options.model, dataset.descriptor)
    cache_dir = options.train_logdir if options.clones.is_chief else None
    data = runner.checked_split(dataset, options.model, True, cache_dir)
    images = names.counted(data.num_images, 'image')
    logging.info(
        'Training on %s of %s, split %s%s.', images, options.dataset.name, dataset.split, _epochs(options, data)
    )
    return data


def _epochs(options: TrainOptions, data: CheckedSplit) -> str:
    """Returns how often the training sees each image, for the end of a log line; '' for a range test."""
    if options.rate_test.is_on:
        return ''
    steps, batch = names.counted(options.number_of_steps, 'step'), names.counted(options.batch_size, 'image')
    passes = options.number_of_steps * options.batch_size / data.num_images
    return f': {steps} of {batch} = {passes:,.1f} passes over them (epochs)'


def open_all_data(options: TrainOptions, source: DataSource) -> TrainingSplit:
    """Opens the split as `open_data` does, and the images without labels.

    Raises:
      UserError: see `open_data` and `unlabeled_input.open_split`.
    """
    data = open_data(options, source)
    unlabeled = unlabeled_input.open_split(options, data.descriptor)
    return TrainingSplit(
        data.descriptor, data.reader, data.check_result, has_labels=data.has_labels, unlabeled=unlabeled
    )


def with_label_weights(options: TrainOptions, data: CheckedSplit) -> TrainOptions:
    """Returns `options` with automatic label weights computed from the records."""
    if not options.loss.auto_label_weights:
        return options
    auto = option('LossOptions.label_weights', 'auto')
    if not data.has_labels:
        raise OptionError(
            f'{auto} counts class ids, which {option("ModelOptions.task", options.model.task)} does not read. Pass a '
            'weight for each class, or omit it.'
        )
    try:
        weights = label_weights.median_frequency(data.check_result.class_pixels, data.check_result.class_image_pixels)
        weights **= options.loss.label_weights_power
    except ValueError as error:
        raise DataError(
            f'{auto}: {error} of split {options.dataset.split}. Fix the masks, or omit '
            f'{option("LossOptions.label_weights")}'
        ) from None
    shown = ', '.join(f'{data.descriptor.class_name(number)} {weight:.3g}' for number, weight in enumerate(weights))
    logging.info('%s: %s.', auto, shown)
    loss = dataclasses.replace(
        options.loss, label_weights=tuple(weights.tolist()), auto_label_weights=False, label_weights_power=1.0
    )
    return dataclasses.replace(options, loss=loss)


def input_steps(options: TrainOptions, data: CheckedSplit) -> dict[str, input_preprocess.Step]:
    """Returns the preprocessing steps of a training sample, by the names in `input_preprocess`."""
    assert options.model.crop_size is not None
    crop_size, augment = options.model.crop_size, options.augment
    mean_pixel = feature_extractor.mean_pixel(options.model.model_variant, options.model.input_channels)
    if (preprocessing := PREPROCESSINGS.of_network(options.model)) is not None:
        steps = input_preprocess.train_steps_per_image(preprocessing, crop_size, augment, mean_pixel)
    else:
        class_pixels = data.check_result.class_pixels.tolist()
        steps = input_preprocess.train_steps(
            crop_size, options.resize, augment, mean_pixel, data.ignore_label, class_pixels, data.reader.planes
        )
    if not options.model.is_semantic:
        context = task_data.context_of(data.descriptor, options.model)
        steps[TARGETS] = input_preprocess.add_targets(TASKS.chosen(options.model), context)
    return steps


def build_input(
    options: TrainOptions, data: CheckedSplit, first_position: int | tf.Tensor, **own: Any
) -> input_generator.Pipeline:
    """Builds an input pipeline on this process's CPU, with batches for one clone each.

    Without `own`, it reads for all clones of this process: of the common order, n machines take the batches of their
    clones in turn. So no two machines read the same sample, whenever each of them started. Synchronous workers, and
    replicas as long as they are equally fast, together read each epoch once.

    Args:
      options: the training.
      data: its split.
      first_position: sample position to start at, the first of a step.
      **own: arguments of `input_generator.get` for a pipeline that reads for a single clone.
    """
    clones = options.clones
    with tf.device('/device:CPU:0'):
        return input_generator.get(
            data.reader,
            list(input_steps(options, data).values()),
            options.clone_batch_size,
            is_training=True,
            records=data.records,
            seed=options.seed,
            first_position=first_position,
            with_label=data.has_labels,
            **own
            or {
                'is_taken': taken_positions(
                    options.clone_batch_size * clones.num_clones,
                    clones.task,
                    max(clones.num_replicas, clones.workers),
                )
            },
        )


def taken_positions(batch_size: int, reader: int, readers: int) -> Callable[[tf.Tensor], tf.Tensor] | None:
    """Returns which sample positions a reader takes: every `readers`-th batch.

    Args:
      batch_size: samples in a batch.
      reader: index of the reader, from 0.
      readers: number of readers.

    Returns:
      a function of a position, scalar int64, that returns whether it is taken; None for all positions.
    """
    if readers == 1:
        return None
    return lambda position: tf.equal(position // batch_size % readers, reader)
