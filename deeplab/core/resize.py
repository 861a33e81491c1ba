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


def bilinear(images: tf.Tensor, size: tuple[int, int]) -> tf.Tensor:
    """Resizes `images` to `size` by bilinear interpolation with aligned corners.

    Args:
      images: [n, h, w, c] float; h, w and c must be known when the graph is built, n need not be.
      size: wanted height and width, in pixels.

    Returns:
      [n, *size, c] of the same type; `images` itself where the size is that already.

    Raises:
      ValueError: if h, w or c is unknown.
    """
    height, width, channels = images.shape.as_list()[1:]
    if None in (height, width, channels):
        raise ValueError(f'bilinear needs images of a known size and depth; it was given {images.shape}.')
    if (height, width) == tuple(size):
        return images
    count = tf.shape(images)[0]
    rows = tf.constant(interpolation_matrix(height, size[0]), images.dtype)
    columns = tf.constant(interpolation_matrix(width, size[1]), images.dtype)
    # Columns first, while there are few rows: one product over all images at once.
    wide = tf.reshape(tf.transpose(images, [2, 0, 1, 3]), [width, -1])  # [w, n * h * c]
    wide = tf.reshape(tf.matmul(columns, wide), [size[1], count, height, channels])
    wide = tf.reshape(tf.transpose(wide, [1, 2, 0, 3]), [count, height, size[1] * channels])  # [n, h, w' * c]
    tall = tf.matmul(tf.broadcast_to(rows, [count, size[0], height]), wide)  # [n, h', w' * c]
    return tf.reshape(tall, [count, size[0], size[1], channels])
