"""Panoptic quality and parsing covering on small cases, and against a direct implementation of the definitions."""

import json
import pathlib

import numpy as np
import pytest
from PIL import Image

from deeplab.core import panoptic_quality, segment_overlaps
from tests.helpers import panoptic_maps


def segments(rows, categories, crowds=()):
    """Returns a segmentation; `categories` has the category of segment 1, 2, ..."""
    is_crowd = [number in crowds for number in range(len(categories) + 1)]
    return segment_overlaps.Segmentation(
        index=np.array(rows),
        categories=np.array([-1, *categories]),
        ids=np.arange(len(categories) + 1),
        is_crowd=np.array(is_crowd),
    )


def quality(truth, prediction):
    return sums_of(truth, prediction, 4).tolist()


def sums_of(truth, prediction, categories):
    return panoptic_quality.quality_sums(segment_overlaps.overlaps(truth, prediction), categories)


def covering_of(truth, prediction, categories, **options):
    overlaps = segment_overlaps.overlaps(truth, prediction)
    return panoptic_quality.covering_sums(overlaps, categories, **options)


def test_a_match_a_miss_and_a_false_positive():
    truth = segments([[1, 1, 1, 1, 2, 2]], (3, 1))
    prediction = segments([[1, 1, 1, 2, 2, 2]], (3, 2))
    assert quality(truth, prediction) == [[0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0.75, 1, 0, 0]]
    found = panoptic_quality.quality(sums_of(truth, prediction, 4))
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
    overlaps = segment_overlaps.overlaps(truth, segments([[1, 1, 1, 1]], (category,)))
    assert panoptic_quality.quality_sums(overlaps, 4, any_crowd=True)[category].tolist() == [0, 0, 0, 0]
    assert quality(truth, segments([[0, 0, 0, 1]], (3,)))[1] == [0, 0, 0, 0]  # nobody has to find it


def test_covering_by_hand():
    truth = segments([[1, 1, 1, 2, 0, 0]], (1, 1))
    prediction = segments([[1, 1, 2, 2, 2, 0]], (1, 1))
    sums = covering_of(truth, prediction, 2, by_share=False)
    assert sums[1] == pytest.approx([3 * 2 / 3 + 1 * 1 / 2, 4])
    assert covering_of(truth, prediction, 2)[1] == pytest.approx(sums[1] / 6)
    assert panoptic_quality.covering(sums) == [{'pc': None}, {'pc': pytest.approx(0.625)}]


def test_for_covering_a_crowd_is_void():
    truth = segments([[1, 2, 2, 2]], (1, 1), crowds=(2,))
    assert covering_of(truth, segments([[1, 1, 1, 1]], (1,)), 2, by_share=False)[1].tolist() == [1, 1]


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
        sums = sums_of(truth, prediction, 4)
        np.testing.assert_allclose(sums, _direct(truth, prediction), err_msg=str((truth, prediction)))
        total += sums
    assert (total.sum(axis=0) > 20).all()  # each case occurs


def test_a_segmentation_equals_itself():
    truth = segments([[1, 2, 0, 3]], (1, 1, 2))
    assert panoptic_quality.quality(sums_of(truth, truth, 3))[1]['pq'] == 1
    assert panoptic_quality.covering(covering_of(truth, truth, 3))[1]['pc'] == 1


def test_means_of_things_and_stuff():
    figures = [{'pc': None}, {'pc': 0.2}, {'pc': 0.6}, {'pc': 0.7}]
    assert panoptic_quality.means(figures, {0: True, 1: True, 2: True}) == {
        'All': {'pc': pytest.approx(0.5), 'n': 3},
        'Things': {'pc': pytest.approx(0.4), 'n': 2},
        'Stuff': {'pc': 0.7, 'n': 1},
    }
    assert panoptic_quality.means(figures[:2], {1: True})['Stuff'] == {'pc': None, 'n': 0}


# --- Maps of class ids and instance ids ------------------------------------------------------------------------------

CLASSES = segment_overlaps.PanopticClasses(panoptic_maps.NUM_CLASSES, panoptic_maps.THINGS, panoptic_maps.IGNORE_LABEL)


def overlaps_of(truth, prediction):
    return segment_overlaps.overlaps(CLASSES.truth(*truth), CLASSES.prediction(*prediction))


def accumulated(pairs):
    total = panoptic_quality.PanopticQuality(panoptic_maps.NUM_CLASSES, panoptic_maps.THINGS)
    for truth, prediction in pairs:
        total.update(overlaps_of(truth, prediction))
    return total


def _masks(class_ids, instance_ids):
    """The segments of a map as masks: a list of (class, instance id, mask)."""
    masks = []
    for category in range(panoptic_maps.NUM_CLASSES):
        mask = class_ids == category
        numbers = np.unique(instance_ids[mask]) if category in panoptic_maps.THINGS else [None] * int(mask.any())
        masks += [(category, number, mask & (number is None or instance_ids == number)) for number in numbers]
    return masks


