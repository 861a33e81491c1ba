"""Runners of a network: of an export, or of a checkpoint, one network for each size of images in any engine."""

from __future__ import annotations

import abc
import collections
import dataclasses
import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from absl import logging

from deeplab.errors import OptionError
from deeplab.inference import export_metadata, exports, image_files, opening
from deeplab.inference.engine_choice import EngineChoice
from deeplab.inference.network import InferenceNetwork
from deeplab.inference.resizing import Size, padded
from deeplab.inference.thread_bound import ThreadBound
from deeplab.options import DEFAULT_ENGINE, EngineOptions, crop_sizes
from deeplab.options.rules import MOST_CLASSES
from deeplab.registry import TASKS, ExportFormat, Outputs, Predict
from deeplab.wording import option

# Networks of TensorFlow that stay open at a time, each for images of one size; the least recently used one is closed
# first.
MOST_NETWORKS = 4
# Sizes of images for which the network is converted for another engine, and stays open; TensorFlow predicts images of
# further sizes.
MOST_SIZES = 4


class Runner(abc.ABC):
    """Runs a network on images of one size.

    Attributes:
      network: its name, and its output stride; empty if they are unknown.
      channels: channels of the images.
      num_classes: number of classes; of a network of other tasks, the first channels of its maps are theirs.
      num_channels: channels of the probabilities, or of the maps of all outputs.
      mean_pixel: value of padding, one number or one for each channel.
      alignment: windows begin at multiples of it.
      fixed_size: height and width to which all images are padded, and which none may exceed; None for no limit.
      smallest_window: height and width that a window must have at least.
      has_probabilities: whether it gives probabilities, without which there are no windows.
      pads: whether images are padded here; otherwise the network takes smaller ones.
      resizes: whether the network itself resizes images, so that windows would have another scale than the whole image.
      engine_choice: how 'auto' chose the engine; None if it did not, or has not yet.
    """

    network: str = ''
    channels: int
    num_classes: int
    num_channels: int
    mean_pixel: np.ndarray
    alignment: int = 1
    fixed_size: Size | None = None
    smallest_window: Size = (1, 1)
    has_probabilities: bool = True
    pads: bool = True
    resizes: bool = False
    engine_choice: EngineChoice | None = None

    def run(self, images: np.ndarray, with_probabilities: bool) -> Outputs:
        """Predicts images, padded with the mean pixel at the bottom and right, as in eval.

        Args:
          images: [n, h, w, channels], 0 to 255.
          with_probabilities: whether the probabilities are computed, too.

        Returns:
          Class ids [n, h, w], and probabilities [n, h, w, classes] float32 or None.
        """
        height, width = images.shape[1:3]
        if self.pads:
            sides = [max(side, least) for side, least in zip((height, width), self.smallest_window, strict=True)]
            images = padded(images, self.fixed_size or crop_sizes.above(sides, self.alignment), self.mean_pixel)
        labels, probabilities = self._run(images, with_probabilities)
        if probabilities is not None:
            probabilities = probabilities[:, :height, :width]
        return Outputs(labels[:, :height, :width], probabilities)

    @abc.abstractmethod
    def _run(self, images: np.ndarray, with_probabilities: bool) -> Outputs:
        """Predicts padded images."""

    @abc.abstractmethod
    def close(self) -> None:
        """Releases the network."""


class ExportRunner(Runner):
    """Runs an exported network of any format.

    Attributes:
      exported: the open export.
    """

    def __init__(self, path: str, threads: int | None = None, record: ExportFormat | None = None) -> None:
        """Loads the network.

        Args:
          path: of the export.
          threads: see `exports.opened`.
          record: see `exports.opened`.

        Raises:
          CheckpointError: There is no export, or it is not one of DeepLab.
        """
        self._path = path
        self._held = ThreadBound(lambda: exports.opened(path, threads, record))
        self.exported = exported = self._held.value
        metadata = exported.metadata
        if 'model_variant' in metadata and 'output_stride' in metadata:
            self.network = f'{metadata["model_variant"]} at output stride {metadata["output_stride"]}'
        self.has_probabilities = exported.has_probabilities
        self.channels = exported.channels
        self.num_classes = exported.num_classes or MOST_CLASSES
        self.num_channels = sum(export_metadata.maps_of(metadata).values()) or self.num_classes
        self.fixed_size = exported.size
        self.pads = not exported.takes_smaller
        self.resizes = exported.resizes
        self.mean_pixel = np.array(metadata.get('mean_pixel', 127.5), np.float32)
        if self.pads and exported.size is None:
            self.alignment = int(metadata.get('output_stride', 1))

    def run(self, images: np.ndarray, with_probabilities: bool) -> Outputs:
        """See `Runner.run`; raises `DataError` for images whose channels the network does not take."""
        return super().run(image_files.with_channels(images, self.channels), with_probabilities)

    def _run(self, images: np.ndarray, with_probabilities: bool) -> Outputs:
        if with_probabilities and not self.has_probabilities:
            raise OptionError(
                f"'{self._path}' has no output of probabilities, which confidences need. Export the "
                f'network again, with {option("ConversionOptions.outputs", "probabilities")}'
            )
        outputs: Outputs = self._held.call(self.exported.predict, images, with_probabilities)
        return outputs

    def close(self) -> None:
        """See `Runner.close`."""
        self._held.close()


