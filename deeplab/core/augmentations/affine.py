"""Random shear, stretch and shift: an affine map of the image."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from deeplab.core import preprocess_utils
from deeplab.core.augmentations.rotation import warp
from deeplab.core.lazy import tf
from deeplab.registry import BEFORE_CROP, Augmentation, AugmentContext, Parameter, register
from deeplab.registry.augmentations import percent


def map_randomly(
    image: tf.Tensor, label: tf.Tensor | None, seed: tf.Tensor, context: AugmentContext, **reach: float
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Shears, stretches and shifts the image, which becomes float32; see `registry.Augmentation`.

    Source: P. Simard et al., Best Practices for Convolutional Neural Networks, ICDAR 2003, section 2.
    """
    matrix, offset = random_map(preprocess_utils.size_of(image), seed, **reach)
    (e, d), (b, a) = (tf.unstack(row) for row in tf.unstack(matrix))  # of rows and columns
    coefficients = [a, b, offset[1], d, e, offset[0]]
    return warp(image, label, coefficients, context.mean_pixel, context.label_fill)


def random_map(
    size: Sequence[preprocess_utils.Side],
    seed: tf.Tensor,
    affine_shear: float,
    affine_stretch: float,
    affine_shift: float,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Draws where the pixels of the result come from: position' = matrix * position + offset.

    Args:
      size: rows and columns of the image.
      seed: two integers.
      affine_shear: largest angle of both axes, in degrees.
      affine_stretch: the ratio of the sides changes by a factor of 1 / (1 + this) to 1 + this; the area stays.
      affine_shift: largest shift, as a fraction of a side.

    Returns:
      matrix [2, 2] and offset [2], float32, of rows and columns.
    """
    down, across, stretch, *shift = tf.unstack(tf.random.stateless_uniform([5], seed, -1.0, 1.0))
    down, across = (tf.tan(each * math.radians(affine_shear)) for each in (down, across))
    stretch = tf.exp(0.5 * stretch * math.log1p(affine_stretch))
    matrix = tf.stack([[stretch, stretch * down], [across / stretch, 1.0 / stretch]])
    sides = tf.cast(tf.stack(tuple(size)), tf.float32)
    middle = (sides - 1.0) / 2.0
    offset = middle - tf.linalg.matvec(matrix, middle) + affine_shift * tf.stack(shift) * sides
    return matrix, offset


def move_points(
    points: tf.Tensor,
    size: Sequence[preprocess_utils.Side],
    seed: tf.Tensor,
    context: AugmentContext,
    **reach: float,
) -> tf.Tensor:
    """Moves points as `map_randomly` moves pixels; see `registry.Augmentation`."""
    matrix, offset = random_map(size, seed, **reach)
    return tf.matmul(points - offset, tf.linalg.inv(matrix), transpose_b=True)  # [n, 2]


def _details(values: Mapping[str, Any]) -> str:
    shear, stretch, shift = values.values()
    parts = [f'shear {shear:g} degrees'] if shear else []
    parts += [f'stretch {percent(stretch)}'] if stretch else []
    return ', '.join([*parts, *([f'shift {percent(shift)}'] if shift else [])])


register(
    Augmentation(
        name='affine',
        summary='Random shear, stretch and shift.',
        function=map_randomly,
        stage=BEFORE_CROP,  # as rotation
        order=4,
        is_on=lambda values: any(values.values()),
        parameters=(
            Parameter(
                'affine_shear',
                0.0,
                'Shear images by up to this angle, in degrees, such as 10. Pixels from outside the image are excluded '
                'from the loss. 0 disables it, here and in the options that follow.',
                range='[0, 30]',
            ),
            Parameter(
                'affine_stretch',
                0.0,
                'Change the aspect ratio of image content by a random factor of up to 1 plus this, in either '
                'direction, such as 0.2.',
                range='[0, 1]',
            ),
            Parameter(
                'affine_shift',
                0.0,
                'Shift images by up to this fraction of their sides; crops of larger images are shifted anyway.',
                range='[0, 0.5]',
            ),
        ),
        source='P. Simard et al., Best Practices for Convolutional Neural Networks, ICDAR 2003, section 2',
        title='Affine',
        details=_details,
        takes_planes=True,
        move_points=move_points,
        strongest={'affine_shear': 20.0, 'affine_stretch': 0.5, 'affine_shift': 0.1},
    )
)
