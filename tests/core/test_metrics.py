"""Metrics of a confusion matrix, and of each image.

Covers core/metrics/confusion_matrix.py, core/metrics/per_image.py and core/metrics/_image_counts.py.
"""

import numpy as np
import pytest

from deeplab.core.metrics import ConfusionMatrix, confusion_matrix
from deeplab.errors import DataError
from deeplab.registry import CONFUSION_MATRIX, METRICS, Metric
from tests.helpers import metric_batches

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


def test_a_few_pixels_take_no_pass_over_all_pairs_of_classes(monkeypatch):
    labels, predictions = [7, 255, 7, 99], [3, 1000, 3, 0]
    expected = np.zeros((100, 100), np.int64)
    expected[7, 3], expected[99, 0] = 2, 1
    matrix = ConfusionMatrix(100, 255)
    monkeypatch.setattr(matrix, '_counts_of', None)
    matrix.update(np.uint8(labels), predictions)
    with pytest.raises(DataError, match='the id 100'):
        matrix.update([7, 7], [3, 100])
    np.testing.assert_array_equal(matrix.counts, expected)


def test_what_does_not_pair_is_refused():
    with pytest.raises(ValueError, match='There are 3 labels and 2 predictions'):
        matrix_of([0, 1, 2], [0, 1])
    with pytest.raises(ValueError, match='predictions are of type float64; they must be integers'):
        matrix_of([0, 1], [0.0, 1.0])
    with pytest.raises(ValueError, match='cannot be merged'):
        ConfusionMatrix(3).merge(ConfusionMatrix(4))


def test_figures_of_classes_against_sets_of_pixels():
    """Precision, recall (accuracy) and F1 (Dice) of each class from the pixels themselves; 151 classes, some absent."""
    rng = np.random.default_rng(2)
    labels, predictions = rng.integers(0, 140, (2, 40, 50))
    labels[rng.random(labels.shape) < 0.1] = 255
    right = rng.random(labels.shape) < 0.7
    predictions[right & (labels != 255)] = labels[right & (labels != 255)]
    metrics = matrix_of(labels, predictions, num_classes=151).result()
    keep = labels != 255
    for c in range(151):
        truth, guess = (labels == c)[keep], (predictions == c)[keep]
        both = (truth & guess).sum()
        recall, precision = (both / n if n else None for n in (truth.sum(), guess.sum()))
        assert (metrics.class_accuracy[c], metrics.class_precision[c]) == (recall, precision)
        total = truth.sum() + guess.sum()
        assert metrics.class_dice[c] == (2 * both / total if total else None)
    assert metrics.mean_precision == pytest.approx(np.mean([p for p in metrics.class_precision if p is not None]))
    assert metrics.mean_dice == pytest.approx(np.mean([d for d in metrics.class_dice if d is not None]))


CONTEXT = metric_batches.context(3, categories=('a', 'b', 'a'))
BATCH = np.array([[[0, 0, 1, 255]], [[2, 2, 2, 2]], [[255, 255, 255, 255]], [[1, 1, 0, 0]]])
GUESS = np.array([[[0, 1, 1, 9]], [[2, 2, 2, 2]], [[0, 1, 2, 0]], [[2, 2, 2, 2]]])
INPUTS = {
    'matrices': confusion_matrix.of_images(BATCH, GUESS, 3, 255),
    'sizes': np.array([[1, 4]] * 4),
    'confidence': np.linspace(0, 1, 16, dtype=np.float32).reshape(BATCH.shape),
    'names': list('abcd'),
}


# Those that need no files.
NAMES = [name for name in METRICS.names() if name != 'instance_iou']


def test_every_image_weighs_the_same_in_image_iou():
    metric = metric_batches.create('image_iou', CONTEXT)
    assert metric.result() == {'mean': None, 'lowest': None}
    metric_batches.update(metric, 'image_iou', BATCH, GUESS, INPUTS)
    assert metric.result() == {'mean': pytest.approx((0.5 + 1 + 0) / 3), 'lowest': 0.0}  # the third is ignored


@pytest.mark.parametrize('name', NAMES)
def test_merged_accumulators_give_what_one_gives(name):
    whole, *parts = (metric_batches.create(name, CONTEXT) for _ in range(3))
    metric_batches.update(whole, name, BATCH, GUESS, INPUTS)
    metric_batches.update(parts[0], name, BATCH, GUESS, INPUTS, slice(2, None))
    metric_batches.update(parts[1], name, BATCH, GUESS, INPUTS, slice(2))
    parts[0].merge(parts[1])
    assert metric_batches.figures(parts[0]) == metric_batches.figures(whole)


@pytest.mark.parametrize('name', NAMES)
def test_no_image_one_pixel_and_nothing_but_ignored_pixels(name):
    """No figure, and no warning; then one pixel, which is right, of 151 classes."""
    metric = metric_batches.create(name, metric_batches.context(151, categories=('a',) * 151))
    nothing = {'matrices': np.zeros((1, 151, 151), int), 'sizes': [[1, 1]], 'names': ['']}
    nothing['confidence'] = np.ones((1, 1, 1), np.float32)
    ignored, pixel = np.full((1, 1, 1), 255), np.zeros((1, 1, 1), int)
    for _ in range(2):
        results, classes = metric_batches.figures(metric)
        assert {*results.values(), *(value for values in classes.values() for value in values)} <= {None}
        metric_batches.update(metric, name, ignored, pixel, nothing)
    nothing['matrices'][0, 0, 0] = 1
    metric_batches.update(metric, name, pixel, pixel, nothing)
    results, classes = metric_batches.figures(metric)
    assert {*results.values(), *(values[0] for values in classes.values())} <= {None, 0.0, 1.0}
    assert all(set(values[1:]) == {None} for values in classes.values())


def test_figures_of_the_confusion_matrix_by_name():
    metric = metric_batches.create(CONFUSION_MATRIX, CONTEXT)
    metric_batches.update(metric, CONFUSION_MATRIX, BATCH, GUESS, INPUTS, slice(1))
    assert metric.result() == {
        'miou': 0.5, 'pixel_accuracy': 2 / 3, 'mean_accuracy': 0.75, 'frequency_weighted_iou': pytest.approx(0.5),
        'mean_precision': 0.75, 'mean_dice': pytest.approx(2 / 3),
        'iou of class 0': 0.5, 'iou of class 1': 0.5, 'iou of class 2': None,
    }  # fmt: skip


def test_a_metric_asks_for_known_inputs_only():
    with pytest.raises(ValueError, match="asks for 'depth'; known inputs: matrices, sizes, confidence, names"):
        Metric(name='mine', create=object, inputs=('depth',))
