"""Planes of records: what goes in comes out, with TensorFlow and without, and what is wrong is named."""

import re

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common
from deeplab.datasets import descriptor, example, pairs, plane_files, planes, segmentation_dataset, task_data, wire
from deeplab.errors import DataError
from deeplab.options import ModelOptions
from tests.helpers import dataset_files
from tests.helpers.dataset_files import few_bit_png, npy, palette_png, png

HEIGHT, WIDTH = SIZE = 6, 8
POINTS = planes.Plane('points', 'text/points', planes.FLOATS, 8)
TEXTS = planes.Plane('texts', 'text/texts', planes.BYTES)
DEPTH = planes.DEPTH._replace(scale=0.25)


def ids(most, kind=np.uint16):
    return np.random.default_rng(0).integers(0, most, SIZE, endpoint=True).astype(kind)


def record(**features):
    names = {'instance': planes.INSTANCE, 'depth': planes.DEPTH, 'multilabel': planes.MULTILABEL}
    names |= {'points': POINTS, 'texts': TEXTS}
    image, label = png(dataset_files.pixels(*SIZE)), png(dataset_files.ids(*SIZE))
    return example.encode(
        image, 'png', 'name', *SIZE, 3, label, {names[key].feature: value for key, value in features.items()}
    )


def both(plane, serialized):
    """The plane as NumPy and as TensorFlow read it, which must agree."""
    array = planes.read(plane, example.parse(serialized).features, SIZE)
    graph = tf.function(lambda content: example.decode(content, further=[plane])[plane.key])
    decoded = graph(tf.constant(serialized)).numpy()
    assert (array.dtype, array.shape) == (decoded.dtype, decoded.shape)
    np.testing.assert_array_equal(array, decoded)
    return array


def test_records_with_planes_have_tensorflows_bytes():
    serialized = record(instance=png(ids(70)), depth=npy(ids(9, float)), points=np.arange(16.0), texts=[b'a', b'b'])
    message = tf.train.Example.FromString(serialized)
    assert message.SerializeToString(deterministic=True) == serialized
    feature = message.features.feature
    assert feature['image/segmentation/instance/format'].bytes_list.value == [b'png']
    assert feature['image/depth/format'].bytes_list.value == [b'npy']
    assert list(feature['text/points'].float_list.value) == list(range(16))
    assert list(feature['text/texts'].bytes_list.value) == [b'a', b'b']


@pytest.mark.parametrize('most', [3, 255, 65535])
def test_instances_of_16_bits(most):
    given = ids(most)
    read = both(planes.INSTANCE, record(instance=png(given)))
    assert read.dtype == np.int32 and read.shape == (*SIZE, 1)
    np.testing.assert_array_equal(read[..., 0], given)


@pytest.mark.parametrize('bits', [1, 2, 4, 8])
def test_ids_of_fewer_bits_are_the_samples(bits):
    given = ids(2**bits - 1, np.uint8)
    content = png(given) if bits == 8 else few_bit_png(given, bits)
    np.testing.assert_array_equal(both(planes.INSTANCE, record(instance=content))[..., 0], given)


def test_depth_of_png_files_has_the_unit_of_the_data_set():
    given = ids(9)
    np.testing.assert_array_equal(both(DEPTH, record(depth=png(given)))[..., 0], given * np.float32(0.25))


@pytest.mark.parametrize('shape', [SIZE, (*SIZE, 1)])
def test_depth_of_arrays_is_0_where_it_is_invalid(shape):
    given = np.random.default_rng(0).normal(size=shape)
    given.flat[:3] = np.nan, np.inf, 0
    read = both(planes.DEPTH, record(depth=npy(given)))
    expected = np.where(np.isfinite(given) & (given > 0), given, 0).reshape(*SIZE, 1)
    np.testing.assert_array_equal(read, expected.astype(np.float32))


@pytest.mark.parametrize('of_bits', [lambda masks: few_bit_png(masks, 1), png, lambda masks: png(255 * masks)])
def test_masks_of_classes_that_overlap(of_bits):
    masks = np.random.default_rng(0).integers(0, 2, (3, *SIZE)).astype(np.uint8)
    plane = planes.MULTILABEL._replace(channels=3)
    read = both(plane, record(multilabel=of_bits(masks.reshape(-1, WIDTH))))
    np.testing.assert_array_equal(read, masks.transpose(1, 2, 0))


