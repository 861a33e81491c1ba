"""Choice of the images of a report, pixel counts of each image, and paired differences.

Covers reporting/choice.py, evaluation/differences.py and evaluation/image_results.py.
"""

import errno
import io
import os

import numpy as np
import pytest

from deeplab.core.metrics import ConfusionMatrix
from deeplab.errors import OutputError
from deeplab.evaluation import differences, image_results
from deeplab.evaluation.image_results import ImageResults
from deeplab.reporting import choice

CLASSES = 4


@pytest.fixture
def pairs():
    """Labels, some of them ignored, and predictions of six images of different sizes."""
    random = np.random.default_rng(3)
    sizes = [(5, 7), (6, 4), (9, 9), (4, 8), (1, 1), (3, 3)]
    found = []
    for height, width in sizes:
        labels = random.integers(0, CLASSES, (height, width))
        labels[0, 0] = 255
        found.append((labels, np.where(random.random(labels.shape) < 0.4, labels % CLASSES, 1)))
    return found


@pytest.fixture
def results(pairs):
    with ImageResults(CLASSES, 255) as made:
        for number, (labels, predictions) in enumerate(pairs):
            made.add(f'image_{number}', labels, predictions)
        yield made


def test_pixel_counts_agree_with_the_confusion_matrix(results, pairs):
    whole = ConfusionMatrix(CLASSES, 255)
    for number, (labels, predictions) in enumerate(pairs):
        own = ConfusionMatrix(CLASSES, 255)
        own.update(labels, predictions)
        whole.merge(own)
        assert results.scores()[number] == pytest.approx(own.result().miou or np.nan, nan_ok=True)
        assert results.counts()[number].tolist() == [
            np.diagonal(own.counts).tolist(), own.counts.sum(axis=1).tolist(), own.counts.sum(axis=0).tolist()
        ]  # fmt: skip
        assert results.cells(number) == [[i, count] for i, count in enumerate(own.counts.ravel().tolist()) if count]
        assert results.pixels_of_pair(2, 1)[number] == own.counts[2, 1]
        assert results.prediction(number).tolist() == predictions.tolist()
        assert results.sizes[number] == predictions.shape
    assert results.confusion().tolist() == whole.counts.tolist()


def test_an_image_without_labels_has_no_score(monkeypatch):
    monkeypatch.setattr(image_results, 'confusion_matrix', None)  # whose tables are large for thousands of classes
    with ImageResults(CLASSES, 255) as images:
        images.add('a', None, np.ones((2, 3), np.uint8))
        assert np.isnan(images.scores()).all() and images.sizes == [(2, 3)] and not images.confusion().any()
        assert images.prediction(0).all()


def test_a_full_disk_for_temporary_files_is_named(monkeypatch):
    class Full(io.BytesIO):
        def write(self, content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(image_results.tempfile, 'TemporaryFile', Full)
    with image_results.ImageResults(CLASSES, 255) as images, pytest.raises(OutputError, match='No space left.*TMPDIR'):
        images.add('a', np.zeros((2, 2), np.uint8), np.zeros((2, 2), np.uint8))


def test_a_network_does_not_differ_from_itself(results):
    mean, classes = differences.paired(results.counts(), results.counts())
    assert [tuple(each) for each in (mean, *classes)] == [(0.0, 0.0, 0.0)] * (1 + CLASSES)


def test_a_difference_that_every_image_shows_is_beyond_chance(results, pairs):
    with ImageResults(CLASSES, 255) as perfect:
        for labels, _ in pairs:
            perfect.add('image', labels, labels % CLASSES)
        mean, classes = differences.paired(results.counts(), perfect.counts())
    right, of_label, of_prediction = results.counts().sum(axis=0)
    before = right / (of_label + of_prediction - right)
    assert mean.value == pytest.approx(1 - before.mean())
    assert [each.value for each in classes] == pytest.approx((1 - before).tolist())
    assert 0 < mean.low <= mean.value <= mean.high


def test_one_image_gives_no_interval():
    """Of class 3, which occurs in one image; of all classes, if there is only one image."""
    random = np.random.default_rng(0)
    first = np.zeros((4, 3, CLASSES), np.int64)
    first[:, :, :2] = 10
    first[0, 1:, 3] = 10
    second = first.copy()
    second[:, 0] -= random.integers(0, 2, (4, CLASSES)) * (second[:, 0] > 0)
    second[0, 0, 3] = 5
    mean, classes = differences.paired(first, second)
    assert mean.low < mean.high and classes[0].low is not None
    assert classes[3] == (pytest.approx(1 / 3), None, None) and classes[2] == (None, None, None)
    mean, classes = differences.paired(first[:1], second[:1])
    assert mean.value is not None and {each.low for each in (mean, *classes)} == {None}


def test_worst_median_and_best_of_one_network():
    scores = np.array([0.5, np.nan, *np.linspace(0.9, 0.1, 20)])
    groups = choice.of_one(scores, confusing=[3, 3, 1, 4], most=10)
    assert list(groups)[:3] == [21, 20, 19] and list(groups)[-3:] == [2, 3, 4] and len(groups) == 10
    assert groups[21] == [choice.WORST] and groups[2] == [choice.BEST]
    assert choice.CONFUSION in groups[3] and choice.CONFUSION in groups[4] and 1 not in groups
    medians = [scores[i] for i, names in groups.items() if choice.MEDIAN in names]
    assert all(abs(score - 0.5) < 0.1 for score in medians)


def test_few_images_are_all_chosen():
    groups = choice.of_one(np.array([0.3, np.nan, 0.1, 0.2]), [], most=30)
    assert groups == {2: [choice.WORST], 3: [choice.MEDIAN], 0: [choice.BEST]}


def test_the_images_that_changed_most():
    first = np.full(9, 0.5)
    change = np.array([0.0, 0.01, -0.3, 0.2, -0.1, 0.05, np.nan, 0.0, -0.02])
    groups = choice.of_several(np.stack([first, first + change]), most=4)
    assert groups == {2: [choice.WORSE], 4: [choice.WORSE], 3: [choice.BETTER], 5: [choice.BETTER]}
    others = choice.of_several(np.stack([first, first + np.array([0, 0, 0, 0, -0.1, 0, np.nan, 0, -0.2])]), most=4)
    assert list(others) == [8, 4, 0, 1]
    only_better = choice.of_several(np.stack([first, first + np.abs(change)]), most=4)
    assert list(only_better) == [2, 3, 4, 5]
    assert choice.of_several(np.stack([first, first]), most=2) == {0: [choice.WORST], 1: [choice.WORST]}
