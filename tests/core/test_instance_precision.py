"""Average precision of instances by hand, and against pycocotools."""

import contextlib
import io

import numpy as np
import pytest

from deeplab.core import segment_overlaps
from deeplab.core.instance_precision import InstancePrecision
from tests.helpers import panoptic_maps

CLASSES = segment_overlaps.PanopticClasses(panoptic_maps.NUM_CLASSES, panoptic_maps.THINGS, panoptic_maps.IGNORE_LABEL)


def overlaps_of(truth, prediction):
    return segment_overlaps.overlaps(CLASSES.truth(*truth), CLASSES.prediction(*prediction))


def accumulated(images):
    total = InstancePrecision(panoptic_maps.NUM_CLASSES, panoptic_maps.THINGS)
    for truth, prediction, scores in images:
        total.update(overlaps_of(truth, prediction), scores)
    return total


def row(instance_ids, category=1):
    ids = np.array([instance_ids])
    return np.where(ids, category, 0), ids


# --- By hand ---------------------------------------------------------------------------------------------------------


def test_one_right_above_and_one_wrong_below():
    truth, prediction = row([1, 1, 1, 1, 2, 2, 0]), row([3, 3, 3, 0, 0, 0, 4])
    total = accumulated([(truth, prediction, {(1, 3): 0.9, (1, 4): 0.8})])
    # IoU 0.75, so 6 of 10 thresholds; half of the instances: precision 1 at the recalls 0, 0.01 ... 0.5.
    expected = {'ap': 0.6 * 51 / 101, 'ap50': 51 / 101, 'ap75': 51 / 101, 'ap_small': 0.6 * 51 / 101}
    assert total.result() == pytest.approx(expected | {'ap_medium': None, 'ap_large': None})
    assert total.class_figures()['ap50'] == (None, pytest.approx(51 / 101), None, None, None)


def test_a_wrong_one_with_a_higher_score_lowers_the_precision():
    truth, prediction = row([1, 1, 0]), row([3, 3, 4])
    assert accumulated([(truth, prediction, {(1, 3): 0.8, (1, 4): 0.9})]).result()['ap'] == pytest.approx(0.5)


def test_a_crowd_is_neither_missed_nor_wrong():
    truth = np.array([[1, 1, 1, 1]]), np.array([[1, 0, 0, 0]])
    total = accumulated([(truth, row([1, 2, 3, 0]), {(1, 1): 0.1, (1, 2): 0.9, (1, 3): 0.9})])
    assert total.result()['ap'] == 1


def test_without_images_or_instances_there_are_no_figures():
    empty = np.zeros((2, 2), int), np.zeros((2, 2), int)
    for images in ([], [(empty, empty, {})]):
        assert set(accumulated(images).result().values()) == {None}


def test_an_instance_needs_a_score():
    with pytest.raises(KeyError, match=r'\(1, 3\)'):
        accumulated([(row([1]), row([3]), {(1, 4): 0.5})])


def test_masks_may_cover_each_other():
    """Two predictions of the same pixels: the second one is wrong, and ranked below."""

    def masks_of_class_1(count):
        return segment_overlaps.Segments(
            categories=np.array([-1, *[1] * count]), ids=np.arange(count + 1), is_crowd=np.zeros(count + 1, bool)
        )

    truth, prediction = masks_of_class_1(1), masks_of_class_1(2)
    pixels = np.array([[0, 0, 0], [0, 8, 9]])
    masks = segment_overlaps.Overlaps(truth, prediction, pixels, np.array([0, 10]), np.array([0, 8, 9]))
    total = InstancePrecision(2, (1,))
    total.update(masks, {(1, 1): 0.9, (1, 2): 0.8})
    figures = total.result()
    # Below 0.85, the first prediction is right; at 0.85 and 0.9 only the second one.
    assert (figures['ap50'], figures['ap']) == (1, pytest.approx((7 + 2 * 0.5) / 10))


# --- pycocotools -----------------------------------------------------------------------------------------------------


