"""Pure functions on one image and its label: resize, scale, pad, crop.

An image is [h, w, channels], a label [h, w, planes]; both move together. Random values are drawn
from a `seed` that is passed in, so that equal seeds give equal results in any order and on any thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from deeplab.core.lazy import shapes, tf

if TYPE_CHECKING:
    from deeplab.core.shapes import Side as Side

    Integers: TypeAlias = tf.Tensor | np.ndarray | int


def resize_image(image: tf.Tensor, size: tf.Tensor | Sequence[int]) -> tf.Tensor:
    """Resizes an image bilinearly, its corner pixels staying at the corners.

    Args:
      image: [h, w, channels], any numeric type; or a batch of images, [n, h, w, channels].
      size: two int32, rows and columns of the result.

    Returns:
      [size[0], size[1], channels] float32, or a batch.
    """
    if len(image.shape) == 4:
        return tf.raw_ops.ResizeBilinear(images=image, size=size, align_corners=True)  # [n, rows, columns, channels]
    resized = tf.raw_ops.ResizeBilinear(images=image[tf.newaxis], size=size, align_corners=True)
    return resized[0]  # [rows, columns, channels]


def resize_label(label: tf.Tensor, size: tf.Tensor | Sequence[int]) -> tf.Tensor:
    """Resizes a label by nearest neighbor, its corner pixels staying at the corners.

    Args:
      label: [h, w, planes], any type.
      size: two int32, rows and columns of the result.

    Returns:
      [size[0], size[1], planes] of the label's type.
    """
    return _nearest_window(label, size, 0, 0, size[0], size[1])


def _nearest_window(
    label: tf.Tensor,
    size: tf.Tensor | Sequence[int],
    offset_height: Side,
    offset_width: Side,
    height: Side,
    width: Side,
) -> tf.Tensor:
    """Returns the window [height, width, planes] of `label` resized to `size`, without computing the rest.

    The values equal the result of TensorFlow's resizing and cropping, in a fraction of the time: a resized label may be
    many times as large as the window.
    """
    old_height, old_width = size_of(label)
    rows = _nearest_sources(old_height, size[0], offset_height, height)  # [height]
    columns = _nearest_sources(old_width, size[1], offset_width, width)  # [width]
    places = rows[:, tf.newaxis] * old_width + columns  # [height, width]
    planes = label.shape[-1]
    if planes == 1:
        window = tf.gather(tf.reshape(label, [-1]), places)[..., tf.newaxis]  # [height, width, 1]
    else:
        window = tf.gather(tf.reshape(label, [-1, planes]), places)  # [height, width, planes]
    window.set_shape([shapes.static_side(height), shapes.static_side(width), planes])
    return window


def _nearest_sources(old: Side, new: Side, start: Side, count: Side) -> tf.Tensor:
    """Returns, for `new` values from `start` on, the indices of the `old` ones that they copy: [count] int32."""
    step = tf.cast(old - 1, tf.float32) / tf.cast(tf.maximum(new - 1, 1), tf.float32)
    position = tf.cast(tf.range(start, start + count), tf.float32) * step
    # Half rounds up; float64 keeps the sum from rounding.
    return tf.cast(tf.floor(tf.cast(position, tf.float64) + 0.5), tf.int32)


def size_in_range(
    height: Integers, width: Integers, min_value: int | None, max_value: int | None, factor: int | None = None
) -> tuple[Integers, Integers]:
    """Returns the size that an image gets when its sides are brought into a range.

    The short side becomes `min_value`, unless the long side would then pass `max_value`: in this case the long side
    becomes `max_value`. Sides are rounded down, in float32. With a factor, `max_value` is first lowered to the next
    `k * factor + 1`, and each side is at last raised to the next `k * factor + 1`. Works element by element.

    Args:
      height: rows, integer of any shape.
      width: columns, likewise.
      min_value: wanted short side in pixels; None to keep the short side.
      max_value: bound on the long side in pixels; None for no bound.
      factor: see above; None for sides of any length.

    Returns:
      Rows and columns, int32, at least 1: tensors for tensors, else NumPy arrays.

    Source: arXiv:1702.02138, section 3 (a short side, and a bound on the long one); multiples plus one keep
      corners aligned through the strides of a network (arXiv:1606.00915).
    """
    # Static sizes are computed with NumPy: the same float32 arithmetic, without a graph.
    is_static = not tf.is_tensor(height) and not tf.is_tensor(width)
    library, cast = (np, lambda x, kind: np.asarray(x, kind)) if is_static else (tf, tf.cast)
    height, width = cast(height, np.float32), cast(width, np.float32)
    short, long = library.minimum(height, width), library.maximum(height, width)
    scale = library.ones_like(short) if min_value is None else np.float32(min_value) / short
    if max_value is not None:
        bound = np.float32(max_value if factor is None else (max_value - 1) // factor * factor + 1)
        scale = library.where(library.floor(long * scale) > bound, bound / long, scale)
    sides = [library.maximum(cast(library.floor(side * scale), np.int32), 1) for side in (height, width)]
    if factor is not None:
        sides = [side + (1 - side) % factor for side in sides]
    return sides[0], sides[1]


def random_scale_value(min_factor: float, max_factor: float, step: float, seed: tf.Tensor) -> tf.Tensor:
    """Draws the factor by which an image is scaled.

    Args:
      min_factor: smallest factor, greater than 0.
      max_factor: largest factor.
      step: 0 draws uniformly from [min_factor, max_factor); otherwise one of int((max_factor - min_factor) / step + 1)
        evenly spaced values is drawn, both ends among them.
      seed: two integers.

    Returns:
      A float32 scalar.
    """
    if min_factor == max_factor:
        return tf.constant(min_factor, tf.float32)
    if step == 0:
        return tf.random.stateless_uniform([], seed, min_factor, max_factor)
    count = int((max_factor - min_factor) / step + 1)
    values = tf.linspace(tf.constant(min_factor, tf.float32), tf.constant(max_factor, tf.float32), count)  # [count]
    return values[tf.random.stateless_uniform([], seed, 0, count, tf.int32)]


def scaled_size(height: tf.Tensor, width: tf.Tensor, scale: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns `int(side * scale)` of both sides, int32, at least 1; the product is taken in float32."""
    sides = [tf.cast(tf.cast(side, tf.float32) * scale, tf.int32) for side in (height, width)]
    return tf.maximum(sides[0], 1), tf.maximum(sides[1], 1)


