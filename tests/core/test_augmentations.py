"""Each augmentation against arrays by hand or a NumPy twin, in eager execution.

Covers core/augmentations/blur.py, core/augmentations/colors.py, core/augmentations/cutout.py,
core/augmentations/flip.py (with test_preprocess_utils.py), core/augmentations/rare_classes.py,
core/augmentations/rotation.py and registry/augmentations.py (with test_input_preprocess.py).
"""

import colorsys
import math

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import preprocess_utils
from deeplab.core.augmentations import blur, colors, cutout, rare_classes, rotation
from deeplab.errors import OptionError
from deeplab.options import AugmentOptions
from deeplab.registry import AUGMENTATIONS, CROP, Augmentation, AugmentContext, Parameter
from tests.helpers.registries import changes_undone

SQUARE = np.arange(1, 10, dtype=np.uint8).reshape(3, 3, 1)
MEAN = (10.0, 20.0, 30.0)
CONTEXT = AugmentContext((40, 50), MEAN, 255)


def seed(number):
    return tf.constant([7, number], tf.int64)


def random_image(height=4, width=5, channels=3):
    return np.random.default_rng(0).uniform(0, 255, (height, width, channels)).astype(np.float32)


def tripled(label):
    """An image whose channels all equal its label."""
    return tf.constant(np.repeat(label, 3, axis=2).astype(np.float32))


# --- Colors ---------------------------------------------------------------------------------------------------------


def colors_twin(image, brightness, contrast, saturation, hue):
    """The four color augmentations in order."""
    luma = np.array([0.299, 0.587, 0.114])
    image = image.astype(np.float64) * brightness
    image = (image @ luma).mean() + contrast * (image - (image @ luma).mean())
    gray = (image @ luma)[..., np.newaxis]
    image = gray + saturation * (image - gray)
    axis, angle = np.ones(3) / math.sqrt(3), 2 * math.pi * hue  # Rodrigues' rotation of each pixel
    turned = (
        image * math.cos(angle)
        + np.cross(axis, image) * math.sin(angle)
        + axis * (image @ axis)[..., np.newaxis] * (1 - math.cos(angle))
    )
    return np.clip(turned, 0, 255)


@pytest.mark.parametrize(
    'factors',
    [(1.2, 1, 1, 0), (1, 0.7, 1, 0), (1, 1.4, 1, 0), (1, 1, 0.5, 0), (1, 1, 1, 0.1), (0.8, 1.3, 0.6, -0.2)],
)
def test_colors_change_as_one_step_after_the_other_would(factors):
    image = random_image()
    np.testing.assert_allclose(colors.change_colors(image, *factors), colors_twin(image, *factors), atol=2e-3)


def test_colors_by_hand():
    image = np.array([[[100, 50, 0], [200, 100, 60]]], np.uint8)
    assert colors.change_colors(image, 0.5, 1, 1, 0).numpy().tolist() == [[[50, 25, 0], [100, 50, 30]]]
    assert colors.change_colors(image, 2, 1, 1, 0).numpy().tolist() == [[[200, 100, 0], [255, 200, 120]]]
    third = colors.change_colors(image, 1, 1, 1, 1 / 3).numpy()  # red goes to green, green to blue
    np.testing.assert_allclose(third, [[[0, 100, 50], [60, 200, 100]]], atol=1e-3)
    gray = colors.change_colors(image, 1, 1, 0, 0.3).numpy()
    np.testing.assert_allclose(gray, np.repeat(image @ [[0.299], [0.587], [0.114]], 3, axis=2), atol=1e-3)
    flat = colors.change_colors(image, 1, 0, 1, 0).numpy()
    np.testing.assert_allclose(flat, np.full((1, 2, 3), np.mean(image @ [0.299, 0.587, 0.114])), atol=1e-3)


