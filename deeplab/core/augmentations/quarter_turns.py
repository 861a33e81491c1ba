"""Random quarter turns, for images that may be seen from any side, such as aerial ones.

Unlike a rotation by any angle, a quarter turn neither blends pixels nor leaves empty corners.
"""

from __future__ import annotations

from collections.abc import Sequence

from deeplab.core import preprocess_utils
from deeplab.core.lazy import tf
from deeplab.registry import BEFORE_CROP, Augmentation, AugmentContext, Parameter, register
from deeplab.registry.augmentations import percent


def turn_randomly(
    image: tf.Tensor, label: tf.Tensor | None, seed: tf.Tensor, context: AugmentContext, quarter_turn_probability: float
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Turns a fraction of the images by 90, 180 or 270 degrees, with equal chances.

    The sides of an image change places. For arguments and result see `registry.Augmentation`.
    """
    turns = random_turns(quarter_turn_probability, seed)
    return _turned(image, turns), None if label is None else _turned(label, turns)


def random_turns(probability: float, seed: tf.Tensor) -> tf.Tensor:
    """Draws a number of quarter turns, counterclockwise: 0 to 3, an int32 scalar; `seed` is two integers."""
    chance = tf.random.stateless_uniform([], seed)
    # A number below the probability is also a uniform choice among the three turns.
    drawn = 1 + tf.cast(3.0 * chance / max(probability, 1e-6), tf.int32)
    return tf.where(chance < probability, tf.minimum(drawn, 3), 0)


def _turned(values: tf.Tensor, turns: tf.Tensor) -> tf.Tensor:
    """Turns [h, w, channels], counterclockwise."""
    turned = tf.image.rot90(values, turns)
    height, width, channels = values.shape
    turned.set_shape([height if height == width else None, width if height == width else None, channels])
    return turned


def move_points(
    points: tf.Tensor,
    size: Sequence[preprocess_utils.Side],
    seed: tf.Tensor,
    context: AugmentContext,
    quarter_turn_probability: float,
) -> tf.Tensor:
    """Moves points as `turn_randomly` moves pixels; see `registry.Augmentation`."""
    rows, columns = tf.unstack(points, axis=1)  # each [n]
    upwards, back = (tf.cast(side - 1, points.dtype) - place for side, place in zip(size, (rows, columns), strict=True))
    places = [(rows, columns), (back, rows), (upwards, back), (columns, upwards)]
    every_turn = tf.stack([tf.stack(place, axis=1) for place in places])  # [4, n, 2]
    return every_turn[random_turns(quarter_turn_probability, seed)]


register(
    Augmentation(
        name='quarter_turns',
        summary='Random rotations by 90, 180 or 270 degrees.',
        function=turn_randomly,
        stage=BEFORE_CROP,  # so that the turned image still fills the crop
        order=3,
        parameters=(
            Parameter(
                'quarter_turn_probability',
                0.0,
                'Fraction of the images that are rotated by 90, 180 or 270 degrees, such as 0.75 for aerial images.',
                range='[0, 1]',
            ),
        ),
        title='Quarter turns',
        details=lambda values: f'on {percent(values["quarter_turn_probability"])} of the images',
        preview={'quarter_turn_probability': 1.0},
        takes_planes=True,
        move_points=move_points,
        not_per_image=lambda size: '' if size[0] == size[1] else 'rotated images fit only a square crop_size',
    )
)
