"""Sizes of feature maps, and resizing with aligned corners."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

# A side in pixels: an int if it is static, or a scalar int32 tensor.
Side: TypeAlias = int | tf.Tensor
# Types that are too imprecise for sums and positions.
_SHORT_TYPES = (tf.float16, tf.bfloat16)


def scaled_size(side: Side, scale: float) -> Side:
    """Returns the side `int((side - 1) * scale + 1)`: corners stay corners.

    Args:
      side: side in pixels, an int or a scalar int32 tensor.
      scale: factor, greater than 0.
    """
    if isinstance(side, int):
        return int((side - 1) * scale + 1)
    mantissa, _ = math.frexp(scale)
    if mantissa == 0.5 and scale <= 1:  # a power of two: the same in integers, which other runtimes have, too
        return (side - 1) // round(1 / scale) + 1
    return tf.cast((tf.cast(side, tf.float64) - 1.0) * scale + 1.0, tf.int32)  # as Python computes it


def spatial_size(tensor: tf.Tensor) -> tuple[Side, Side]:
    """Returns height and width of [..., h, w, c]; ints if they are static."""
    dynamic: Any = None
    sides: list[Side] = []
    for axis in (-3, -2):
        side = tensor.shape[axis]
        if side is None and dynamic is None:
            dynamic = tf.shape(tensor)
        sides.append(dynamic[axis] if side is None else int(side))
    return sides[0], sides[1]


def static_side(side: Side) -> int | None:
    """Returns a side as `set_shape` takes it: None if it is not static."""
    return side if isinstance(side, int) else None


def _resize(images: tf.Tensor, size: Sequence[Side], resize: Callable[..., tf.Tensor]) -> tf.Tensor:
    """Resizes with one of TensorFlow's operations: tf.compat.v1.image warns, tf.image.resize aligns other corners."""
    height, width = size
    if isinstance(height, int) and isinstance(width, int) and images.shape[1:3].as_list() == [height, width]:
        return images  # aligned corners make this the identity
    resized = resize(images=images, size=tf.stack([height, width]), align_corners=True)
    resized.set_shape([images.shape[0], static_side(height), static_side(width), images.shape[3]])
    return resized


def resize_bilinear(images: tf.Tensor, size: Sequence[Side]) -> tf.Tensor:
    """Resizes [n, h, w, c] to `size` (height, width) bilinearly, corners aligned.

    Args:
      images: [n, h, w, c] of any type.
      size: height and width, ints or scalar int32 tensors.

    Returns:
      [n, height, width, c]; float16 and bfloat16 keep their type, others become float32.
    """
    resized = _resize(tf.cast(images, tf.float32), size, tf.raw_ops.ResizeBilinear)
    return tf.cast(resized, images.dtype) if images.dtype in _SHORT_TYPES else resized


def spatial_mean(values: tf.Tensor) -> tf.Tensor:
    """Returns the mean over all positions of [n, h, w, c]: [n, 1, 1, c] of the same type, summed in float32."""
    if values.dtype not in _SHORT_TYPES:
        return tf.reduce_mean(values, axis=[1, 2], keepdims=True)
    return tf.cast(tf.reduce_mean(tf.cast(values, tf.float32), axis=[1, 2], keepdims=True), values.dtype)


def resize_nearest(images: tf.Tensor, size: Sequence[Side]) -> tf.Tensor:
    """Resizes [n, h, w, c] of any type to `size` (height, width) by nearest neighbor, corners aligned."""
    return _resize(images, size, tf.raw_ops.ResizeNearestNeighbor)
