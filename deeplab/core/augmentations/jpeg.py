"""Random artifacts of JPEG compression."""

from __future__ import annotations

from deeplab.core.lazy import tf
from deeplab.registry import AFTER_CROP, Augmentation, AugmentContext, Parameter, register
from deeplab.registry.augmentations import keep_points


def compress_randomly(
    image: tf.Tensor, label: tf.Tensor | None, seed: tf.Tensor, context: AugmentContext, jpeg_loss: int
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Compresses the image with a quality drawn from 100 - jpeg_loss to 100; see `registry.Augmentation`.

    An image that is neither gray nor RGB is compressed as a gray one, its channels below each other.
    """
    quality = tf.random.stateless_uniform([], seed, 100 - jpeg_loss, 101, tf.int32)
    return compressed(image, quality), label


def compressed(image: tf.Tensor, quality: tf.Tensor | int) -> tf.Tensor:
    """Encodes and decodes [h, w, channels] float32, 0 to 255, as JPEG of a quality up to 100; values become whole."""
    pixels = tf.cast(tf.clip_by_value(tf.round(image), 0.0, 255.0), tf.uint8)
    channels = image.shape[-1]
    if channels not in (1, 3):
        pixels = tf.concat(tf.split(pixels, channels, axis=2), axis=0)  # [channels * h, w, 1]
    content = tf.raw_ops.EncodeJpegVariableQuality(images=pixels, quality=quality)
    decoded = tf.io.decode_jpeg(content, channels=pixels.shape[-1])
    if channels not in (1, 3):
        decoded = tf.concat(tf.split(decoded, channels, axis=0), axis=2)  # [h, w, channels]
    decoded.set_shape(image.shape)
    return tf.cast(decoded, tf.float32)


register(
    Augmentation(
        name='jpeg',
        summary='JPEG compression of random quality.',
        function=compress_randomly,
        stage=AFTER_CROP,
        order=1,  # after the noise, by name: a camera compresses what its sensor has seen
        parameters=(
            Parameter(
                'jpeg_loss',
                0,
                'Compress images as JPEG with a random quality from 100 minus this to 100; such as 70. 16-bit images '
                'are reduced to 8 bits.',
                range='[0, 99]',
            ),
        ),
        title='JPEG',
        details=lambda values: f'quality from {100 - values["jpeg_loss"]}',
        takes_planes=True,
        move_points=keep_points,
        strongest={'jpeg_loss': 95},
    )
)
