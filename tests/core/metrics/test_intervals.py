"""Bootstrap intervals: their coverage, and against a loop over resamples."""

import numpy as np
import pytest

from deeplab.core.metrics import intervals
from tests.helpers import metric_batches


def _of(matrices, **values):
    """The metric of images with these confusion matrices."""
    metric = metric_batches.create('intervals', metric_batches.context(matrices.shape[1]), **values)
    metric.update(None, None, matrices=matrices)
    return metric


def _images(rng, number):
    """Confusion matrices of 3 classes, whose shares differ from image to image: [n, 3, 3]."""
    present = rng.gamma(1.0, 1.0, (number, 3, 1))
    quality = rng.beta(6, 2, (number, 1, 1)) * np.array([1.0, 0.9, 0.6])[:, None]
    return rng.poisson(1000 * present * (quality * np.eye(3) + (1 - quality) / 3))


def _miou(matrix):
    right = np.diagonal(matrix)
    return np.mean(right / (matrix.sum(0) + matrix.sum(1) - right))


def _coverage(data_sets, images, samples):
    """In how many simulated data sets the interval contains the mIoU of the population."""
    truth = _miou(_images(np.random.default_rng(1), 50_000).sum(0))
    rng, covered = np.random.default_rng(2), 0
    for _ in range(data_sets):
        found = _of(_images(rng, images), bootstrap_samples=samples).result()
        covered += found['miou low'] <= truth <= found['miou high']
    return covered / data_sets


def test_intervals_contain_the_truth_as_often_as_they_say():
    assert 0.90 <= _coverage(100, 60, 200) <= 0.99


@pytest.mark.slow
def test_intervals_contain_the_truth_as_often_as_they_say_in_a_thousand_data_sets():
    assert 0.93 <= _coverage(1000, 100, 400) <= 0.97


def test_against_a_loop_over_resamples():
    """The quantiles of resamples that are drawn one at a time; equal up to the chance of the draw."""
    matrices = _images(np.random.default_rng(3), 40)
    rng = np.random.default_rng(4)
    resampled = [_miou(matrices[rng.integers(0, 40, 40)].sum(0)) for _ in range(2000)]
    found = _of(matrices, bootstrap_samples=2000).result()
    low, high = np.quantile(resampled, (0.025, 0.975))
    assert (found['miou low'], found['miou high']) == pytest.approx((low, high), abs=0.15 * (high - low))


def test_one_image_gives_no_interval():
    """Resamples of it do not vary: an interval of width 0 would look certain."""
    matrices = np.zeros((3, 5, 5), int)
    matrices[:, :2, :2] = [[[3, 1], [0, 4]], [[5, 0], [2, 3]], [[1, 4], [2, 2]]]
    matrices[0, 2, 2] = 7  # class 2 in one image
    matrices[0, 3, 3], matrices[1, 0, 3] = 1, 2  # class 3 in the labels of one, in the predictions of another
    metric = _of(matrices)
    low, high = (metric.class_figures()[end] for end in ('low', 'high'))
    assert [end is None for end in low] == [end is None for end in high] == [False, False, True, False, True]
    assert low[0] < high[0] and low[3] == 0 and high[3] == 1
    assert metric.result()['miou low'] < metric.result()['miou high']
    alone = _of(matrices[:1])
    assert {*alone.result().values(), *alone.class_figures()['low'], *alone.class_figures()['high']} == {None}


def test_images_without_a_label_are_no_images():
    matrices = _images(np.random.default_rng(5), 9)
    more = np.concatenate([np.zeros((3, 3, 3), int), matrices])
    assert _of(more).result() == _of(matrices).result()
    nothing = _of(more[:3])
    assert (set(nothing.result().values()), set(nothing.class_figures()['low'])) == ({None}, {None})


def test_the_seed_decides_and_the_order_does_not(monkeypatch):
    matrices = _images(np.random.default_rng(6), 30)
    found = _of(matrices).result()
    assert _of(matrices[::-1]).result() == found
    assert _of(matrices, bootstrap_seed=1).result() != found
    monkeypatch.setattr(intervals, '_MOST_DRAWS', 100)  # three resamples at a time
    assert _of(matrices).result() == found
