"""Inference over a split, for eval and vis: a checked split, a network with frozen weights, the loop over images."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tqdm
from absl import logging

from deeplab import common, input_preprocess, model
from deeplab.core import folding, graph_memory, moving_average, preprocess_utils, sessions, tf_compat
from deeplab.datasets import record_check, segmentation_dataset
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.datasets.record_index import RecordIndex
from deeplab.errors import OptionError
from deeplab.options import DatasetOptions, ModelOptions, PredictionOptions, ResizeOptions
from deeplab.registry import BACKBONES
from deeplab.utils import checkpoint_network, crop_sizes, input_generator, memory, train_utils
from deeplab.wording import option

PREDICTION = 'prediction'  # key of the predicted ids in the batches of `run_batches`: [n, h, w] int32

Batch = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Split:
    """A split whose records have been checked.

    Attributes:
      descriptor: of the data set.
      reader: reads its records.
      check_result: result of the check of its records.
      crop_size: height and width into which each of its images fits.
    """

    descriptor: DatasetDescriptor
    reader: input_generator.RecordReader
    check_result: record_check.CheckResult
    crop_size: tuple[int, int]

    @property
    def records(self) -> np.ndarray:
        """Numbers of the valid records, ascending."""
        return self.check_result.records

    @property
    def num_images(self) -> int:
        """Number of images to read."""
        return len(self.records)


def open_split(
    program: str,
    dataset: DatasetOptions,
    network: ModelOptions,
    resize: ResizeOptions,
    needs_labels: bool,
    cache_dir: str,
    chooses_crop: bool = False,
) -> Split:
    """Opens a split and checks it before anything is computed from it.

    Args:
      program: 'eval' or 'vis', for messages.
      dataset: which split.
      network: its classes and crop size must match the split.
      resize: how images are resized before the crop.
      needs_labels: whether each image must have a mask.
      cache_dir: folder that caches the check result of the records.
      chooses_crop: whether a crop size that is not set becomes the smallest aligned one into which every image fits.

    Raises:
      OptionError: There is no such network, or it has another number of classes than the data set, or no crop size.
      DataError: The split is missing or damaged, lacks labels, or has an image larger than the crop.
    """
    model.check_options(network)  # before the records, which may take long
    found = segmentation_dataset.get_dataset(dataset.name, dataset.split, dataset.directory)
    descriptor = found.descriptor
    if network.num_classes != descriptor.num_classes:
        raise OptionError(
            f"The network has {network.num_classes} classes, the data set '{descriptor.name}' "
            f'{descriptor.num_classes}; they must be equal.'
        )
    require_channels(network, descriptor)
    crop_size = network.crop_size
    if crop_size is not None:
        warn_of_crop_size(crop_size, network.output_stride)
    elif not chooses_crop:
        field = 'ModelOptions.crop_size'
        raise OptionError(f'{option(field)} is not set. Give height and width, such as {option(field, (513, 513))}.')
    index = RecordIndex.walk(found.shards, dataset.skip_corrupt_records)
    check_result = record_check.check(
        found,
        descriptor.num_classes,
        descriptor.ignore_label,
        dataset.skip_corrupt_records,
        needs_labels,
        cache_dir,
        index,
    )
    resized = functools.partial(_resized, resize)
    if crop_size is None:
        crop_size = _smallest_crop(check_result, network.output_stride, resized)
    record_check.require_fit(check_result, index, crop_size, network.output_stride, resized)
    reader = input_generator.RecordReader(index, descriptor.image_channels, descriptor.image_bits)
    return Split(descriptor, reader, check_result, crop_size)


def require_channels(network: ModelOptions, descriptor: DatasetDescriptor) -> None:
    """Raises `OptionError` unless the network takes as many channels as the data set's images have."""
    if network.input_channels != descriptor.image_channels:
        raise OptionError(
            f"The network takes images of {network.input_channels} channels, those of the data set '{descriptor.name}' "
            f'have {descriptor.image_channels} (image_channels); they must be equal.'
        )


