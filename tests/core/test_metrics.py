"""Metrics of a confusion matrix, and of each image.

Covers core/metrics/confusion_matrix.py and core/metrics/image_iou.py.
"""

import numpy as np
import pytest

from deeplab.core.metrics import ConfusionMatrix
from deeplab.errors import DataError
from deeplab.registry import CONFUSION_MATRIX, METRICS, MetricContext

LABELS = [[0, 0, 1], [1, 255, 2], [255, 2, 2]]
PREDICTIONS = [[0, 1, 1], [1, 0, 2], [9, 0, 2]]


def matrix_of(labels, predictions, num_classes=4, ignore_label=255):
    matrix = ConfusionMatrix(num_classes, ignore_label)
    matrix.update(np.array(labels), np.array(predictions))
    return matrix


def test_hand_made_image():
    metrics = matrix_of(LABELS, PREDICTIONS).result()
    assert metrics.confusion_matrix == ((1, 1, 0, 0), (0, 2, 0, 0), (1, 0, 2, 0), (0, 0, 0, 0))
    assert metrics.class_iou == (1 / 3, 2 / 3, 2 / 3, None)
    assert metrics.miou == pytest.approx((1 / 3 + 2 / 3 + 2 / 3) / 3)
    assert metrics.pixel_accuracy == 5 / 7
    assert metrics.mean_accuracy == pytest.approx((1 / 2 + 1 + 2 / 3) / 3)
    assert metrics.frequency_weighted_iou == pytest.approx((2 * 1 / 3 + 2 * 2 / 3 + 3 * 2 / 3) / 7)


def test_against_a_loop_over_pixels():
    rng = np.random.default_rng(0)
    labels, predictions = rng.integers(0, 6, (3, 17, 13)), rng.integers(0, 5, (3, 17, 13))
    labels[labels == 5] = 255
    counts = np.zeros((5, 5), int)
    for label, prediction in zip(labels.flat, predictions.flat, strict=True):
        if label != 255:
            counts[label, prediction] += 1
    matrix = matrix_of(labels, predictions, num_classes=5)
    np.testing.assert_array_equal(matrix.counts, counts)
    ious = [counts[c, c] / (counts[c].sum() + counts[:, c].sum() - counts[c, c]) for c in range(5)]
    np.testing.assert_allclose(matrix.result().class_iou, ious, rtol=1e-15)


def test_a_class_in_predictions_alone_counts_as_zero():
    metrics = matrix_of([0, 0], [0, 1], num_classes=3).result()
    assert metrics.class_iou == (0.5, 0.0, None)
    assert metrics.miou == 0.25
    assert metrics.mean_accuracy == 0.5


def test_an_ignore_label_that_is_a_class_counts_nowhere_as_label():
    metrics = matrix_of([0, 0, 1, 1], [0, 1, 1, 0], num_classes=2, ignore_label=0).result()
    assert metrics.confusion_matrix == ((0, 0), (1, 1))


def test_merged_parts_equal_one_run():
    rng = np.random.default_rng(1)
    labels, predictions = rng.integers(0, 4, (2, 50)), rng.integers(0, 4, (2, 50))
    first = matrix_of(labels[0], predictions[0])
    first.merge(matrix_of(labels[1], predictions[1]))
    assert first.result() == matrix_of(labels, predictions).result()


def test_no_pixel_gives_no_figure():
    metrics = matrix_of([255, 255], [0, 3]).result()
    assert metrics.class_iou == (None,) * 4
    assert metrics.miou is metrics.pixel_accuracy is metrics.mean_accuracy is metrics.frequency_weighted_iou is None


def test_small_unsigned_ids_do_not_overflow():
    labels = np.full(10, 150, np.uint8)
    assert matrix_of(labels, labels, num_classes=151, ignore_label=0).counts[150, 150] == 10


@pytest.mark.parametrize(
    ('labels', 'predictions', 'message'),
    [
        ([0, 4], [0, 0], 'A label has the id 4, but the 4 classes have ids 0 to 3 (255 is ignored).'),
        ([0, -1], [0, 0], 'A label has the id -1,'),
        ([0, 1], [0, 7], 'A prediction has the id 7,'),
    ],
)
def test_ids_outside_the_classes_are_refused(labels, predictions, message):
    with pytest.raises(DataError) as error:
        matrix_of(labels, predictions)
    assert message in str(error.value)


def test_what_does_not_pair_is_refused():
    with pytest.raises(ValueError, match='There are 3 labels and 2 predictions'):
        matrix_of([0, 1, 2], [0, 1])
    with pytest.raises(ValueError, match='predictions are of type float64; they must be integers'):
        matrix_of([0, 1], [0.0, 1.0])
    with pytest.raises(ValueError, match='cannot be merged'):
        ConfusionMatrix(3).merge(ConfusionMatrix(4))


CONTEXT = MetricContext(3, 255, ('sky', 'road', 'tree'))
BATCH = np.array([[[0, 0, 1, 255]], [[2, 2, 2, 2]], [[255, 255, 255, 255]], [[1, 1, 0, 0]]])
GUESS = np.array([[[0, 1, 1, 9]], [[2, 2, 2, 2]], [[0, 1, 2, 0]], [[2, 2, 2, 2]]])


def test_every_image_weighs_the_same_in_image_iou():
    metric = METRICS.get('image_iou').create(CONTEXT)
    assert metric.result() == {'mean': None, 'lowest': None}
    metric.update(BATCH, GUESS)
    assert metric.result() == {'mean': pytest.approx((0.5 + 1 + 0) / 3), 'lowest': 0.0}  # the third is ignored


@pytest.mark.parametrize('name', METRICS.names())
def test_merged_accumulators_give_what_one_gives(name):
    whole, *parts = (METRICS.get(name).create(CONTEXT) for _ in range(3))
    whole.update(BATCH, GUESS)
    parts[0].update(BATCH[2:], GUESS[2:])
    parts[1].update(BATCH[:2], GUESS[:2])
    parts[0].merge(parts[1])
    assert parts[0].result() == whole.result()


def test_figures_of_the_confusion_matrix_by_name():
    metric = METRICS.get(CONFUSION_MATRIX).create(CONTEXT)
    metric.update(BATCH[:1], GUESS[:1])
    assert metric.result() == {
        'miou': 0.5, 'pixel_accuracy': 2 / 3, 'mean_accuracy': 0.75, 'frequency_weighted_iou': pytest.approx(0.5),
        'iou of sky': 0.5, 'iou of road': 0.5, 'iou of tree': None,
    }  # fmt: skip
