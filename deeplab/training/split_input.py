"""The training split: its checked records, label weights from its histogram, and the input pipeline."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from absl import logging

from deeplab import input_preprocess, names
from deeplab.checks import label_weights, record_check
from deeplab.core import (
    feature_extractor,
)
from deeplab.datasets import descriptor, segmentation_dataset
from deeplab.errors import DataError
from deeplab.evaluation import runner
from deeplab.options import TrainOptions
from deeplab.system import processors
from deeplab.training import replicas
from deeplab.utils import input_generator
from deeplab.wording import option

QUEUED_BATCHES = 2


class Data(NamedTuple):
    """A split whose records have been checked.

    Attributes:
      descriptor: of the data set.
      check_result: result of the check of its records.
      reader: reads its records.
    """

    descriptor: descriptor.DatasetDescriptor
    check_result: record_check.CheckResult
    reader: input_generator.RecordReader

    @property
    def ignore_label(self) -> int:
        """Label of pixels excluded from loss and metrics."""
        return self.descriptor.ignore_label

    @property
    def records(self) -> Sequence[int]:
        """Numbers of the valid records."""
        return self.check_result.records


def open_data(options: TrainOptions) -> Data:
    """Opens the split and checks all its records, before the graph is built.

    Raises:
      UserError: there is no such data set or split, or its records or masks are invalid.
    """
    dataset = segmentation_dataset.get_dataset(options.dataset.name, options.dataset.split, options.dataset.directory)
    runner.require_channels(options.model, dataset.descriptor)
    ignore_label = dataset.descriptor.ignore_label
    index = dataset.open_records(options.dataset.skip_corrupt_records)
    dataset.warn_of_changed_records(index)
    check_result = record_check.check(
        dataset,
        options.model.num_classes,
        ignore_label,
        skip_corrupt_records=options.dataset.skip_corrupt_records,
        cache_dir=options.train_logdir if options.clones.is_chief else None,
        index=index,
    )
    images = names.counted(len(check_result.records), 'image')
    logging.info('Training on %s of %s, split %s.', images, options.dataset.name, dataset.split)
    kind = (dataset.descriptor.image_channels, dataset.descriptor.image_bits)
    return Data(dataset.descriptor, check_result, input_generator.RecordReader(index, *kind))


def with_label_weights(options: TrainOptions, data: Data) -> TrainOptions:
    """Returns `options` with automatic label weights computed from the records."""
    if not options.loss.auto_label_weights:
        return options
    auto = option('LossOptions.label_weights', 'auto')
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


def input_steps(options: TrainOptions, data: Data) -> dict[str, input_preprocess.Step]:
    """Returns the preprocessing steps of a training sample, by the names in `input_preprocess`."""
    assert options.model.crop_size is not None
    return input_preprocess.train_steps(
        options.model.crop_size,
        options.resize,
        options.augment,
        feature_extractor.mean_pixel(options.model.model_variant, options.model.input_channels),
        data.ignore_label,
        data.check_result.class_pixels,
    )


def build_input(options: TrainOptions, data: Data, first_position: int | tf.Tensor) -> input_generator.Pipeline:
    """Builds the input pipeline, whose batches are of one clone each, from a sample position on."""
    return _build(options, data, first_position, is_taken=replicas.is_mine(options.clones, options.batch_size))


def build_input_of_clone(
    options: TrainOptions, data: Data, first_position: int, clone: int, device: str, before: Sequence[tf.Tensor]
) -> input_generator.Pipeline:
    """Builds the input pipeline of one clone, whose batches wait in the memory of its device.

    It reads every `num_clones`-th batch of `build_input`.

    Args:
      options: the training, on this machine alone.
      data: the split.
      first_position: sample position to start at, the first of a step.
      clone: index of the clone.
      device: on which it computes.
      before: what is computed before a batch is taken.
    """
    clones, batch_size = options.clones.num_clones, options.clone_batch_size
    return _build(
        options,
        data,
        first_position,
        is_taken=None if clones == 1 else lambda position: tf.equal(position // batch_size % clones, clone),
        num_parallel=-(-processors.available_cores() // clones),
        device=device,
        before=before,
    )


def _build(options: TrainOptions, data: Data, first_position: int | tf.Tensor, **more: Any) -> input_generator.Pipeline:
    """Builds a pipeline of batches of one clone; `more` are further arguments of `input_generator.get`."""
    return input_generator.get(
        data.reader,
        list(input_steps(options, data).values()),
        options.clone_batch_size,
        is_training=True,
        records=data.records,
        seed=options.seed,
        first_position=first_position,
        **more,
    )
