"""Records: encoding, decoding and parsing of one image with its mask.

Covers datasets/wire.py.
"""

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common
from deeplab.datasets import example, wire
from deeplab.errors import DataError
from tests.helpers import dataset_files


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


def test_a_file_s_name_that_is_no_utf8_is_kept_as_it_is():
    name = b'caf\xe9'.decode('utf-8', 'surrogateescape')  # as Python reads it from a folder
    assert b'caf\xe9' in example.encode(b'image', 'png', name, 2, 2)


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
    assert wire.read_features(serialized)['image/height'].tolist() == [2**40, 3]


def test_negative_numbers_are_read_and_written_as_by_tensorflow():
    lists = [tf.train.Feature(int64_list=tf.train.Int64List(value=values)) for values in ([-1], [-(2**63), 2**63 - 1])]
    features = tf.train.Features(feature=dict(zip('ab', lists, strict=True)))
    serialized = tf.train.Example(features=features).SerializeToString(deterministic=True)
    read = wire.read_features(serialized)
    assert read['a'] == -1 and read['b'].tolist() == [-(2**63), 2**63 - 1]
    assert wire.write_features(read) == serialized


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
    image, label = dataset_files.pixels(5, 7), dataset_files.ids(5, 7)
    label[0, 0] = 255
    sample = decoded(
        example.encode(dataset_files.png(image), 'jpeg', 'n', 0, 0, 3, dataset_files.png(label))
    )  # the format is wrong
    np.testing.assert_array_equal(sample[common.IMAGE], image)
    np.testing.assert_array_equal(sample[common.LABEL], label[..., None])
    assert sample[common.IMAGE].dtype == sample[common.LABEL].dtype == np.uint8
    assert (sample[common.IMAGE_NAME], sample[common.HEIGHT], sample[common.WIDTH]) == (b'n', 5, 7)


def test_decode_reads_jpeg_as_tensorflow_does_by_default_whatever_the_format_says():
    content = dataset_files.jpeg(dataset_files.pixels(33, 21))
    sample = decoded(example.encode(content, 'png', 'n', 33, 21), with_label=False)
    np.testing.assert_array_equal(sample[common.IMAGE], tf.image.decode_jpeg(content, channels=3))
    assert common.LABEL not in sample


@pytest.mark.parametrize('encode', [dataset_files.png, dataset_files.jpeg])
def test_gray_images_get_three_channels(encode):
    sample = decoded(example.encode(encode(dataset_files.pixels()[..., 0]), 'png', 'n', 6, 8), with_label=False)
    assert sample[common.IMAGE].shape == (6, 8, 3)
    assert (sample[common.IMAGE] == sample[common.IMAGE][..., :1]).all()


def test_decode_has_static_channels_in_a_graph():
    with tf.Graph().as_default():
        sample = example.decode(tf.compat.v1.placeholder(tf.string, []))
        assert sample[common.IMAGE].shape.as_list() == [None, None, 3]
        assert sample[common.LABEL].shape.as_list() == [None, None, 1]


def random_values(channels, kind, height=5, width=7):
    most = np.iinfo(kind).max + 1
    return np.random.RandomState(0).randint(0, most, (height, width, channels)).astype(kind)


def image_of(content, channels, bits):
    sample = decoded(example.encode(content, 'png', 'n', 0, 0), with_label=False, channels=channels, bits=bits)
    assert (sample[common.HEIGHT], sample[common.WIDTH]) == sample[common.IMAGE].shape[:2]
    return sample[common.IMAGE]