def pad_to_bounding_box(
    values: tf.Tensor,
    offset_height: Side,
    offset_width: Side,
    target_height: Side,
    target_width: Side,
    pad_value: Sequence[float] | float,
) -> tf.Tensor:
    """Puts an image or a label into a larger one that is filled with `pad_value`.

    Args:
      values: [h, w, channels], or a batch, [n, h, w, channels].
      offset_height: rows of padding above, 0 or more.
      offset_width: columns of padding to the left, 0 or more.
      target_height: rows of the result, at least offset_height + h.
      target_width: columns of the result, at least offset_width + w.
      pad_value: one value, or one for each channel.

    Returns:
      [target_height, target_width, channels] of the type of `values`, or a batch.

    Raises:
      ValueError: the values do not fit, and all sizes are static. (Otherwise, running the graph fails.)
    """
    height, width = size_of(values)
    above, left = offset_height, offset_width
    below, right = target_height - above - height, target_width - left - width
    static = [side for side in (above, left, below, right) if isinstance(side, int)]
    if min(static, default=0) < 0:
        raise ValueError(
            f'{height}x{width} pixels at row {above}, column {left} do not fit into {target_height}x{target_width}.'
        )
    channels, rows_axis = values.shape[-1], values.shape.rank - 3
    batch = [tf.shape(values)[0] for _ in range(rows_axis)]
    pixel = tf.broadcast_to(tf.cast(pad_value, values.dtype), [channels])

    def filled(rows: Side, columns: Side) -> tf.Tensor:
        return tf.broadcast_to(pixel, tf.stack([*batch, rows, columns, channels]))

    values = tf.concat(
        [filled(above, width), values, filled(below, width)], axis=rows_axis
    )  # [..., target_height, w, c]
    values = tf.concat([filled(target_height, left), values, filled(target_height, right)], axis=rows_axis + 1)
    values.set_shape(
        [*values.shape[:rows_axis], shapes.static_side(target_height), shapes.static_side(target_width), channels]
    )
    return values  # [..., target_height, target_width, channels]


