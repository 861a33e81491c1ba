"""The preprocessings with which TF-Slim's published classifiers were trained: inception, vgg, cifarnet, lenet.

Images are resized as TensorFlow 1 did it: bilinearly, without half pixels, corners not aligned.

Source: research/slim/preprocessing of tensorflow/models at 0e2d1f0f3.
"""

from __future__ import annotations

from collections.abc import Callable

from deeplab.core.augmentations.flip import mirror_if
from deeplab.core.lazy import tf
from deeplab.registry import SCALE_TO_PLUS_MINUS_ONE, Normalization, Preprocessing, register

Size = tuple[int, int]

_CENTRAL_SHARE = 0.875  # of the sides, at evaluation
_BOX_AREAS, _BOX_ASPECTS, _BOX_COVERS = (0.05, 1.0), (0.75, 1.33), 0.1
_SHORT_SIDES = (256, 512)
_CIFAR_PADDING = 4
# The orders in which brightness, saturation, hue and contrast are changed.
_COLOR_ORDERS = ('bshc', 'sbch', 'chbs', 'hscb')


def _resized(image: tf.Tensor, size: tuple[tf.Tensor | int, tf.Tensor | int]) -> tf.Tensor:
    """Returns an image [*size, channels] float32."""
    batch = tf.cast(image, tf.float32)[tf.newaxis]
    return tf.compat.v1.image.resize_bilinear(batch, tf.stack(size))[0]


def _shaped(image: tf.Tensor, like: tf.Tensor, size: Size) -> tf.Tensor:
    return tf.ensure_shape(image, [*size, like.shape[-1]])


def _seeds(seed: tf.Tensor, number: int) -> list[tf.Tensor]:
    seeds: list[tf.Tensor] = tf.unstack(tf.random.experimental.stateless_split(seed, number))
    return seeds


def _flipped(image: tf.Tensor, seed: tf.Tensor, probability: float) -> tf.Tensor:
    return mirror_if(image, tf.random.stateless_uniform([], seed) < probability, 1)


def inception_train(image: tf.Tensor, seed: tf.Tensor, size: Size, flip_probability: float = 0.5) -> tf.Tensor:
    """Cuts a random box, resizes it, flips it and changes its colors; see `registry.Preprocessing`.

    Source: arXiv:1409.4842, section 6 (boxes); arXiv:1312.5402 (colors).
    """
    of_box, of_flip, of_order, *of_colors = _seeds(seed, 7)
    begin, box_size, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.shape(image),
        tf.constant([[[0.0, 0.0, 1.0, 1.0]]]),
        of_box,
        min_object_covered=_BOX_COVERS,
        aspect_ratio_range=_BOX_ASPECTS,
        area_range=_BOX_AREAS,
        max_attempts=100,
        use_image_if_no_bounding_boxes=True,
    )
    box = _shaped(_resized(tf.slice(image, begin, box_size), size), image, size)
    box = _flipped(box, of_flip, flip_probability)
    if image.shape[-1] != 3:
        return box
    return _with_random_colors(box / 255.0, of_order, of_colors) * 255.0


def _with_random_colors(image: tf.Tensor, of_order: tf.Tensor, seeds: list[tf.Tensor]) -> tf.Tensor:
    """Changes brightness, saturation, hue and contrast of [h, w, 3] in 0 to 1, in a random one of four orders."""
    changes: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
        'b': lambda values: tf.image.stateless_random_brightness(values, 32 / 255, seeds[0]),
        's': lambda values: tf.image.stateless_random_saturation(values, 0.5, 1.5, seeds[1]),
        'h': lambda values: tf.image.stateless_random_hue(values, 0.2, seeds[2]),
        'c': lambda values: tf.image.stateless_random_contrast(values, 0.5, 1.5, seeds[3]),
    }

    def changed(order: str) -> Callable[[], tf.Tensor]:
        def change() -> tf.Tensor:
            values = image
            for letter in order:
                values = changes[letter](values)
            return tf.clip_by_value(values, 0.0, 1.0)

        return change

    chosen = tf.random.stateless_uniform([], of_order, 0, len(_COLOR_ORDERS), tf.int32)
    return tf.switch_case(chosen, [changed(order) for order in _COLOR_ORDERS])


