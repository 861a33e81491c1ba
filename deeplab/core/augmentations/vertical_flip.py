"""Random vertical flip, for images without an upper side, such as aerial ones."""

from __future__ import annotations

from collections.abc import Sequence

from deeplab.core import preprocess_utils
from deeplab.core.augmentations.flip import mirror_if
from deeplab.core.lazy import tf
from deeplab.registry import AFTER_PADDING, Augmentation, AugmentContext, Parameter, register
from deeplab.registry.augmentations import percent


def flip_randomly(
    image: tf.Tensor,
    label: tf.Tensor | None,
    seed: tf.Tensor,
    context: AugmentContext,
    vertical_flip_probability: float,
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Flips a fraction of the images upside down; for arguments and result see `registry.Augmentation`."""
    is_flipped = tf.random.stateless_uniform([], seed) < vertical_flip_probability
    return mirror_if(image, is_flipped, 0), None if label is None else mirror_if(label, is_flipped, 0)


def move_points(
    points: tf.Tensor,
    size: Sequence[preprocess_utils.Side],
    seed: tf.Tensor,
    context: AugmentContext,
    vertical_flip_probability: float,
) -> tf.Tensor:
    """Moves points as `flip_randomly` moves pixels; see `registry.Augmentation`."""
    is_flipped = tf.random.stateless_uniform([], seed) < vertical_flip_probability
    last = tf.cast(size[0] - 1, points.dtype)
    return tf.where(is_flipped, tf.stack([last - points[:, 0], points[:, 1]], axis=1), points)  # [n, 2]


register(
    Augmentation(
        name='vertical_flip',
        summary='Random vertical flip.',
        function=flip_randomly,
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
        move_points=move_points,
    )
)