def test_a_hue_shift_turns_as_the_color_circle_does():
    turned = colors.change_colors(np.array([[[200, 60, 60]]], np.uint8), 1, 1, 1, 0.08).numpy()[0, 0]
    assert colorsys.rgb_to_hsv(*turned / 255)[0] == pytest.approx(0.08, abs=0.02)


def test_nothing_is_drawn_for_colors_that_stay():
    image = random_image()
    assert [float(x) for x in colors.random_color_factors(0, 0, 0, 0, seed(3))] == [1, 1, 1, 0]
    np.testing.assert_allclose(colors.change_colors(image, 1, 1, 1, 0), image, atol=1e-3)


def test_color_factors_fill_their_ranges_independently():
    drawn = np.array([colors.random_color_factors(0.2, 0.4, 0.6, 0.1, seed(i)) for i in range(200)])
    for column, (middle, reach) in enumerate([(1, 0.2), (1, 0.4), (1, 0.6), (0, 0.1)]):
        assert drawn[:, column].min() == pytest.approx(middle - reach, abs=0.1 * reach)
        assert drawn[:, column].max() == pytest.approx(middle + reach, abs=0.1 * reach)
    assert np.abs(np.corrcoef(drawn.T) - np.eye(4)).max() < 0.3


@pytest.mark.parametrize('channels', [1, 4])
def test_other_channels_have_brightness_and_contrast(channels):
    image = random_image(channels=channels)
    expected = np.clip(1.1 * (image.mean() + 0.5 * (image - image.mean())), 0, 255)
    np.testing.assert_allclose(colors.change_colors(image, 1.1, 0.5, 0.3, 0.2), expected, atol=1e-3)


# --- Rotation --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize('quarters', [0, 1, 2, 3])
def test_quarter_turns_by_hand(quarters):
    image, label = rotation.rotate(tripled(SQUARE), tf.constant(SQUARE), quarters * math.pi / 2, MEAN, (255,))
    expected = np.rot90(SQUARE, quarters)
    np.testing.assert_array_equal(label, expected)
    assert label.dtype == tf.uint8
    np.testing.assert_allclose(image, np.repeat(expected, 3, axis=2), atol=1e-4)


def test_an_eighth_turn_by_hand():
    image, label = rotation.rotate(tripled(SQUARE), tf.constant(SQUARE), math.pi / 4, MEAN, (255,))
    assert label.numpy()[..., 0].tolist() == [[2, 3, 6], [1, 5, 9], [4, 7, 8]]
    half = math.sqrt(0.5)
    # The pixel above the middle comes from (1 + half, 1 - half), between the four at the upper right.
    expected = (1 - half) * ((1 - half) * 5 + half * 6) + half * ((1 - half) * 2 + half * 3)
    np.testing.assert_allclose(image[0, 1], [expected] * 3, atol=1e-4)


@pytest.mark.parametrize('mean', [MEAN, (127.5, 127.5, 127.5)])
def test_what_comes_from_outside_is_the_mean_and_ignored(mean):
    label = np.ones((3, 9, 1), np.int32)
    image, turned = rotation.rotate(tf.fill([3, 9, 3], 100), tf.constant(label), math.pi / 2, mean, (255,))
    inside = np.zeros((3, 9), bool)
    inside[:, 3:6] = True
    np.testing.assert_array_equal(turned[..., 0], np.where(inside, 1, 255))
    np.testing.assert_allclose(image, np.where(inside[..., np.newaxis], 100.0, mean), atol=1e-4)


@pytest.mark.parametrize('degrees', [3, 10, -25])
def test_image_and_label_turn_together(degrees):
    label = np.kron(np.array([[10, 60], [120, 200]]), np.ones((20, 30)))[..., np.newaxis].astype(np.uint8)
    image, turned = rotation.rotate(tripled(label), tf.constant(label), math.radians(degrees), MEAN, (255,))
    image, turned = image.numpy()[..., 0], turned.numpy()[..., 0]
    np.testing.assert_array_equal(turned[turned != 255] != 0, True)
    agree = np.abs(image - turned)[turned != 255] < 0.01  # all but the borders between classes, where images blend
    assert agree.mean() > 0.9
    assert (turned == 255).any() and (turned != 255).mean() > 0.6


