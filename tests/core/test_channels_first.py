"""Channels-first logits with their labels, and resizing as matrix products."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import channels_first

IGNORE = 255


def test_pixels_lie_side_by_side_for_each_class():
    logits = np.arange(12, dtype=np.float32).reshape(1, 2, 2, 3)
    labeled = channels_first.with_labels(tf.constant(logits), tf.constant([[[[2], [IGNORE]], [[0], [1]]]]), IGNORE)
    np.testing.assert_array_equal(labeled.logits, [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]])
    np.testing.assert_array_equal(labeled.labels, [2, 0, 0, 1])
    np.testing.assert_array_equal(labeled.is_counted, [True, False, True, True])
    assert labeled.classes == 3


def test_resized_logits_equal_tensorflows():
    rng = np.random.default_rng(0)
    logits = tf.constant(rng.normal(size=(2, 3, 4, 5)), tf.float32)
    labels = tf.constant(rng.integers(0, 5, (2, 9, 10, 1)), tf.int32)
    upsampled = tf.raw_ops.ResizeBilinear(images=logits, size=(9, 10), align_corners=True)
    expected = channels_first.with_labels(upsampled, labels, IGNORE)
    resized = channels_first.resized_with_labels(logits, labels, IGNORE)
    np.testing.assert_allclose(resized.logits, expected.logits, atol=2e-6)
    np.testing.assert_array_equal(resized.labels, expected.labels)


def test_a_stride_takes_logits_and_labels_of_the_same_pixels():
    rng = np.random.default_rng(1)
    logits, labels = tf.constant(rng.normal(size=(2, 3, 4, 5)), tf.float32), rng.integers(0, 5, (2, 9, 10, 1))
    labels[1, 4:] = IGNORE
    whole = channels_first.resized_with_labels(logits, tf.constant(labels, tf.int32), IGNORE)
    resized = channels_first.resized_with_labels(logits, tf.constant(labels, tf.int32), IGNORE, stride=2)
    for part, all_pixels in zip(resized, whole, strict=True):
        expected = np.reshape(all_pixels, [-1, 2, 9, 10])[:, :, ::2, ::2]
        np.testing.assert_allclose(np.reshape(part, [-1, 2, 5, 5]), expected, atol=1e-6)


def channels_last(values):
    """[c, n, h, w] as [n, h, w, c]."""
    return tf.transpose(values, [1, 2, 3, 0])


def test_matrix_by_hand():
    np.testing.assert_allclose(
        channels_first.interpolation_matrix(3, 5), [[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0], [0, 0.5, 0.5], [0, 0, 1]]
    )
    np.testing.assert_array_equal(channels_first.interpolation_matrix(1, 3), np.ones((3, 1)))
    np.testing.assert_array_equal(channels_first.interpolation_matrix(4, 1), [[1, 0, 0, 0]])


@pytest.mark.parametrize(('old', 'new'), [((16, 21), (241, 321)), ((5, 7), (3, 4)), ((1, 6), (5, 6)), ((9, 9), (1, 1))])
def test_equals_tensorflows_own(old, new):
    images = np.random.default_rng(0).normal(size=(2, *old, 3)).astype(np.float32)
    expected = tf.raw_ops.ResizeBilinear(images=images, size=new, align_corners=True)
    np.testing.assert_allclose(
        channels_last(channels_first.resize_bilinear(tf.constant(images), new)), expected, atol=2e-6
    )


def test_gradient_equals_tensorflows_own():
    images = tf.constant(np.random.default_rng(1).normal(size=(2, 4, 5, 3)), tf.float32)
    factors = tf.constant(np.random.default_rng(2).normal(size=(2, 13, 17, 3)), tf.float32)
    gradients = []
    for function in (
        lambda x, size: channels_last(channels_first.resize_bilinear(x, size)),
        lambda x, size: tf.raw_ops.ResizeBilinear(images=x, size=size, align_corners=True),
    ):
        with tf.GradientTape() as tape:
            tape.watch(images)
            total = tf.reduce_sum(function(images, (13, 17)) * factors)
        gradients.append(tape.gradient(total, images).numpy())
    np.testing.assert_allclose(gradients[0], gradients[1], atol=1e-5)


def test_the_same_size_stays_as_it_is():
    images = np.random.default_rng(3).normal(size=(1, 3, 4, 2))
    np.testing.assert_array_equal(channels_last(channels_first.resize_bilinear(tf.constant(images), (3, 4))), images)


@pytest.mark.parametrize('old', [(4, 5), (13, 18)])  # resized, and of the wanted size
@pytest.mark.parametrize('stride', [2, 5, 30])
def test_a_stride_takes_rows_and_columns_of_the_whole_result(old, stride):
    images = tf.constant(np.random.default_rng(4).normal(size=(2, *old, 3)), tf.float32)
    whole = channels_first.resize_bilinear(images, (13, 18))
    found = channels_first.resize_bilinear(images, (13, 18), stride)
    np.testing.assert_allclose(found, whole[:, :, ::stride, ::stride], atol=1e-6)


def test_unknown_number_of_images():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        images = tf.compat.v1.placeholder(tf.float32, [None, 2, 2, 1])
        result = session.run(
            channels_first.resize_bilinear(images, (3, 3)), {images: np.array([[[[0], [2]], [[4], [6]]]])}
        )
    np.testing.assert_array_equal(result[0, 0], [[0, 1, 2], [2, 3, 4], [4, 5, 6]])


def test_unknown_size_is_refused():
    with tf.Graph().as_default(), pytest.raises(ValueError, match='None'):
        channels_first.resize_bilinear(tf.compat.v1.placeholder(tf.float32, [1, None, 2, 1]), (3, 3))
