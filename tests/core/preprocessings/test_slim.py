"""TF-Slim's preprocessings: evaluation against NumPy twins, laws of the random changes."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core.preprocessings import slim
from deeplab.registry import PREPROCESSINGS

SIZES = ((61, 83), (301, 260), (224, 224), (20, 17))
SIDE = 32


def picture(height, width, channels=3):
    return np.random.default_rng(height).integers(0, 256, (height, width, channels)).astype(np.uint8)


def resized(image, size):
    """Bilinear as in TensorFlow 1: the source of row i is i * height / rows, without half pixels."""
    for axis, length in enumerate(size):
        # Places in 32 bits, as TensorFlow computes them: at 512 rows, 64 bits differ by 3e-5 of a row.
        places = np.arange(length, dtype=np.float32) * (np.float32(image.shape[axis]) / np.float32(length))
        below = np.floor(places).astype(int)
        share = (places - below).reshape([-1 if i == axis else 1 for i in range(3)])
        above = np.minimum(below + 1, image.shape[axis] - 1)
        image = np.take(image, below, axis) * (1 - share) + np.take(image, above, axis) * share
    return image


def middle(image, size):
    top, left = ((side - kept) // 2 for side, kept in zip(image.shape, size, strict=False))
    return image[top : top + size[0], left : left + size[1]]


def inception(image):
    margins = [int((side - side * 0.875) / 2) for side in image.shape[:2]]
    box = image[margins[0] : image.shape[0] - margins[0], margins[1] : image.shape[1] - margins[1]]
    return resized(box.astype(float), (SIDE, SIDE))


def vgg(image):
    scale = 256 / min(image.shape[:2])
    return middle(resized(image.astype(float), [round(side * scale) for side in image.shape[:2]]), (SIDE, SIDE))


def centered(image):
    canvas = np.zeros((SIDE, SIDE, 3))
    kept = middle(image, [min(side, SIDE) for side in image.shape[:2]])
    top, left = ((SIDE - side) // 2 for side in kept.shape[:2])
    canvas[top : top + kept.shape[0], left : left + kept.shape[1]] = kept
    return canvas


@pytest.mark.parametrize('size', SIZES)
@pytest.mark.parametrize(
    ('name', 'twin'), [('inception', inception), ('vgg', vgg), ('cifarnet', centered), ('lenet', centered)]
)
def test_evaluation_equals_its_twin(name, twin, size):
    image = picture(*size)
    made = PREPROCESSINGS.get(name).evaluate(tf.constant(image), (SIDE, SIDE))
    assert made.dtype == tf.float32 and made.shape == (SIDE, SIDE, 3)
    np.testing.assert_allclose(made / 255, twin(image) / 255, rtol=0, atol=1e-6)


@pytest.mark.parametrize('name', PREPROCESSINGS.names())
@pytest.mark.parametrize('channels', [1, 3])
def test_training_images_follow_from_the_seed(name, channels):
    image = tf.constant(picture(61, 83, channels))
    train = PREPROCESSINGS.get(name).train
    first, again, other = (train(image, tf.constant(seed, tf.int64), (SIDE, SIDE)) for seed in ([1, 2], [1, 2], [1, 3]))
    assert first.shape == (SIDE, SIDE, channels) and first.dtype == tf.float32
    np.testing.assert_array_equal(first, again)
    assert (np.abs(first - other).max() > 1) == (name != 'lenet')
    if name != 'cifarnet':
        assert 0 <= np.min(first) and np.max(first) <= 255


@pytest.mark.parametrize('name', ['inception', 'vgg', 'cifarnet'])
def test_the_fraction_of_flipped_images_is_an_option(name):
    image = tf.constant(picture(61, 83))
    flipped = set()
    for number in range(6):
        seed = tf.constant([1, number], tf.int64)
        never, half, always = (
            PREPROCESSINGS.get(name).train(image, seed, (SIDE, SIDE), **chosen)
            for chosen in ({'flip_probability': 0.0}, {}, {'flip_probability': 1.0})
        )
        np.testing.assert_allclose(always, never[:, ::-1], atol=1e-3)
        flipped.add(np.array_equal(half, always))
        assert np.array_equal(half, always) or np.array_equal(half, never)
    assert flipped == {True, False}


def test_half_of_the_images_are_flipped_as_tensorflow_does():
    image = tf.constant(picture(3, 5))
    for number in range(9):
        seed = tf.constant([1, number], tf.int64)
        expected = tf.image.stateless_random_flip_left_right(image, seed)
        np.testing.assert_array_equal(slim._flipped(image, seed, 0.5), expected)


def test_boxes_have_the_areas_and_aspects_of_the_paper():
    rows, columns = np.indices((200, 300), np.float32)
    image = tf.constant(np.stack([rows, columns], axis=2))  # without changes of colors
    areas, aspects = [], []
    for seed in range(60):
        box = slim.inception_train(image, tf.constant([0, seed], tf.int64), (SIDE, SIDE)).numpy()
        height, width = (np.ptp(box[..., i]) * SIDE / (SIDE - 1) for i in range(2))
        areas.append(height * width / 60000)
        aspects.append(width / height)
    # A tenth of the image must be covered; the largest box of an aspect of 1.33 has 0.89 of it.
    assert 0.09 < min(areas) < 0.2 and 0.6 < max(areas) < 0.9
    assert 0.72 < min(aspects) < 0.85 and 1.2 < max(aspects) < 1.36


def test_changes_of_colors_and_crops(monkeypatch):
    """The arguments of TensorFlow's random operations."""
    calls = {}

    def record(name, wrapped):
        def recorded(image, *arguments):
            calls[name] = [np.asarray(each).tolist() for each in arguments[: -1 if len(arguments) > 1 else None]]
            calls[f'{name}, shape'] = tuple(image.shape)
            return wrapped(image, *arguments)

        return recorded

    for name in ('brightness', 'saturation', 'hue', 'contrast', 'crop'):
        function = f'stateless_random_{name}'
        monkeypatch.setattr(tf.image, function, record(name, getattr(tf.image, function)))
    image, seed = tf.constant(picture(40, 50)), tf.constant([1, 2], tf.int64)
    slim.inception_train(image, seed, (SIDE, SIDE))
    expected = {'brightness': [32 / 255], 'saturation': [0.5, 1.5], 'hue': [0.2], 'contrast': [0.5, 1.5]}
    assert {name: calls[name] for name in expected} == expected
    slim.cifarnet_train(image, seed, (SIDE, SIDE))
    assert (calls['brightness'], calls['contrast'], calls['crop, shape']) == ([63], [0.2, 1.8], (40, 40, 3))
    sides = set()
    for number in range(40):
        slim.vgg_train(image, tf.constant([0, number], tf.int64), (SIDE, SIDE))
        sides.add(calls['crop, shape'][0])
    assert 256 <= min(sides) < 280 and 490 < max(sides) <= 512


def test_normalizations():
    pixels = np.float32([0, 128, 255])
    lenet, inception_like = (PREPROCESSINGS.get(name).normalization for name in ('lenet', 'inception'))
    np.testing.assert_allclose(pixels * lenet.scale - lenet.offset[0], (pixels - 128) / 128, atol=1e-6)
    np.testing.assert_allclose(pixels * inception_like.scale - inception_like.offset[0], pixels / 127.5 - 1, atol=1e-6)
    assert PREPROCESSINGS.get('vgg').normalization.offset == (123.68, 116.78, 103.94)
    assert PREPROCESSINGS.get('cifarnet').normalization is None
