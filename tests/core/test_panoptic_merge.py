import tracemalloc

import numpy as np
import pytest

from deeplab.core.panoptic_merge import MergeRule, find_centers, group_pixels, heatmap_peaks, merge
from deeplab.core.panoptic_targets import TargetRule, compute_targets

VOID = 255
RULE = MergeRule(things=(2, 3), ignore_label=VOID, center_threshold=0.1, nms_kernel=3, top_k=20, stuff_area=1)


def twin(class_ids, heatmap, offsets, rule, probabilities):
    """The result, pixel by pixel: class ids, and for each pixel the center and the score of its instance."""
    height, width = class_ids.shape
    reach = rule.nms_kernel // 2
    centers = []
    for y, x in np.ndindex(height, width):
        window = heatmap[max(y - reach, 0) : y + reach + 1, max(x - reach, 0) : x + reach + 1]
        if heatmap[y, x] > rule.center_threshold and heatmap[y, x] == window.max():
            centers.append((y, x))
    if len(centers) > rule.top_k:
        limit = sorted((heatmap[center] for center in centers), reverse=True)[rule.top_k - 1]
        centers = [center for center in centers if heatmap[center] > limit]
    members = {}
    result = np.full(class_ids.shape, rule.ignore_label)
    for y, x in np.ndindex(height, width):
        if class_ids[y, x] not in rule.things:
            if (class_ids == class_ids[y, x]).sum() >= rule.stuff_area:
                result[y, x] = class_ids[y, x]
        elif centers:
            target = np.add((y, x), offsets[y, x])
            distances = [np.square(target - center).sum() for center in centers]
            members.setdefault(centers[int(np.argmin(distances))], []).append((y, x))
    instances = {}
    for center, pixels in members.items():
        ids = [int(class_ids[pixel]) for pixel in pixels]
        class_id = min(set(ids), key=lambda one, ids=ids: (-ids.count(one), one))
        score = np.mean([probabilities[pixel][class_id] for pixel in pixels]) * heatmap[center]
        instances[center] = (class_id, pixels, score)
        for pixel in pixels:
            result[pixel] = class_id
    return result, instances


