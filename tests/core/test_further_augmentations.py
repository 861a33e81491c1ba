"""Flips, turns, affine maps, elastic distortion, noise, JPEG, gamma and random sets, in eager execution.

Covers core/augmentations/flip.py, core/augmentations/quarter_turns.py, core/augmentations/affine.py,
core/augmentations/elastic.py, core/augmentations/gaussian_noise.py, core/augmentations/jpeg.py,
core/augmentations/gamma.py and core/augmentations/random_set.py. tests/test_moved_planes.py moves planes and points.
"""

import dataclasses
import io
import math

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from deeplab import common, input_preprocess
from deeplab.core.augmentations import (
    affine,
    elastic,
    gamma,
    gaussian_noise,
    jpeg,
    quarter_turns,
    random_set,
)
from deeplab.errors import OptionError
from deeplab.options import AugmentOptions
from deeplab.registry import AUGMENTATIONS, PREPROCESSINGS, Augmentation, AugmentContext, Parameter
from tests.helpers.registries import changes_undone

MEAN = (10.0, 20.0, 30.0)
CONTEXT = AugmentContext((40, 50), MEAN, 255)
GRID = np.arange(12, dtype=np.int32).reshape(3, 4, 1)


def seed(number):
    return tf.constant([7, number], tf.int64)


def random_image(height=20, width=30, channels=3):
    return tf.constant(np.random.default_rng(0).uniform(0, 255, (height, width, channels)).astype(np.float32))


def smooth_image(height=64, width=80):
    rows, columns = np.mgrid[:height, :width]
    return tf.constant(np.stack([rows, columns, rows + columns], axis=2).astype(np.float32))


def settled(**settings):
    """The values of the parameters of the set."""
    return AugmentOptions(settings=settings).settings_of(AUGMENTATIONS.get('random_set'))


# --- Flips and turns -------------------------------------------------------------------------------------------------


def test_a_vertical_flip_turns_images_upside_down():
    flipped = 0
    for number in range(40):
        image, label = AUGMENTATIONS.get('vertical_flip').function(
            tf.constant(GRID), tf.constant(GRID), seed(number), CONTEXT, vertical_flip_probability=0.25
        )
        assert image.numpy().tobytes() == label.numpy().tobytes()
        assert label.numpy().tolist() in (GRID.tolist(), GRID[::-1].tolist())
        flipped += label.numpy().tolist() != GRID.tolist()
    assert 3 < flipped < 18


def test_quarter_turns_have_equal_chances():
    turns = []
    for number in range(150):
        image, label = quarter_turns.turn_randomly(tf.constant(GRID), tf.constant(GRID), seed(number), CONTEXT, 0.75)
        assert image.numpy().tolist() == label.numpy().tolist()
        turns += [turn for turn in range(4) if np.rot90(GRID, turn).tolist() == label.numpy().tolist()]
    np.testing.assert_allclose(np.bincount(turns, minlength=4) / 150, 0.25, atol=0.1)


def test_no_turns_without_a_probability():
    assert {int(quarter_turns.random_turns(0.0, seed(number))) for number in range(20)} == {0}


def test_a_square_keeps_its_static_shape_when_it_turns():
    with tf.Graph().as_default():
        square, other = tf.zeros([5, 5, 3]), tf.zeros([5, 6, 3])
        shapes = [quarter_turns.turn_randomly(image, None, seed(0), CONTEXT, 1.0)[0].shape for image in (square, other)]
    assert [shape.as_list() for shape in shapes] == [[5, 5, 3], [None, None, 3]]


# --- Affine maps -----------------------------------------------------------------------------------------------------


def drawn_maps(count=200, **reach):
    values = {'affine_shear': 0.0, 'affine_stretch': 0.0, 'affine_shift': 0.0} | reach
    maps = [affine.random_map((41, 61), seed(number), **values) for number in range(count)]
    return np.array([matrix for matrix, _ in maps]), np.array([offset for _, offset in maps])


def test_nothing_is_mapped_without_reach():
    matrices, offsets = drawn_maps(3)
    np.testing.assert_array_equal(matrices, [np.eye(2)] * 3)
    np.testing.assert_array_equal(offsets, np.zeros((3, 2)))


