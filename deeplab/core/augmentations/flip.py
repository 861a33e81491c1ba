"""Random horizontal flip."""

from __future__ import annotations

from collections.abc import Sequence

from deeplab.core import preprocess_utils
from deeplab.core.lazy import tf
from deeplab.registry import AFTER_PADDING, Augmentation, AugmentContext, Parameter, register
from deeplab.registry.augmentations import percent


def flip_randomly(
    image: tf.Tensor, label: tf.Tensor | None, seed: tf.Tensor, context: AugmentContext, flip_probability: float
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Flips a fraction of the images left to right; for arguments and result see `registry.Augmentation`."""
    is_flipped = tf.random.stateless_uniform([], seed) < flip_probability
    return mirror_if(image, is_flipped, 1), None if label is None else mirror_if(label, is_flipped, 1)


def move_points(
    points: tf.Tensor,
    size: Sequence[preprocess_utils.Side],
    seed: tf.Tensor,
    context: AugmentContext,
    flip_probability: float,
) -> tf.Tensor:
    """Moves points as `flip_randomly` moves pixels; see `registry.Augmentation`."""
    is_flipped = tf.random.stateless_uniform([], seed) < flip_probability
    last = tf.cast(size[1] - 1, points.dtype)
    return tf.where(is_flipped, tf.stack([points[:, 0], last - points[:, 1]], axis=1), points)  # [n, 2]


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
