"""Exports that TensorFlow itself runs. Covers export/formats/_sessions.py."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from deeplab.export import speed, tensor_names
from deeplab.export.formats import _sessions
from deeplab.inference import export_metadata, exports
from deeplab.inference.any_size import AnySize
from deeplab.inference.runners import ExportRunner
from deeplab.options import WindowOptions


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


def test_a_classifier_resizes_whole_images_to_its_crop(monkeypatch):
    facts = {'metadata_version': 1, 'crop_size': CROP, 'resize': None, 'class_names': ['dark', 'bright']}
    facts['task'] = {'name': 'classification', 'channels': {'classification': 2}}

    def load(session, path):
        image = tf.compat.v1.placeholder(tf.uint8, (1, None, None, 3), name=tensor_names.IMAGE)
        pixels = tf.reshape(tf.compat.v1.image.resize_bilinear(image, CROP), (1, *CROP, 3)) / 255
        bright = tf.reduce_mean(pixels, axis=(1, 2, 3), keepdims=True)
        maps = tf.concat([1 - bright, bright], axis=3)
        labels = tf.argmax(maps, axis=3, output_type=tf.int32)  # [1, 1, 1]
        tf.cast(labels, tf.float32, name=tensor_names.RAW_PREDICTIONS)
        return {'image': image, 'labels': labels, 'classification': maps}.get, export_metadata.dumped(facts)

    opened = _sessions.opener(load, ('image', 'labels', 'probabilities'))
    monkeypatch.setattr(exports, 'opened', lambda *_: opened('export', None))
    pixels = np.zeros((*CROP, 3), np.float32)
    pixels[3:] = 255  # the first pixel is dark
    with contextlib.closing(ExportRunner('export')) as runner:
        (scores,) = AnySize(runner, WindowOptions()).predict([pixels], with_probabilities=True)
        sizes = [speed._size('export', size, runner.exported) for size in (None, (3, 4), (30, 40))]
    assert sizes == [CROP, (3, 4), (30, 40)]
    np.testing.assert_allclose(scores.probabilities[0, 0], [0.5, 0.5], atol=1e-3)