def inception_evaluate(image: tf.Tensor, size: Size) -> tf.Tensor:
    """Resizes the middle, 0.875 of each side; see `registry.Preprocessing`."""
    return _shaped(_resized(tf.image.central_crop(image, _CENTRAL_SHARE), size), image, size)


def _with_short_side(image: tf.Tensor, side: tf.Tensor | int) -> tf.Tensor:
    """Resizes an image so that its shorter side has a length."""
    sides = tf.cast(tf.shape(image)[:2], tf.float32)
    scale = tf.cast(side, tf.float32) / tf.reduce_min(sides)
    return _resized(image, tf.unstack(tf.cast(tf.math.rint(sides * scale), tf.int32)))


def vgg_train(image: tf.Tensor, seed: tf.Tensor, size: Size, flip_probability: float = 0.5) -> tf.Tensor:
    """Resizes the short side randomly, crops at random and flips; see `registry.Preprocessing`.

    Source: arXiv:1409.1556, section 3.1.
    """
    of_side, of_crop, of_flip = _seeds(seed, 3)
    low, high = (max(side, *size) for side in _SHORT_SIDES)
    side = tf.random.stateless_uniform([], of_side, low, high + 1, tf.int32)
    resized = _with_short_side(image, side)
    crop = tf.image.stateless_random_crop(resized, [*size, image.shape[-1]], of_crop)
    return _flipped(crop, of_flip, flip_probability)


def vgg_evaluate(image: tf.Tensor, size: Size) -> tf.Tensor:
    """Resizes the short side to 256 and takes the middle; see `registry.Preprocessing`."""
    resized = _with_short_side(image, max(_SHORT_SIDES[0], *size))
    start = (tf.shape(resized)[:2] - tf.constant(size)) // 2
    return _shaped(tf.slice(resized, tf.concat([start, [0]], 0), [*size, image.shape[-1]]), image, size)


def cifarnet_train(image: tf.Tensor, seed: tf.Tensor, size: Size, flip_probability: float = 0.5) -> tf.Tensor:
    """Pads, crops at random, flips, changes brightness and contrast; values may leave 0 to 255.

    See `registry.Preprocessing`.
    """
    of_crop, of_flip, of_brightness, of_contrast = _seeds(seed, 4)
    padded = tf.pad(centered(image, size), [[_CIFAR_PADDING] * 2, [_CIFAR_PADDING] * 2, [0, 0]])
    crop = tf.image.stateless_random_crop(padded, [*size, image.shape[-1]], of_crop)
    crop = _flipped(crop, of_flip, flip_probability)
    crop = tf.image.stateless_random_brightness(crop, 63.0, of_brightness)
    return tf.image.stateless_random_contrast(crop, 0.2, 1.8, of_contrast)


def centered(image: tf.Tensor, size: Size) -> tf.Tensor:
    """Takes the middle of an image, padded with zeros where it is too small: [*size, channels] float32."""
    return _shaped(tf.image.resize_with_crop_or_pad(tf.cast(image, tf.float32), *size), image, size)


register(
    Preprocessing(
        name='inception',
        summary='Random crops and colors; a central crop at evaluation.',
        train=inception_train,
        flips=True,
        evaluate=inception_evaluate,
        normalization=SCALE_TO_PLUS_MINUS_ONE,
        source='arXiv:1409.4842, section 6',
    )
)
register(
    Preprocessing(
        name='vgg',
        summary='Random crops of images resized to a random shorter side; a central crop at evaluation.',
        train=vgg_train,
        flips=True,
        evaluate=vgg_evaluate,
        normalization=Normalization(scale=1.0, offset=(123.68, 116.78, 103.94)),
        source='arXiv:1409.1556, section 3.1',
    )
)
register(
    Preprocessing(
        name='cifarnet',
        summary='Random crops of the padded image, random brightness and contrast; images have zero mean and unit '
        'variance.',
        train=cifarnet_train,
        flips=True,
        evaluate=centered,
        normalization=None,
        source='research/slim of tensorflow/models at 0e2d1f0f3',
    )
)
register(
    Preprocessing(
        name='lenet',
        summary='A central crop, without random changes.',
        train=lambda image, seed, size: centered(image, size),
        evaluate=centered,
        normalization=Normalization(scale=1 / 128, offset=(1.0, 1.0, 1.0)),
        source='research/slim of tensorflow/models at 0e2d1f0f3',
    )
)
