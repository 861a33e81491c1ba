"""Mosaic, CutMix and copy-paste, and the step of input_preprocess.py that mixes samples.

Covers core/augmentations/mosaic.py, core/augmentations/cutmix.py and core/augmentations/copy_paste.py.
tests/utils/test_input_generator.py shows which other samples are drawn.
"""

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common, input_preprocess
from deeplab.core.augmentations import copy_paste, cutmix, mosaic
from deeplab.datasets.planes import DEPTHS, FLOATS, IDS, MASKS, Plane
from deeplab.errors import OptionError
from deeplab.options import AugmentOptions, ResizeOptions
from deeplab.registry import AUGMENTATIONS, MIX, PREPROCESSINGS, Augmentation, AugmentContext, Parameter

MEAN = (10.0, 20.0, 30.0)
IGNORE = 255
CONTEXT = AugmentContext((12, 16), MEAN, IGNORE)
PLANES = (Plane('instance', 'i', IDS), Plane('depth', 'd', DEPTHS), Plane('masks', 'm', MASKS, channels=2))
STILL = {'flip_probability': 0.0}


def seed(number):
    return tf.constant([7, number], tf.int64)


def filled(value, size=(12, 16)):
    """An image and a label of one value."""
    return tf.fill([*size, 3], float(value)), tf.fill([*size, 1], value)


def mixed(function, samples, number, context=CONTEXT):
    """Image and label as arrays; every pixel outside of all samples is the mean and ignored."""
    images, labels = zip(*samples, strict=True)
    image, label = function(list(images), list(labels), seed(number), context, 1.0)
    image, label = image.numpy(), label.numpy()
    np.testing.assert_array_equal(image, np.where(label == IGNORE, MEAN, label))
    alone, _ = function(list(images), None, seed(number), context, 1.0)
    np.testing.assert_array_equal(alone, image)
    return label[..., 0]


# --- Mosaic ----------------------------------------------------------------------------------------------------------


def test_four_images_meet_at_a_point():
    points = set()
    for number in range(60):
        label = mixed(mosaic.join, [filled(value) for value in (1, 2, 3, 4)], number)
        assert label.shape == (12, 16)
        row, column = int((label[:, 0] == 1).sum()), int((label[0] == 1).sum())
        upper, lower = np.repeat([1, 2], [column, 16 - column]), np.repeat([3, 4], [column, 16 - column])
        np.testing.assert_array_equal(label, np.repeat([upper, lower], [row, 12 - row], axis=0))
        points.add((row, column))
    assert {row for row, _ in points} == set(range(3, 9)) and {column for _, column in points} == set(range(4, 12))