@pytest.mark.parametrize(('points', 'texts'), [(0, []), (1, [b'one']), (3, [b'a', b'', b'c'])])
def test_any_number_of_points_and_texts(points, texts):
    given = np.random.default_rng(0).random((points, 8)).astype(np.float32)
    serialized = record(points=given.reshape(-1), texts=texts)
    np.testing.assert_array_equal(both(POINTS, serialized), given)
    assert both(TEXTS, serialized).tolist() == texts
    assert both(POINTS, record()).shape == (0, 8)


def test_wire_reads_several_values_as_tensorflow_writes_them():
    message = tf.train.Example()
    message.features.feature['a'].float_list.value.extend([0.5, -2])
    message.features.feature['b'].bytes_list.value.extend([b'x', b'y'])
    features = wire.read_features(message.SerializeToString())
    assert features['a'].tolist() == [0.5, -2] and features['b'] == [b'x', b'y']


def test_a_data_set_says_the_number_of_classes_and_the_unit():
    dataset = descriptor.DatasetDescriptor('own', 7, depth_scale=0.01)
    wanted = planes.of_dataset([planes.INSTANCE, planes.MULTILABEL, planes.DEPTH, POINTS], dataset)
    assert [(plane.channels, plane.scale) for plane in wanted] == [(1, None), (7, None), (1, 0.01), (8, None)]


