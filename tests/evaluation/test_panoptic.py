"""Panoptic quality and parsing covering on small cases, and against a direct implementation of the definitions."""

import numpy as np
import pytest

from deeplab.evaluation import panoptic


def segments(rows, categories, crowds=()):
    """Returns a segmentation; `categories` are those of segments 1, 2, ..."""
    is_crowd = [number in crowds for number in range(len(categories) + 1)]
    return panoptic.Segmentation(np.array(rows), np.array([-1, *categories]), np.array(is_crowd))


def quality(truth, prediction):
    return panoptic.quality_sums(truth, prediction, 4).tolist()


def test_a_match_a_miss_and_a_false_positive():
    truth = segments([[1, 1, 1, 1, 2, 2]], (3, 1))
    prediction = segments([[1, 1, 1, 2, 2, 2]], (3, 2))
    assert quality(truth, prediction) == [[0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0.75, 1, 0, 0]]
    found = panoptic.quality(panoptic.quality_sums(truth, prediction, 4))
    assert found[0] == {'pq': None, 'sq': None, 'rq': None}
    assert found[1] == {'pq': 0, 'sq': 0, 'rq': 0}
    assert found[3] == {'pq': 0.75, 'sq': 0.75, 'rq': 1}


def test_half_an_overlap_is_no_match():
    """IoU 0.5: a miss and a false positive."""
    assert quality(segments([[1, 1]], (1,)), segments([[1, 0]], (1,)))[1] == [0, 0, 1, 1]


def test_where_the_truth_is_void_nothing_is_judged():
    truth = segments([[1, 1, 0, 0, 0]], (1,))
    assert quality(truth, segments([[1, 1, 1, 1, 2]], (1, 2)))[1:3] == [[1, 1, 0, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize(('rows', 'wrong'), [([[1, 1, 0]], 1), ([[0, 1, 1]], 1), ([[0, 1, 1, 1]], 0)])
def test_a_prediction_more_than_half_in_a_void_is_excused(rows, wrong):
    """Void begins at the third pixel."""
    truth = segments([[1, 1, 0, 0][: len(rows[0])]], (2,))
    assert quality(truth, segments(rows, (1,)))[1] == [0, 0, 0, wrong]


@pytest.mark.parametrize(('category', 'wrong'), [(1, 0), (2, 1)])
def test_a_crowd_excuses_its_own_category(category, wrong):
    truth = segments([[1, 1, 1, 2]], (1, 3), crowds=(1,))
    assert quality(truth, segments([[1, 1, 1, 1]], (category,)))[category] == [0, 0, 0, wrong]
    assert quality(truth, segments([[0, 0, 0, 1]], (3,)))[1] == [0, 0, 0, 0]  # nobody has to find it


def test_covering_by_hand():
    truth = segments([[1, 1, 1, 2, 0, 0]], (1, 1))
    prediction = segments([[1, 1, 2, 2, 2, 0]], (1, 1))
    sums = panoptic.covering_sums(truth, prediction, 2, by_share=False)
    assert sums[1] == pytest.approx([3 * 2 / 3 + 1 * 1 / 2, 4])
    assert panoptic.covering_sums(truth, prediction, 2)[1] == pytest.approx(sums[1] / 6)
    assert panoptic.covering(sums) == [{'pc': None}, {'pc': pytest.approx(0.625)}]


def test_for_covering_a_crowd_is_void():
    truth = segments([[1, 2, 2, 2]], (1, 1), crowds=(2,))
    assert panoptic.covering_sums(truth, segments([[1, 1, 1, 1]], (1,)), 2, False)[1].tolist() == [1, 1]


def _random(rng, largest=6):
    categories = rng.integers(0, 4, rng.integers(0, largest))
    index = rng.integers(0, len(categories) + 1, (4, 5)).repeat(2, 0).repeat(2, 1)
    return segments(index, categories, crowds=set(np.flatnonzero(rng.random(len(categories) + 1) < 0.2)))


def _direct(truth, prediction):
    """Panoptic quality as its definition reads, segment by segment."""
    sums = np.zeros((4, 4))
    void = truth.index == 0
    true = [i for i in range(1, len(truth.categories)) if (truth.index == i).any()]
    free = {j for j in range(1, len(prediction.categories)) if (prediction.index == j).any()}
    for i in true:
        if truth.is_crowd[i]:
            continue
        region, category = truth.index == i, truth.categories[i]
        for j in sorted(free):
            other = (prediction.index == j) & ~void
            iou = (region & other).sum() / (region | other).sum()
            if prediction.categories[j] == category and iou > 0.5:
                sums[category] += [iou, 1, 0, 0]
                free.remove(j)
                break
        else:
            sums[category, 2] += 1
    for j in free:
        region, category = prediction.index == j, prediction.categories[j]
        crowds = [i for i in true if truth.is_crowd[i] and truth.categories[i] == category]
        sums[category, 3] += (region & (void | np.isin(truth.index, crowds))).sum() / region.sum() <= 0.5
    return sums


def test_random_segmentations():
    rng = np.random.default_rng(0)
    total = np.zeros((4, 4))
    for _ in range(120):
        truth = _random(rng)
        prediction = truth if rng.random() < 0.2 else _random(rng, 3)
        sums = panoptic.quality_sums(truth, prediction, 4)
        np.testing.assert_allclose(sums, _direct(truth, prediction), err_msg=str((truth, prediction)))
        total += sums
    assert (total.sum(axis=0) > 20).all()  # each case occurs


def test_a_segmentation_equals_itself():
    truth = segments([[1, 2, 0, 3]], (1, 1, 2))
    assert panoptic.quality(panoptic.quality_sums(truth, truth, 3))[1]['pq'] == 1
    assert panoptic.covering(panoptic.covering_sums(truth, truth, 3))[1]['pc'] == 1


def test_means_of_things_and_stuff():
    figures = [{'pc': None}, {'pc': 0.2}, {'pc': 0.6}, {'pc': 0.7}]
    assert panoptic.means(figures, {0: True, 1: True, 2: True}) == {
        'All': {'pc': pytest.approx(0.5), 'n': 3},
        'Things': {'pc': pytest.approx(0.4), 'n': 2},
        'Stuff': {'pc': 0.7, 'n': 1},
    }
    assert panoptic.means(figures[:2], {1: True})['Stuff'] == {'pc': None, 'n': 0}
