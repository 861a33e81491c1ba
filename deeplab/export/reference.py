"""The network of a checkpoint in TensorFlow, with which exports are compared."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import numpy as np

from deeplab.inference.network import InferenceNetwork
from deeplab.inference.runners import padded
from deeplab.options import DEFAULT_ENGINE, ExportOptions
from deeplab.registry import ENGINES, Execution, Outputs, Predict


class Reference:
    """Predicts images with the network of a checkpoint.

    Attributes:
      mean_pixel: value of padding, [channels].
    """

    def __init__(self, network: InferenceNetwork, predict: Predict) -> None:
        """Creates it; `opened` does."""
        self._network, self._predict = network, predict
        self.mean_pixel = np.asarray(network.mean_pixel, np.float32)

    def run(self, image: np.ndarray) -> Outputs:
        """Returns labels [h, w] and probabilities [h, w, classes] of an image [h, w, channels], padded to the crop."""
        height, width = image.shape[:2]
        assert self._network.crop_size is not None
        labels, probabilities = self._predict(padded(image[np.newaxis], self._network.crop_size, self.mean_pixel))
        return Outputs(labels[0, :height, :width], probabilities[0, :height, :width])


@contextlib.contextmanager
def opened(options: ExportOptions, checkpoint: str) -> Iterator[Reference]:
    """Opens the network for the `with` block.

    Raises:
      CheckpointError: The checkpoint does not match it.
    """
    network = InferenceNetwork(options.model, options.prediction, 1, with_probabilities=True)
    frozen = network.frozen(checkpoint, bool(options.use_moving_average))
    with ENGINES.get(DEFAULT_ENGINE).open(frozen, Execution()) as predict:
        yield Reference(network, predict)


def portable_network(options: ExportOptions) -> InferenceNetwork:
    """Returns the network in the form that other runtimes take."""
    conversion = options.conversion
    model = dataclasses.replace(options.model, crop_size=None) if conversion.is_resizable else options.model
    batch_size = None if conversion.has_dynamic_batch else 1
    return InferenceNetwork(model, options.prediction, batch_size, conversion.outputs == 'probabilities')
