"""Planes and points of a sample move with its image; covers the planes of input_preprocess.py.

Also the `takes_planes`, `move_points` and `corner` of the augmentations of the package.
"""

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common, input_preprocess
from deeplab.core.augmentations import rotation
from deeplab.datasets.planes import DEPTHS, IDS, MASKS, Plane
from deeplab.errors import OptionError
from deeplab.options import AugmentOptions, ResizeOptions
from deeplab.registry import AUGMENTATIONS, Augmentation, AugmentContext, Parameter
from tests.helpers.registries import changes_undone

MEAN = (1.0, 2.0, 3.0)
IGNORE = 255
PLANES = (Plane('instance', 'i', IDS), Plane('depth', 'd', DEPTHS), Plane('masks', 'm', MASKS, channels=2))
POINTS = f'{common.POINTS_PREFIX}marks'
EVERYTHING = AugmentOptions(
    settings={'rotation_degrees': 30.0, 'rare_class_sampling': 0.5, 'cutout_size': 4, 'flip_probability': 0.5}
)
FURTHER = AugmentOptions(
    max_scale_factor=1.0,
    settings={
        'vertical_flip_probability': 0.5,
        'quarter_turn_probability': 0.75,
        'affine_shear': 10.0,
        'affine_shift': 0.1,
        'elastic_pixels': 1.0,
        'elastic_sigma': 4.0,
        'random_augmentations': 'jpeg,affine,elastic',
    },
)


def sample_of(height=20, width=24, number=0):
    """A sample whose planes all follow from the class ids."""
    ids = np.random.default_rng(number).integers(0, 9, (height, width, 1)).astype(np.uint8)
    return {
        common.IMAGE: tf.constant(np.repeat(ids, 3, axis=2)),
        common.LABEL: tf.constant(ids),
        'instance': tf.constant(ids.astype(np.int32) * 1000 + 7),
        'depth': tf.constant(ids.astype(np.float32) * 0.3 + 1.7),
        'masks': tf.constant(np.concatenate([ids > 4, ids % 2 == 0], axis=2).astype(np.uint8)),
        common.SEED: tf.constant([3, number], tf.int64),
    }


def steps_of(augment, crop_size=(14, 15), planes=PLANES):
    steps = input_preprocess.train_steps(crop_size, ResizeOptions(), augment, MEAN, IGNORE, planes=planes)
    return list(steps.values())


@pytest.mark.parametrize('number', range(8))
@pytest.mark.parametrize('augment', [EVERYTHING, FURTHER], ids=['everything', 'further'])
def test_planes_stay_on_the_pixels_of_their_class_ids(number, augment):
    out = input_preprocess.apply_steps(sample_of(number=number), steps_of(augment))
    label = out[common.LABEL].numpy()
    inside = label != IGNORE
    assert inside.any()
    assert (label.dtype, out['instance'].dtype, out['depth'].dtype) == (np.int32, tf.int32, tf.float32)
    np.testing.assert_array_equal(out['instance'], np.where(inside, label * 1000 + 7, 0))
    expected = np.where(inside, label.astype(np.float32) * np.float32(0.3) + np.float32(1.7), 0)
    np.testing.assert_array_equal(out['depth'], expected.astype(np.float32))
    masks = np.concatenate([label > 4, label % 2 == 0], axis=2)
    np.testing.assert_array_equal(out['masks'], np.where(inside, masks, 255))


def test_the_label_is_the_same_without_further_planes():
    sample = sample_of(number=3)
    alone = {key: sample[key] for key in (common.IMAGE, common.LABEL, common.SEED)}
    expected = input_preprocess.apply_steps(alone, steps_of(EVERYTHING, planes=()))
    out = input_preprocess.apply_steps(sample, steps_of(EVERYTHING))
    np.testing.assert_array_equal(out[common.LABEL], expected[common.LABEL])
    np.testing.assert_array_equal(out[common.IMAGE], expected[common.IMAGE])


def test_planes_without_class_ids_move_and_the_label_is_ignored():
    sample = {key: value for key, value in sample_of().items() if key != common.LABEL}
    out = input_preprocess.apply_steps(sample, steps_of(EVERYTHING))
    assert (out[common.LABEL].numpy() == IGNORE).all()
    assert (out['depth'].numpy() > 0).any()