def test_shear_stretch_and_shift_fill_their_ranges():
    matrices, offsets = drawn_maps(affine_shear=20.0)
    angles = np.degrees(np.arctan(matrices[:, [0, 1], [1, 0]]))
    assert 18 < angles.max() <= 20 and -20 <= angles.min() < -18
    np.testing.assert_array_equal(matrices[:, [0, 1], [0, 1]], 1)
    np.testing.assert_allclose(np.einsum('nij,j->ni', matrices, [20, 30]) + offsets, [[20, 30]] * 200, atol=1e-4)
    matrices, _ = drawn_maps(affine_stretch=0.5)
    np.testing.assert_allclose(np.linalg.det(matrices), 1, atol=1e-5)
    ratios = matrices[:, 0, 0] / matrices[:, 1, 1]
    assert 1.45 < ratios.max() <= 1.5 and 1 / 1.5 <= ratios.min() < 1 / 1.45
    _, offsets = drawn_maps(affine_shift=0.1)
    np.testing.assert_allclose(np.abs(offsets).max(axis=0), [4.1, 6.1], rtol=0.05)


def test_a_map_moves_image_and_label_together_and_fills_the_rest():
    label = tf.constant(np.kron(np.array([[1, 2], [3, 4]]), np.ones((20, 25)))[..., np.newaxis].astype(np.int32))
    image = tf.repeat(tf.cast(label, tf.float32), 3, axis=2)
    reach = {'affine_shear': 10.0, 'affine_stretch': 0.2, 'affine_shift': 0.2}
    mapped, moved = affine.map_randomly(image, label, seed(3), CONTEXT, **reach)
    inside = moved.numpy()[..., 0] != 255
    assert 0.5 < inside.mean() < 1
    assert (np.abs(mapped.numpy()[..., 0] - moved.numpy()[..., 0])[inside] < 1e-3).mean() > 0.85
    corners = [(0, 0), (0, -1), (-1, 0), (-1, -1)]
    assert list(MEAN) in [mapped.numpy()[corner].tolist() for corner in corners if not inside[corner]]


# --- Elastic distortion ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(('pixels', 'sigma'), [(2.0, 5.0), (4.0, 12.0), (0.5, 1.0)])
def test_displacements_have_the_wanted_deviation_and_smoothness(pixels, sigma):
    grid, cell = elastic.random_grid((400, 400), seed(1), pixels, sigma)
    field = elastic._of_pixels(grid, cell, (400, 400)).numpy()
    assert field.shape == (400, 400, 2)
    assert field.std() == pytest.approx(pixels, rel=0.2)
    assert field[[0, -1]].std() == pytest.approx(pixels, rel=0.5)  # no more at the borders
    lag = max(1, round(sigma))
    correlation = (field[:, :-lag, 0] * field[:, lag:, 0]).mean() / field[..., 0].var()
    assert correlation == pytest.approx(math.exp(-((lag / sigma) ** 2) / 4), abs=0.15)


def test_elastic_distortion_moves_pixels_by_its_field():
    image = smooth_image()
    label = tf.cast(image[..., :2], tf.int32)
    context = CONTEXT._replace(fill=(255, 254))
    distorted, moved = elastic.distort_randomly(image, label, seed(2), context, 3.0, 10.0)
    grid, cell = elastic.random_grid((64, 80), seed(2), 3.0, 10.0)
    places = np.stack(np.mgrid[:64, :80], axis=2).astype(np.float32) + elastic._of_pixels(grid, cell, (64, 80)).numpy()
    inside = ((places > -0.5) & (places < (63.5, 79.5))).all(axis=2)
    assert 0.8 < inside.mean() < 1
    np.testing.assert_array_equal(moved.numpy()[~inside], [(255, 254)] * (~inside).sum())
    np.testing.assert_array_equal(distorted.numpy()[~inside], [MEAN] * (~inside).sum())
    expected = np.clip(places, 0, (63, 79))
    np.testing.assert_allclose(distorted.numpy()[inside][:, :2], expected[inside], atol=1e-3)
    np.testing.assert_array_equal(moved.numpy()[inside], np.rint(expected[inside]))


@pytest.mark.parametrize('size', [(1, 1), (2, 7), (5, 3)])
def test_tiny_images_are_distorted_too(size):
    distorted, label = elastic.distort_randomly(random_image(*size), None, seed(0), CONTEXT, 2.0, 12.0)
    assert distorted.shape == (*size, 3) and label is None


def test_distortions_that_fold_are_refused():
    AUGMENTATIONS.get('elastic').check({'elastic_pixels': 6.0, 'elastic_sigma': 12.0}, (9, 9))
    with pytest.raises(OptionError, match=r'^elastic_pixels=6\.5 is not allowed: .* half of elastic_sigma=12\.0'):
        AUGMENTATIONS.get('elastic').check({'elastic_pixels': 6.5, 'elastic_sigma': 12.0}, (9, 9))


