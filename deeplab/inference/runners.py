"""Runners of the network of a checkpoint, one for each size of images, in the engine that the options name."""

from __future__ import annotations

import abc
import collections
import contextlib
import dataclasses
import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from absl import logging

from deeplab.inference import opening
from deeplab.inference.network import InferenceNetwork
from deeplab.inference.thread_bound import ThreadBound
from deeplab.options import AUTO_ENGINE, DEFAULT_ENGINE, EngineOptions, ModelOptions, PredictionOptions, crop_sizes
from deeplab.registry import BACKBONES, Outputs, Predict
from deeplab.wording import option

# Networks for images of one size each that stay open at a time; the one that was used longest ago is closed first.
MOST_NETWORKS = 4
# Sizes of images for which the network is converted for another engine; TensorFlow predicts images of further sizes.
MOST_SIZES = 8

Size = tuple[int, int]


class Runner(abc.ABC):
    """Runs a network on images of one size.

    Attributes:
      network: its name, and its output stride; empty if they are unknown.
      channels: channels of the images.
      num_classes: number of classes.
      alignment: windows begin at multiples of it.
      fixed_size: height and width to which all images are padded, and which none may exceed; None for no limit.
      smallest_window: height and width that a window must have at least.
      has_probabilities: whether it gives probabilities, without which there are no windows.
    """

    network: str = ''
    channels: int
    num_classes: int
    alignment: int = 1
    fixed_size: Size | None = None
    smallest_window: Size = (1, 1)
    has_probabilities: bool = True

    @abc.abstractmethod
    def run(self, images: np.ndarray, with_probabilities: bool) -> Outputs:
        """Predicts images.

        Args:
          images: [n, h, w, channels], 0 to 255.
          with_probabilities: whether the probabilities are computed, too.

        Returns:
          Class ids [n, h, w], and probabilities [n, h, w, classes] float32 or None.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Releases the network."""


class _Key(NamedTuple):
    """What distinguishes the networks of a checkpoint.

    Attributes:
      size: size of the images; None for any.
      with_probabilities: whether the network gives them.
      execution: the engine, and how it computes.
    """

    size: Size | None
    with_probabilities: bool
    execution: EngineOptions


