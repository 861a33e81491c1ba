"""What runs a network on images of one size: a checkpoint in an engine, or an export with TensorFlow."""

from __future__ import annotations

import abc
import collections
import contextlib
import dataclasses
import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging
from google.protobuf import message

from deeplab.core import sessions
from deeplab.core.reasons import reason_of
from deeplab.errors import CheckpointError, DataError, OptionError
from deeplab.export import tensor_names
from deeplab.export.formats import saved_model
from deeplab.inference import opening
from deeplab.inference.network import InferenceNetwork
from deeplab.options import AUTO_ENGINE, DEFAULT_ENGINE, ModelOptions, PredictorOptions
from deeplab.prediction.held import Held
from deeplab.registry import BACKBONES, Outputs, Predict
from deeplab.utils import crop_sizes
from deeplab.wording import option
from deeplab.zoo import cache

# Networks for images of one size each that stay open at a time; the one that was used longest ago is closed first.
MOST_NETWORKS = 4

Size = tuple[int, int]


class Runner(abc.ABC):
    """Runs a network on images of one size.

    Attributes:
      channels: channels of the images.
      num_classes: number of classes.
      alignment: windows begin at multiples of it.
      fixed_size: height and width to which all images are padded, and which none may exceed; None for no limit.
      smallest_window: height and width that a window must have at least.
    """

    channels: int
    num_classes: int
    alignment: int = 1
    fixed_size: Size | None = None
    smallest_window: Size = (1, 1)

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


class CheckpointRunner(Runner):
    """Runs the network of a checkpoint.

    In TensorFlow, one graph takes images of any size. A network with `image_pooling_crop_size` needs a graph for each
    size, and so do other engines, which run one image at a time.
    """

    def __init__(self, options: ModelOptions, checkpoint: str, predictor: PredictorOptions) -> None:
        """Creates the runner; networks are built when they are first needed.

        Args:
          options: the network.
          checkpoint: path of its checkpoint.
          predictor: sizes, scales, flips and engine.

        Raises:
          OptionError: The engine is not installed.
        """
        opening.check(predictor.execution)
        self.channels, self.num_classes = options.input_channels, options.num_classes
        self.alignment, self.fixed_size = options.output_stride, predictor.crop_size
        self._options, self._predictor = options, predictor
        self._weights = opening.Weights(checkpoint, predictor.use_moving_average)
        self._mean_pixel = BACKBONES.get(options.model_variant).normalization.mean_pixel_of(self.channels)
        if options.image_pooling_crop_size is not None:
            self.smallest_window = options.image_pooling_crop_size
        self._execution = predictor.execution
        # For converted networks, if they cannot be kept beside the checkpoint.
        self._cache_dirs = [os.path.join(cache.folder(), 'engines')]
        self._open: collections.OrderedDict[tuple[Size | None, bool], Held[Predict]] = collections.OrderedDict()
        self._lock = threading.Lock()

    def run(self, images: np.ndarray, with_probabilities: bool) -> Outputs:
        """See `Runner.run`; images are padded with the mean pixel at the bottom and right, as in eval."""
        height, width = images.shape[1:3]
        padded = self._padded(images)
        with self._lock:
            network = self._network(padded.shape[1:3], with_probabilities)
            step = len(padded) if self._execution.engine == DEFAULT_ENGINE else 1
            found = [network.call(network.value, padded[i : i + step]) for i in range(0, len(padded), step)]
        labels, probabilities = found[0] if len(found) == 1 else _joined(found)
        if probabilities is not None:
            probabilities = probabilities[:, :height, :width]
        return Outputs(labels[:, :height, :width], probabilities)

    def close(self) -> None:
        """See `Runner.close`."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()

    def _padded(self, images: np.ndarray) -> np.ndarray:
        """Returns the images as float32, padded to the size of the network's input."""
        count, height, width, channels = images.shape
        sides = [max(side, least) for side, least in zip((height, width), self.smallest_window, strict=True)]
        size = self.fixed_size or crop_sizes.above(sides, self.alignment)
        if (height, width) == size:
            return images.astype(np.float32, copy=False)
        padded = np.empty((count, *size, channels), np.float32)
        padded[:, height:] = self._mean_pixel
        padded[:, :, width:] = self._mean_pixel
        padded[:, :height, :width] = images
        return padded

    def _network(self, size: Size, with_probabilities: bool) -> Held[Predict]:
        """Returns an open network for images of a size."""
        if self._execution.engine == AUTO_ENGINE:
            network = self._described(size, with_probabilities, 1)
            self._execution = opening.fastest(network, self._weights, self._execution, self._cache_dirs)
        takes_any_size = (
            self._execution.engine == DEFAULT_ENGINE
            and self.fixed_size is None
            and self._options.image_pooling_crop_size is None
        )
        key = (None if takes_any_size else (int(size[0]), int(size[1])), with_probabilities)
        if key not in self._open:
            while len(self._open) >= MOST_NETWORKS:
                self._open.popitem(last=False)[1].close()
                logging.log_first_n(
                    logging.WARNING,
                    'The images have many sizes, and this network is built anew for each. Set %s to pad all to one.',
                    1,
                    option('PredictorOptions.crop_size'),
                )
            self._open[key] = Held(lambda: self._opened(*key))
        self._open.move_to_end(key)
        return self._open[key]

    @contextlib.contextmanager
    def _opened(self, size: Size | None, with_probabilities: bool) -> Iterator[Predict]:
        """Builds a network and opens it in the engine."""
        batch_size = None if self._execution.engine == DEFAULT_ENGINE else 1
        network = self._described(size, with_probabilities, batch_size)
        with opening.opened(network, self._weights, self._execution, self._cache_dirs) as predict:
            yield predict

    def _described(self, size: Size | None, with_probabilities: bool, batch_size: int | None) -> InferenceNetwork:
        """Returns the network for images of a size."""
        crop_size = None if size is None else (int(size[0]), int(size[1]))
        options = dataclasses.replace(self._options, crop_size=crop_size)
        return InferenceNetwork(options, self._predictor.prediction, batch_size, with_probabilities)


