import math

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core.panoptic_targets import TargetRule, build_targets, compute_targets

IGNORE = 255
RULE = TargetRule(things=(2, 3), ignore_label=IGNORE, sigma=1.5, small_area=4, small_weight=3.0)


def twin(class_ids, instance_ids, rule):
    """The targets, pixel by pixel."""
    height, width = class_ids.shape
    radius = round(3 * rule.sigma + 1)
    heatmap, offsets = np.zeros((height, width, 1)), np.zeros((height, width, 2))
    center_weight, offset_weight, semantic_weight = (np.ones((height, width, 1)) for _ in range(3))
    members = {}
    for position in np.ndindex(height, width):
        class_id, instance_id = int(class_ids[position]), int(instance_ids[position])
        offset_weight[position] = class_id in rule.things and instance_id > 0
        center_weight[position] = class_id != rule.ignore_label and (class_id not in rule.things or instance_id > 0)
        if offset_weight[position]:
            members.setdefault((class_id, instance_id), []).append(position)
    for positions in members.values():
        center = [round(sum(position[axis] for position in positions) / len(positions)) for axis in (0, 1)]
        for position in positions:
            offsets[position] = np.subtract(center, position)
            semantic_weight[position] = rule.small_weight if len(positions) < rule.small_area else 1
        for position in np.ndindex(height, width):
            y, x = np.subtract(center, position)
            if max(abs(y), abs(x)) <= radius:
                heatmap[position] = max(heatmap[position], math.exp(-(y * y + x * x) / (2 * rule.sigma**2)))
    return heatmap, offsets, center_weight, offset_weight, semantic_weight


def check(class_ids, instance_ids, rule=RULE):
    """Compares with the twin, and returns the targets."""
    targets = compute_targets(class_ids, instance_ids, rule)
    for name, value, expected in zip(targets._fields, targets, twin(class_ids, instance_ids, rule), strict=True):
        assert value.dtype == np.float32 and value.flags.c_contiguous, name
        np.testing.assert_allclose(value, expected, rtol=0, atol=1e-6 if name == 'heatmap' else 0, err_msg=name)
    return targets


def scene(seed, shape=(40, 50), count=9):
    """Boxes of things, of which some lie over others, crowds and ignored pixels."""
    rng = np.random.default_rng(seed)
    class_ids, instance_ids = rng.integers(0, 2, shape, np.uint8), np.zeros(shape, np.uint16)
    for number in range(1, count + 1):
        y, x = rng.integers(0, shape[0] - 1), rng.integers(0, shape[1] - 1)
        box = np.s_[y : y + rng.integers(1, 15), x : x + rng.integers(1, 15)]
        class_ids[box] = rng.choice([2, 3])
        instance_ids[box] = rng.choice([0, number, 40_000 + number], p=[0.2, 0.4, 0.4])
    class_ids[-4:] = IGNORE
    instance_ids[-4:] = 0
    return class_ids, instance_ids


def test_defaults():
    """They are values of deeplab2."""
    assert TargetRule((2,), IGNORE)[2:] == (8.0, 4096, 3.0)


@pytest.mark.parametrize('seed', range(4))
def test_formula(seed):
    check(*scene(seed), RULE._replace(small_area=60, sigma=2.0))
    check(*scene(seed), RULE._replace(small_area=60))  # 3 sigma + 1 is no integer


def test_touching_instances_by_hand():
    class_ids = np.array([[2, 2, 2, 2, 0]])
    targets = check(class_ids, np.array([[7, 7, 7, 1, 0]]))
    assert targets.offsets[0, :, 1].tolist() == [1, 0, -1, 0, 0]
    assert targets.heatmap[0, :, 0].argsort()[-2:].tolist() == [1, 3]
    assert targets.heatmap[0, [1, 3], 0].tolist() == [1, 1]
    assert targets.semantic_weight[0, :, 0].tolist() == [3, 3, 3, 3, 1]


def test_one_id_in_two_classes_is_two_instances():
    targets = check(np.array([[2, 2, 2, 3, 3, 3]]), np.ones((1, 6), int))
    assert targets.offsets[0, :, 1].tolist() == [1, 0, -1, 1, 0, -1]


def test_instance_in_two_parts_has_its_center_between_them():
    targets = check(np.array([[2, 0, 0, 0, 2]]), np.array([[1, 0, 0, 0, 1]]))
    assert targets.heatmap[0, 2] == 1
    assert targets.offsets[0, :, 1].tolist() == [2, 0, 0, 0, -2]
    assert targets.offset_weight[0, :, 0].tolist() == [1, 0, 0, 0, 1]


def test_instance_of_one_pixel_at_the_border():
    class_ids, instance_ids = np.zeros((2, 30, 30), int)
    class_ids[0, 29] = 3
    instance_ids[0, 29] = 5
    targets = check(class_ids, instance_ids)
    assert targets.heatmap[0, 29] == 1 and not targets.offsets.any()
    reach = round(3 * RULE.sigma + 1)
    assert (targets.heatmap > 0).sum() == (reach + 1) ** 2  # a quarter of the Gaussian


