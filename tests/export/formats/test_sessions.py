"""Exports that TensorFlow itself runs. Covers export/formats/_sessions.py."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab.export import tensor_names
from deeplab.export.formats import _sessions


def of_shape(shape, kind=tf.uint8):
    """Opens a network whose labels are the first channel of an image, and its probabilities all channels."""

    def load(session, path):
        image = tf.compat.v1.placeholder(kind, shape, name=tensor_names.IMAGE)
        tensors = {'labels': tf.cast(image[..., 0], tf.int64), 'probabilities': tf.cast(image, tf.float32)}
        return {'image': image, **tensors}.get, b''

    return _sessions.opener(load, ('image', 'labels', 'probabilities'))('export', None)


@pytest.mark.parametrize('channels', [1, 3, 4])
@pytest.mark.parametrize('size', [(None, None), (2, 5)])
def test_the_channels_are_those_of_the_image(size, channels):
    images = np.arange(10 * channels, dtype=np.uint8).reshape(1, 2, 5, channels)
    with of_shape((1, *size, channels)) as export:
        assert (export.channels, export.num_classes, export.bits) == (channels, channels, 8)
        assert not export.resizes
        labels, probabilities = export.predict(images, True)
    np.testing.assert_array_equal(labels, images[..., 0])
    np.testing.assert_array_equal(probabilities, images)


def test_a_network_that_does_not_say_its_channels_takes_colors():
    with of_shape((1, None, None, None), tf.uint16) as export:
        assert (export.channels, export.num_classes, export.bits) == (3, None, 16)


CROP = (6, 7)


def of_original(resized_sides):
    """Opens a graph built as the original's: it resizes predictions, even where the image keeps its size."""

    def load(session, path):
        image = tf.compat.v1.placeholder(tf.uint8, (1, None, None, 3), name=tensor_names.IMAGE)
        pixels = tf.cast(tf.squeeze(image, axis=0), tf.float32)
        if resized_sides is not None:
            pixels = tf.compat.v1.image.resize_bilinear(pixels[tf.newaxis], resized_sides, align_corners=True)[0]
        size = tf.shape(pixels)
        padded = tf.pad(pixels, [(0, CROP[0] - size[0]), (0, CROP[1] - size[1]), (0, 0)])
        network = tf.image.resize(tf.reshape(padded, (1, *CROP, 3)), CROP)  # as heads and decoders resize features
        raw = tf.identity(network[..., 0], name=tensor_names.RAW_PREDICTIONS)
        labels = tf.slice(raw, [0, 0, 0], [1, size[0], size[1]])[..., tf.newaxis]
        labels = tf.compat.v1.image.resize_nearest_neighbor(labels, tf.shape(image)[1:3], align_corners=True)
        labels = tf.identity(tf.cast(tf.squeeze(labels, 3), tf.int32))
        return {'image': image, 'labels': labels}.get, b''

    return _sessions.opener(load, ('image', 'labels', 'probabilities'))('export', None)


@pytest.mark.parametrize(('resized_sides', 'size'), [(None, CROP), ((3, 4), None)])
def test_a_graph_of_the_original_resizes_only_if_it_resizes_the_image(resized_sides, size):
    with of_original(resized_sides) as export:
        assert (export.resizes, export.size) == (resized_sides is not None, size)
        labels, _ = export.predict(np.full((1, 4, 5, 3), 9, np.uint8), False)
    np.testing.assert_array_equal(labels, np.full((1, 4, 5), 9))
