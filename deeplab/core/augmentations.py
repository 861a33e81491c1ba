"""Augmentation of training images, as pure functions: colours, rotation, blur, cutout, crops at rare classes.

An image is [h, w, channels], a label [h, w, 1] or None; where a change moves or hides pixels, it does so in both. What
is random is drawn from a `seed` that is passed in, as in `preprocess_utils`. Nothing here visits pixels one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from deeplab.core import preprocess_utils

# Share of red, green and blue in how bright a pixel looks (ITU-R BT.601).
_LUMA = (0.299, 0.587, 0.114)
# A Gaussian kernel ends where a weight is below a hundredth of the middle one.
_SIGMAS_OF_KERNEL = 3


def random_color_factors(
    brightness: float, contrast: float, saturation: float, hue: float, seed: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Draws how the colours of an image change.

    Args:
      brightness: the factor lies in [1 - brightness, 1 + brightness).
      contrast: likewise.
      saturation: likewise.
      hue: the shift lies in [-hue, hue), as a share of a full turn.
      seed: two integers.

    Returns:
      Three factors and the shift, float32 scalars.
    """
    reach = tf.constant([brightness, contrast, saturation, hue], tf.float32)
    drawn = tf.random.stateless_uniform([4], seed, -1.0, 1.0) * reach
    first, second, third, shift = tf.unstack(drawn + tf.constant([1.0, 1.0, 1.0, 0.0]))
    return first, second, third, shift


def change_colors(
    image: tf.Tensor,
    brightness: tf.Tensor | float,
    contrast: tf.Tensor | float,
    saturation: tf.Tensor | float,
    hue: tf.Tensor | float,
) -> tf.Tensor:
    """Changes brightness, contrast, saturation and hue, in this order, and cuts off what leaves 0 to 255.

    Each of the four is an affine map of a pixel's colours, so that all together are one: a matrix and an offset. A hue
    shift turns colours around the grey axis; a third of a turn makes red green, green blue and blue red.

    Args:
      image: [h, w, channels], 0 to 255. Without the three channels red, green and blue, saturation and hue change
        nothing.
      brightness: factor on every value.
      contrast: factor on the distance from the image's mean brightness.
      saturation: factor on the distance from the pixel's own grey.
      hue: share of a full turn.

    Returns:
      [h, w, channels] float32, 0 to 255.

    Source: P. Haeberli, Matrix Operations for Image Processing, 1993; arXiv:1312.5402 (as augmentation).
    """
    image = tf.cast(image, tf.float32)
    channels = image.shape[-1]
    means = tf.reduce_mean(image, axis=[0, 1])  # [channels]
    gain = tf.cast(brightness, tf.float32) * contrast
    if channels == 3:
        matrix = gain * tf.matmul(_saturation_matrix(saturation), _hue_matrix(hue))  # [3, 3]
        changed = tf.reshape(tf.matmul(tf.reshape(image, [-1, 3]), matrix), tf.shape(image))
        mean = tf.reduce_sum(means * tf.constant(_LUMA))
    else:
        changed, mean = image * gain, tf.reduce_mean(means)
    # Saturation and hue leave greys as they are, and with them the offset of contrast.
    changed = tf.clip_by_value(changed + (brightness - gain) * mean, 0.0, 255.0)
    changed.set_shape(image.shape)
    return changed


def _saturation_matrix(factor: tf.Tensor | float) -> tf.Tensor:
    """[3, 3]: what a row of red, green and blue is multiplied by."""
    grey = np.repeat(np.array(_LUMA, np.float32)[:, np.newaxis], 3, axis=1)  # each column gives the pixel's grey
    return grey + factor * (np.eye(3, dtype=np.float32) - grey)


def _hue_matrix(turns: tf.Tensor | float) -> tf.Tensor:
    """[3, 3]: likewise; a rotation around (1, 1, 1)."""
    angle = 2.0 * math.pi * tf.cast(turns, tf.float32)
    grey = np.full((3, 3), 1 / 3, np.float32)
    across = np.array([[0, 1, -1], [-1, 0, 1], [1, -1, 0]], np.float32) / math.sqrt(3.0)
    return grey + tf.cos(angle) * (np.eye(3, dtype=np.float32) - grey) + tf.sin(angle) * across


def random_angle(degrees: float, seed: tf.Tensor) -> tf.Tensor:
    """Draws an angle from [-degrees, degrees); `seed` is two integers. Returns radians, a float32 scalar."""
    return tf.random.stateless_uniform([], seed, -1.0, 1.0) * math.radians(degrees)


