import numpy as np
import pytest
import tensorflow as tf

from deeplab import common, input_preprocess
from deeplab.options import AugmentOptions, ResizeOptions

MEAN = (1.0, 2.0, 3.0)
STILL = AugmentOptions(min_scale_factor=1.0, max_scale_factor=1.0, flip_probability=0.0)


def sample_of(height, width, number=0, with_label=True):
    """An image whose pixels say where they come from, with the same in its label."""
    where = np.arange(height * width, dtype=np.uint8).reshape(height, width, 1)
    sample = {
        common.IMAGE: tf.constant(np.repeat(where, 3, axis=2)),
        common.SEED: tf.constant([0, number], tf.int64),
    }
    return sample | ({common.LABEL: tf.constant(where)} if with_label else {})


def trained(sample, crop_size=(6, 8), augment=STILL):
    steps = input_preprocess.train_steps(crop_size, ResizeOptions(), augment, MEAN, 255)
    return input_preprocess.apply_steps(sample, steps)


def test_steps_run_in_order():
    assert input_preprocess.apply_steps({'x': 2}, [lambda s: {'x': s['x'] + 1}, lambda s: {'x': s['x'] * 10}]) == {
        'x': 30
    }
    assert input_preprocess.apply_steps({'x': 2}, []) == {'x': 2}


def test_training_pads_at_the_bottom_and_right():
    out = trained(sample_of(4, 5))
    assert out[common.IMAGE].dtype == tf.float32
    assert out[common.LABEL].dtype == tf.int32
    expected = np.full((6, 8), 255)
    expected[:4, :5] = np.arange(20).reshape(4, 5)
    np.testing.assert_array_equal(out[common.LABEL][..., 0], expected)
    for channel, mean in enumerate(MEAN):
        np.testing.assert_array_equal(out[common.IMAGE][..., channel], np.where(expected == 255, mean, expected))


def test_training_crops_image_and_label_together():
    corners = set()
    for number in range(20):
        out = trained(sample_of(9, 12, number))
        np.testing.assert_array_equal(out[common.IMAGE][..., :1].numpy().astype(int), out[common.LABEL])
        corners.add(int(out[common.LABEL][0, 0, 0]))
    assert len(corners) > 8


def test_training_flips_and_scales_by_the_sample_seed():
    augment = AugmentOptions(min_scale_factor=0.5, max_scale_factor=2.0, scale_factor_step_size=0.5)
    outputs = [trained(sample_of(6, 8, number), augment=augment)[common.LABEL].numpy() for number in range(12)]
    again = trained(sample_of(6, 8, 5), augment=augment)[common.LABEL]
    np.testing.assert_array_equal(outputs[5], again)
    assert len({output.tobytes() for output in outputs}) > 6


def test_scale_crop_and_flip_are_drawn_independently():
    flipped, right_half = [], []
    for number in range(60):
        label = trained(sample_of(3, 12, number), (3, 6), AugmentOptions(1.0, 1.0))[common.LABEL].numpy()[0, :, 0]
        flipped.append(label[0] > label[-1])
        right_half.append(label.min() >= 3)
    both = np.mean(np.array(flipped) & np.array(right_half))
    assert 0.1 < both < 0.45


def test_training_resizes_to_the_range_first():
    steps = input_preprocess.train_steps((4, 4), ResizeOptions(min_value=4, max_value=4), STILL, MEAN, 255)
    out = input_preprocess.apply_steps(sample_of(7, 10), steps)
    rows = (out[common.LABEL].numpy()[..., 0] != 255).all(axis=1).sum()
    assert rows == 2  # 7x10 becomes 2x4


def test_evaluation_notes_the_size_before_padding():
    steps = input_preprocess.eval_steps((9, 9), ResizeOptions(min_value=5, max_value=8), MEAN, 255, keep_original=True)
    out = input_preprocess.apply_steps(sample_of(4, 5), steps)
    assert [int(out[key]) for key in (common.HEIGHT, common.WIDTH)] == [5, 6]
    assert [int(out[key]) for key in (common.ORIGINAL_HEIGHT, common.ORIGINAL_WIDTH)] == [4, 5]
    assert out[common.ORIGINAL_IMAGE].dtype == tf.uint8
    np.testing.assert_array_equal(out[common.IMAGE][8, 8], MEAN)
    assert set(np.unique(out[common.LABEL][5:])) == {255}


def test_evaluation_never_crops():
    steps = input_preprocess.eval_steps((4, 4), ResizeOptions(), MEAN, 255)
    with pytest.raises(ValueError, match='4x5 pixels at row 0, column 0 do not fit into 4x4'):
        input_preprocess.apply_steps(sample_of(4, 5), steps)


def test_a_sample_needs_no_label():
    out = trained(sample_of(9, 12, with_label=False))
    assert common.LABEL not in out
    assert out[common.IMAGE].shape == (6, 8, 3)


def test_shapes_are_static_where_the_image_size_is_not():
    with tf.Graph().as_default():
        sample = {
            common.IMAGE: tf.compat.v1.placeholder(tf.uint8, [None, None, 3]),
            common.LABEL: tf.compat.v1.placeholder(tf.uint8, [None, None, 1]),
            common.SEED: tf.constant([0, 1], tf.int64),
        }
        evaluated = input_preprocess.eval_steps((6, 8), ResizeOptions(min_value=3), MEAN, 255)
        for out in (trained(sample, augment=AugmentOptions()), input_preprocess.apply_steps(sample, evaluated)):
            assert out[common.IMAGE].shape == [6, 8, 3]
            assert out[common.LABEL].shape == [6, 8, 1]
