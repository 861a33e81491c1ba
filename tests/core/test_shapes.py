import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import shapes


def _run(tensor, feed=None):
    with tf.compat.v1.Session() as session:
        return session.run(tensor, feed)


@pytest.mark.parametrize(
    ('side', 'scale', 'expected'), [(513, 1 / 16, 33), (321, 0.25, 81), (129, 0.75, 97), (1, 8, 1)]
)
def test_scaled_size_keeps_corners(side, scale, expected):
    assert shapes.scaled_size(side, scale) == expected
    with tf.Graph().as_default():
        assert _run(shapes.scaled_size(tf.constant(side), scale)) == expected


def test_spatial_size_is_static_where_it_is_known():
    with tf.Graph().as_default():
        images = tf.compat.v1.placeholder(tf.float32, [None, 5, None, 3])
        height, width = shapes.spatial_size(images)
        assert height == 5
        assert _run(width, {images: np.zeros([1, 5, 7, 3])}) == 7


def test_resizing_aligns_corners():
    with tf.Graph().as_default():
        images = tf.constant([[0.0, 2.0], [4.0, 6.0]])[tf.newaxis, :, :, tf.newaxis]
        resized = shapes.resize_bilinear(images, (3, 3))
        assert resized.shape == [1, 3, 3, 1]
        np.testing.assert_allclose(_run(resized)[0, :, :, 0], [[0, 1, 2], [2, 3, 4], [4, 5, 6]])
        nearest = shapes.resize_nearest(tf.constant([[1, 2], [3, 4]])[tf.newaxis, :, :, tf.newaxis], (4, 4))
        np.testing.assert_array_equal(_run(nearest)[0, :, 0, 0], [1, 1, 3, 3])


def test_resizing_to_the_same_size_adds_nothing():
    with tf.Graph().as_default():
        images = tf.zeros([1, 4, 5, 2])
        assert shapes.resize_bilinear(images, (4, 5)) is images


def test_resizing_to_a_size_known_at_run_time_keeps_what_is_known():
    with tf.Graph().as_default():
        height = tf.compat.v1.placeholder(tf.int32, [])
        resized = shapes.resize_bilinear(tf.zeros([2, 4, 5, 3]), (height, 9))
        assert resized.shape.as_list() == [2, None, 9, 3]
        assert _run(resized, {height: 7}).shape == (2, 7, 9, 3)
