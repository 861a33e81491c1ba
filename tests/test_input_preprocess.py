import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common, input_preprocess
from deeplab.core import preprocess_utils
from deeplab.core.augmentations import flip
from deeplab.errors import OptionError
from deeplab.options import AugmentOptions, DatasetOptions, ModelOptions, ResizeOptions, TrainOptions

MEAN = (1.0, 2.0, 3.0)
STILL = AugmentOptions(min_scale_factor=1.0, max_scale_factor=1.0, settings={'flip_probability': 0.0})


def sample_of(height, width, number=0, with_label=True):
    """An image whose pixels encode their position, with the same values in its label."""
    where = np.arange(height * width, dtype=np.uint8).reshape(height, width, 1)
    sample = {
        common.IMAGE: tf.constant(np.repeat(where, 3, axis=2)),
        common.SEED: tf.constant([0, number], tf.int64),
    }
    return sample | ({common.LABEL: tf.constant(where)} if with_label else {})


def trained(sample, crop_size=(6, 8), augment=STILL):
    steps = list(input_preprocess.train_steps(crop_size, ResizeOptions(), augment, MEAN, 255).values())
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
    steps = list(
        input_preprocess.train_steps((4, 4), ResizeOptions(min_value=4, max_value=4), STILL, MEAN, 255).values()
    )
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


@pytest.mark.parametrize('resize', [ResizeOptions(), ResizeOptions(min_value=5, max_value=8)])
def test_bytes_become_the_same_numbers_on_the_device(resize):
    plain, late = (
        input_preprocess.eval_steps((9, 9), resize, MEAN, 255, keep_bytes=keep_bytes) for keep_bytes in (False, True)
    )
    for height, width in ((4, 5), (9, 7)):
        expected = input_preprocess.apply_steps(sample_of(height, width), plain)
        found = input_preprocess.apply_steps(sample_of(height, width), late)
        assert (found[common.IMAGE].dtype == tf.uint8) is (resize == ResizeOptions())
        np.testing.assert_array_equal(found[common.LABEL], expected[common.LABEL])
        images = input_preprocess.images_of({key: value[tf.newaxis] for key, value in found.items()}, MEAN)
        assert images.dtype == tf.float32
        np.testing.assert_array_equal(images[0], expected[common.IMAGE])


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


# --- Changes that are off unless asked for ---------------------------------------------------------------------------

ALL_ON = AugmentOptions(
    settings={
        'jitter_brightness': 0.3,
        'jitter_contrast': 0.3,
        'jitter_saturation': 0.3,
        'jitter_hue': 0.1,
        'rotation_degrees': 20,
        'blur_sigma': 1.0,
        'cutout_size': 3,
        'cutout_count': 2,
        'rare_class_sampling': 0.5,
    },
)


def test_a_plain_training_is_what_it_always_was():
    """The five basic steps written out: each draws the same values from the sample's seed and its number as before."""
    assert list(input_preprocess.train_steps((6, 8), ResizeOptions(), AugmentOptions(), MEAN, 255)) == [
        'resize_to_range',
        'scale_and_crop',
        'to_numbers',
        'pad',
        'flip',
    ]
    for number in range(8):
        sample = sample_of(9, 12, number)
        seeds = [tf.random.experimental.stateless_fold_in(sample[common.SEED], purpose) for purpose in range(3)]
        scale = preprocess_utils.random_scale_value(0.5, 2.0, 0.25, seeds[0])
        size = preprocess_utils.scaled_size(9, 12, scale)
        window = preprocess_utils.window_in(size, (6, 8))
        corner = preprocess_utils.random_window(size, window, seeds[1])
        image, label = preprocess_utils.resize_and_crop(
            sample[common.IMAGE], sample[common.LABEL], size, corner, window
        )
        image, label = preprocess_utils.pad_both(image, tf.cast(label, tf.int32), 6, 8, MEAN, 255)
        image, label = flip.flip_randomly(image, label, seeds[2], None, 0.5)
        out = trained(sample, augment=AugmentOptions())
        assert out[common.IMAGE].numpy().tobytes() == image.numpy().tobytes()
        assert out[common.LABEL].numpy().tobytes() == label.numpy().tobytes()


def test_each_change_is_a_step():
    names = list(input_preprocess.train_steps((6, 8), ResizeOptions(), ALL_ON, MEAN, 255))
    assert names == [
        'resize_to_range',
        'colors',
        'rotation',
        'scale_and_crop',
        'to_numbers',
        'blur',
        'cutout',
        'pad',
        'flip',
    ]


def changed_by(name, **changes):
    """12 samples of a training with one augmentation, and without any."""
    augment = STILL.changed(**changes)
    assert name in input_preprocess.train_steps((9, 12), ResizeOptions(), augment, MEAN, 255)
    samples = [sample_of(9, 12, number) for number in range(12)]
    return [(trained(sample, (9, 12), augment), trained(sample, (9, 12))) for sample in samples]