class TestOtherImages:
    @pytest.mark.parametrize('channels', [1, 2, 3, 4])
    @pytest.mark.parametrize('encode', [dataset_files.deep_png, dataset_files.npy])
    def test_sixteen_bits_come_back_whole(self, channels, encode):
        values = random_values(channels, np.uint16)
        values[0, :2, 0] = 0, 65535
        image = image_of(encode(values), channels, 16)
        assert image.dtype == np.float32
        assert (image.min(), image.max()) == (0.0, pytest.approx(255.0, rel=1e-6))
        np.testing.assert_array_equal(np.rint(image.astype(np.float64) * 257), values)

    def test_every_value_of_sixteen_bits_is_another_one(self):
        values = np.arange(65536).astype(np.uint16).reshape(256, 256, 1)
        assert len(np.unique(image_of(dataset_files.deep_png(values), 1, 16))) == 65536

    @pytest.mark.parametrize('bits', [8, 16])
    @pytest.mark.parametrize(
        ('channels', 'encode'), [(n, dataset_files.png) for n in (1, 2, 3, 4)] + [(5, dataset_files.npy)]
    )
    def test_eight_bits_are_the_same_with_both(self, channels, encode, bits):
        values = random_values(channels, np.uint8)
        image = image_of(encode(values.squeeze()), channels, bits)
        assert image.dtype == (np.uint8 if bits == 8 else np.float32)
        np.testing.assert_allclose(image, values, rtol=1e-6)

    @pytest.mark.parametrize('bits', [8, 16])
    @pytest.mark.parametrize('channels', [1, 3])
    def test_jpeg(self, channels, bits):
        content = dataset_files.jpeg(random_values(channels, np.uint8).squeeze())
        np.testing.assert_array_equal(
            image_of(content, channels, bits), tf.image.decode_jpeg(content, channels=channels)
        )

    @pytest.mark.parametrize('bits', [8, 16])
    def test_gray_with_alpha_is_gray(self, bits):
        values = random_values(2, np.uint8)
        np.testing.assert_allclose(image_of(dataset_files.png(values), 1, bits), values[..., :1], rtol=1e-6)

    def test_three_channels_of_sixteen_bits_come_of_anything(self):
        values = random_values(4, np.uint16)
        np.testing.assert_allclose(image_of(dataset_files.deep_png(values), 3, 16), values[..., :3] / 257, rtol=1e-6)
        gray = image_of(dataset_files.deep_png(values[..., :1]), 3, 16)
        np.testing.assert_allclose(gray, np.repeat(values[..., :1], 3, 2) / 257, rtol=1e-6)

    @pytest.mark.parametrize(
        ('content', 'channels', 'bits'),
        [
            (dataset_files.npy(random_values(5, np.uint8)), 4, 8),
            (dataset_files.npy(random_values(5, np.uint16)), 5, 8),
            (dataset_files.png(random_values(3, np.uint8)), 5, 8),
            (dataset_files.jpeg(random_values(3, np.uint8)), 4, 16),
        ],
    )
    def test_what_does_not_fit_fails(self, content, channels, bits):
        with pytest.raises((tf.errors.OpError, DataError)):  # within a graph, all errors are TensorFlow's
            image_of(content, channels, bits)

    @pytest.mark.parametrize(('channels', 'bits'), [(1, 8), (2, 16), (4, 8), (6, 16)])
    def test_static_channels_in_a_graph(self, channels, bits):
        with tf.Graph().as_default():
            sample = example.decode(tf.compat.v1.placeholder(tf.string, []), channels=channels, bits=bits)
            assert sample[common.IMAGE].shape.as_list() == [None, None, channels]

    def test_three_channels_of_eight_bits_are_the_graph_that_they_were(self):
        def operations(**arguments):
            with tf.Graph().as_default() as graph:
                example.decode(tf.compat.v1.placeholder(tf.string, []), **arguments)
                return [operation.type for operation in graph.get_operations()]

        assert operations(channels=3, bits=8) == operations()
        assert operations().count('DecodeJpeg') == 1
        assert not {'If', 'StatelessIf', 'Switch', 'PyFunc', 'EagerPyFunc'} & set(operations())


@pytest.mark.parametrize('bits', [1, 2, 4])
def test_masks_of_few_bits_hold_ids(bits):
    label = dataset_files.ids(5, 7, classes=2**bits)
    sample = decoded(
        example.encode(
            dataset_files.png(dataset_files.pixels(5, 7)), 'png', 'n', 5, 7, 3, dataset_files.few_bit_png(label, bits)
        )
    )
    np.testing.assert_array_equal(sample[common.LABEL], label[..., None])