@pytest.mark.parametrize(
    ('plane', 'features', 'text'),
    [
        (planes.INSTANCE, {}, "has no plane 'instance' (the key 'image/segmentation/instance/encoded')"),
        (planes.INSTANCE, {'instance': png(ids(9).T.copy())}, "'instance': it is 8 x 6 pixels (height x width), its"),
        (planes.INSTANCE, {'instance': dataset_files.jpeg(ids(9, np.uint8))}, "'instance': it is a JPEG"),
        (planes.INSTANCE, {'instance': png(dataset_files.pixels(*SIZE))}, 'it has 3 channels (RGB)'),
        (planes.INSTANCE, {'instance': png(ids(9))[:-30]}, 'cannot be decoded'),
        (planes.MULTILABEL._replace(channels=2), {'multilabel': png(ids(1, np.uint8))}, '6 x 8 pixels (height x width) '
         'for 2 classes, its image 6 x 8'),
        (planes.DEPTH, {'depth': png(ids(9))}, 'no depth_scale'),
        (planes.DEPTH, {'depth': npy(ids(9))}, 'an array of uint16 [6, 8]; depth is [h, w] of floats'),
        (planes.DEPTH, {'depth': npy(ids(9, float))[:-9]}, 'it cannot be decoded'),
        (POINTS, {'points': np.arange(9.0)}, "'text/points' has 9 numbers, not a multiple of 8"),
        (planes.INSTANCE, {'instance': [b'a', b'b']}, 'is not a file'),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(plane, features, text):
    with pytest.raises(DataError, match=re.escape(text)):
        planes.read(plane, example.parse(record(**features)).features, SIZE)


def test_a_plane_of_another_size_is_an_error_in_a_graph():
    with pytest.raises(tf.errors.InvalidArgumentError, match="^the plane 'instance' has another size than its image"):
        example.decode(record(instance=png(ids(9).T.copy())), further=[planes.INSTANCE])


def test_palettes_are_indices():
    given = ids(200, np.uint8)
    features = {planes.INSTANCE.feature: palette_png(given)}
    np.testing.assert_array_equal(planes.read(planes.INSTANCE, features, SIZE)[..., 0], given)


def test_instances_of_which_every_pixel_is_ignored():
    instances = np.array([[0, 1, 1, 2], [5, 5, 2, 2]])
    classes = np.array([[255, 255, 3, 4], [255, 255, 255, 0]])
    assert planes.without_class(instances, classes, 255) == [5]
    assert planes.without_class(np.zeros((2, 2), int), np.full((2, 2), 255), 255) == []


def raw_record(labels, **changes):
    features = {
        'image/encoded': png(dataset_files.pixels(*SIZE)),
        'image/filename': b'name',
        'image/height': HEIGHT,
        'image/width': WIDTH,
        'image/segmentation/class/encoded': labels.astype('<i4').tobytes(),
        'image/segmentation/class/format': b'raw',
    }
    return wire.write_features({**features, **changes})


def test_records_of_deeplab2_have_labels_and_instances(tmp_path):
    classes, instances = dataset_files.ids(*SIZE, classes=19), ids(999)
    classes[0] = 255
    dataset_files.write_split(tmp_path, 'val', [[raw_record(1000 * classes.astype(int) + instances), record()]])
    (tmp_path / 'dataset.json').write_text('{"num_classes": 19, "label_divisor": 1000, "things": [13, 11]}')
    dataset = segmentation_dataset.get_dataset(str(tmp_path / 'dataset.json'), 'val', str(tmp_path))
    assert dataset.descriptor.things == (11, 13)
    records = dataset.open_records()
    sample = example.decode(records.read(0), further=[planes.INSTANCE])
    np.testing.assert_array_equal(sample['label'][..., 0], classes)
    np.testing.assert_array_equal(sample['instance'][..., 0], instances)
    assert records.read(1) == record()  # with a PNG


@pytest.mark.parametrize(
    ('labels', 'changes', 'text'),
    [
        (ids(9)[:-1], {}, 'its raw label is not an int32 for each of 6 x 8 pixels'),
        (ids(9), {'image/height': b'6'}, "is not an int32 for each of b'6' x 8"),
        (300000 + ids(9, int), {}, 'class ids 300 to 300, not 0 to 255: label_divisor is 1000'),
        (ids(9, int) - 1000, {}, 'class ids -'),
    ],
)
def test_raw_labels_that_do_not_fit(labels, changes, text):
    with pytest.raises(DataError, match=re.escape(text)):
        example.with_png_labels(raw_record(np.asarray(labels, np.int64), **changes), 1000)


def test_floats_with_the_key_of_points_are_points():
    plane = POINTS._replace(key=f'{common.POINTS_PREFIX}texts')
    read = both(plane, record(points=np.arange(16.0)))
    np.testing.assert_array_equal(read, np.arange(16.0).reshape(2, 4, 2))
    assert both(plane, record()).shape == (0, 4, 2)


def test_numbers_of_a_builder_become_a_plane(tmp_path):
    path = tmp_path / 'image.png'
    path.write_bytes(png(dataset_files.pixels(*SIZE)))
    numbers = plane_files.PlaneNumbers(POINTS, np.arange(8.0).reshape(4, 2))
    item = pairs.SourceFiles(str(path), None, 'name', planes=(numbers,))
    serialized = pairs.read(item, None).record
    read = planes.read(POINTS, example.parse(serialized).features, SIZE)
    np.testing.assert_array_equal(read, np.arange(8.0).reshape(1, 8))
    assert numbers.key != plane_files.PlaneNumbers(POINTS, np.zeros(8)).key


@pytest.mark.parametrize('padding', [3, 0])
@pytest.mark.parametrize(
    ('plane', 'items'),
    [
        (POINTS, np.ones((2, 8), np.float32)),
        (POINTS, np.ones((0, 4, 2), np.float32)),
        (TEXTS, np.array([b'', b'a'], object)),
        (TEXTS, np.array([], object)),
    ],
)
def test_padding_of_lists_is_removed(plane, items, padding):
    padded = np.concatenate([items, np.full((padding, *items.shape[1:]), plane.padding, items.dtype)])
    np.testing.assert_array_equal(planes.without_padding(plane, padded), items)


def test_class_ids_without_the_first_classes():
    plane = planes.CLASS_LABEL._replace(channels=3, first=2)
    image, label = png(dataset_files.pixels(*SIZE)), png(dataset_files.ids(*SIZE))
    serialized = example.encode(image, 'png', 'name', *SIZE, 3, label, {plane.feature: 4})
    assert both(plane, serialized).tolist() == [2]
    with pytest.raises(DataError, match=r"'image/class/label' is 4; class ids are 1 to 3"):
        planes.read(plane._replace(first=1), example.parse(serialized).features, SIZE)


def test_several_class_ids_need_their_setting():
    described = descriptor.DatasetDescriptor('own', 3)
    one, any_number = (
        task_data.planes_of(described, ModelOptions({'semantic': 3}, task='classification', settings=settings))[0]
        for settings in ({}, {'several_labels': True})
    )
    features = {one.feature: np.array([2, 0])}
    assert planes.read(any_number, features, SIZE).tolist() == [2, 0]
    assert planes.read(one, {one.feature: np.array([2, 2])}, SIZE).tolist() == [2, 2]
    with pytest.raises(DataError, match=r"'image/class/label' has 2 class ids, which needs several_labels=True"):
        planes.read(one, features, SIZE)