def _coco_figures(images, things=panoptic_maps.THINGS):
    """The figures of pycocotools: means, and of each thing class."""
    pytest.importorskip('pycocotools')
    from pycocotools import mask as coding
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    def annotations(image, segments, scores=None):
        for i, (category, number) in enumerate(zip(segments.categories.tolist(), segments.ids.tolist(), strict=True)):
            if category in things:
                mask = np.asfortranarray(segments.index == i, np.uint8)
                of_segment = {'score': scores[category, number]} if scores else {'iscrowd': int(segments.is_crowd[i])}
                coded = coding.encode(mask)
                yield of_segment | {
                    'image_id': image, 'category_id': category, 'segmentation': coded, 'area': int(mask.sum())
                }  # fmt: skip

    truth, predictions = COCO(), []
    truth.dataset = {
        'images': [
            {'id': image, 'height': true[0].shape[0], 'width': true[0].shape[1]}
            for image, (true, *_) in enumerate(images)
        ],
        'categories': [{'id': category} for category in things],
        'annotations': [],
    }
    for image, (true, predicted, scores) in enumerate(images):
        truth.dataset['annotations'] += annotations(image, CLASSES.truth(*true))
        predictions += annotations(image, CLASSES.prediction(*predicted), scores)
    for number, annotation in enumerate(truth.dataset['annotations'], start=1):
        annotation['id'] = number
    with contextlib.redirect_stdout(io.StringIO()):
        truth.createIndex()
        evaluation = COCOeval(truth, truth.loadRes(predictions), 'segm')
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    precision = evaluation.eval['precision'][..., -1]  # [thresholds, recalls, classes, areas]
    of_class = {
        category: precision[:, :, i, 0].mean() for i, category in enumerate(things) if precision[0, 0, i, 0] > -1
    }
    names = ('ap', 'ap50', 'ap75', 'ap_small', 'ap_medium', 'ap_large')
    means = {name: None if value < 0 else value for name, value in zip(names, evaluation.stats, strict=False)}
    return means, of_class


def _check(images):
    means, of_class = _coco_figures(images)
    total = accumulated(images)
    assert total.result() == pytest.approx(means, abs=1e-9)
    of_classes = {i: value for i, value in enumerate(total.class_figures()['ap']) if value is not None}
    assert of_classes == pytest.approx(of_class, abs=1e-9)
    return means


def _image(rng, **options):
    truth, prediction = panoptic_maps.random_pair(rng, **options)
    return truth, prediction, panoptic_maps.scores_of(rng, prediction)


@pytest.mark.parametrize('seed', range(6))
def test_random_maps(seed):
    """With crowds, void, equal scores, and images where one side has no instances."""
    rng = np.random.default_rng(seed)
    images = [_image(rng, size=(240, 320)) for _ in range(5)] + [_image(rng, instances=20) for _ in range(10)]
    empty = tuple(np.zeros((60, 80), int) for _ in range(2))
    images[3:3] = [(empty, images[-1][1], images[-1][2]), (images[-2][0], empty, {})]
    means = _check(images)
    assert 0.1 < means['ap'] < 0.9 and None not in means.values()


def test_more_instances_than_count():
    """Of 144 instances of one class, the 100 with the highest scores count; half of all have equal scores."""
    rng = np.random.default_rng(0)
    number = np.arange(1, 145).reshape(12, 12).repeat(4, 0).repeat(4, 1)  # [48, 48]
    truth = np.full(number.shape, 1), number
    moved = np.roll(number, rng.integers(0, 2), axis=1)
    scores = {(1, i): 0.5 if i % 2 else float(rng.random()) for i in range(1, 145)}
    means = _check([(truth, (truth[0], moved), scores), (truth, truth, scores)])
    assert means['ap50'] < 0.75


def test_merging_equals_one_pass():
    rng = np.random.default_rng(1)
    images = [_image(rng) for _ in range(12)]
    one, parts = accumulated(images), accumulated(images[:5])
    parts.merge(accumulated(images[5:]))
    assert parts.result() == one.result()
    assert parts.class_figures() == one.class_figures()