def pad_both(
    image: tf.Tensor,
    label: tf.Tensor | None,
    target_height: Side,
    target_width: Side,
    mean_pixel: Sequence[float],
    label_fill: Sequence[int] | int,
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Pads at the bottom and right: the image with `mean_pixel` (RGB, 0 to 255), the label with `label_fill`."""
    image = pad_to_bounding_box(image, 0, 0, target_height, target_width, mean_pixel)
    if label is not None:
        label = pad_to_bounding_box(label, 0, 0, target_height, target_width, label_fill)
    return image, label


def fit(
    image: tf.Tensor,
    label: tf.Tensor | None,
    size: Sequence[Side],
    mean_pixel: Sequence[float],
    label_fill: Sequence[int],
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Brings an image and its label to `size` (rows and columns): cropped and padded at the bottom and right."""
    window = window_in(size_of(image), size)
    label = None if label is None else crop(label, 0, 0, *window)
    return pad_both(crop(image, 0, 0, *window), label, size[0], size[1], mean_pixel, label_fill)


def crop(values: tf.Tensor, offset_height: Side, offset_width: Side, height: Side, width: Side) -> tf.Tensor:
    """Cuts [height, width, channels] out of `values` ([h, w, channels]), from a row and a column on."""
    window = tf.slice(values, tf.stack([offset_height, offset_width, 0]), tf.stack([height, width, -1]))
    window.set_shape([shapes.static_side(height), shapes.static_side(width), values.shape[-1]])
    return window  # [height, width, channels]


def random_window(size: Sequence[Side], window: Sequence[Side], seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Draws the upper left corner of a window; every place is as likely as any other.

    Args:
      size: rows and columns of the image, at least as many as of the window.
      window: rows and columns of the window.
      seed: two integers.

    Returns:
      Row and column, int32 scalars.
    """
    row_seed, column_seed = tf.unstack(tf.random.experimental.stateless_split(seed, 2))
    row = tf.random.stateless_uniform([], row_seed, 0, size[0] - window[0] + 1, tf.int32)
    return row, tf.random.stateless_uniform([], column_seed, 0, size[1] - window[1] + 1, tf.int32)


def window_in(size: Sequence[Side], crop_size: Sequence[Side]) -> list[tf.Tensor]:
    """Returns rows and columns of a crop out of `size` (rows and columns): a side that is smaller stays whole."""
    return [tf.minimum(side, most) for side, most in zip(size, crop_size, strict=True)]


def resize_and_crop(
    image: tf.Tensor,
    label: tf.Tensor | None,
    size: Sequence[Side],
    corner: tuple[tf.Tensor, tf.Tensor],
    window: Sequence[Side],
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Resizes an image and its label and cuts the same window out of both.

    Args:
      image: [h, w, channels], any numeric type.
      label: [h, w, planes], or None.
      size: rows and columns to resize to.
      corner: row and column of the window's first pixel.
      window: rows and columns of the window.

    Returns:
      [*window, channels] float32 and [*window, planes] (or None) of the label's type.
    """
    cropped = None if label is None else _nearest_window(label, size, *corner, *window)
    return crop(resize_image(image, size), *corner, *window), cropped


def size_of(values: tf.Tensor) -> tuple[Side, Side]:
    """Returns rows and columns of [..., h, w, channels]: static sides as integers, others as int32 scalars."""
    return shapes.spatial_size(tf.convert_to_tensor(values))