def _joined(found: Sequence[Outputs]) -> Outputs:
    """Returns the outputs for several batches as those of one."""
    labels = np.concatenate([outputs.labels for outputs in found])
    if found[0].probabilities is None:
        return Outputs(labels)
    return Outputs(labels, np.concatenate([outputs.probabilities for outputs in found]))


class ExportRunner(Runner):
    """Runs an exported network with TensorFlow: a frozen graph or a SavedModel, of this package or the original."""

    def __init__(self, path: str) -> None:
        """Loads the network.

        Raises:
          CheckpointError: There is no export, or it is not one of DeepLab.
        """
        self._path = path
        self._held = Held(lambda: _loaded(path))
        loaded = self._held.value
        self._kind = loaded.image.dtype.as_numpy_dtype
        self.channels = int(loaded.image.shape[-1] or 3)
        scores = loaded.probabilities
        self.num_classes = int((scores.shape[-1] if scores is not None else None) or 256)
        raw = _tensor(loaded.session.graph, tensor_names.RAW_PREDICTIONS)
        is_known = raw is not None and raw.shape.rank == 3 and None not in raw.shape.as_list()[1:]
        if is_known and not _resizes(loaded.labels):
            self.fixed_size = (int(raw.shape[1]), int(raw.shape[2]))

    def run(self, images: np.ndarray, with_probabilities: bool) -> Outputs:
        """See `Runner.run`; an export takes one image at a time."""
        session, image_tensor, labels, probabilities = self._held.value
        if with_probabilities and probabilities is None:
            raise OptionError(f"'{self._path}' has no output of probabilities. Export the network again")
        fetches = [labels, probabilities][: 1 + with_probabilities]
        found = []
        try:
            for image in images:
                found.append(session.run(fetches, {image_tensor: self._in_type(image)[np.newaxis]}))
        except tf.errors.InvalidArgumentError as error:
            raise DataError(f'the exported network cannot predict it ({reason_of(error)})') from None
        ids = np.concatenate([outputs[0] for outputs in found])
        return Outputs(ids, np.concatenate([outputs[1] for outputs in found]) if with_probabilities else None)

    def close(self) -> None:
        """See `Runner.close`."""
        self._held.close()

    @property
    def image_bits(self) -> int:
        """Bits of the images that it takes, 8 or 16."""
        return 16 if self._kind == np.uint16 else 8

    def _in_type(self, image: np.ndarray) -> np.ndarray:
        """Returns an image in the type of the network's input."""
        if self._kind == np.uint16:
            return np.rint(image.astype(np.float32) * 257).astype(np.uint16)
        return np.rint(image).astype(self._kind) if image.dtype.kind == 'f' else image.astype(self._kind, copy=False)