def _twin(pairs):
    """Sum of IoU, TP, FN, FP of each class as the rules for maps read, mask by mask."""
    sums = np.zeros((panoptic_maps.NUM_CLASSES, 4))
    for truth, prediction in pairs:
        void = truth[0] == panoptic_maps.IGNORE_LABEL
        true = _masks(*truth)
        crowd_of = {category: mask for category, number, mask in true if number == 0}
        regular = [(category, mask) for category, number, mask in true if number != 0]
        matched = set()
        for category, number, mask in _masks(*prediction):
            if number == 0:
                continue
            judged = mask & ~void
            for i, (other, region) in enumerate(regular):
                iou = (judged & region).sum() / (judged | region).sum()
                if category == other and iou > 0.5:
                    matched.add(i)
                    sums[category] += [iou, 1, 0, 0]
                    break
            else:
                excused = mask & (void | crowd_of.get(category, False))
                sums[category, 3] += 2 * excused.sum() <= mask.sum()
        for i, (category, _) in enumerate(regular):
            sums[category, 2] += i not in matched
    return sums


@pytest.fixture(scope='module')
def pairs():
    rng = np.random.default_rng(1)
    return [panoptic_maps.random_pair(rng) for _ in range(30)]


def test_random_maps_against_the_rules(pairs):
    sums = _twin(pairs)
    assert (sums[list(panoptic_maps.THINGS)] > 5).all()  # each case occurs
    total = accumulated(pairs)
    figures, classes = total.result(), total.class_figures()
    iou, hits, misses, wrong = sums.T
    sq, rq = iou / hits, hits / (hits + misses / 2 + wrong / 2)
    groups = {'': range(5), '_things': panoptic_maps.THINGS, '_stuff': (0, 3)}
    for name, values in (('pq', sq * rq), ('sq', sq), ('rq', rq)):
        assert classes[name] == pytest.approx(values, abs=1e-6)
        for ending, group in groups.items():
            assert figures[name + ending] == pytest.approx(values[list(group)].mean(), abs=1e-6)
    assert [classes[name] for name in ('tp', 'fn', 'fp')] == [tuple(row) for row in (hits, misses, wrong)]


def test_merging_equals_one_pass(pairs):
    one, first = accumulated(pairs), accumulated(pairs[:11])
    first.merge(accumulated(pairs[11:]))
    assert first.result() == pytest.approx(one.result(), rel=1e-12)


def test_classes_that_do_not_occur_have_no_figures():
    total = accumulated([(np.array([[[0]], [[0]]]), np.array([[[0]], [[0]]]))])
    assert total.class_figures()['pq'] == (1, None, None, None, None)
    assert (total.result()['pq'], total.result()['pq_things'], total.result()['pq_stuff']) == (1, None, 1)


def test_the_matches_of_an_image():
    """By number of the segment, so that a picture can outline `index == number`."""
    truth = np.array([[1, 1, 1, 1, 2, 2, 0]]), np.array([[1, 1, 1, 2, 1, 1, 0]])
    prediction = np.array([[1, 1, 1, 4, 2, 0, 0]]), np.array([[3, 3, 3, 1, 4, 0, 0]])
    overlaps = overlaps_of(truth, prediction)
    matches = panoptic_quality.matches(overlaps)
    named = [
        [(int(segments.categories[i]), int(segments.ids[i])) for i in numbers]
        for segments, numbers in (
            (overlaps.truth, matches.truth),
            (overlaps.prediction, matches.prediction),
            (overlaps.truth, matches.missed),
            (overlaps.prediction, matches.wrong),
        )
    ]
    assert named == [[(1, 1)], [(1, 3)], [(0, 0), (1, 2), (2, 1)], [(0, 0), (2, 4), (4, 1)]]
    assert matches.iou.tolist() == [1]


GOLDENS = pathlib.Path(__file__).parents[3] / 'shared' / 'goldens' / 'panoptic'


def _maps(kind):
    """Yields the maps of the goldens' files in the COCO format, in the order of the images."""
    content = json.loads((GOLDENS / f'coco_{kind}.json').read_text())
    for annotation in sorted(content['annotations'], key=lambda annotation: annotation['image_id']):
        with Image.open(GOLDENS / f'coco_{kind}' / annotation['file_name']) as image:
            ids = np.asarray(image.convert('RGB'), int) @ (1, 256, 65536)
        class_ids, instance_ids = np.zeros((2, *ids.shape), int)
        for number, segment in enumerate(annotation['segments_info'], start=1):
            class_ids[ids == segment['id']] = segment['category_id']
            instance_ids[ids == segment['id']] = 0 if segment.get('iscrowd') else number
        yield class_ids, instance_ids


@pytest.mark.skipif(not GOLDENS.exists(), reason='the panoptic goldens are not beside this checkout')
def test_the_original_s_numbers_from_maps():
    content = json.loads((GOLDENS / 'coco_gt.json').read_text())
    things = [category['id'] for category in content['categories'] if category['isthing']]
    classes = segment_overlaps.PanopticClasses(7, tuple(things), ignore_label=0)
    total = panoptic_quality.PanopticQuality(7, things)
    for truth, prediction in zip(_maps('gt'), _maps('pred'), strict=True):
        total.update(segment_overlaps.overlaps(classes.truth(*truth), classes.prediction(*prediction)))
    expected = json.loads((GOLDENS / 'expected.json').read_text())['panoptic_quality']
    for group, ending in (('All', ''), ('Things', '_things'), ('Stuff', '_stuff')):
        for name in ('pq', 'sq', 'rq'):
            assert 100 * total.result()[name + ending] == pytest.approx(expected[group][name], abs=1e-6)
