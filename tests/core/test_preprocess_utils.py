"""Preprocessing functions against NumPy twins or arrays by hand, in eager execution."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import preprocess_utils
from deeplab.core.augmentations import flip
from tests.helpers import numpy_layers

SQUARE = np.arange(1, 10, dtype=np.float32).reshape(3, 3, 1)


def seed(number):
    return tf.constant([7, number], tf.int64)


@pytest.mark.parametrize('size', [(5, 9), (4, 4), (7, 3), (1, 1)])
def test_images_are_resized_with_their_corners_in_place(size):
    image = np.random.default_rng(0).uniform(0, 255, (4, 5, 3)).astype(np.float32)
    resized = preprocess_utils.resize_image(image, size).numpy()
    np.testing.assert_allclose(resized, numpy_layers.resized(image, size), atol=1e-4)
    if min(size) > 1:
        np.testing.assert_array_equal(resized[[0, 0, -1, -1], [0, -1, 0, -1]], image[[0, 0, -1, -1], [0, -1, 0, -1]])


def test_labels_are_resized_to_the_nearest_pixel():
    label = np.arange(9, dtype=np.int32).reshape(3, 3, 1)
    larger = preprocess_utils.resize_label(label, [5, 5]).numpy()
    assert larger.dtype == np.int32
    assert larger[:, 0, 0].tolist() == [0, 3, 3, 6, 6]  # sources 0, 0.5, 1, 1.5, 2, rounded half up
    assert preprocess_utils.resize_label(label, [2, 2]).numpy()[..., 0].tolist() == [[0, 2], [6, 8]]


def size_twin(height, width, min_value, max_value, factor):
    height, width = np.float32(height), np.float32(width)
    short, long = min(height, width), max(height, width)
    if factor:
        max_value = (max_value - 1) // factor * factor + 1
    scale = np.float32(min_value) / short
    if int(np.floor(long * scale)) > max_value:
        scale = np.float32(max_value) / long
    sides = [int(np.floor(side * scale)) for side in (height, width)]
    while factor and any((side - 1) % factor for side in sides):
        sides = [side + bool((side - 1) % factor) for side in sides]
    return sides


@pytest.mark.parametrize('bounds', [(30, 48, None), (70, 120, 16), (513, 513, 32), (100, 900, None)])
def test_sizes_in_range(bounds):
    heights, widths = np.random.default_rng(0).integers(20, 900, (2, 200))
    expected = [size_twin(height, width, *bounds) for height, width in zip(heights, widths, strict=True)]
    for kind in (tf.constant, np.asarray):
        rows, columns = preprocess_utils.size_in_range(kind(heights), kind(widths), *bounds)
        assert tf.is_tensor(rows) == (kind is tf.constant)
        np.testing.assert_array_equal(np.stack([rows, columns], axis=1), expected)


def test_one_bound_alone():
    def size(height, width, *bounds):
        return [int(side) for side in preprocess_utils.size_in_range(height, width, *bounds)]

    assert size(40, 50, 80, None) == [80, 100]
    assert size(40, 50, None, 25) == [20, 25]
    assert size(40, 50, None, 60) == [40, 50]


def test_scale_values_have_both_ends_and_equal_chances():
    values = [float(preprocess_utils.random_scale_value(0.5, 2.0, 0.4, seed(i))) for i in range(200)]
    assert sorted(set(values)) == [0.5, 1.0, 1.5, 2.0]
    assert min(values.count(value) for value in set(values)) > 25


def test_without_a_step_the_whole_range_is_drawn_from():
    values = np.array([preprocess_utils.random_scale_value(0.5, 2.0, 0, seed(i)) for i in range(100)])
    assert 0.5 <= values.min() < 0.6
    assert 1.9 < values.max() < 2.0
    assert len(set(values)) > 95
    assert float(preprocess_utils.random_scale_value(1.5, 1.5, 0.25, seed(0))) == 1.5


@pytest.mark.parametrize('scale', [0.5, 0.75, 1.25, 1.7, 0.001])
def test_scaled_sizes_are_cut_to_integers(scale):
    height, width = preprocess_utils.scaled_size(37, 53, tf.constant(scale))
    expected = [max(int(np.float32(side) * np.float32(scale)), 1) for side in (37, 53)]
    assert [int(height), int(width)] == expected


def test_padding_by_hand():
    padded = preprocess_utils.pad_to_bounding_box(tf.constant(SQUARE[:2, :2]), 1, 0, 4, 3, 9.0).numpy()[..., 0]
    assert padded.tolist() == [[9, 9, 9], [1, 2, 9], [4, 5, 9], [9, 9, 9]]


def test_padding_has_a_value_for_each_channel_and_leaves_the_image_as_it_is():
    image = np.random.default_rng(0).uniform(0, 255, (2, 3, 3)).astype(np.float32)
    padded, label = preprocess_utils.pad_both(
        tf.constant(image), tf.ones([2, 3, 1], tf.int32), 4, 5, (123.15, 115.9, 103.06), 255
    )
    np.testing.assert_array_equal(padded[:2, :3], image)
    np.testing.assert_array_equal(padded[3, 4], np.array([123.15, 115.9, 103.06], np.float32))
    assert label.numpy()[..., 0].tolist() == [[1, 1, 1, 255, 255]] * 2 + [[255] * 5] * 2


def test_padding_needs_a_box_that_is_large_enough():
    with pytest.raises(ValueError, match='3x3 pixels at row 1, column 0 do not fit into 3x5'):
        preprocess_utils.pad_to_bounding_box(tf.constant(SQUARE), 1, 0, 3, 5, 0.0)


def test_crops_by_hand():
    assert preprocess_utils.crop(tf.constant(SQUARE), 1, 0, 2, 2).numpy()[..., 0].tolist() == [[4, 5], [7, 8]]


@pytest.mark.parametrize('size', [(1, 1), (2, 3), (7, 9), (8, 13), (20, 33)])
def test_labels_are_resized_as_the_operation_does_it(size):
    label = np.random.default_rng(0).integers(0, 255, (7, 9, 1), np.uint8)
    expected = tf.raw_ops.ResizeNearestNeighbor(images=label[np.newaxis], size=size, align_corners=True)[0]
    np.testing.assert_array_equal(preprocess_utils.resize_label(label, size), expected)


@pytest.mark.parametrize('size', [(3, 3), (6, 5), (9, 2), (1, 7)])
def test_a_resized_window_is_a_window_of_the_resized(size):
    images = np.random.default_rng(0).uniform(0, 255, (4, 5, 3)).astype(np.float32)
    label = np.random.default_rng(1).integers(0, 255, (4, 5, 1), np.uint8)
    whole_image = preprocess_utils.resize_image(images, size)
    whole_label = preprocess_utils.resize_label(label, size)
    window = tuple(min(side, 3) for side in size)
    corners = set()
    for i in range(10):
        assert preprocess_utils.window_in(size, (3, 3)) == list(window)
        row, column = corner = preprocess_utils.random_window(size, window, seed(i))
        image, cropped = preprocess_utils.resize_and_crop(images, label, size, corner, window)
        part = np.s_[int(row) : int(row) + window[0], int(column) : int(column) + window[1]]
        np.testing.assert_array_equal(image, whole_image[part])
        np.testing.assert_array_equal(cropped, whole_label[part])
        corners.add((int(row), int(column)))
    assert len(corners) == 1 or size != (3, 3)


def test_windows_reach_every_place_equally():
    places = [tuple(int(x) for x in preprocess_utils.random_window((3, 4), (2, 3), seed(i))) for i in range(80)]
    assert set(places) == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert min(places.count(place) for place in set(places)) > 8


def test_a_window_of_the_whole_is_the_whole():
    window = preprocess_utils.window_in((3, 3), (5, 5))
    corner = preprocess_utils.random_window((3, 3), window, seed(1))
    image, label = preprocess_utils.resize_and_crop(tf.constant(SQUARE), None, (3, 3), corner, window)
    np.testing.assert_array_equal(image, SQUARE)
    assert label is None


def test_flips_twice_are_none_and_half_of_the_seeds_flip():
    flips = 0
    for i in range(200):
        image, label = flip.flip_randomly(tf.constant(SQUARE), tf.constant(SQUARE.astype(np.int32)), seed(i), None, 0.5)
        np.testing.assert_array_equal(image.numpy().astype(int), label)
        flips += int(image[0, 0, 0] == 3)
        again = flip.flip_randomly(image, None, seed(i), None, 0.5)[0]
        np.testing.assert_array_equal(again, SQUARE)
    assert 70 < flips < 130


def test_equal_seeds_give_equal_results():
    draws = [float(preprocess_utils.random_scale_value(0.5, 2.0, 0, seed(3))) for _ in range(2)]
    assert draws[0] == draws[1] != float(preprocess_utils.random_scale_value(0.5, 2.0, 0, seed(4)))


def test_static_shapes_survive_in_a_graph():
    with tf.Graph().as_default():
        image = tf.compat.v1.placeholder(tf.float32, [None, None, 3])
        padded = preprocess_utils.pad_to_bounding_box(image, 0, 0, 5, 6, 0.0)
        cropped = preprocess_utils.crop(image, 1, 2, 4, 3)
        flipped, _ = flip.flip_randomly(cropped, None, tf.constant([0, 1], tf.int64), None, 0.5)
        assert padded.shape == [5, 6, 3]
        assert cropped.shape == flipped.shape == [4, 3, 3]
        with tf.compat.v1.Session() as session, pytest.raises(tf.errors.InvalidArgumentError):
            session.run(padded, {image: np.zeros((7, 6, 3))})
