"""Random brightness, contrast, saturation and hue."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from deeplab.core.lazy import tf
from deeplab.registry import BEFORE_CROP, Augmentation, AugmentContext, Parameter, register
from deeplab.registry.augmentations import keep_points

# Weights of red, green and blue in the luma of a pixel (ITU-R BT.601).
_LUMA = (0.299, 0.587, 0.114)


def change_colors_randomly(
    image: tf.Tensor, label: tf.Tensor | None, seed: tf.Tensor, context: AugmentContext, **jitter: float
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Changes brightness, contrast, saturation and hue of the image, which becomes float32.

    For arguments and result see `registry.Augmentation`.
    """
    factors = random_color_factors(
        jitter['jitter_brightness'], jitter['jitter_contrast'], jitter['jitter_saturation'], jitter['jitter_hue'], seed
    )
    return change_colors(image, *factors), label


def random_color_factors(
    brightness: float, contrast: float, saturation: float, hue: float, seed: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Draws how the colors of an image change.

    Args:
      brightness: the factor lies in [1 - brightness, 1 + brightness).
      contrast: likewise.
      saturation: likewise.
      hue: the shift lies in [-hue, hue), as a fraction of a full turn.
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

    Each of the four is an affine map of a pixel's colors, so that all together are one: a matrix and an offset. A hue
    shift turns colors around the gray axis; a third of a turn makes red green, green blue and blue red.

    Args:
      image: [h, w, channels], 0 to 255. Without the three channels red, green and blue, saturation and hue change
        nothing.
      brightness: factor on every value.
      contrast: factor on the distance from the image's mean brightness.
      saturation: factor on the distance from the pixel's own gray.
      hue: shift as a fraction of a full turn.

    Returns:
      [h, w, channels] float32, 0 to 255.

    Source: P. Haeberli, Matrix Operations for Image Processing, 1993; arXiv:1312.5402 (as augmentation).
    """
    image = tf.cast(image, tf.float32)
    channels = image.shape[-1]
    means = tf.reduce_mean(tf.reduce_mean(image, axis=0), axis=0)  # [channels]; faster than over both axes at once
    gain = tf.cast(brightness, tf.float32) * contrast
    if channels == 3:
        matrix = gain * tf.matmul(_saturation_matrix(saturation), _hue_matrix(hue))  # [3, 3]
        changed = tf.reshape(tf.matmul(tf.reshape(image, [-1, 3]), matrix), tf.shape(image))
        mean = tf.reduce_sum(means * tf.constant(_LUMA))
    else:
        changed, mean = image * gain, tf.reduce_mean(means)
    # Saturation and hue leave grays as they are, and with them the offset of contrast.
    changed = changed + (brightness - gain) * mean
    changed = tf.raw_ops.ClipByValue(t=changed, clip_value_min=0.0, clip_value_max=255.0)
    changed.set_shape(image.shape)
    return changed


def _saturation_matrix(factor: tf.Tensor | float) -> tf.Tensor:
    """Returns the matrix by which a row of red, green and blue is multiplied, [3, 3]."""
    gray = np.repeat(np.array(_LUMA, np.float32)[:, np.newaxis], 3, axis=1)  # each column gives the pixel's gray
    return gray + factor * (np.eye(3, dtype=np.float32) - gray)


def _hue_matrix(turns: tf.Tensor | float) -> tf.Tensor:
    """Returns the matrix of a rotation around (1, 1, 1), [3, 3]."""
    angle = 2.0 * math.pi * tf.cast(turns, tf.float32)
    gray = np.full((3, 3), 1 / 3, np.float32)
    across = np.array([[0, 1, -1], [-1, 0, 1], [1, -1, 0]], np.float32) / math.sqrt(3.0)
    return gray + tf.cos(angle) * (np.eye(3, dtype=np.float32) - gray) + tf.sin(angle) * across


def _details(values: Mapping[str, Any]) -> str:
    names = zip(('bright.', 'contr.', 'satur.', 'hue'), values.values(), strict=True)
    return ', '.join(f'{name} {value:g}' for name, value in names if value)


register(
    Augmentation(
        name='colors',
        summary='Random brightness, contrast, saturation and hue.',
        function=change_colors_randomly,
        stage=BEFORE_CROP,  # before anything puts the mean pixel into the image
        order=1,
        is_on=lambda values: any(values.values()),
        parameters=(
            Parameter(
                'jitter_brightness',
                0.0,
                'Multiply the brightness by a random factor from 1 minus this to 1 plus this, such as 0.2. 0 disables '
                'it, here and in the options that follow; deeplab preview draws their effect.',
                range='[0, 1]',
            ),
            Parameter(
                'jitter_contrast',
                0.0,
                'Multiply the contrast by a random factor, as for {jitter_brightness}.',
                range='[0, 1]',
            ),
            Parameter(
                'jitter_saturation',
                0.0,
                'Multiply the saturation by a random factor, as for {jitter_brightness}.',
                range='[0, 1]',
            ),
            Parameter(
                'jitter_hue',
                0.0,
                'Rotate the hue by up to this fraction of the color circle, such as 0.02, in either direction.',
                range='[0, 0.5]',
            ),
        ),
        source='P. Haeberli, Matrix Operations for Image Processing, 1993; arXiv:1312.5402',
        title='Colors',
        details=_details,
        takes_planes=True,
        move_points=keep_points,
        strongest={'jitter_brightness': 0.5, 'jitter_contrast': 0.5, 'jitter_saturation': 0.8, 'jitter_hue': 0.1},
        seed_number=3,
    )
)