def _smallest_crop(
    check_result: record_check.CheckResult, output_stride: int, resized: Callable[[int, int], tuple[int, int]]
) -> tuple[int, int]:
    """Returns the smallest crop with sides `output_stride * k + 1`, k at least 1, into which every image fits."""
    sizes = np.array([resized(int(h), int(w)) for h, w in np.unique(check_result.sizes, axis=0)])  # [n, 2]
    height, width = crop_sizes.above(sizes.max(axis=0), output_stride)
    return height, width


def _resized(resize: ResizeOptions, height: int, width: int) -> tuple[int, int]:
    """Returns the size of an image after `input_preprocess.resize_to_range`."""
    if resize.min_value is None and resize.max_value is None:
        return height, width
    sides = preprocess_utils.size_in_range(height, width, resize.min_value, resize.max_value, resize.factor)
    return int(sides[0]), int(sides[1])


def size(program: str, options: ModelOptions, batch_size: int) -> memory.Size | None:
    """Returns what determines the memory of eval or vis; None if the crop size is not set."""
    if options.crop_size is None:
        return None
    return memory.Size(program, batch_size, options.crop_size, options.output_stride)


def warn_of_crop_size(crop_size: tuple[int, int], output_stride: int) -> None:
    """Warns if a side is not `output_stride * k + 1`, with the two nearest sizes that are."""
    advice = train_utils.crop_advice(crop_size, output_stride)
    if advice:
        logging.warning('%s', advice)


def warn_of_flips(prediction: PredictionOptions) -> None:
    """Warns if flips are enabled but have no effect."""
    if prediction.add_flipped_images and prediction.is_single_scale:
        logging.warning(
            '%s has no effect with %s. Use several scales, such as %s.',
            option('PredictionOptions.add_flipped_images'),
            option('PredictionOptions.scales', prediction.scales),
            option('PredictionOptions.scales', (0.75, 1.0, 1.25)),
        )


class Network:
    """The network for inference, built once and used with the weights of several checkpoints.

    Weights are turned into constants, so that what depends on them alone is computed once and not for each image.

    Attributes:
      mean_pixel: value of padding, [3].
      crop_size: height and width of the images.
      batch_size: images at a time.
    """

    def __init__(self, options: ModelOptions, prediction: PredictionOptions, batch_size: int) -> None:
        """Builds the graph.

        Args:
          options: the network; its crop size is that of the images.
          prediction: scales and flips that are averaged.
          batch_size: images at a time.

        Raises:
          OptionError: There is no such network.
        """
        self._options = options
        channels = options.input_channels
        self.mean_pixel = BACKBONES.get(options.model_variant).normalization.mean_pixel_of(channels)
        self.crop_size = options.crop_size
        self.batch_size = batch_size
        with tf.Graph().as_default() as self._graph:
            shape = [batch_size, *options.crop_size, channels]
            self._images = tf.compat.v1.placeholder(tf.float32, shape, name='images')
            self._labels = tf.identity(_predicted(self._images, options, prediction), name='labels')  # [n, h, w]
            self._variables = tf.compat.v1.global_variables()

    def check_memory(self, program: str, options: ModelOptions) -> None:
        """Compares the memory of a batch with what is free, if the network computes in the memory of this machine.

        Args:
          program: 'eval' or 'vis'.
          options: the network's.

        Raises:
          OutOfMemoryError: the batch cannot fit.
        """
        if tf.config.list_physical_devices('GPU'):
            return
        waiting = input_generator.PREFETCHED_BATCHES * graph_memory.bytes_of(self._images)
        # Variables become constants three times: in the Python graph, in its protocol buffer, in the graph that runs.
        held = 3 * sum(map(graph_memory.bytes_of, self._variables))
        need = memory.Need(graph_memory.peak([self._labels]) + waiting, held)
        memory.check(need, size(program, options, self.batch_size))

    def with_weights_of(
        self, checkpoint_path: str, use_moving_average: bool = False
    ) -> Callable[[tf.Tensor], tf.Tensor]:
        """Restores the weights of a checkpoint.

        Args:
          checkpoint_path: must have every variable, in its shape.
          use_moving_average: whether to use the moving averages (EMA) of the weights instead.

        Returns:
          A function that adds the network to the current graph: images [batch_size, h, w, channels] float32 (0 to 255)
          to class ids [batch_size, h, w] int32.

        Raises:
          CheckpointError: It does not match the network; the message names the variables.
        """
        with sessions.open_session(self._graph) as restoring:
            with checkpoint_network.explained(checkpoint_path, self._options):
                moving_average.restore_weights(restoring, checkpoint_path, self._variables, use_moving_average)
            frozen = folding.fold_batch_norms(tf_compat.frozen_graph(restoring, [self._labels]))

        def predict(images: tf.Tensor) -> tf.Tensor:
            inputs = {self._images.op.name: images}
            return tf.graph_util.import_graph_def(frozen, inputs, [self._labels.name], name='network')[0]

        return predict