def test_evaluation_pads_planes():
    steps = input_preprocess.eval_steps((22, 30), ResizeOptions(), MEAN, IGNORE, planes=PLANES)
    sample = sample_of()
    out = input_preprocess.apply_steps(sample, steps)
    np.testing.assert_array_equal(out['depth'][:20, :24], sample['depth'])
    assert not out['depth'].numpy()[20:].any()
    assert (out['masks'].numpy()[:, 24:] == 255).all()


def marked(points, height=41, width=53):
    """An image that is black, with a bright disk at each point."""
    rows, columns = np.mgrid[:height, :width]
    image = np.zeros((height, width, 3), np.float32)
    for row, column in points:
        image[(rows - row) ** 2 + (columns - column) ** 2 <= 9] = 200.0
    return image


@pytest.mark.parametrize('number', range(6))
@pytest.mark.parametrize(
    'settings',
    [
        {},
        {'rotation_degrees': 40.0},
        {'rare_class_sampling': 1.0},
        {'flip_probability': 1.0},
        {'vertical_flip_probability': 1.0},
        {'quarter_turn_probability': 1.0},
        {'affine_shear': 20.0, 'affine_stretch': 0.3, 'affine_shift': 0.1},
        {'elastic_pixels': 3.0, 'elastic_sigma': 20.0},
        {'random_augmentations': 'affine,elastic,gaussian_noise', 'random_augmentations_number': 3},
    ],
)
def test_points_stay_on_what_they_mark(number, settings):
    augment = AugmentOptions(1.0, 1.6, 0.0, settings={'flip_probability': 0.0} | settings)
    points = np.array([[20.0, 25.0]], np.float32)
    label = np.zeros((41, 53, 1), np.uint8)
    label[18:23, 23:28] = 1
    sample = {
        common.IMAGE: tf.constant(marked(points)),
        common.LABEL: tf.constant(label),
        POINTS: tf.constant(points.reshape(1, 1, 2)),
        common.SEED: tf.constant([11, number], tf.int64),
    }
    out = input_preprocess.apply_steps(sample, steps_of(augment, (64, 70), ()))
    image = out[common.IMAGE].numpy()[..., 0]
    (row, column) = out[POINTS].numpy().reshape(2)
    rows, columns = np.nonzero(image > 100)
    if len(rows) > 20:  # the disk is whole
        assert abs(rows.mean() - row) < 1.0
        assert abs(columns.mean() - column) < 1.0


def test_rotation_moves_points_with_the_pixels():
    context = AugmentContext((41, 53), MEAN, IGNORE)
    seed = tf.constant([5, 6], tf.int64)
    points = np.array([[10.0, 40.0], [20.0, 26.0]], np.float32)
    image, _ = rotation.rotate_randomly(tf.constant(marked(points[:1])), None, seed, context, 90.0)
    moved = rotation.move_points(tf.constant(points), (41, 53), seed, context, 90.0).numpy()
    rows, columns = np.nonzero(image.numpy()[..., 0] > 100)
    np.testing.assert_allclose([rows.mean(), columns.mean()], moved[0], atol=0.5)
    np.testing.assert_allclose(moved[1], points[1], atol=1e-4)  # the middle stays


def test_an_augmentation_that_cannot_move_everything_is_refused_by_name():
    def shift(image, label, seed, context, shift_pixels):
        return tf.roll(image, 1, axis=0), tf.roll(label, 1, axis=0)

    with changes_undone(AUGMENTATIONS):
        parameter = Parameter('shift_pixels', 0, 'Shift images by this many pixels.', range='[0, 9]')
        AUGMENTATIONS.add(Augmentation(name='shift', function=shift, parameters=(parameter,)))
        augment = AugmentOptions(settings={'shift_pixels': 1})
        with pytest.raises(OptionError, match=r"'shift'.*takes_planes"):
            input_preprocess.apply_steps(sample_of(), steps_of(augment))
        alone = {key: value for key, value in sample_of().items() if key in (common.IMAGE, common.LABEL, common.SEED)}
        with pytest.raises(OptionError, match=r"'shift'.*move_points"):
            input_preprocess.apply_steps(alone | {POINTS: tf.zeros([1, 4, 2])}, steps_of(augment, planes=()))
