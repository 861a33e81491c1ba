"""Random gamma: images become darker or brighter, black and white stay."""

from __future__ import annotations

import math

from deeplab.core.lazy import tf
from deeplab.registry import BEFORE_CROP, Augmentation, AugmentContext, Parameter, register
from deeplab.registry.augmentations import keep_points


def change_gamma_randomly(
    image: tf.Tensor, label: tf.Tensor | None, seed: tf.Tensor, context: AugmentContext, jitter_gamma: float
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Raises all values to one random power; the image becomes float32. See `registry.Augmentation`."""
    exponent = tf.exp(tf.random.stateless_uniform([], seed, -1.0, 1.0) * math.log1p(jitter_gamma))
    return change_gamma(image, exponent), label


def change_gamma(image: tf.Tensor, exponent: tf.Tensor | float) -> tf.Tensor:
    """Returns 255 * (image / 255) ** exponent: [h, w, channels] float32, for an image of 0 to 255."""
    scaled = tf.clip_by_value(tf.cast(image, tf.float32), 0.0, 255.0) / 255.0
    return 255.0 * tf.pow(scaled, exponent)


register(
    Augmentation(
        name='gamma',
        summary='Random gamma correction.',
        function=change_gamma_randomly,
        stage=BEFORE_CROP,  # as the colors, after which it runs by name
        order=1,
        parameters=(
            Parameter(
                'jitter_gamma',
                0.0,
                'Raise the values of images, as fractions of 255, to a random power from 1 / (1 + this) to 1 + this, '
                'such as 0.5.',
                range='[0, 4]',
            ),
        ),
        title='Gamma',
        details=lambda values: f'1/{1 + values["jitter_gamma"]:g} to {1 + values["jitter_gamma"]:g}',
        takes_planes=True,
        move_points=keep_points,
        strongest={'jitter_gamma': 1.5},
    )
)