def test_angles_fill_their_range():
    drawn = [math.degrees(rotation.random_angle(10, seed(i))) for i in range(200)]
    assert -10 <= min(drawn) < -9 and 9 < max(drawn) <= 10
    assert abs(np.mean(drawn)) < 1.5


# --- Blur ------------------------------------------------------------------------------------------------------------


def blur_twin(image, sigma, radius):
    weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    weights /= weights.sum()
    for axis in (0, 1):
        pad = [(radius, radius) if each == axis else (0, 0) for each in range(3)]
        padded = np.pad(image, pad, mode='edge')
        image = sum(w * np.take(padded, range(i, i + image.shape[axis]), axis) for i, w in enumerate(weights))
    return image


@pytest.mark.parametrize(('sigma', 'most'), [(0.4, 1.5), (1.0, 1.0), (1.5, 1.5)])
@pytest.mark.parametrize('size', [(9, 12), (3, 2), (1, 1)])
def test_blur_is_a_gaussian(sigma, most, size):
    image = random_image(*size)
    twin = blur_twin(image, sigma, math.ceil(3 * most))
    np.testing.assert_allclose(blur.gaussian_blur(image, sigma, most), twin, atol=1e-3)


def test_blur_spreads_a_point_and_keeps_its_sum():
    point = np.zeros((15, 15, 1), np.float32)
    point[7, 7] = 100
    blurred = blur.gaussian_blur(point, 1.0, 1.5).numpy()[..., 0]
    assert blurred.sum() == pytest.approx(100, abs=1e-3)
    assert blurred[7, 8] / blurred[7, 7] == pytest.approx(math.exp(-0.5), abs=1e-4)
    np.testing.assert_allclose(blurred, blurred.T, atol=1e-5)


def test_no_sigma_is_no_blur_and_a_share_of_images_is_blurred():
    image = random_image()
    np.testing.assert_allclose(blur.gaussian_blur(image, 0.0, 1.5), image, atol=1e-4)
    changed = [
        bool((blur.blur_randomly(image, None, seed(i), CONTEXT, 2.0, 0.25)[0].numpy() != image).any())
        for i in range(80)
    ]
    assert 8 < sum(changed) < 34


# --- Cutout ----------------------------------------------------------------------------------------------------------