def test_halves_go_to_the_even_pixel():
    class_ids = np.full((1, 4), 2)
    assert check(class_ids, np.array([[1, 1, 2, 2]])).offsets[0, :, 1].tolist() == [0, -1, 0, -1]  # centers 0.5, 2.5


@pytest.mark.parametrize(
    ('class_id', 'center_weight'), [(0, 1), (2, 0), (IGNORE, 0)], ids=['no instance', 'crowd', 'ignored']
)
def test_nothing_but(class_id, center_weight):
    targets = check(np.full((5, 4), class_id), np.zeros((5, 4), int))
    assert not targets.heatmap.any() and not targets.offsets.any() and not targets.offset_weight.any()
    assert (targets.center_weight == center_weight).all() and (targets.semantic_weight == 1).all()


def test_instance_ids_of_stuff_and_ignored_pixels_count_for_nothing():
    class_ids, instance_ids = np.array([[0, 0, IGNORE]]), np.array([[1, 1, 9]])
    assert not check(class_ids, instance_ids).offset_weight.any()


def test_crop_smaller_than_the_gaussian():
    targets = check(np.full((3, 2), 2), np.ones((3, 2), int), RULE._replace(sigma=8.0))
    assert targets.heatmap.min() > 0.98


def test_the_area_in_the_crop_decides_who_is_small():
    class_ids = np.full((2, 4), 2)
    instance_ids = np.array([[1, 1, 2, 2], [1, 1, 2, 3]])
    weights = check(class_ids, instance_ids).semantic_weight[..., 0]
    assert weights.tolist() == [[1, 1, 3, 3], [1, 1, 3, 3]]


def test_centers_of_large_instances_are_exact():
    """The sum of the positions has more digits than float32."""
    shape = (1025, 2049)
    targets = compute_targets(np.full(shape, 2, np.uint8), np.ones(shape, np.uint16), RULE)
    assert targets.offsets[0, 0].tolist() == [512, 1024]


@pytest.mark.parametrize('seed', range(3))
def test_targets_of_a_mirrored_label(seed):
    """They are the mirrored targets with negated x offsets, but for centers halfway between two columns."""
    class_ids, instance_ids = scene(seed, (30, 41))
    targets = compute_targets(class_ids, instance_ids, RULE)
    mirrored = compute_targets(class_ids[:, ::-1], instance_ids[:, ::-1], RULE)
    for name in ('center_weight', 'offset_weight', 'semantic_weight'):
        np.testing.assert_array_equal(getattr(mirrored, name), getattr(targets, name)[:, ::-1])
    np.testing.assert_array_equal(mirrored.offsets[..., 0], targets.offsets[:, ::-1, 0])
    difference = mirrored.offsets[..., 1] + targets.offsets[:, ::-1, 1]
    assert set(np.unique(difference)) <= {-1, 0, 1}
    halfway = center_is_halfway(class_ids, instance_ids)[:, ::-1]
    assert not difference[~halfway].any()
    if not halfway.any():
        np.testing.assert_array_equal(mirrored.heatmap, targets.heatmap[:, ::-1])


def center_is_halfway(class_ids, instance_ids):
    """Whether the pixel's instance has a center halfway between two columns."""
    halves = np.zeros(class_ids.shape, bool)
    for key in set(zip(class_ids.ravel().tolist(), instance_ids.ravel().tolist(), strict=True)):
        members = (class_ids == key[0]) & (instance_ids == key[1])
        halves[members] = np.nonzero(members)[1].mean() % 1 == 0.5
    return halves


def test_mirrored_instances_of_odd_width_are_equal_but_for_the_sign():
    class_ids, instance_ids = np.zeros((2, 20, 31), int)
    for number, (y, x) in enumerate([(2, 3), (9, 20), (12, 5)], start=1):
        class_ids[y : y + 5, x : x + 7] = 2
        instance_ids[y : y + 5, x : x + 7] = number
    targets = compute_targets(class_ids, instance_ids, RULE)
    mirrored = compute_targets(class_ids[:, ::-1], instance_ids[:, ::-1], RULE)
    np.testing.assert_array_equal(mirrored.heatmap, targets.heatmap[:, ::-1])
    np.testing.assert_array_equal(mirrored.offsets, targets.offsets[:, ::-1] * [1, -1])


@pytest.mark.parametrize('shape', [(40, 50), (None, None)])
def test_operations_in_an_input_pipeline(shape):
    class_ids, instance_ids = scene(5)
    with tf.Graph().as_default(), tf.compat.v1.Session() as running:
        labels = [tf.compat.v1.placeholder(tf.int32, shape) for _ in range(2)]
        targets = build_targets(*labels, RULE)
        values = running.run(targets, dict(zip(labels, (class_ids, instance_ids), strict=True)))
    for tensor, value, expected, channels in zip(
        targets, values, compute_targets(class_ids, instance_ids, RULE), (1, 2, 1, 1, 1), strict=True
    ):
        assert tensor.shape.as_list() == [*shape, channels] and tensor.dtype == tf.float32
        np.testing.assert_array_equal(value, expected)
