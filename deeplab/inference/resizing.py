"""Resizing of images to the range of sizes that a network was trained on, and of its predictions back."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from deeplab import common, input_preprocess
from deeplab.core import sessions, shapes
from deeplab.inference.held import Held
from deeplab.options import ResizeOptions


class Resizer:
    """Resizes as eval and vis do; several threads may use it at a time."""

    def __init__(self, resize: ResizeOptions, channels: int) -> None:
        """Builds the operations.

        Args:
          resize: range of the sides.
          channels: channels of the images.
        """
        with tf.Graph().as_default() as graph:
            self._image = tf.compat.v1.placeholder(tf.float32, [None, None, channels])
            self._resized = input_preprocess.resize_to_range(resize)({common.IMAGE: self._image})[common.IMAGE]
            self._size = tf.compat.v1.placeholder(tf.int32, [2])
            size = tf.unstack(self._size)
            self._labels = tf.compat.v1.placeholder(tf.uint8, [None, None])
            wide = tf.cast(self._labels, tf.int32)[tf.newaxis, ..., tf.newaxis]  # [1, h', w', 1]
            self._own_labels = tf.cast(shapes.resize_nearest(wide, size)[0, ..., 0], tf.uint8)  # [h, w]
            self._scores = tf.compat.v1.placeholder(tf.float32, [None, None, None])
            self._own_scores = shapes.resize_bilinear(self._scores[tf.newaxis], size)[0]  # [h, w, c]
        self._session = Held(lambda: sessions.open_session(graph))

    def resized(self, image: np.ndarray) -> np.ndarray:
        """Returns an image [h, w, channels] in a size of the range, float32."""
        return self._session.value.run(self._resized, {self._image: image})

    def labels(self, labels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
        """Returns labels [h', w'] uint8 in another size, by nearest neighbor."""
        return self._session.value.run(self._own_labels, {self._labels: labels, self._size: size})

    def scores(self, scores: np.ndarray, size: tuple[int, int]) -> np.ndarray:
        """Returns probabilities [h', w', classes] in another size, bilinearly."""
        return self._session.value.run(self._own_scores, {self._scores: scores, self._size: size})

    def close(self) -> None:
        """Releases the operations."""
        self._session.close()