# --- Noise, JPEG, gamma ----------------------------------------------------------------------------------------------


def test_noise_has_deviations_up_to_the_largest():
    image = tf.fill([50, 60, 3], 128.0)
    label = tf.zeros([50, 60, 1], tf.int32)
    deviations = []
    for number in range(30):
        noisy, same = gaussian_noise.add_noise(image, label, seed(number), CONTEXT, 20.0)
        assert same is label
        assert abs(noisy.numpy().mean() - 128) < 1
        deviations.append(noisy.numpy().std())
    assert 0 <= min(deviations) < 4 and 16 < max(deviations) < 20.5


def test_noise_stays_within_the_values_of_images():
    noisy = gaussian_noise.add_noise(random_image(), None, seed(3), CONTEXT, 128.0)[0].numpy()
    assert (noisy.min(), noisy.max()) == (0.0, 255.0)


@pytest.mark.parametrize('channels', [1, 3])
def test_jpeg_is_what_a_decoder_reads(channels):
    image = tf.round(random_image(channels=channels))
    found = jpeg.compressed(image, 30)
    content = io.BytesIO(tf.io.encode_jpeg(tf.cast(image, tf.uint8), quality=30).numpy())
    with Image.open(content) as decoded:
        expected = np.asarray(decoded, np.float32).reshape(20, 30, channels)
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, expected, atol=6)  # decoders differ in rounding and in the resizing of chroma
    assert np.abs(found.numpy() - image.numpy()).mean() > 10


def test_other_channels_are_compressed_each():
    image = smooth_image(32, 40)
    five = tf.concat([image, image[..., :2]], axis=2)
    found = jpeg.compressed(five, 95).numpy()
    np.testing.assert_allclose(found, five, atol=4)
    np.testing.assert_array_equal(found[..., 0], jpeg.compressed(image[..., :1], 95).numpy()[..., 0])


def test_qualities_reach_from_the_lowest_to_100():
    image = tf.constant(np.asarray(smooth_image()) * np.random.default_rng(0).uniform(0.7, 1.3, (64, 80, 3)))
    image = tf.cast(image, tf.float32)
    errors = [
        np.abs(jpeg.compress_randomly(image, None, seed(number), CONTEXT, 95)[0].numpy() - image.numpy()).mean()
        for number in range(30)
    ]
    least, most = (np.abs(jpeg.compressed(image, quality).numpy() - image.numpy()).mean() for quality in (100, 5))
    assert least <= min(errors) < 2 * least and 0.6 * most < max(errors) <= most


def test_gamma_is_a_power_of_the_fraction():
    image = random_image()
    np.testing.assert_allclose(gamma.change_gamma(image, 0.4), 255 * (image.numpy() / 255) ** 0.4, rtol=1e-5, atol=1e-4)
    by_hand = gamma.change_gamma(np.array([[[0, 51, 255]]], np.uint8), 2.0)
    np.testing.assert_allclose(by_hand, [[[0, 10.2, 255]]], atol=1e-4)


def test_gamma_reaches_as_far_down_as_up():
    image = tf.fill([1, 1, 1], 51.0)
    exponents = [
        math.log(float(gamma.change_gamma_randomly(image, None, seed(n), CONTEXT, 1.0)[0][0, 0, 0]) / 255)
        / math.log(0.2)
        for n in range(150)
    ]
    assert 0.5 <= min(exponents) < 0.52 and 1.94 < max(exponents) <= 2.0
    assert np.log(exponents).mean() == pytest.approx(0, abs=0.1)


# --- Random sets -----------------------------------------------------------------------------------------------------


def marking_members():
    """Two augmentations whose order is seen in their result: one adds 1, one doubles."""
    for name, change in (('plus', lambda image: image + 1.0), ('twice', lambda image: image * 2.0)):
        yield Augmentation(
            name=name,
            function=lambda image, label, seed, context, change=change, **values: (change(image), label),
            parameters=(Parameter(f'{name}_strength', 0.0, 'Strength.'),),
            takes_planes=True,
            move_points=lambda points, *_, **values: points,
            strongest={f'{name}_strength': 1.0},
        )


def test_a_set_runs_its_members_in_random_order():
    with changes_undone(AUGMENTATIONS):
        for record in marking_members():
            AUGMENTATIONS.add(record)
        image = tf.fill([2, 3, 3], 3.0)
        for number, expected in ((1, {4.0, 6.0}), (2, {8.0, 7.0}), (9, {8.0, 7.0})):
            values = settled(random_augmentations='plus, twice', random_augmentations_number=number)
            results = [
                random_set.change_randomly(image, None, seed(i), CONTEXT, **values)[0].numpy() for i in range(30)
            ]
            assert {float(result.min()) for result in results} == expected
            assert all(result.min() == result.max() for result in results)
            assert 6 < sum(result.min() == max(expected) for result in results) < 24