def test_small_images_lie_at_the_point():
    samples = [filled(value, (2, 3)) for value in (1, 2, 3, 4)]
    for number in range(5):
        label = mixed(mosaic.join, samples, number)
        rows, columns = np.nonzero(label != IGNORE)
        assert (rows.max() - rows.min(), columns.max() - columns.min()) == (3, 5)
        shown = label[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        np.testing.assert_array_equal(shown, np.repeat(np.repeat([[1, 2], [3, 4]], 2, axis=0), 3, axis=1))


def test_parts_are_windows_of_their_images():
    where = np.arange(30 * 40).reshape(30, 40, 1)
    for number in range(5):
        label = mosaic.join(
            [tf.zeros([30, 40, 3])] * 4, [tf.constant(where, tf.int32)] * 4, seed(number), CONTEXT, 1.0
        )[1].numpy()[..., 0]
        corner = [label[0, 0], label[0, -1], label[-1, 0], label[-1, -1]]
        right, down = label[:, 1:] - label[:, :-1] != 1, label[1:] - label[:-1] != 40
        assert right.any(axis=0).sum() <= 1 and down.any(axis=1).sum() <= 1  # but for where they meet
        assert len(set(corner)) == 4


# --- CutMix ----------------------------------------------------------------------------------------------------------


def test_a_box_shows_the_other_image():
    areas, starts = [], set()
    for number in range(150):
        label = mixed(cutmix.mix, [filled(1), filled(2)], number)
        inside = label == 2
        rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
        if len(rows):
            assert inside[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()
            starts.add((int(rows[0]), int(columns[0])))
        areas.append(inside.mean())
    assert min(areas) < 0.05 and 0.75 < max(areas) <= 1
    assert 0.2 < np.mean(areas) < 0.45  # half, but for what lies outside
    assert len(starts) > 30


@pytest.mark.parametrize('size', [(5, 7), (20, 30), (5, 30)])
def test_other_sizes_lie_at_the_upper_left(size):
    labels = [mixed(cutmix.mix, [filled(1), filled(2, size)], number) for number in range(40)]
    assert {label.shape for label in labels} == {(12, 16)}
    seen = np.any([label == 2 for label in labels], axis=0)
    np.testing.assert_array_equal(seen, np.pad(np.ones(size), ((0, 20), (0, 30)))[:12, :16] == 1)


# --- Copy-paste ------------------------------------------------------------------------------------------------------


def objects(ids):
    """Image, and label with class ids and ids of instances, of 12 x 16 pixels, columns by columns."""
    of_pixels = np.repeat(np.array(ids), 16 // len(ids), axis=0)[np.newaxis].repeat(12, axis=0)  # [12, 16, 2]
    return tf.cast(of_pixels[..., :1].repeat(3, axis=2), tf.float32), tf.constant(of_pixels, tf.int32)


def test_some_instances_are_pasted_with_their_planes():
    context = CONTEXT._replace(fill=(IGNORE, 0), id_planes=(1,))
    own, other = objects([(1, 0), (1, 0), (2, 1), (2, 1)]), objects([(3, 4), (3, 5), (5, 0), (3, 6)])
    counts = np.zeros(4)
    for number in range(60):
        image, label = copy_paste.paste_objects([own[0], other[0]], [own[1], other[1]], seed(number), context, 1.0)
        np.testing.assert_array_equal(image.numpy()[..., 0], label[..., 0])
        for part in range(4):
            shown = label.numpy()[:, 4 * part : 4 * part + 4].reshape(-1, 2)
            assert (shown == shown[0]).all()
            options = [source[1].numpy()[0, 4 * part].tolist() for source in (own, other)]
            counts[part] += options.index(shown[0].tolist())
    assert counts[2] == 0  # stuff, which is no instance
    assert (counts[[0, 1, 3]] > 18).all() and (counts[[0, 1, 3]] < 42).all()


def test_without_instances_classes_are_pasted():
    own, other = filled(1), objects([(3, 0), (IGNORE, 0), (4, 0), (3, 0)])
    seen = set()
    for number in range(40):
        label = mixed(copy_paste_labels, [own, (other[0], other[1][..., :1])], number)
        assert (label == label[0]).all()
        seen.add(tuple(label[0, ::4].tolist()))
    assert seen == {(1, 1, 1, 1), (3, 1, 1, 3), (1, 1, 4, 1), (3, 1, 4, 3)}


def copy_paste_labels(images, labels, number, context, probability):
    """Copy-paste, which needs labels; without them, the image alone."""
    given = labels or [tf.cast(image[..., :1], tf.int32) for image in images]
    image, label = copy_paste.paste_objects(images, given, number, context, probability)
    return image, label if labels else None


@pytest.mark.parametrize(('labels', 'class_pixels'), [(None, None), ([filled(255)[1]] * 2, [0, 0])])
def test_a_task_without_objects_cannot_paste_them(labels, class_pixels):
    with pytest.raises(OptionError, match=r"'copy_paste' pastes objects.* neither class ids nor instances"):
        copy_paste.paste_objects([filled(1)[0]] * 2, labels, seed(0), CONTEXT._replace(class_pixels=class_pixels), 1.0)


# --- The step --------------------------------------------------------------------------------------------------------


def drawn(number):
    """A sample whose image and planes all follow from the class ids."""
    ids = np.random.default_rng(number).integers(0, 9, (20, 24, 1)).astype(np.uint8)
    return {
        common.IMAGE: tf.constant(np.repeat(ids, 3, axis=2)),
        common.LABEL: tf.constant(ids),
        'instance': tf.constant(ids.astype(np.int32)),
        'depth': tf.constant(ids.astype(np.float32) * 0.3 + 1.7),
        'masks': tf.constant(np.concatenate([ids > 4, ids % 2 == 0], axis=2).astype(np.uint8)),
        common.SEED: tf.constant([3, number], tf.int64),
    }


def trained(sample, draw, planes=PLANES, crop_size=(14, 15), **settings):
    augment = AugmentOptions(1.0, 1.0, settings=STILL | settings)
    steps = input_preprocess.train_steps(crop_size, ResizeOptions(), augment, MEAN, IGNORE, planes=planes)
    return input_preprocess.apply_steps(sample, steps.values(), draw)


@pytest.mark.parametrize('number', range(4))
@pytest.mark.parametrize('name', ['mosaic', 'cutmix', 'copy_paste'])
def test_planes_are_mixed_as_the_pixels(name, number):
    seeds = []

    def draw(given):
        seeds.append(given.numpy().tolist())
        return drawn(100 + len(seeds)) | {common.SEED: given}

    out = trained(drawn(number), draw, **{f'{name}_probability': 1.0})
    label, instance = out[common.LABEL].numpy(), out['instance'].numpy()
    inside = label != IGNORE
    assert inside.all()
    np.testing.assert_array_equal(out[common.IMAGE][..., :1], label)
    np.testing.assert_array_equal(out['depth'], label.astype(np.float32) * np.float32(0.3) + np.float32(1.7))
    np.testing.assert_array_equal(out['masks'], np.concatenate([label > 4, label % 2 == 0], axis=2))
    # Ids of each further image are larger by the largest of the image before, 8, so that none appears twice.
    others = {'mosaic': 3, 'cutmix': 1, 'copy_paste': 1}[name]
    np.testing.assert_array_equal(np.where(instance > 0, (instance - 1) % 8 + 1, 0), label)
    assert len({tuple(each) for each in seeds}) == others
    assert 8 < instance.max() <= 8 * (others + 1)


def test_ids_stay_different_if_an_image_has_no_instances():
    ids, size = iter([5, 0, 3, 2]), (8, 8)

    def draw(given):
        sample = {common.IMAGE: tf.zeros([*size, 3], tf.uint8), common.LABEL: tf.zeros([*size, 1], tf.uint8)}
        return sample | {'instance': tf.fill([*size, 1], next(ids)), common.SEED: given}

    out = trained(draw(seed(0)), draw, PLANES[:1], size, mosaic_probability=1.0)
    assert set(np.unique(out['instance'])) == {0, 5, 8, 10}


def test_a_fraction_is_mixed_and_drawn_anew_for_each_sample():
    calls = []

    def draw(given):
        calls.append(given.numpy().tobytes())
        return drawn(50) | {common.SEED: given}

    for number in range(40):
        sample = drawn(number)
        out = trained(sample, draw, cutmix_probability=0.3)
        before = len(calls)
        np.testing.assert_array_equal(trained(sample, draw, cutmix_probability=0.3)['instance'], out['instance'])
        assert calls[before:] in ([], calls[before - 1 : before])
    assert 8 < len(set(calls)) < 40
    assert 8 <= len(calls) <= 36


def test_shapes_are_static_after_a_mixture():
    def sample(given=(0, 1)):
        return {
            common.IMAGE: tf.compat.v1.placeholder(tf.uint8, [None, None, 3]),
            common.LABEL: tf.compat.v1.placeholder(tf.uint8, [None, None, 1]),
            common.SEED: tf.constant(given, tf.int64) if isinstance(given, tuple) else given,
        }

    every = {f'{name}_probability': 0.5 for name in ('mosaic', 'cutmix', 'copy_paste')}
    with tf.Graph().as_default():
        out = trained(sample(), sample, (), (9, 12), **every)
        assert out[common.IMAGE].shape == [9, 12, 3] and out[common.LABEL].shape == [9, 12, 1]


def test_lists_cannot_be_mixed():
    points = Plane(f'{common.POINTS_PREFIX}marks', 'p', FLOATS, channels=4)
    with pytest.raises(OptionError, match=r"'mosaic' mixes samples, which it cannot do with lists .*marks"):
        trained({}, None, (points,), mosaic_probability=0.5)


def test_mixing_takes_others():
    parameters = (Parameter('mine_probability', 0.0, 'Fraction.'),)
    for wrong in ({'stage': MIX}, {'others': 1}):
        with pytest.raises(ValueError, match=r"'mine' needs both or neither"):
            Augmentation(name='mine', function=print, parameters=parameters, **wrong)
    assert all(record.others for record in AUGMENTATIONS.records() if record.stage == MIX)


# --- Images of classifiers -------------------------------------------------------------------------------------------


def classified(name, augment):
    preprocessing = PREPROCESSINGS.get('lenet')
    return input_preprocess.train_steps_per_image(preprocessing, (28, 28), augment, MEAN)[name]


def test_the_class_of_a_mixed_image_follows_the_areas():
    augment = AugmentOptions(settings={'cutmix_probability': 1.0})
    step = classified('cutmix', augment)
    steps = [lambda sample: sample, step]

    def sample(value, given):
        image = tf.fill([28, 28, 3], float(value))
        return {common.IMAGE: image, common.CLASS_LABEL: tf.constant([value], tf.int64), common.SEED: given}

    @tf.function(autograph=False)
    def run(given):
        out = input_preprocess.apply_steps(sample(1, given), steps, lambda other: sample(2, other))
        return tf.reduce_mean(out[common.IMAGE]) - 1.0, out[common.CLASS_LABEL]

    results = [run(seed(number)) for number in range(200)]
    shares = np.array([float(share) for share, _ in results])
    is_other = np.array([classes.numpy().tolist() == [2] for _, classes in results])
    assert is_other.mean() == pytest.approx(shares.mean(), abs=0.1)
    assert is_other[shares > 0.5].mean() > 0.5 > 0.3 > is_other[shares < 0.3].mean()


@pytest.mark.parametrize(('name', 'reason'), [('mosaic', 'no class in common'), ('copy_paste', 'no objects')])
def test_what_needs_masks_is_refused_for_classifiers(name, reason):
    with pytest.raises(OptionError, match=rf"'{name}' is not for this task: .*{reason}.*\. Switch it off"):
        classified(name, AugmentOptions(settings={f'{name}_probability': 0.5}))
