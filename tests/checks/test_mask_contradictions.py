"""Masks that predictions contradict, on drawn scenes. Covers checks/contradicted_masks.py."""

import types

import numpy as np
import pytest

from deeplab.checks import contradicted_masks, mask_contradictions
from deeplab.checks.mask_contradictions import EXCHANGED, MOVED, REGION, WHOLE, FoldPrediction
from deeplab.datasets.descriptor import DatasetDescriptor

CLASSES, SIZE = 4, (96, 128)
NUMBER = 60


def scene(seed):
    """A mask of sky, ground and boxes of two classes, [h, w] uint8."""
    random = np.random.default_rng(seed)
    mask = np.zeros(SIZE, np.uint8)
    mask[random.integers(35, 60) :] = 1
    for _ in range(6):
        top, left = random.integers(0, 70), random.integers(0, 100)
        mask[top : top + random.integers(12, 26), left : left + random.integers(12, 28)] = random.integers(2, 4)
    return mask


def predicted(mask, seed):
    """Probabilities of a network that confuses some areas, [h, w, classes]."""
    random = np.random.default_rng(1000 + seed)
    seen = mask.copy()
    for _ in range(2):
        top, left = random.integers(0, 80), random.integers(0, 110)
        seen[top : top + 8, left : left + 8] = random.integers(0, 4)
    scores = 3 * np.eye(CLASSES)[seen] + random.normal(0, 0.7, (*SIZE, CLASSES))
    weights = np.exp(scores)
    return (weights / weights.sum(axis=2, keepdims=True)).astype(np.float32)


def predictions(changes=None, others=()):
    """The prediction of each scene, with the changed masks."""
    for number in range(NUMBER):
        mask = scene(number)
        image = types.SimpleNamespace(number=number, name=f'{number}.png')
        yield FoldPrediction('fold1', image, (changes or {}).get(number, mask), predicted(mask, number))
    yield from others


def test_wrong_masks_come_first_each_with_its_explanation():
    exchanged = np.array([0, 2, 1, 3], np.uint8)[scene(5)]
    without = np.where(scene(6) >= 2, 1, scene(6)).astype(np.uint8)
    without[:30] = scene(6)[:30]
    moved = np.roll(scene(7), 6, axis=1)
    changes = {5: exchanged, 6: without, 7: moved, 8: scene(500)}
    masks = mask_contradictions.find(predictions(changes), CLASSES, 255)
    assert {mask.number for mask in masks[:4]} == set(changes)
    assert [mask.score for mask in masks] == sorted((mask.score for mask in masks), reverse=True)
    by_number = {mask.number: mask for mask in masks}
    assert by_number[7].explanation == MOVED and by_number[7].shift == (0, 6) and by_number[7].class_ids is None
    assert set(by_number[5].class_ids) <= {1, 2}
    assert by_number[6].explanation in (REGION, WHOLE)
    assert any(region.label == 1 and region.predicted >= 2 for region in by_number[6].regions)
    assert len(masks) == NUMBER and all(mask.score < masks[3].score for mask in masks[4:])


def test_outlines_surround_the_contradicted_region():
    mask = scene(3)
    mask[60:80, 20:60] = 0
    masks = mask_contradictions.find(predictions({3: mask}), CLASSES, 255)
    (first,) = (each for each in masks if each.number == 3)
    points = np.array(first.regions[0].rings[0])
    assert points[:, 0].min() >= 18 and points[:, 0].max() <= 62 and points[:, 1].min() >= 58
    assert first.regions[0].label == 0 and 0 < first.regions[0].share < 0.1
    assert first.as_json()['regions'][0]['rings'] == first.regions[0].rings


