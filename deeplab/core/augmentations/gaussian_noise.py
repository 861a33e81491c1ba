"""Random noise of the pixels."""

from __future__ import annotations

from deeplab.core.lazy import tf
from deeplab.registry import AFTER_CROP, Augmentation, AugmentContext, Parameter, register
from deeplab.registry.augmentations import keep_points


def add_noise(
    image: tf.Tensor, label: tf.Tensor | None, seed: tf.Tensor, context: AugmentContext, noise_sigma: float
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Adds normal noise to each value, with a standard deviation drawn from [0, noise_sigma) for the image.

    What leaves 0 to 255 is cut off. For arguments and result see `registry.Augmentation`.
    """
    of_strength, of_noise = tf.unstack(tf.random.experimental.stateless_split(seed, 2))
    sigma = noise_sigma * tf.random.stateless_uniform([], of_strength)
    noisy = image + sigma * tf.random.stateless_normal(tf.shape(image), of_noise)
    return tf.clip_by_value(noisy, 0.0, 255.0), label


register(
    Augmentation(
        name='gaussian_noise',
        summary='Gaussian noise of random strength.',
        function=add_noise,
        stage=AFTER_CROP,
        order=1,  # after the blur, by name: a sensor adds noise to what its lens has blurred
        parameters=(
            Parameter(
                'noise_sigma',
                0.0,
                'Largest standard deviation of the noise added to images with values 0 to 255, such as 15.',
                range='[0, 128]',
            ),
        ),
        title='Noise',
        details=lambda values: f'sigma up to {values["noise_sigma"]:g}',
        takes_planes=True,
        move_points=keep_points,
        strongest={'noise_sigma': 40.0},
    )
)
