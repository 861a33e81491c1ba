"""Histograms of probabilities.

Covers core/metrics/_thresholds.py.
"""

import numpy as np
import pytest

from deeplab.core.metrics import _thresholds
from deeplab.errors import DataError


def test_a_bin_begins_at_its_threshold():
    every = np.arange(_thresholds.BINS, dtype=np.float32) / np.float32(_thresholds.BINS)
    np.testing.assert_array_equal(_thresholds.bins(every), np.arange(_thresholds.BINS))
    below = np.nextafter(every[1:], np.float32(0))
    np.testing.assert_array_equal(_thresholds.bins(below), np.arange(_thresholds.BINS - 1))
    assert _thresholds.bins(np.array([1.0, 1.0001, -1e-9, 0.5], np.float32)).tolist() == [1023, 1023, 0, 512]
    with pytest.raises(DataError, match='NaN'):
        _thresholds.bins(np.array([0.5, np.nan]))


def test_counts_at_every_threshold():
    probabilities = np.random.default_rng(0).random((9, 11)).astype(np.float32)
    counts = _thresholds.histogram(_thresholds.bins(probabilities))
    assert counts.sum() == 99
    expected = [(probabilities >= k / _thresholds.BINS).sum() for k in range(_thresholds.BINS)]
    np.testing.assert_array_equal(_thresholds.at_least(np.stack([counts, 0 * counts])), [expected, np.zeros(1024)])


def test_the_best_of_equal_scores_is_the_one_nearest_to_a_half():
    scores = np.zeros(_thresholds.BINS)
    scores[100:400] = 0.5
    assert _thresholds.best(scores) == 399
    scores[450:800] = 0.5
    assert _thresholds.best(scores) == 512
    scores[3] = 0.6
    assert _thresholds.best(scores) == 3
    scores[0] = 1.0  # every pixel
    assert _thresholds.best(scores) == 3
    scores[:] = np.nan
    assert _thresholds.best(scores) is None
    scores[1020] = 0.0
    assert _thresholds.best(scores) == 1020