def random_outputs(seed, shape=(70, 75)):
    """Outputs of a network that has learned little; the image has several tiles."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 1, (*shape, 4)) + rng.normal(0, 2, (4,))
    probabilities = (np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)).astype(np.float32)
    heatmap = rng.random(shape, np.float32) * (rng.random(shape) < 0.02)
    # Multiples of 1/4: distances are exact, and some are equal.
    offsets = np.round(rng.normal(0, 30, (*shape, 2)) * 4).astype(np.float32) / 4
    return probabilities.argmax(axis=-1), heatmap.astype(np.float32), offsets, probabilities


@pytest.mark.parametrize(
    ('seed', 'changes'),
    [
        (0, {}),
        (1, {'nms_kernel': 9, 'stuff_area': 1500}),
        (2, {'top_k': 1000, 'center_threshold': 0.8}),
        (3, {'top_k': 5, 'nms_kernel': 1}),
        (4, {'center_threshold': 1.0}),
    ],
)
def test_formula(seed, changes):
    rule = RULE._replace(**changes)
    class_ids, heatmap, offsets, probabilities = random_outputs(seed)
    result = merge(class_ids, heatmap, offsets, rule, probabilities)
    expected, instances = twin(class_ids, heatmap, offsets, rule, probabilities)
    np.testing.assert_array_equal(result.class_ids, expected)
    assert [instance.center for instance in result.instances] == sorted(instances)
    assert result.class_ids.dtype == np.uint8 and result.instance_ids.dtype == np.uint16
    assert not result.instance_ids[~np.isin(class_ids, rule.things)].any()
    numbers = {}
    for instance in result.instances:
        numbers.setdefault(instance.class_id, []).append(instance.instance_id)
        class_id, pixels, score = instances[instance.center]
        mask = (result.class_ids == instance.class_id) & (result.instance_ids == instance.instance_id)
        assert list(zip(*(axis.tolist() for axis in mask.nonzero()), strict=True)) == pixels
        assert (instance.class_id, instance.pixels) == (class_id, len(pixels))
        assert instance.score == pytest.approx(score, rel=1e-5)
    assert all(ids == list(range(1, len(ids) + 1)) for ids in numbers.values())


def test_result_by_hand():
    class_ids = np.array([[0, 2, 2, 3], [0, 3, 3, 3]])
    heatmap = np.array([[0, 0.5, 0, 0], [0, 0, 0, 0.8]], np.float32)
    rows, columns = np.indices((2, 4))
    offsets = np.stack([(columns >= 2) - rows, np.where(columns >= 2, 3, 1) - columns], axis=-1).astype(np.float32)
    probabilities = np.zeros((2, 4, 4), np.float32)
    probabilities[..., 2] = 0.25
    probabilities[..., 3] = [[0, 0, 0.5, 0.5], [0, 0, 1, 1]]
    result = merge(class_ids, heatmap, offsets, RULE, probabilities)
    # One pixel of class 2 and one of 3: the smaller class. Three of four: class 3.
    assert result.class_ids.tolist() == [[0, 2, 3, 3], [0, 2, 3, 3]]
    assert result.instance_ids.tolist() == [[0, 1, 1, 1], [0, 1, 1, 1]]
    first, second = result.instances
    assert (first.class_id, first.center, first.pixels) == (2, (0, 1), 2)
    assert (second.class_id, second.center, second.pixels) == (3, (1, 3), 4)
    assert first.score == pytest.approx(0.25 * 0.5) and second.score == pytest.approx(0.75 * 0.8)
    assert all(instance.score is None for instance in merge(class_ids, heatmap, offsets, RULE).instances)


def test_pixels_of_things_without_a_center_are_void():
    class_ids = np.array([[0, 2], [3, 1]])
    result = merge(class_ids, np.full((2, 2), 0.1, np.float32), np.zeros((2, 2, 2), np.float32), RULE)
    assert result.class_ids.tolist() == [[0, VOID], [VOID, 1]]
    assert not result.instance_ids.any() and result.instances == []


def test_stuff_of_a_small_area_is_void():
    class_ids = np.array([[0, 0, 0, 1, 1]], np.uint8)
    zeros = np.zeros((1, 5), np.float32)
    result = merge(class_ids, zeros, np.zeros((1, 5, 2), np.float32), RULE._replace(stuff_area=3))
    assert result.class_ids.tolist() == [[0, 0, 0, VOID, VOID]]


def test_a_center_of_stuff_alone_makes_no_instance():
    heatmap = np.array([[0, 0.9, 0, 0, 0.9]], np.float32)
    class_ids = np.array([[0, 0, 0, 2, 2]])
    result = merge(class_ids, heatmap, np.zeros((1, 5, 2), np.float32), RULE)
    assert [(instance.instance_id, instance.center) for instance in result.instances] == [(1, (0, 4))]


@pytest.mark.parametrize('kernel', [1, 3, 5, 7, 41])
def test_peaks(kernel):
    """Maxima of windows, at the borders too; equal neighbors are both maxima."""
    heatmap = np.random.default_rng(kernel).integers(0, 30, (23, 31)).astype(np.float32) / 30
    peaks = heatmap_peaks(heatmap, 0.5, kernel)
    reach = kernel // 2
    for y, x in np.ndindex(*heatmap.shape):
        window = heatmap[max(y - reach, 0) : y + reach + 1, max(x - reach, 0) : x + reach + 1]
        is_peak = heatmap[y, x] > np.float32(0.5) and heatmap[y, x] == window.max()
        assert peaks[y, x] == (heatmap[y, x] if is_peak else 0)
    assert (peaks > 0).any()


def test_only_centers_above_the_kth_remain_where_there_are_more():
    heatmap = np.array([[0.5, 0, 0.9, 0, 0.7, 0, 0.5, 0, 0.8]], np.float32)
    kept = {top_k: find_centers(heatmap, RULE._replace(top_k=top_k))[0][:, 1].tolist() for top_k in (5, 4, 3, 2)}
    assert kept == {5: [0, 2, 4, 6, 8], 4: [2, 4, 8], 3: [2, 8], 2: [2]}


def test_the_first_of_equally_near_centers_is_taken():
    offsets = np.zeros((1, 5, 2), np.float32)
    assert group_pixels(offsets, np.ones((1, 5), bool), np.array([[0, 0], [0, 4]])).tolist() == [[1, 1, 1, 2, 2]]


def test_offsets_may_point_anywhere():
    offsets = np.zeros((1, 3, 2), np.float32)
    offsets[0] = [(-5000, 0), (0, 5000), (np.nan, 0)]
    numbers = group_pixels(offsets, np.ones((1, 3), bool), np.array([[0, 0], [0, 2]]))
    assert numbers[0, :2].tolist() == [1, 2] and numbers[0, 2] in (1, 2)


def test_views_of_one_tensor_are_taken_as_they_are():
    class_ids, heatmap, offsets, probabilities = random_outputs(6)
    together = np.concatenate([probabilities, heatmap[..., np.newaxis], offsets], axis=-1)
    result = merge(class_ids.astype(np.uint8), together[..., 4], together[..., 5:], RULE, together[..., :4])
    expected = merge(class_ids, heatmap, offsets, RULE, probabilities)
    np.testing.assert_array_equal(result.instance_ids, expected.instance_ids)
    assert result.instances == expected.instances


@pytest.mark.parametrize('shape', [(230, 90), (70, 300)])
def test_every_tile_has_the_nearest_centers(shape):
    """Offsets are short here, so that a tile leaves most centers out."""
    rng = np.random.default_rng(shape[0])
    centers = np.stack([rng.integers(0, side, 60) for side in shape], axis=-1)
    offsets = np.round(rng.normal(0, 3, (*shape, 2)) * 4).astype(np.float32) / 4
    is_thing = rng.random(shape) < 0.5
    targets = np.moveaxis(np.indices(shape), 0, -1) + offsets
    distances = np.square(targets[..., np.newaxis, :] - centers).sum(axis=-1)
    expected = np.where(is_thing, distances.argmin(axis=-1) + 1, 0)
    np.testing.assert_array_equal(group_pixels(offsets, is_thing, centers), expected)


def test_defaults():
    """They are values of the paper and of its PyTorch version."""
    assert MergeRule((2,), VOID)[2:] == (0.1, 7, 200, 2048)


@pytest.mark.parametrize('seed', range(4))
def test_merge_of_targets_gives_the_truth(seed):
    """Holds where no two centers are within the kernel."""
    rng = np.random.default_rng(seed)
    class_ids, instance_ids = rng.integers(0, 2, (90, 130)), np.zeros((90, 130), int)
    for number in range(1, 13):  # some touch, some are in two parts
        y, x = divmod(number - 1, 4)
        top, left = 30 * y + rng.integers(0, 6), 30 * x + rng.integers(0, 6)
        box = np.s_[top : top + rng.integers(3, 25), left : left + rng.integers(3, 25)]
        class_ids[box], instance_ids[box] = rng.choice([2, 3]), number
    class_ids[:, 64:66], instance_ids[:, 64:66] = 0, 0
    targets = compute_targets(class_ids, instance_ids, TargetRule(RULE.things, VOID))
    result = merge(class_ids, targets.heatmap[..., 0], targets.offsets, RULE)
    np.testing.assert_array_equal(result.class_ids, class_ids)
    pairs = set(zip(instance_ids.ravel(), result.class_ids.ravel(), result.instance_ids.ravel(), strict=True))
    pairs = {pair for pair in pairs if pair[0]}
    assert len(pairs) == len({pair[0] for pair in pairs}) == len({pair[1:] for pair in pairs}) == len(result.instances)


def test_memory_does_not_grow_with_the_number_of_centers():
    class_ids, heatmap, offsets, probabilities = random_outputs(7, (150, 200))
    rule = RULE._replace(top_k=1000)
    assert len(find_centers(heatmap, rule)[0]) > 300
    tracemalloc.start()
    try:
        merge(class_ids, heatmap, offsets / 10, rule, probabilities)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 150 * class_ids.size  # all distances at once would take 1200 bytes of each pixel
