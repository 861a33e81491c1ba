"""Random elastic distortion: neighboring pixels move together, distant ones in different directions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from deeplab.core import preprocess_utils
from deeplab.core.augmentations.blur import gaussian_blur
from deeplab.core.lazy import tf
from deeplab.errors import OptionError
from deeplab.registry import AFTER_CROP, Augmentation, AugmentContext, Parameter, register
from deeplab.wording import option

# Cells of the coarse grid on which displacements are drawn have this fraction of the standard deviation as side.
_CELLS_PER_SIGMA = 3
_INVERSION_STEPS = 20


def distort_randomly(
    image: tf.Tensor,
    label: tf.Tensor | None,
    seed: tf.Tensor,
    context: AugmentContext,
    elastic_pixels: float,
    elastic_sigma: float,
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Moves pixels by a random smooth field: the image bilinearly, the label by nearest neighbor.

    For arguments and result see `registry.Augmentation`.

    Source: P. Simard et al., Best Practices for Convolutional Neural Networks, ICDAR 2003, section 2.
    """
    size = preprocess_utils.size_of(image)
    grid, cell = random_grid(size, seed, elastic_pixels, elastic_sigma)
    pixels = tf.stack(tf.meshgrid(tf.range(size[0]), tf.range(size[1]), indexing='ij'), axis=2)  # [h, w, 2]
    places = tf.cast(pixels, tf.float32) + _of_pixels(grid, cell, size)
    last = tf.stack(tuple(size)) - 1
    nearest = tf.cast(tf.round(places), tf.int32)
    inside = tf.reduce_all((nearest >= 0) & (nearest <= last), axis=2, keepdims=True)  # [h, w, 1]
    distorted = tf.where(inside, _bilinear(image, places), tf.constant(context.mean_pixel, tf.float32))
    distorted.set_shape(image.shape)
    if label is None:
        return distorted, None
    moved = tf.gather_nd(label, tf.clip_by_value(nearest, 0, last))  # [h, w, planes]
    moved = tf.where(inside, moved, tf.constant(context.label_fill, label.dtype))
    moved.set_shape(label.shape)
    return distorted, moved


def random_grid(
    size: Sequence[preprocess_utils.Side], seed: tf.Tensor, pixels: float, sigma: float
) -> tuple[tf.Tensor, int]:
    """Draws displacements: uniform noise, blurred by a Gaussian.

    They are drawn on a coarse grid, between whose points they are interpolated: the field is smooth, and it takes a
    small part of the time.

    Args:
      size: rows and columns of the image.
      seed: two integers.
      pixels: standard deviation of a displacement, in pixels.
      sigma: standard deviation of the Gaussian, in pixels.

    Returns:
      displacements in pixels, [grid rows, grid columns, 2] of rows and columns; and the side of a cell in pixels.
    """
    cell = max(1, int(sigma) // _CELLS_PER_SIGMA)
    coarse_sigma = sigma / cell
    # The blur repeats values beyond its borders, where they would count too much: noise continues there.
    margin = math.ceil(3 * coarse_sigma)
    rows, columns = ((side - 1) // cell + 2 for side in size)
    shape = tf.stack([rows + 2 * margin, columns + 2 * margin, 2])
    noise = gaussian_blur(tf.random.stateless_uniform(shape, seed, -1.0, 1.0), coarse_sigma, coarse_sigma)
    noise = preprocess_utils.crop(noise, margin, margin, rows, columns)
    # The deviation of uniform noise is 1 / sqrt(3); a Gaussian divides it by 2 sqrt(pi) sigma.
    return pixels * math.sqrt(3.0) * 2.0 * math.sqrt(math.pi) * coarse_sigma * noise, cell


def _of_pixels(grid: tf.Tensor, cell: int, size: Sequence[preprocess_utils.Side]) -> tf.Tensor:
    """Returns the displacements of the pixels of an image: [h, w, 2]."""
    points = tf.shape(grid)[:2]
    return preprocess_utils.crop(preprocess_utils.resize_image(grid, (points - 1) * cell + 1), 0, 0, *size)


def _bilinear(values: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Interpolates [h, w, channels] at rows and columns, [..., 2] float32, those outside at the border: [..., c]."""
    last = tf.shape(values)[:2] - 1
    places = tf.clip_by_value(places, 0.0, tf.cast(last, tf.float32))
    before = tf.cast(places, tf.int32)  # rounds down
    after = tf.minimum(before + 1, last)
    down, across = tf.split(places - tf.cast(before, tf.float32), 2, axis=-1)  # [..., 1]
    (top, left), (bottom, right) = tf.unstack(before, axis=-1), tf.unstack(after, axis=-1)
    width = last[1] + 1
    flat = tf.reshape(values, [-1, values.shape[-1]])

    def row_at(rows: tf.Tensor) -> tf.Tensor:
        first, second = tf.gather(flat, rows * width + left), tf.gather(flat, rows * width + right)
        return first + across * (second - first)

    above = row_at(top)
    return above + down * (row_at(bottom) - above)


def move_points(
    points: tf.Tensor,
    size: Sequence[preprocess_utils.Side],
    seed: tf.Tensor,
    context: AugmentContext,
    elastic_pixels: float,
    elastic_sigma: float,
) -> tf.Tensor:
    """Moves points as `distort_randomly` moves pixels; see `registry.Augmentation`.

    The field tells where pixels come from. Where a point goes is the fixed point of an iteration.
    """
    grid, cell = random_grid(size, seed, elastic_pixels, elastic_sigma)
    moved = points
    for _ in range(_INVERSION_STEPS):
        moved = points - _bilinear(grid, moved / float(cell))  # [n, 2]
    return moved


def _check(values: Mapping[str, Any], crop_size: Sequence[int]) -> None:
    """Raises `OptionError` for displacements that fold the image."""
    pixels, sigma = values['elastic_pixels'], values['elastic_sigma']
    if 2 * pixels > sigma:
        raise OptionError(
            f'{option("AugmentOptions.elastic_pixels", pixels)} is not allowed: it must be at most half of '
            f'{option("AugmentOptions.elastic_sigma", sigma)}, or images are folded.'
        )


register(
    Augmentation(
        name='elastic',
        summary='Random elastic distortion.',
        function=distort_randomly,
        stage=AFTER_CROP,
        order=0,  # the following changes are the camera's
        check=_check,
        parameters=(
            Parameter(
                'elastic_pixels',
                0.0,
                'Distort images elastically; standard deviation of the displacements, in pixels, such as 4. Pixels '
                'from outside the image are excluded from the loss.',
                range='[0, 100]',
            ),
            Parameter(
                'elastic_sigma',
                12.0,
                'Smoothness of {elastic_pixels}: standard deviation, in pixels, of the Gaussian that blurs the '
                'displacements.',
                range='(0, 200]',
            ),
        ),
        source='P. Simard et al., Best Practices for Convolutional Neural Networks, ICDAR 2003, section 2',
        title='Elastic',
        details=lambda values: f'{values["elastic_pixels"]:g} pixels, sigma {values["elastic_sigma"]:g}',
        takes_planes=True,
        move_points=move_points,
        strongest={'elastic_pixels': 6.0},
    )
)
