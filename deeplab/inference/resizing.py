"""Images in the sizes that a network takes: resized as in the training, and padded."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from deeplab import common, input_preprocess
from deeplab.core import sessions, shapes
from deeplab.inference.thread_bound import ThreadBound
from deeplab.options import ResizeOptions
from deeplab.registry import Preprocessing

Size = tuple[int, int]


class Resizer:
    """Resizes images to the sizes of the training, and predictions back, as eval and vis do.

    Several threads may use it at a time.
    """

    def __init__(
        self, resize: ResizeOptions | Preprocessing, channels: int, crop_size: tuple[int, int] | None = None
    ) -> None:
        """Builds the operations; see `input_preprocess.resize_for`."""
        change = input_preprocess.resize_for(resize, crop_size)
        with tf.Graph().as_default() as graph:
            self._image = tf.compat.v1.placeholder(tf.float32, [None, None, channels])
            self._resized = change({common.IMAGE: self._image})[common.IMAGE]
            self._size = tf.compat.v1.placeholder(tf.int32, [2])
            self._scores = tf.compat.v1.placeholder(tf.float32, [None, None, None])
            self._own_scores = shapes.resize_bilinear(self._scores[tf.newaxis], tf.unstack(self._size))[0]  # [h, w, c]
        self._session = ThreadBound(lambda: sessions.open_session(graph))

    def resized(self, image: np.ndarray) -> np.ndarray:
        """Returns an image [h, w, channels] in a size of the range, float32."""
        return self._run(self._resized, {self._image: image})

    def scores(self, scores: np.ndarray, size: tuple[int, int]) -> np.ndarray:
        """Returns probabilities [h', w', classes] in another size, bilinearly."""
        return self._run(self._own_scores, {self._scores: scores, self._size: size})

    def _run(self, output: tf.Tensor, fed: dict[tf.Tensor, Any]) -> np.ndarray:
        array: np.ndarray = self._session.value.run(output, fed)
        return array

    def close(self) -> None:
        """Releases the operations."""
        self._session.close()


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