class CheckpointRunner(Runner):
    """Runs the network of a checkpoint.

    In TensorFlow, one graph takes images of any size. A network with `image_pooling_crop_size` needs a graph for each
    size, and so do other engines, which run one image at a time; these get the first `MOST_SIZES` sizes, and TensorFlow
    the others.
    """

    def __init__(
        self,
        options: ModelOptions,
        weights: opening.Weights,
        prediction: PredictionOptions,
        execution: EngineOptions,
        cache_dirs: Sequence[str] = (),
    ) -> None:
        """Creates the runner; networks are built when they are first needed.

        Args:
          options: the network; its crop size is that to which all images are padded, None for none.
          weights: its weights.
          prediction: scales and flips that are averaged.
          execution: the engine, and how it computes.
          cache_dirs: folders for converted networks, if they cannot be kept beside the checkpoint.

        Raises:
          OptionError: The engine is not installed.
        """
        opening.check(execution)
        self.network = f'{options.model_variant} at output stride {options.output_stride}'
        self.channels, self.num_classes = options.input_channels, options.num_classes
        self.alignment, self.fixed_size = options.output_stride, options.crop_size
        self._options, self._prediction = options, prediction
        self._weights = weights
        mean_pixel = BACKBONES.get(options.model_variant).normalization.mean_pixel_of(self.channels)
        self._mean_pixel = np.array(mean_pixel, np.float32)
        if options.image_pooling_crop_size is not None:
            self.smallest_window = options.image_pooling_crop_size
        self._execution = execution
        self._cache_dirs = cache_dirs
        self._sizes: set[Size] = set()  # for which the network is converted
        self._open: collections.OrderedDict[_Key, ThreadBound[Predict]] = collections.OrderedDict()
        self._lock = threading.Lock()

    def run(self, images: np.ndarray, with_probabilities: bool) -> Outputs:
        """See `Runner.run`; images are padded with the mean pixel at the bottom and right, as in eval."""
        height, width = images.shape[1:3]
        sides = [max(side, least) for side, least in zip((height, width), self.smallest_window, strict=True)]
        size = self.fixed_size or aligned_size(sides, self.alignment)
        images = padded(images, size, self._mean_pixel)
        with self._lock:
            key = self._key(images.shape[1:3], with_probabilities)
            network = self._network(key)
            step = len(images) if key.execution.engine == DEFAULT_ENGINE else 1
            parts = [network.call(network.value, images[i : i + step]) for i in range(0, len(images), step)]
        labels, probabilities = parts[0] if len(parts) == 1 else _joined(parts)
        if probabilities is not None:
            probabilities = probabilities[:, :height, :width]
        return Outputs(labels[:, :height, :width], probabilities)

    def close(self) -> None:
        """See `Runner.close`."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()

    def _key(self, shape: Sequence[int], with_probabilities: bool) -> _Key:
        """Returns which network takes images of a size."""
        size = int(shape[0]), int(shape[1])
        if self._execution.engine == AUTO_ENGINE:
            network = self._described(_Key(size, with_probabilities, self._execution), 1)
            self._execution = opening.fastest(network, self._weights, self._execution, self._cache_dirs)
        if self._execution.engine != DEFAULT_ENGINE:
            if size in self._sizes or len(self._sizes) < MOST_SIZES:
                self._sizes.add(size)
                return _Key(size, with_probabilities, self._execution)
            logging.log_first_n(
                logging.WARNING,
                'The images have more than %d sizes, and each needs a converted network: TensorFlow predicts images of '
                'further sizes, in float32. Set %s to pad all to one size.',
                1,
                MOST_SIZES,
                option('ModelOptions.crop_size'),
            )
        takes_any_size = self.fixed_size is None and self._options.image_pooling_crop_size is None
        return _Key(None if takes_any_size else size, with_probabilities, EngineOptions())

    def _network(self, key: _Key) -> ThreadBound[Predict]:
        """Returns an open network."""
        if key not in self._open:
            while len(self._open) >= MOST_NETWORKS:
                self._open.popitem(last=False)[1].close()
                logging.log_first_n(
                    logging.WARNING,
                    'The images have many sizes, and this network is built anew for each. Set %s to pad all to one.',
                    1,
                    option('ModelOptions.crop_size'),
                )
            self._open[key] = ThreadBound(lambda: self._opened(key))
        self._open.move_to_end(key)
        return self._open[key]

    def _opened(self, key: _Key) -> contextlib.AbstractContextManager[Predict]:
        """Returns a context manager that builds a network and opens it in the engine.

        It holds no reference to the runner: the runner could not be collected, nor the network closed with it.
        """
        network = self._described(key, None if key.execution.engine == DEFAULT_ENGINE else 1)
        return opening.opened(network, self._weights, key.execution, self._cache_dirs)

    def _described(self, key: _Key, batch_size: int | None) -> InferenceNetwork:
        """Returns the network for images of a size."""
        options = dataclasses.replace(self._options, crop_size=key.size)
        return InferenceNetwork(options, self._prediction, batch_size, key.with_probabilities)


def _joined(parts: Sequence[Outputs]) -> Outputs:
    """Returns the outputs of several batches as one batch."""
    labels = np.concatenate([outputs.labels for outputs in parts])
    if parts[0].probabilities is None:
        return Outputs(labels)
    return Outputs(labels, np.concatenate([outputs.probabilities for outputs in parts]))


def aligned_size(size: Sequence[int], alignment: int) -> Size:
    """Returns the smallest height and width, not below `size`, that are aligned with the features of a network."""
    height, width = crop_sizes.above(size, alignment)
    return height, width


def padded(images: np.ndarray, size: Size, value: np.ndarray) -> np.ndarray:
    """Returns images as float32, padded at the bottom and right with the pixel `value`: [n, *size, channels]."""
    count, height, width, channels = images.shape
    if (height, width) == size:
        return images.astype(np.float32, copy=False)
    result = np.empty((count, *size, channels), np.float32)
    result[:, height:] = value
    result[:, :, width:] = value
    result[:, :height, :width] = images
    return result
