"""Random horizontal flip, and vertical flip for images without an upper side, such as aerial ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from deeplab.core import preprocess_utils
from deeplab.core.lazy import tf
from deeplab.registry import AFTER_PADDING, Augmentation, AugmentContext, Parameter, register
from deeplab.registry.augmentations import percent


def flip_randomly(
    image: tf.Tensor,
    label: tf.Tensor | None,
    seed: tf.Tensor,
    context: AugmentContext,
    flip_probability: float,
    axis: int = 1,
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Reverses an axis of a fraction of the images; for other arguments and result see `registry.Augmentation`."""
    is_flipped = tf.random.stateless_uniform([], seed) < flip_probability
    return mirror_if(image, is_flipped, axis), None if label is None else mirror_if(label, is_flipped, axis)


def move_points(
    points: tf.Tensor,
    size: Sequence[preprocess_utils.Side],
    seed: tf.Tensor,
    context: AugmentContext,
    flip_probability: float,
    axis: int = 1,
) -> tf.Tensor:
    """Moves points as `flip_randomly` moves pixels; see `registry.Augmentation`."""
    is_flipped = tf.random.stateless_uniform([], seed) < flip_probability
    coordinates = tf.unstack(points, axis=1)
    coordinates[axis] = tf.cast(size[axis] - 1, points.dtype) - coordinates[axis]
    return tf.where(is_flipped, tf.stack(coordinates, axis=1), points)  # [n, 2]


def _vertically(flip: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `flip_randomly` or `move_points` for the vertical flip."""
    return lambda *inputs, vertical_flip_probability: flip(*inputs, vertical_flip_probability, axis=0)


def mirror_if(values: tf.Tensor, is_mirrored: tf.Tensor, axis: int) -> tf.Tensor:
    """Reverses an axis of `values` ([h, w, channels]) if `is_mirrored`, a scalar bool."""
    mirrored = tf.cond(is_mirrored, lambda: tf.reverse(values, axis=[axis]), lambda: tf.identity(values))
    mirrored.set_shape(values.shape)
    return mirrored


register(
    Augmentation(
        name='flip',
        summary='Random horizontal flip.',
        function=flip_randomly,
        stage=AFTER_PADDING,
        order=1,
        parameters=(
            Parameter('flip_probability', 0.5, 'Fraction of the images that are flipped horizontally.', range='[0, 1]'),
        ),
        source='arXiv:1706.05587, section 4',
        title='Flip',
        details=lambda values: f'on {percent(values["flip_probability"])} of the images',
        preview={'flip_probability': 1.0},
        takes_planes=True,
        move_points=move_points,
        seed_number=2,
    )
)
register(
    Augmentation(
        name='vertical_flip',
        summary='Random vertical flip.',
        function=_vertically(flip_randomly),
        stage=AFTER_PADDING,
        order=2,
        parameters=(
            Parameter(
                'vertical_flip_probability',
                0.0,
                'Fraction of the images that are flipped vertically, such as 0.5 for aerial images.',
                range='[0, 1]',
            ),
        ),
        title='Vertical flip',
        details=lambda values: f'on {percent(values["vertical_flip_probability"])} of the images',
        preview={'vertical_flip_probability': 1.0},
        takes_planes=True,
        move_points=_vertically(move_points),
    )
)
