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