@pytest.mark.parametrize(
    ('name', 'changes', 'moves_label'),
    [
        ('colors', {'jitter_brightness': 0.2}, False),
        ('colors', {'jitter_contrast': 0.2}, False),
        ('rotation', {'rotation_degrees': 30.0}, True),
        ('blur', {'blur_sigma': 1.0, 'blur_probability': 1.0}, False),
        ('cutout', {'cutout_size': 4}, True),
    ],
)
def test_a_change_acts_on_samples(name, changes, moves_label):
    moved = []
    for changed, plain in changed_by(name, **changes):
        moved.append([(changed[key].numpy() != plain[key].numpy()).any() for key in (common.IMAGE, common.LABEL)])
        assert changed[common.IMAGE].dtype == tf.float32 and changed[common.LABEL].dtype == tf.int32
        if moves_label:  # the image says what its label is: where both are there, they agree
            image, label = changed[common.IMAGE].numpy()[..., :1], changed[common.LABEL].numpy()
            seen = label != 255
            assert (np.abs(image - label)[seen] < 13).mean() > 0.7  # a neighbor differs by 1, or 12 in the next row
    images, labels = np.mean(moved, axis=0)
    assert images > 0.5  # some angles and blurs are too small to be seen
    assert labels > 0.5 if moves_label else labels == 0


def test_all_changes_together_follow_from_the_seed():
    outputs = [trained(sample_of(9, 12, number), augment=ALL_ON) for number in (5, 5, 6)]
    first, again, other = ([out[key].numpy().tobytes() for key in (common.IMAGE, common.LABEL)] for out in outputs)
    assert first == again != other
    assert outputs[0][common.IMAGE].shape == (6, 8, 3)
    without = trained(sample_of(9, 12, with_label=False), augment=ALL_ON)
    assert common.LABEL not in without and without[common.IMAGE].shape == (6, 8, 3)


def test_shapes_are_static_with_all_changes():
    with tf.Graph().as_default():
        sample = {
            common.IMAGE: tf.compat.v1.placeholder(tf.uint8, [None, None, 3]),
            common.LABEL: tf.compat.v1.placeholder(tf.uint8, [None, None, 1]),
            common.SEED: tf.constant([0, 1], tf.int64),
        }
        out = trained(sample, augment=dataclasses.replace(ALL_ON, min_scale_factor=0.5, max_scale_factor=2.0))
        assert out[common.IMAGE].shape == [6, 8, 3]
        assert out[common.LABEL].shape == [6, 8, 1]


@functools.cache
def rare_samples(share):
    """60 crops out of an image with one pixel of class 1, as images and labels."""
    augment = AugmentOptions(min_scale_factor=1.0, max_scale_factor=2.0, settings={'rare_class_sampling': share})
    label = np.zeros((20, 30, 1), np.uint8)
    label[4, 25] = 1
    steps = list(input_preprocess.train_steps((6, 8), ResizeOptions(), augment, MEAN, 255, [10**9, 1]).values())

    @tf.function(autograph=False)
    def crop(number):
        image = tf.constant(np.repeat(label * 200, 3, axis=2))
        seed = tf.stack([tf.constant(0, tf.int64), number])
        sample = {common.IMAGE: image, common.LABEL: tf.constant(label), common.SEED: seed}
        out = input_preprocess.apply_steps(sample, steps)
        return out[common.IMAGE], out[common.LABEL]

    crops = [crop(tf.constant(number, tf.int64)) for number in range(60)]
    return [(image.numpy(), label.numpy()) for image, label in crops]


def test_crops_at_rare_classes_contain_them():
    assert all((label == 1).any() and (image > 60).any() for image, label in rare_samples(1.0))
    half = sum((label == 1).any() for _, label in rare_samples(0.5))
    chance = sum((label == 1).any() for _, label in rare_samples(0.0))
    assert chance < 12 < 20 < half < 48


def test_crops_that_are_not_aimed_lie_where_they_always_lay():
    plain = {image.tobytes() for image, _ in rare_samples(0.0)}
    assert sum(image.tobytes() in plain for image, _ in rare_samples(0.5)) > 12


# --- What is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('flag', 'value', 'allowed'),
    [
        ('jitter_brightness', 1.5, 'from 0 to 1'),
        ('jitter_contrast', -0.1, 'from 0 to 1'),
        ('jitter_saturation', float('nan'), 'a finite number'),
        ('jitter_hue', 0.6, 'from 0 to 0.5'),
        ('rotation_degrees', 270, 'from 0 to 180'),
        ('blur_sigma', -1, 'from 0 to 20'),
        ('cutout_size', -3, 'from 0 to 4096'),
        ('rare_class_sampling', 1.1, 'from 0 to 1'),
    ],
)
def test_values_out_of_range_are_refused(flag, value, allowed):
    with pytest.raises(OptionError) as raised:
        AugmentOptions().changed(**{flag: value})
    assert str(raised.value) == f'{flag}={value} is not allowed: it must be {allowed}.'


def test_shares_and_counts_are_checked():
    with pytest.raises(OptionError, match='^blur_probability=0 is not allowed: it must be greater than 0 and at most'):
        AugmentOptions(settings={'blur_probability': 0})
    with pytest.raises(OptionError, match='^cutout_count=0 is not allowed: it must be greater than 0'):
        AugmentOptions(settings={'cutout_count': 0})


def test_a_cutout_is_smaller_than_the_crop():
    network = ModelOptions({common.OUTPUT_TYPE: 2}, crop_size=(33, 65))
    message = r'^cutout_size=33 is not allowed: it must be less than both sides of crop_size=\(33, 65\)'
    with pytest.raises(OptionError, match=message):
        TrainOptions(
            network, DatasetOptions('train', 'records'), 'logs', augment=AugmentOptions(settings={'cutout_size': 33})
        )