def _predicted(images: tf.Tensor, options: ModelOptions, prediction: PredictionOptions) -> tf.Tensor:
    """Predicted ids, [n, h, w] int32."""
    if prediction.is_single_scale:
        predictions = model.predict_labels(images, options, options.image_pyramid)
    else:
        if tuple(options.image_pyramid or (1.0,)) != (1.0,):
            logging.warning(
                '%s is ignored unless %s.',
                option('ModelOptions.image_pyramid', options.image_pyramid),
                option('PredictionOptions.scales', (1.0,)),
            )
        predictions = model.predict_labels_multi_scale(
            images, options, prediction.scales, prediction.add_flipped_images
        )
    return predictions[common.OUTPUT_TYPE]


class Reading(NamedTuple):
    """How the images of a split are read.

    Attributes:
      split: where the images come from.
      steps: preprocessing of each (`input_preprocess.eval_steps`).
      batch_size: images at a time.
      keys: which parts of each sample are returned, by the names in `common`; masks are decoded if LABEL is one.
    """

    split: Split
    steps: Sequence[input_preprocess.Step]
    batch_size: int
    keys: Sequence[str]


def run_batches(
    predict: Callable[[tf.Tensor], tf.Tensor],
    reading: Reading,
    handle: Callable[[Batch], None],
    title: str,
    master: str = '',
) -> None:
    """Predicts every image of a split, in order; reading the next images overlaps with it.

    Args:
      predict: adds the network to a graph (`Network.with_weights_of`).
      reading: the images and how they are read.
      handle: called with arrays [n, ...] by key, and the ids under `PREDICTION`; n is the batch size, or less at the
        end.
      title: title of the progress bar.
      master: address of a TensorFlow server, empty for this process.

    Raises:
      DataError: An image cannot be decoded; the message names file, record and image.
    """
    split, steps, batch_size, keys = reading
    with tf.Graph().as_default():
        pipeline = input_generator.get(
            split.reader, steps, batch_size, False, split.records, with_label=common.LABEL in keys
        )
        fetches = {key: pipeline.samples[key] for key in (*keys, common.VALID)}
        fetches[PREDICTION] = predict(pipeline.samples[common.IMAGE])
        with (
            sessions.open_session(master=master) as running,
            input_generator.explain_input_errors(split.reader),
            tqdm.tqdm(total=split.num_images, desc=title, unit='image', disable=not sys.stderr.isatty()) as bar,
        ):
            running.run(pipeline.initializer)
            for _ in range(pipeline.batches):
                fetched = running.run(fetches)
                valid = fetched.pop(common.VALID)
                handle({key: values[valid] for key, values in fetched.items()})
                bar.update(int(valid.sum()))
