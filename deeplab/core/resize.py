"""Bilinear resizing with aligned corners, as two matrix products.

Interpolation is linear in the pixels and separates into rows and columns, so it is one small matrix for each axis. On
a CPU that is several times as fast as TensorFlow's own op, backwards too, and its gradient adds in a fixed order.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf


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
    share = position - lower.astype(np.float32)
    matrix = np.zeros((new, old), np.float32)
    rows = np.arange(new)
    np.add.at(matrix, (rows, lower), 1 - share)
    np.add.at(matrix, (rows, upper), share)
    return matrix


def bilinear_planes(images: tf.Tensor, size: tuple[int, int], stride: int = 1) -> tf.Tensor:
    """Resizes `images` to `size` by bilinear interpolation with aligned corners; channels come first in the result.

    Args:
      images: [n, h, w, c] float; h, w and c must be known when the graph is built, n need not be.
      size: wanted height and width, in pixels.
      stride: of the rows and columns of the result that are computed, the first ones included; 1 for all.

    Returns:
      [c, n, *size] of the same type; with a stride, [c, n, ceil(height / stride), ceil(width / stride)].

    Raises:
      ValueError: if h, w or c is unknown.
    """
    height, width, channels = images.shape.as_list()[1:]
    if None in (height, width, channels):
        raise ValueError(f'bilinear_planes needs images of a known size and depth; it was given {images.shape}.')
    planes = tf.transpose(images, [3, 0, 1, 2])  # [c, n, h, w]
    if (height, width) == tuple(size):
        return planes if stride == 1 else planes[:, :, ::stride, ::stride]
    count = channels * tf.shape(images)[0]
    rows = interpolation_matrix(height, size[0])[::stride]  # [h', h]
    columns = interpolation_matrix(width, size[1])[::stride]  # [w', w]
    planes = tf.reshape(planes, [count, height, width])
    tall = tf.matmul(tf.broadcast_to(tf.constant(rows, images.dtype), [count, *rows.shape]), planes)  # [c * n, h', w]
    # Most of the work is left to one product over all rows of all planes.
    wide = tf.matmul(
        tf.reshape(tall, [-1, width]), tf.constant(columns, images.dtype), transpose_b=True
    )  # [c * n * h', w']
    return tf.reshape(wide, [channels, -1, len(rows), len(columns)])