def _tensor(graph: tf.Graph, name: str) -> tf.Tensor | None:
    """Returns the first output of an operation; None if there is no such operation."""
    try:
        return graph.get_tensor_by_name(f'{name}:0')
    except KeyError:
        return None


def _resizes(predictions: tf.Tensor) -> bool:
    """Returns whether an exported network resizes images, and its predictions back to their own size."""
    op = predictions.op
    while op.type in ('Identity', 'Squeeze', 'Cast') and op.inputs:
        op = op.inputs[0].op
    return op.type == 'ResizeNearestNeighbor'


class _Loaded(NamedTuple):
    """An export in a session."""

    session: tf.compat.v1.Session
    image: tf.Tensor
    labels: tf.Tensor
    probabilities: tf.Tensor | None


@contextlib.contextmanager
def _loaded(path: str) -> Iterator[_Loaded]:
    """Opens an export."""
    with tf.Graph().as_default() as graph, sessions.open_session(graph) as session:
        try:
            if os.path.isdir(path):
                tensors = _load_saved_model(session, path)
            else:
                tensors = _load_frozen_graph(graph, path)
        except (OSError, ValueError, tf.errors.OpError, message.DecodeError) as error:
            if isinstance(error, CheckpointError):
                raise
            raise CheckpointError(f"The export '{path}' cannot be loaded ({reason_of(error)})") from None
        yield _Loaded(session, *tensors)


def _load_frozen_graph(graph: tf.Graph, path: str) -> tuple[Any, Any, Any]:
    """Returns image, labels and probabilities of a frozen graph."""
    with open(path, 'rb') as file:
        tf.graph_util.import_graph_def(tf.compat.v1.GraphDef.FromString(file.read()), name='')
    names = (tensor_names.IMAGE, tensor_names.PREDICTIONS, tensor_names.PROBABILITIES)
    image, labels, probabilities = (_tensor(graph, name) for name in names)
    if image is None or labels is None:
        raise _not_ours(path)
    return image, labels, probabilities


def _load_saved_model(session: tf.compat.v1.Session, path: str) -> tuple[Any, Any, Any]:
    """Returns image, labels and probabilities of a SavedModel."""
    signatures = tf.compat.v1.saved_model.load(session, [saved_model.SERVING_TAG], path).signature_def
    signature = signatures[saved_model.SIGNATURE] if saved_model.SIGNATURE in signatures else None
    if signature is None or not {saved_model.IMAGE} <= set(signature.inputs):
        raise _not_ours(path)
    names = {**signature.inputs, **signature.outputs}
    wanted = (saved_model.IMAGE, saved_model.PREDICTIONS, saved_model.PROBABILITIES)
    tensors = [session.graph.get_tensor_by_name(names[key].name) if key in names else None for key in wanted]
    if tensors[1] is None:
        raise _not_ours(path)
    return tensors[0], tensors[1], tensors[2]


def _not_ours(path: str) -> CheckpointError:
    return CheckpointError(
        f"'{path}' is not an export of DeepLab: it lacks the tensors {tensor_names.IMAGE} and "
        f'{tensor_names.PREDICTIONS}, or a signature with {saved_model.IMAGE} and {saved_model.PREDICTIONS}. Give what '
        'deeplab export_model writes as frozen_graph or saved_model'
    )