def test_ignored_pixels_and_images_without_labels_do_not_count():
    image = types.SimpleNamespace(number=99, name='ignored.png')
    empty = FoldPrediction('fold1', image, np.full(SIZE, 255, np.uint8), predicted(scene(0), 0))
    partly = scene(2)
    partly[:, :64] = 255
    masks = mask_contradictions.find(predictions({2: partly}, [empty]), CLASSES, 255)
    assert {mask.number for mask in masks} == set(range(NUMBER))
    assert mask_contradictions.find([empty], CLASSES, 255) == []


def test_an_ignore_label_that_is_a_class_does_not_count():
    image = types.SimpleNamespace(number=99, name='a.png')
    ids = np.array([[0, 3], [255, 1]], np.uint8)
    ignored = FoldPrediction('fold1', image, ids * 0, np.ones((2, 2, CLASSES), np.float32))
    assert mask_contradictions.find([ignored], CLASSES, 0) == []
    for classes in (CLASSES, 256):  # of 256, no id of 8 bits is free
        of_classes = FoldPrediction('fold1', image, ids, np.ones((2, 2, classes), np.float32))
        with mask_contradictions._GridFile() as grids:
            grids.append(mask_contradictions._grid(of_classes, classes, 0))
            labels = grids.read(0).labels
        assert labels.dtype == np.uint16 and labels.tolist() == [[classes, 3], [255, 1]]


def test_labels_given_a_prediction_have_their_frequencies():
    counts = np.zeros((2 * 8, 2), np.int64)
    counts[7] = 900_000, 100_000
    shares = np.exp(mask_contradictions._log_probabilities(counts))
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(shares[7], [0.9, 0.1], atol=1e-3)
    np.testing.assert_allclose(shares[0], [0.9, 0.1], atol=1e-3)  # of the same class: no pixel has this confidence
    np.testing.assert_allclose(shares[15], [0.9, 0.1], atol=1e-3)  # a class that is never predicted: all labels


@pytest.mark.parametrize(
    ('values', 'expected'),
    [
        ([1, 2, 3, 4, 5], 15 / 55**0.5),
        ([1, 2, 3, 4, -5], 5 / 55**0.5),
        ([1, 2, 3, 4, 0], 0),  # too few
        ([-2, -1, -3, -5, -4], -15 / 55**0.5),
    ],
)
def test_signed_rank(values, expected):
    assert mask_contradictions._signed_rank(np.array(values, float)) == pytest.approx(expected)


def test_the_score_counts_mean_excesses_beyond_the_quantile():
    values = np.arange(1, 102, dtype=float)  # 90 % quantile 91, 98 % quantile 99
    excess = np.minimum(np.arange(92, 102) - 91, 8).mean()
    scores = mask_contradictions._tail(values, floor=0.0)
    assert scores[-1] == pytest.approx(10 / excess) and scores[90] == pytest.approx(0)
    assert list(mask_contradictions._tail(np.array([0.0] * 99 + [3.0]), floor=0.5)[98:]) == [-1, 6]


@pytest.mark.parametrize(
    ('name', 'shift', 'class_ids', 'text'),
    [
        (MOVED, (8, -4), None, 'seems to lie 8 pixels too low and 4 pixels too far left'),
        (MOVED, (-2, 0), None, 'seems to lie 2 pixels too high'),
        (EXCHANGED, None, (0, 1), "'sky' (id 0) and 'car' (id 1) seem to be exchanged"),
        (REGION, None, (0, 1), "a region of 'sky' (id 0) seems to show 'car' (id 1)"),
        (WHOLE, None, None, 'unlikely as a whole'),
    ],
)
def test_explanations_in_words(name, shift, class_ids, text):
    descriptor = DatasetDescriptor('two', 2, class_names=('sky', 'car'))
    data = types.SimpleNamespace(
        class_text=lambda class_id: f"'{descriptor.class_name(class_id)}' (id {class_id})", descriptor=descriptor
    )
    mask = mask_contradictions.MaskContradiction('fold1', 0, 'a', (4, 4), 2.0, name, shift, class_ids)
    assert contradicted_masks.explanation(data, mask) == text
