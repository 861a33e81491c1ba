"""Random squares that are cut out of images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deeplab.core import preprocess_utils
from deeplab.core.lazy import tf
from deeplab.errors import OptionError
from deeplab.registry import AFTER_CROP, Augmentation, AugmentContext, Parameter, register
from deeplab.registry.augmentations import keep_points
from deeplab.wording import option


def cut_out_randomly(
    image: tf.Tensor,
    label: tf.Tensor | None,
    seed: tf.Tensor,
    context: AugmentContext,
    cutout_size: int,
    cutout_count: int,
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Hides squares of an image: their pixels become the mean, their labels are ignored.

    The middle of a square is any pixel, so that part of the square may be outside the image. Hidden pixels are excluded
    from the loss, because a square may hide an object whose class its surroundings do not show. For arguments and
    result see `registry.Augmentation`.

    Source: arXiv:1708.04552, section 3; arXiv:1906.01916, section 3 (no loss where the image is masked).
    """
    seeds = tf.unstack(tf.random.experimental.stateless_split(seed, 2))
    height, width = preprocess_utils.size_of(image)
    down = _intervals(height, cutout_size, cutout_count, seeds[0])  # [count, h]
    across = _intervals(width, cutout_size, cutout_count, seeds[1])  # [count, w]
    hidden = tf.matmul(down, across, transpose_a=True)[..., tf.newaxis] > 0.0  # [h, w, 1]
    if label is not None:
        label = tf.where(hidden, tf.constant(context.label_fill, label.dtype), label)
    # The same for each channel: choosing among arrays of one shape is much faster than repeating one's values.
    across = tf.repeat(across, len(context.mean_pixel), axis=1)
    hidden = tf.matmul(down, across, transpose_a=True) > 0.0  # [h, w * channels]
    means = tf.tile(tf.constant(context.mean_pixel, image.dtype), [width])  # [w * channels]
    flat = tf.reshape(image, tf.shape(hidden))
    filled = tf.reshape(tf.where(hidden, tf.zeros_like(flat) + means, flat), tf.shape(image))
    filled.set_shape(image.shape)
    return filled, label


def _intervals(side: tf.Tensor | int, size: int, count: int, seed: tf.Tensor) -> tf.Tensor:
    """Returns 1 in an interval of `size` values around a random one, else 0: [count, side] float32."""
    middles = tf.random.stateless_uniform([count, 1], seed, 0, side, tf.int32)
    starts = middles - size // 2
    places = tf.range(side)[tf.newaxis]
    return tf.cast((places >= starts) & (places < starts + size), tf.float32)


def _check(values: Mapping[str, Any], crop_size: Sequence[int]) -> None:
    """Raises `OptionError` for squares that may hide a whole crop."""
    size = values['cutout_size']
    if size >= min(crop_size):
        raise OptionError(
            f'{option("AugmentOptions.cutout_size", size)} is not allowed: it must be less than both sides of '
            f'{option("ModelOptions.crop_size", crop_size)}.'
        )


def _details(values: Mapping[str, Any]) -> str:
    count = values['cutout_count']
    return f'{count} {"square" if count == 1 else "squares"} of {values["cutout_size"]} pixels'


register(
    Augmentation(
        name='cutout',
        summary='Squares cut out of images and excluded from the loss.',
        function=cut_out_randomly,
        stage=AFTER_CROP,
        order=2,
        check=_check,
        parameters=(
            Parameter(
                'cutout_size',
                0,
                'Side, in pixels, of squares that are cut out of images; their pixels are excluded from the loss.',
                range='[0, 4096]',
            ),
            Parameter(
                'cutout_count', 1, 'Number of squares that {cutout_size} cuts out of an image.', range='(0, inf)'
            ),
        ),
        source='arXiv:1708.04552, section 3; arXiv:1906.01916, section 3',
        title='Cutout',
        details=_details,
        takes_planes=True,
        move_points=keep_points,
        strongest={'cutout_size': 64},
        seed_number=6,
    )
)