def test_members_get_their_share_of_the_strongest_values():
    values = settled(random_augmentations='blur,colors,jpeg', random_augmentations_magnitude=0.2)
    members = {record.name: chosen for record, chosen in random_set.members(values)}
    assert members == {
        'blur': {'blur_sigma': 0.6, 'blur_probability': 1.0},
        'colors': {
            'jitter_brightness': 0.1,
            'jitter_contrast': 0.1,
            'jitter_saturation': 0.16,
            'jitter_hue': 0.02,
        },
        'jpeg': {'jpeg_loss': 19},
    }


def test_every_member_of_the_package_can_be_in_a_set():
    names = [record.name for record in AUGMENTATIONS.records() if record.strongest]
    assert set(names) >= {
        'affine',
        'blur',
        'colors',
        'cutout',
        'elastic',
        'gamma',
        'gaussian_noise',
        'jpeg',
        'rotation',
    }
    values = settled(
        random_augmentations=','.join(names),
        random_augmentations_magnitude=1.0,
    )
    AUGMENTATIONS.get('random_set').check(values, (65, 65))
    label = tf.ones([40, 50, 2], tf.int32)
    context = CONTEXT._replace(fill=(255, 0))
    run = tf.function(
        lambda drawn: random_set.change_randomly(random_image(40, 50), label, drawn, context, **values),
        autograph=False,
    )
    results = [run(seed(number)) for number in range(20)]
    for image, moved in results:
        assert image.shape == (40, 50, 3) and moved.shape == (40, 50, 2)
        np.testing.assert_array_equal(moved[..., 1], np.where(moved[..., 0] == 255, 0, 1))
    assert 5 < sum((moved[..., 0].numpy() == 255).any() for _, moved in results) < 20
    assert len({image.numpy().tobytes() for image, _ in results}) == 20
    assert run(seed(4))[0].numpy().tobytes() == results[4][0].numpy().tobytes()


@pytest.mark.parametrize(
    ('names', 'message'),
    [
        ('gamma,gama', r"random_augmentations='gamma,gama' is not allowed: 'gama' is not .* Did you mean gamma\?"),
        ('flip', r"'flip' is not an augmentation for a set\. .*Allowed: colors, gamma, "),
        ('gamma,jpeg,gamma', "'gamma' appears twice"),
        ('cutout', r'cutout_size=32 is not allowed'),
    ],
)
def test_sets_that_cannot_be_are_refused(names, message):
    with pytest.raises(OptionError, match=message):
        AUGMENTATIONS.get('random_set').check(settled(random_augmentations=names), (32, 33))


def test_strongest_values_need_everything_a_set_needs():
    with pytest.raises(ValueError, match="'mine' with `strongest` needs takes_planes and move_points"):
        Augmentation(name='mine', function=print, parameters=(Parameter('x', 0.0, 'X.'),), strongest={'x': 1.0})


# --- Images of classifiers -------------------------------------------------------------------------------------------


def test_a_classifier_turns_square_images_alone():
    augment = AugmentOptions(settings={'quarter_turn_probability': 0.5})
    preprocessing = PREPROCESSINGS.records()[0]
    assert 'quarter_turns' in input_preprocess.train_steps_per_image(preprocessing, (32, 32), augment, MEAN)
    with pytest.raises(OptionError, match=r"'quarter_turns' is not for this task: .*square crop_size"):
        input_preprocess.train_steps_per_image(preprocessing, (32, 48), augment, MEAN)


@pytest.mark.parametrize(('name', 'steps'), [('vgg', ['preprocess']), ('lenet', ['preprocess', 'flip'])])
def test_a_classifier_s_preprocessing_flips_or_the_augmentation(name, steps):
    preprocessing, given = PREPROCESSINGS.get(name), []
    noted = dataclasses.replace(preprocessing, train=lambda *arguments, **keywords: given.append(keywords))
    augment = AugmentOptions(settings={'flip_probability': 0.9})
    made = input_preprocess.train_steps_per_image(noted, (32, 32), augment, MEAN)
    assert list(made) == steps
    made['preprocess']({common.IMAGE: None, common.SEED: seed(0)})
    assert given == [{'flip_probability': 0.9} if preprocessing.flips else {}]