def test_cutout_hides_squares_of_image_and_label():
    label = np.ones((40, 50, 1), np.int32)
    tops = set()
    for number in range(30):
        image, cut = cutout.cut_out_randomly(tripled(7 * label), tf.constant(label), seed(number), CONTEXT, 8, 1)
        hidden = cut.numpy()[..., 0] == 255
        np.testing.assert_array_equal(image, np.where(hidden[..., np.newaxis], MEAN, 7.0))
        rows, columns = np.flatnonzero(hidden.any(axis=1)), np.flatnonzero(hidden.any(axis=0))
        assert hidden[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()
        assert 4 <= len(rows) <= 8 and 4 <= len(columns) <= 8  # at least half of it lies inside
        tops.add(int(rows[0]))
    assert len(tops) > 10


def test_the_middles_of_cutout_squares_lie_anywhere():
    label = np.zeros((2, 3, 1), np.int32)
    hidden = [cutout.cut_out_randomly(tripled(label), tf.constant(label), seed(n), CONTEXT, 1, 1)[1] for n in range(60)]
    places = {tuple(np.argwhere(each.numpy()[..., 0] == 255)[0].tolist()) for each in hidden}
    assert places == {(row, column) for row in range(2) for column in range(3)}


def test_cutout_hides_several():
    label = np.ones((60, 60, 1), np.uint8)
    _, cut = cutout.cut_out_randomly(tripled(label), tf.constant(label), seed(1), CONTEXT, 5, 6)
    assert 50 < int(tf.reduce_sum(tf.cast(cut == 255, tf.int32))) <= 6 * 25
    assert cut.dtype == tf.uint8


# --- Crops at rare classes -------------------------------------------------------------------------------------------


def windows(label, window, class_pixels, count=60, size=None):
    """The windows of as many seeds, cut out of the label, which is resized to `size`."""
    label = tf.constant(np.asarray(label, np.uint8)[..., np.newaxis])
    size = size or tuple(label.shape[:2])
    window_of = tf.function(
        lambda drawn: rare_classes.rare_class_window(label, size, window, class_pixels, 255, drawn), autograph=False
    )
    corners = [window_of(tf.constant(seed(i))) for i in range(count)]
    label = preprocess_utils.resize_label(label, size)
    return [label.numpy()[int(r) : int(r) + window[0], int(c) : int(c) + window[1], 0] for r, c in corners]


def test_windows_contain_the_rare_class():
    label = np.zeros((30, 40), np.uint8)
    label[17, 33] = 2
    cut = windows(label, (6, 5), [10**6, 10**6, 1])
    assert all((part == 2).any() and part.shape == (6, 5) for part in cut)
    places = {tuple(np.argwhere(part == 2)[0]) for part in cut}
    assert {row for row, _ in places} == set(range(6)) and {column for _, column in places} == set(range(5))


@pytest.mark.parametrize('size', [(30, 40), (59, 80), (31, 97), (15, 20), (19, 33)])
def test_windows_contain_the_rare_class_of_a_label_that_is_resized(size):
    label = np.zeros((30, 40), np.uint8)
    label[16:18, 32:34] = 2  # of which a smaller label keeps at least one pixel
    assert all((part == 2).any() for part in windows(label, (7, 5), [10**6, 10**6, 1], 20, size))


def test_windows_stay_inside_at_the_corners():
    for row, column in ((0, 0), (0, 9), (7, 0), (7, 9)):
        label = np.zeros((8, 10), np.uint8)
        label[row, column] = 1
        assert all(part.shape == (4, 10) and (part == 1).any() for part in windows(label, (4, 10), [10**9, 1], 8))


def test_classes_are_drawn_by_the_inverse_of_their_frequency():
    label = np.zeros((1, 300), np.uint8)
    label[0, 100:200], label[0, 200:] = 1, 2
    drawn = [int(part[0, 0]) for part in windows(label, (1, 1), [3000, 1000, 1500], 300)]
    shares = np.bincount(drawn, minlength=3) / 300
    np.testing.assert_allclose(shares, np.array([1 / 3, 1, 2 / 3]) / 2, atol=0.08)


def test_without_counts_of_the_data_set_the_image_counts_its_own():
    label = np.zeros((1, 100), np.uint8)
    label[0, :10] = 1
    drawn = [int(part[0, 0]) for part in windows(label, (1, 1), None, 200)]
    assert 0.8 < np.mean(drawn) < 0.98


def test_ignored_pixels_are_no_class():
    label = np.full((10, 10), 255, np.uint8)
    assert len({part.shape for part in windows(label, (3, 4), [5, 5], 5)}) == 1
    label[3, 4] = 0
    assert all((part == 0).any() for part in windows(label, (3, 4), [10**9, 5], 10))
    # A data set may ignore one of its classes; nobody needs more of it.
    ignored = tf.constant(np.where(np.arange(100) == 50, 1, 0).reshape(10, 10, 1), tf.uint8)
    for number in range(10):
        row, column = rare_classes.rare_class_window(ignored, (10, 10), (2, 2), [1, 10**6], 0, seed(number))
        assert 1 in ignored.numpy()[int(row) : int(row) + 2, int(column) : int(column) + 2]


# --- All of them -----------------------------------------------------------------------------------------------------


def changes(image, label, number):
    """All augmentations with a seed."""
    yield colors.change_colors(image, *colors.random_color_factors(0.3, 0.3, 0.3, 0.1, seed(number)))
    yield from rotation.rotate(image, label, rotation.random_angle(30, seed(number)), MEAN, (255,))
    yield blur.blur_randomly(image, label, seed(number), CONTEXT, 2.0, 0.9)[0]
    yield from cutout.cut_out_randomly(image, label, seed(number), CONTEXT, 3, 2)
    yield from rare_classes.rare_class_window(label, preprocess_utils.size_of(label), (2, 3), None, 255, seed(number))


def test_equal_seeds_give_equal_results():
    image, label = tf.constant(random_image(9, 12)), tf.constant(np.arange(108).reshape(9, 12, 1) % 5)
    first, again, other = ([np.asarray(part) for part in changes(image, label, n)] for n in (1, 1, 2))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(first, again, strict=True))
    assert sum(a.tobytes() != b.tobytes() for a, b in zip(first, other, strict=True)) >= 6


