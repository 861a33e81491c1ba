"""Channels-first logits with their labels: the layout in which losses are computed.

Sums and maxima over the classes then run over contiguous memory, which is faster on a CPU than many rows of few
classes. Logits are transposed while they are small, before they are resized to the labels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf


class LabeledLogits(NamedTuple):
    """Logits and labels of all pixels of a batch, image by image and row by row.

    Attributes:
      logits: [classes, pixels] float32.
      labels: [pixels] int32, class ids; 0 for ignored pixels.
      is_counted: [pixels] bool, False for ignored pixels.
    """

    logits: tf.Tensor
    labels: tf.Tensor
    is_counted: tf.Tensor

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.logits.shape[0])


def with_labels(logits: tf.Tensor, labels: tf.Tensor, ignore_label: int) -> LabeledLogits:
    """Returns logits that have the size of the labels, channels first, with the labels.

    Args:
      logits: [..., classes] float.
      labels: [...] (or [..., 1]) int32, of as many pixels; class ids or `ignore_label`.
      ignore_label: label of the ignored pixels.
    """
    classes = logits.shape.as_list()[-1]
    values = tf.transpose(tf.cast(tf.reshape(logits, [-1, classes]), tf.float32))  # [classes, pixels]
    return _labeled(values, labels, ignore_label)


def resized_with_labels(logits: tf.Tensor, labels: tf.Tensor, ignore_label: int, stride: int = 1) -> LabeledLogits:
    """Resizes logits bilinearly to the size of the labels, and returns them channels first, with the labels.

    Args:
      logits: [n, h', w', classes] float, of known size.
      labels: [n, h, w, 1] int32, of known size; class ids or `ignore_label`.
      ignore_label: label of the ignored pixels.
      stride: distance of the rows and columns that are returned; 1 for all.
    """
    height, width = (int(side) for side in labels.shape[1:3])
    values = resize_bilinear(tf.cast(logits, tf.float32), (height, width), stride)  # [classes, n, h', w']
    if stride > 1:
        labels = labels[:, ::stride, ::stride]
    return _labeled(tf.reshape(values, [logits.shape[-1], -1]), labels, ignore_label)


def _labeled(values: tf.Tensor, labels: tf.Tensor, ignore_label: int) -> LabeledLogits:
    flat_labels = tf.reshape(labels, [-1])  # [pixels]
    is_counted = tf.not_equal(flat_labels, ignore_label)
    return LabeledLogits(values, tf.where(is_counted, flat_labels, tf.zeros_like(flat_labels)), is_counted)


def interpolation_matrix(old: int, new: int) -> np.ndarray:
    """Returns the matrix that resizes `old` values to `new` ones with aligned corners.

    Row i holds the (at most two) weights of the old values from which value i is made. Positions are computed in
    float32 as TensorFlow's `resize_bilinear(align_corners=True)` computes them.

    Args:
      old: number of values, 1 or more.
      new: wanted number of values, 1 or more.

    Returns:
      [new, old] float32; each row sums to 1.
    """
    step = np.float32(old - 1) / np.float32(new - 1) if new > 1 else np.float32(0)
    position = np.arange(new, dtype=np.float32) * step
    lower = np.minimum(np.floor(position).astype(np.int64), old - 1)
    upper = np.minimum(lower + 1, old - 1)
    fraction = position - lower.astype(np.float32)
    matrix = np.zeros((new, old), np.float32)
    rows = np.arange(new)
    np.add.at(matrix, (rows, lower), 1 - fraction)
    np.add.at(matrix, (rows, upper), fraction)
    return matrix


def resize_bilinear(images: tf.Tensor, size: tuple[int, int], stride: int = 1) -> tf.Tensor:
    """Resizes `images` bilinearly with aligned corners, as two matrix products; channels come first in the result.

    Interpolation is linear in the pixels and separates into rows and columns: resized = R image C', with one matrix R
    for the rows and one matrix C for the columns. On a CPU that is several times as fast as TensorFlow's operation,
    backwards too, and its gradient adds in a fixed order.

    Args:
      images: [n, h, w, c] float; h, w and c must be known when the graph is built, n need not be.
      size: wanted height and width, in pixels.
      stride: distance of the rows and columns of the result that are computed; 1 for all. The first ones are included.

    Returns:
      [c, n, *size] of the same type; with a stride, [c, n, ceil(height / stride), ceil(width / stride)].

    Raises:
      ValueError: if h, w or c is unknown.
    """
    height, width, channels = images.shape.as_list()[1:]
    if None in (height, width, channels):
        raise ValueError(f'Images of shape {images.shape} cannot be resized: height, width and channels must be known.')
    values = tf.transpose(images, [3, 0, 1, 2])  # [c, n, h, w]
    if (height, width) == tuple(size):
        return values if stride == 1 else values[:, :, ::stride, ::stride]
    count = channels * tf.shape(images)[0]
    rows = interpolation_matrix(height, size[0])[::stride]  # [h', h]
    columns = interpolation_matrix(width, size[1])[::stride]  # [w', w]
    values = tf.reshape(values, [count, height, width])
    tall = tf.matmul(tf.broadcast_to(tf.constant(rows, images.dtype), [count, *rows.shape]), values)  # [c * n, h', w]
    # Most of the work is left to one product over all rows of all channels.
    wide = tf.matmul(
        tf.reshape(tall, [-1, width]), tf.constant(columns, images.dtype), transpose_b=True
    )  # [c * n * h', w']
    return tf.reshape(wide, [channels, -1, len(rows), len(columns)])