def rotate(
    image: tf.Tensor, label: tf.Tensor | None, angle: tf.Tensor | float, mean_pixel: Sequence[float], ignore_label: int
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Turns an image (bilinear) and its label (nearest) around their middle; sizes stay.

    Args:
      image: [h, w, channels], any numeric type.
      label: [h, w, 1], or None.
      angle: radians, counterclockwise.
      mean_pixel: what comes from outside of the image, one value for each channel.
      ignore_label: what comes from outside of the label.

    Returns:
      [h, w, channels] float32 and [h, w, 1] (or None) of the label's type.
    """
    size = tf.shape(image)[:2]
    half_height, half_width = tf.unstack((tf.cast(size, tf.float32) - 1.0) / 2.0)
    cosine, sine = tf.cos(angle), tf.sin(angle)
    # Where the pixel at (x, y) of the result comes from: x' = a x + b y + c, y' = d x + e y + f.
    offset_x = half_width - cosine * half_width + sine * half_height
    offset_y = half_height - sine * half_width - cosine * half_height
    transform = tf.stack([cosine, -sine, offset_x, sine, cosine, offset_y, 0.0, 0.0])[tf.newaxis]  # [1, 8]

    def turn(values: tf.Tensor, fill: float, interpolation: str) -> tf.Tensor:
        turned = tf.raw_ops.ImageProjectiveTransformV3(
            images=values[tf.newaxis],
            transforms=transform,
            output_shape=size,
            fill_value=fill,
            interpolation=interpolation,
            fill_mode='CONSTANT',
        )[0]
        turned.set_shape(values.shape)
        return turned

    image = tf.cast(image, tf.float32)
    if len(set(mean_pixel)) == 1:
        image = turn(image, mean_pixel[0], 'BILINEAR')
    else:  # the operation fills every channel with one value
        mean = tf.constant(mean_pixel, tf.float32)
        image = turn(image - mean, 0.0, 'BILINEAR') + mean
    return image, None if label is None else turn(label, ignore_label, 'NEAREST')


def random_blur(image: tf.Tensor, most_sigma: float, probability: float, seed: tf.Tensor) -> tf.Tensor:
    """Blurs a share of the images, each with a standard deviation drawn from [0, most_sigma).

    Args:
      image: [h, w, channels] float32.
      most_sigma: pixels.
      probability: share of the seeds that blur.
      seed: two integers.

    Returns:
      [h, w, channels] float32.
    """
    chance, share = tf.unstack(tf.random.stateless_uniform([2], seed))
    blurred = tf.cond(
        chance < probability,
        lambda: gaussian_blur(image, share * most_sigma, most_sigma),
        lambda: tf.identity(image),
    )
    blurred.set_shape(image.shape)
    return blurred


def gaussian_blur(image: tf.Tensor, sigma: tf.Tensor | float, most_sigma: float) -> tf.Tensor:
    """Blurs with a Gaussian; border pixels are repeated beyond the borders.

    Args:
      image: [h, w, channels] float32.
      sigma: standard deviation in pixels, 0 to `most_sigma`.
      most_sigma: the kernel reaches three times as far.

    Returns:
      [h, w, channels] float32.
    """
    radius = math.ceil(_SIGMAS_OF_KERNEL * most_sigma)
    distance = tf.range(-radius, radius + 1, dtype=tf.float32)
    weights = tf.exp(-0.5 * tf.square(distance / tf.maximum(tf.cast(sigma, tf.float32), 1e-3)))
    weights /= tf.reduce_sum(weights)  # [2 radius + 1]
    for _ in range(2):  # down the columns; then, with rows and columns exchanged, along the rows
        image = tf.transpose(_blur_down(image, weights, radius), [1, 0, 2])
    return image


def _blur_down(image: tf.Tensor, weights: tf.Tensor, radius: int) -> tf.Tensor:
    """Blurs each column of [h, w, channels]."""
    height, width = preprocess_utils.size_of(image)
    rows = tf.clip_by_value(tf.range(-radius, height + radius), 0, height - 1)
    # A whole row counts as the channels of one pixel: a depthwise convolution is fast where there are many.
    row = width * image.shape[-1]
    values = tf.reshape(tf.gather(image, rows), tf.stack([1, height + 2 * radius, 1, row]))
    kernel = tf.broadcast_to(tf.reshape(weights, [-1, 1, 1, 1]), tf.stack([2 * radius + 1, 1, row, 1]))
    blurred = tf.raw_ops.DepthwiseConv2dNative(
        input=values, filter=kernel, strides=[1, 1, 1, 1], padding='VALID'
    )  # [1, h, 1, w * channels]
    return tf.reshape(blurred, tf.shape(image))


def random_cutout(
    image: tf.Tensor,
    label: tf.Tensor | None,
    size: int,
    count: int,
    mean_pixel: Sequence[float],
    ignore_label: int,
    seed: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Hides squares of an image: their pixels become the mean, their labels are ignored.

    The middle of a square lies anywhere, so that part of it may lie outside. What is hidden is not asked for either:
    a small object may be hidden altogether, and nothing around it tells what it was.

    Args:
      image: [h, w, channels] float32.
      label: [h, w, 1], or None.
      size: side of a square in pixels.
      count: number of squares.
      mean_pixel: one value for each channel.
      ignore_label: label of what is hidden.
      seed: two integers.

    Returns:
      Image and label (or None), of the shapes and types given.

    Source: arXiv:1708.04552, section 3; arXiv:1906.01916, section 3 (no loss where the image is masked).
    """
    seeds = tf.unstack(tf.random.experimental.stateless_split(seed, 2))
    height, width = preprocess_utils.size_of(image)
    down, across = (
        _intervals(side, size, count, each) for side, each in zip((height, width), seeds, strict=True)
    )  # [count, h], [count, w]
    hidden = tf.matmul(down, across, transpose_a=True)[..., tf.newaxis] > 0.0  # [h, w, 1]
    if label is not None:
        label = tf.where(hidden, tf.cast(ignore_label, label.dtype), label)
    # The same for each channel: choosing among arrays of one shape is much faster than repeating one's values.
    channels = len(mean_pixel)
    hidden = tf.matmul(down, tf.repeat(across, channels, axis=1), transpose_a=True) > 0.0  # [h, w * channels]
    means = tf.tile(tf.constant(mean_pixel, image.dtype), [width])  # [w * channels]
    flat = tf.reshape(image, tf.shape(hidden))
    filled = tf.reshape(tf.where(hidden, tf.zeros_like(flat) + means, flat), tf.shape(image))
    filled.set_shape(image.shape)
    return filled, label


def _intervals(side: tf.Tensor | int, size: int, count: int, seed: tf.Tensor) -> tf.Tensor:
    """[count, side] float32: 1 in an interval of `size` values around a random one, else 0."""
    middles = tf.random.stateless_uniform([count, 1], seed, 0, side, tf.int32)
    starts = middles - size // 2
    places = tf.range(side)[tf.newaxis]
    return tf.cast((places >= starts) & (places < starts + size), tf.float32)


def rare_class_window(
    label: tf.Tensor,
    window: Sequence[tf.Tensor | int],
    class_pixels: Sequence[int] | None,
    ignore_label: int,
    seed: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Draws the upper left corner of a window that contains a pixel of a class, rare classes more often.

    A class of those in the label is drawn with a probability inverse to its number of pixels in the data set, a pixel
    of that class with equal chances, and of the windows around that pixel one with equal chances.

    Args:
      label: [h, w, 1] integer.
      window: rows and columns of the window, at most those of the label.
      class_pixels: pixels of each class in the data set; None for those of this label.
      ignore_label: never drawn, class or not.
      seed: two integers.

    Returns:
      Row and column, int32 scalars. Any window where the label holds no class.

    Source: arXiv:2111.14887, section 3.3 (there a softmax over frequencies takes the inverse's place).
    """
    seeds = tf.unstack(tf.random.experimental.stateless_split(seed, 4))
    ids = tf.cast(label[..., 0], tf.int32)  # [h, w]
    present = tf.math.bincount(ids, minlength=256, maxlength=256)  # [256]
    weights = _inverse_frequencies(present, class_pixels, ignore_label)
    height, width = preprocess_utils.size_of(label)

    def around_a_pixel() -> tuple[tf.Tensor, tf.Tensor]:
        chosen = tf.random.stateless_categorical(tf.math.log(weights)[tf.newaxis], 1, seeds[0], tf.int32)[0, 0]
        places = tf.cast(tf.where(tf.equal(ids, chosen)), tf.int32)  # [n, 2]
        pixel = places[tf.random.stateless_uniform([], seeds[1], 0, tf.shape(places)[0], tf.int32)]
        row, column = (
            tf.random.stateless_uniform(
                [], each, tf.maximum(place - length + 1, 0), tf.minimum(place, side - length) + 1, tf.int32
            )
            for each, place, length, side in zip(seeds[2:], tf.unstack(pixel), window, (height, width), strict=True)
        )
        return row, column

    def anywhere() -> tuple[tf.Tensor, tf.Tensor]:
        return preprocess_utils.random_window(height, width, window, seed)

    return tf.cond(tf.reduce_sum(weights) > 0.0, around_a_pixel, anywhere)


def _inverse_frequencies(present: tf.Tensor, class_pixels: Sequence[int] | None, ignore_label: int) -> tf.Tensor:
    """[256] float32: one over the number of pixels for classes that are `present` ([256]), else 0."""
    pixels = tf.cast(present, tf.float32)
    if class_pixels is not None:
        known = np.zeros(256, np.float32)
        known[: len(class_pixels)] = class_pixels
        pixels = tf.where(present > 0, known, 0.0)
    is_class = (pixels > 0.0) & (tf.range(256) != ignore_label)
    return tf.where(is_class, 1.0 / tf.maximum(pixels, 1.0), 0.0)
