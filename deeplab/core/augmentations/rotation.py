"""Random rotation."""

from __future__ import annotations

import math
from collections.abc import Sequence

from deeplab.core import preprocess_utils
from deeplab.core.lazy import tf
from deeplab.registry import BEFORE_CROP, Augmentation, AugmentContext, Parameter, register


def rotate_randomly(
    image: tf.Tensor, label: tf.Tensor | None, seed: tf.Tensor, context: AugmentContext, rotation_degrees: float
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Rotates around the center by a random angle; the image becomes float32.

    For arguments and result see `registry.Augmentation`.
    """
    return rotate(image, label, random_angle(rotation_degrees, seed), context.mean_pixel, context.label_fill)


def random_angle(degrees: float, seed: tf.Tensor) -> tf.Tensor:
    """Draws an angle from [-degrees, degrees); `seed` is two integers. Returns radians, a float32 scalar."""
    return tf.random.stateless_uniform([], seed, -1.0, 1.0) * math.radians(degrees)


def rotate(
    image: tf.Tensor,
    label: tf.Tensor | None,
    angle: tf.Tensor | float,
    mean_pixel: Sequence[float],
    label_fill: Sequence[int],
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Turns an image (bilinear) and its label (nearest) around their middle; sizes stay.

    Args:
      image: [h, w, channels], any numeric type.
      label: [h, w, planes], or None.
      angle: radians, counterclockwise.
      mean_pixel: pixel outside of the image, one value for each channel.
      label_fill: label outside of the image, one value for each plane.

    Returns:
      [h, w, channels] float32 and [h, w, planes] (or None) of the label's type.
    """
    size = tf.shape(image)[:2]
    half_height, half_width = tf.unstack((tf.cast(size, tf.float32) - 1.0) / 2.0)
    cosine, sine = tf.cos(angle), tf.sin(angle)
    offset_x = half_width - cosine * half_width + sine * half_height
    offset_y = half_height - sine * half_width - cosine * half_height
    return warp(image, label, [cosine, -sine, offset_x, sine, cosine, offset_y], mean_pixel, label_fill)


def warp(
    image: tf.Tensor,
    label: tf.Tensor | None,
    coefficients: Sequence[tf.Tensor | float],
    mean_pixel: Sequence[float],
    label_fill: Sequence[int],
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Changes an image (bilinear) and its label (nearest) by an affine map; sizes stay.

    Args:
      image: see `rotate`.
      label: see `rotate`.
      coefficients: where the pixel at (x, y) of the result comes from: a, b, c, d, e, f of x' = a x + b y + c and
        y' = d x + e y + f.
      mean_pixel: see `rotate`.
      label_fill: see `rotate`.

    Returns:
      See `rotate`.
    """
    size = tf.shape(image)[:2]
    transform = tf.stack([*coefficients, 0.0, 0.0])[tf.newaxis]  # [1, 8]

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
    if label is None:
        return image, None
    planes = [turn(label[..., i : i + 1], fill, 'NEAREST') for i, fill in enumerate(label_fill)]
    return image, tf.concat(planes, axis=2) if len(planes) > 1 else planes[0]


def move_points(
    points: tf.Tensor,
    size: Sequence[preprocess_utils.Side],
    seed: tf.Tensor,
    context: AugmentContext,
    rotation_degrees: float,
) -> tf.Tensor:
    """Moves points as `rotate_randomly` moves pixels; see `registry.Augmentation`."""
    angle = random_angle(rotation_degrees, seed)
    middle = (tf.cast(tf.stack(size), tf.float32) - 1.0) / 2.0
    turn = tf.stack([[tf.cos(angle), -tf.sin(angle)], [tf.sin(angle), tf.cos(angle)]])  # of rows and columns
    return tf.matmul(points - middle, turn, transpose_b=True) + middle  # [n, 2]


register(
    Augmentation(
        name='rotation',
        summary='Random rotation around the center.',
        function=rotate_randomly,
        stage=BEFORE_CROP,  # so that the crop shows its surroundings instead of padding
        order=2,
        parameters=(
            Parameter(
                'rotation_degrees',
                0.0,
                'Rotate images by up to this angle, in either direction. Pixels from outside the image are excluded '
                'from the loss.',
                range='[0, 180]',
            ),
        ),
        title='Rotation',
        details=lambda values: f'up to +/-{values["rotation_degrees"]:g} degrees',
        takes_planes=True,
        move_points=move_points,
        strongest={'rotation_degrees': 30.0},
        seed_number=4,
    )
)