class _Key(NamedTuple):
    """What distinguishes the networks of a checkpoint."""

    size: Size | None  # of the images; None for any
    with_probabilities: bool
    execution: EngineOptions


class CheckpointRunner(Runner):
    """Runs the network of a checkpoint.

    In TensorFlow, one graph takes images of any size. A network with `image_pooling_crop_size` needs a graph for each
    size, and so do other engines, which run one image at a time; these get the first `MOST_SIZES` sizes, and TensorFlow
    the others.

    The life of a network: `_key` says which one takes the images. `_network` looks it up in `_open`, or opens it in a
    thread of its own (`ThreadBound`), to which its graph and session belong: the graph is built, and its weights are
    frozen or converted for the engine. Each batch is handed to that thread. The network is closed when `MOST_NETWORKS`
    others of TensorFlow were used after it (not if it is converted), by `close`, or when nothing refers to the runner
    any more.
    """

    def __init__(
        self,
        network: InferenceNetwork,
        weights: opening.Weights,
        execution: EngineOptions,
        cache_dirs: Sequence[str] = (),
    ) -> None:
        """Creates the runner; networks are built when they are first needed.

        Args:
          network: the network; its crop size is the size to which all images are padded, None for none.
          weights: its weights.
          execution: the engine, and how it computes.
          cache_dirs: folders for converted networks, if they cannot be kept beside the checkpoint.

        Raises:
          OptionError: The engine is not installed.
        """
        opening.check(execution)
        options = network.options
        self.network = f'{options.model_variant} at output stride {options.output_stride}'
        self.channels, self.num_classes = options.input_channels, options.num_classes
        self.num_channels = TASKS.channels(options)
        self.alignment, self.fixed_size = options.output_stride, options.crop_size
        self.mean_pixel = np.array(network.mean_pixel, np.float32)
        self._described, self._weights = network, weights
        if options.image_pooling_crop_size is not None:
            self.smallest_window = options.image_pooling_crop_size
        self._execution = execution
        self._cache_dirs = cache_dirs
        self._sizes: set[Size] = set()  # for which the network is converted
        self._open: collections.OrderedDict[_Key, ThreadBound[Predict]] = collections.OrderedDict()
        self._lock = threading.Lock()
        self._is_closed = False

    def _run(self, images: np.ndarray, with_probabilities: bool) -> Outputs:
        with self._lock:
            if self._is_closed:
                raise ValueError('The network was closed before it took this image. Close it after all predictions.')
            key = self._key(images.shape[1:3], with_probabilities)
            network = self._network(key)
            batch_size = None if key.execution.engine == DEFAULT_ENGINE else 1
            return exports.in_batches(lambda batch: network.call(network.value, batch), images, batch_size)

    def close(self) -> None:
        """See `Runner.close`."""
        with self._lock:
            self._is_closed = True
            while self._open:
                self._open.popitem()[1].close()

    def _key(self, shape: Sequence[int], with_probabilities: bool) -> _Key:
        """Returns which network takes images of a size."""
        size = int(shape[0]), int(shape[1])
        if self._execution.is_auto:
            network = self._of_size(_Key(size, with_probabilities, self._execution), 1)
            self.engine_choice = opening.choose(network, self._weights, self._execution, self._cache_dirs)
            self._execution = self.engine_choice.options
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
        takes_any_size = self.fixed_size is None and self._described.options.image_pooling_crop_size is None
        return _Key(None if takes_any_size else size, with_probabilities, EngineOptions())

    def _network(self, key: _Key) -> ThreadBound[Predict]:
        if key not in self._open:
            of_tensorflow = [each for each in self._open if each.execution.engine == DEFAULT_ENGINE]
            if key.execution.engine == DEFAULT_ENGINE and len(of_tensorflow) >= MOST_NETWORKS:
                self._open.pop(of_tensorflow[0]).close()
                logging.log_first_n(
                    logging.WARNING,
                    'The images have many sizes, and this network is built anew for each. Set %s to pad all to one.',
                    1,
                    option('ModelOptions.crop_size'),
                )
            network = self._of_size(key, None if key.execution.engine == DEFAULT_ENGINE else 1)
            # Without a reference to the runner, which could otherwise not be collected, nor the network closed with it.
            opened = opening.opened(network, self._weights, key.execution, self._cache_dirs)
            self._open[key] = ThreadBound(lambda: opened)
        self._open.move_to_end(key)
        return self._open[key]

    def _of_size(self, key: _Key, batch_size: int | None) -> InferenceNetwork:
        options = dataclasses.replace(self._described.options, crop_size=key.size)
        described = self._described
        return InferenceNetwork(
            options,
            described.prediction,
            batch_size,
            key.with_probabilities,
            resize=described.resize,
            is_portable=described.is_portable,
        )