def test_a_label_may_be_missing():
    image = tf.constant(random_image())
    assert rotation.rotate(image, None, 0.1, MEAN, (255,))[1] is None
    assert cutout.cut_out_randomly(image, None, seed(0), CONTEXT, 2, 1)[1] is None


def test_shapes_survive_in_a_graph():
    with tf.Graph().as_default():
        image = tf.compat.v1.placeholder(tf.float32, [None, None, 3])
        label = tf.compat.v1.placeholder(tf.uint8, [None, None, 1])
        for part in list(changes(image, label, 0))[:6]:
            assert part.shape.as_list() in ([None, None, 3], [None, None, 1])


# --- Records -------------------------------------------------------------------------------------------------------


def _augmentation(**fields):
    return Augmentation(
        function=print, **{'name': 'mine', 'parameters': (Parameter('mine_rate', 0.0, 'Rate.'),)} | fields
    )


def test_seeds_of_the_package_stay_and_others_follow_from_the_name():
    numbers = {record.name: record.seed_purpose for record in AUGMENTATIONS.records()}
    expected = {'colors': 3, 'rotation': 4, 'rare_classes': 7, 'blur': 5, 'cutout': 6, 'flip': 2}
    assert [(name, number) for name, number in numbers.items() if name in expected] == list(expected.items())
    assert _augmentation().seed_purpose == 1772672891 and _augmentation(stage=CROP, order=3).seed_purpose == 1772672891


@pytest.mark.parametrize(
    ('fields', 'message'),
    [
        ({'stage': 'later'}, "'mine' has the stage 'later'"),
        ({'name': 'pad'}, "'pad' is a step of every training"),
        ({'parameters': ()}, "'mine' needs a parameter"),
    ],
)
def test_records_that_cannot_be(fields, message):
    with pytest.raises(ValueError, match=message):
        _augmentation(**fields)


def test_the_first_parameter_switches_it_on():
    assert [record.name for record in AugmentOptions().active] == ['flip']
    assert [record.name for record in AugmentOptions(settings={'blur_sigma': 1.0, 'flip_probability': 0.0}).active] == [
        'blur'
    ]


def test_captions():
    assert _augmentation().caption({'mine_rate': 0.5}) == 'mine_rate 0.5'


def test_only_one_augmentation_places_the_crop():
    with changes_undone(AUGMENTATIONS):
        AUGMENTATIONS.add(_augmentation(stage=CROP))
        with pytest.raises(ValueError, match="'other' has the seed_number 2 of 'flip'"):
            AUGMENTATIONS.add(_augmentation(name='other', seed_number=2))
        AugmentOptions(settings={'mine_rate': 1.0})
        with pytest.raises(OptionError, match='mine and rare_classes cannot be combined'):
            AugmentOptions(settings={'mine_rate': 1.0, 'rare_class_sampling': 0.5})
