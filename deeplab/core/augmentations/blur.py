"""Random Gaussian blur."""

from __future__ import annotations

import math

from deeplab.core import preprocess_utils
from deeplab.core.lazy import tf
from deeplab.registry import AFTER_CROP, Augmentation, AugmentContext, Parameter, register
from deeplab.registry.augmentations import keep_points, percent

# A Gaussian kernel ends where a weight is below a hundredth of the middle one.
_SIGMAS_OF_KERNEL = 3


def blur_randomly(
    image: tf.Tensor,
    label: tf.Tensor | None,
    seed: tf.Tensor,
    context: AugmentContext,
    blur_sigma: float,
    blur_probability: float,
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Blurs a fraction of the images, each with a standard deviation drawn from [0, blur_sigma).

    For arguments and result see `registry.Augmentation`.
    """
    chance, strength = tf.unstack(tf.random.stateless_uniform([2], seed))
    blurred = tf.cond(
        chance < blur_probability,
        lambda: gaussian_blur(image, strength * blur_sigma, blur_sigma),
        lambda: tf.identity(image),
    )
    blurred.set_shape(image.shape)
    return blurred, label


def gaussian_blur(image: tf.Tensor, sigma: tf.Tensor | float, most_sigma: float) -> tf.Tensor:
    """Blurs with a Gaussian; border pixels are repeated beyond the borders.

    Args:
      image: [h, w, channels] float32.
      sigma: standard deviation in pixels, 0 to `most_sigma`.
      most_sigma: largest standard deviation in pixels; the kernel has three times this radius.

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


register(
    Augmentation(
        name='blur',
        summary='Gaussian blur of random strength.',
        function=blur_randomly,
        stage=AFTER_CROP,
        order=1,
        parameters=(
            Parameter(
                'blur_sigma',
                0.0,
                'Largest standard deviation, in pixels, of a Gaussian blur.',
                range='[0, 20]',
            ),
            Parameter('blur_probability', 0.5, 'Fraction of the images that {blur_sigma} blurs.', range='(0, 1]'),
        ),
        title='Blur',
        details=lambda values: (
            f'sigma up to {values["blur_sigma"]:g}, on {percent(values["blur_probability"])} of the images'
        ),
        preview={'blur_probability': 1.0},
        takes_planes=True,
        move_points=keep_points,
        strongest={'blur_sigma': 3.0},
        seed_number=5,
    )
)
