import numpy as np
import pytest
import tensorflow as tf

from deeplab import common
from deeplab.datasets import example, wire
from deeplab.errors import DataError
from tests.datasets import files


def test_encode_gives_tensorflows_bytes():
    serialized = example.encode(b'pixels' * 100, 'jpeg', 'näme', 300, 5, 3, b'mask')
    message = tf.train.Example.FromString(serialized)
    assert message.SerializeToString(deterministic=True) == serialized
    feature = message.features.feature
    assert {key: list(value.bytes_list.value) or list(value.int64_list.value) for key, value in feature.items()} == {
        'image/encoded': [b'pixels' * 100],
        'image/filename': ['näme'.encode()],
        'image/format': [b'jpeg'],
        'image/height': [300],
        'image/width': [5],
        'image/channels': [3],
        'image/segmentation/class/encoded': [b'mask'],
        'image/segmentation/class/format': [b'png'],
    }


def test_a_record_without_mask_has_no_mask_keys():
    message = tf.train.Example.FromString(example.encode(b'x', 'png', 'n', 1, 1))
    assert not [key for key in message.features.feature if 'segmentation' in key]


def test_parse_reads_what_tensorflow_writes():
    message = tf.train.Example()
    feature = message.features.feature
    feature['image/encoded'].bytes_list.value.append(b'abc')
    feature['image/filename'].bytes_list.value.append(b'name')
    feature['image/height'].int64_list.value.extend([2**40, 3])
    feature['score'].float_list.value.append(0.5)
    feature['image/segmentation/class/encoded'].bytes_list.SetInParent()  # a list without a value
    serialized = message.SerializeToString()
    assert example.parse(serialized) == example.Example(b'abc', 'name', None)
    assert wire.read_features(serialized)['image/height'] == 2**40


def test_numbers_that_are_not_packed_are_read():
    number = b'\x08\x05'  # field 1, varint 5
    feature = b'\x1a' + bytes([len(number)]) + number
    entry = b'\x0a\x01k\x12' + bytes([len(feature)]) + feature
    features = b'\x0a' + bytes([len(entry)]) + entry
    serialized = b'\x0a' + bytes([len(features)]) + features
    assert tf.train.Example.FromString(serialized).features.feature['k'].int64_list.value == [5]
    assert wire.read_features(serialized) == {'k': 5}


def test_parse_refuses_rubbish():
    good = example.encode(b'x' * 50, 'png', 'n', 1, 1)
    for cut in range(1, len(good)):
        with pytest.raises(DataError):
            example.parse(good[:cut])
    with pytest.raises(DataError, match=r"^it has no image \(the key 'image/encoded'\)$"):
        example.parse(b'')
    with pytest.raises(DataError, match='wire type'):
        example.parse(b'\x0f')


def decoded(serialized, **arguments):
    return {key: value.numpy() for key, value in example.decode(serialized, **arguments).items()}


def test_decode_gives_images_and_ids_back():
    image, label = files.pixels(5, 7), files.ids(5, 7)
    label[0, 0] = 255
    sample = decoded(example.encode(files.png(image), 'jpeg', 'n', 0, 0, 3, files.png(label)))  # the format is wrong
    np.testing.assert_array_equal(sample[common.IMAGE], image)
    np.testing.assert_array_equal(sample[common.LABEL], label[..., None])
    assert sample[common.IMAGE].dtype == sample[common.LABEL].dtype == np.uint8
    assert (sample[common.IMAGE_NAME], sample[common.HEIGHT], sample[common.WIDTH]) == (b'n', 5, 7)


def test_decode_reads_jpeg_as_tensorflow_does_by_default_whatever_the_format_says():
    content = files.jpeg(files.pixels(33, 21))
    sample = decoded(example.encode(content, 'png', 'n', 33, 21), with_label=False)
    np.testing.assert_array_equal(sample[common.IMAGE], tf.image.decode_jpeg(content, channels=3))
    assert common.LABEL not in sample


@pytest.mark.parametrize('encode', [files.png, files.jpeg])
def test_grey_images_get_three_channels(encode):
    sample = decoded(example.encode(encode(files.pixels()[..., 0]), 'png', 'n', 6, 8), with_label=False)
    assert sample[common.IMAGE].shape == (6, 8, 3)
    assert (sample[common.IMAGE] == sample[common.IMAGE][..., :1]).all()


def test_decode_has_static_channels_in_a_graph():
    with tf.Graph().as_default():
        sample = example.decode(tf.compat.v1.placeholder(tf.string, []))
        assert sample[common.IMAGE].shape.as_list() == [None, None, 3]
        assert sample[common.LABEL].shape.as_list() == [None, None, 1]
