"""Expected calibration error against its definition. Covers core/metrics/_image_counts.py too."""

import json

import numpy as np
import pytest

from deeplab.core.metrics import _image_counts
from deeplab.errors import DataError
from tests.helpers import metric_batches


def _twin(labels, predictions, confidence, bins):
    """Guo et al., equations 3 to 5: bins (a, b] of equal width."""
    keep = labels != 255
    right, shares = (labels == predictions)[keep], confidence[keep].astype(float)
    error, largest = 0.0, 0.0
    for number in range(bins):
        lower, upper = number / bins, (number + 1) / bins
        inside = (shares > lower) & (shares <= upper)
        if inside.any():
            gap = abs(right[inside].mean() - shares[inside].mean())
            error, largest = error + inside.mean() * gap, max(largest, gap)
    return error, largest, shares.mean()


@pytest.mark.parametrize('bins', [1, 10, 15])
def test_against_the_definition(bins, monkeypatch):
    monkeypatch.setattr(_image_counts, '_PIXELS_OF_BLOCK', 100)  # several for each image, and a shorter one
    labels, predictions, inputs = metric_batches.batch(np.random.default_rng(0), 5, [(9, 14), (16, 3)], (17, 17))
    metric = metric_batches.create('calibration', metric_batches.context(5), calibration_bins=bins)
    metric_batches.update(metric, 'calibration', labels, predictions, inputs)
    expected = _twin(labels, predictions, inputs['confidence'], bins)
    assert tuple(metric.result().values()) == pytest.approx(expected, abs=1e-6)


def test_by_hand():
    """Two bins: three pixels of 0.5, one of them right, in the lower one; one of 1.0, right, in the upper one.

    That 1.0 is rounded up, as in some engines.
    """
    metric = metric_batches.create('calibration', metric_batches.context(2), calibration_bins=2)
    labels = np.array([[[0, 1, 1, 0, 255]]])
    confidence = np.array([[[0.5, 0.5, 0.5, np.nextafter(np.float32(1), np.float32(2)), 0.9]]], np.float32)
    metric.update(labels, np.zeros_like(labels), confidence=confidence)
    gap = 0.5 - 1 / 3
    assert metric.result() == {'ece': pytest.approx(0.75 * gap), 'largest': pytest.approx(gap), 'confidence': 0.625}
    (text,) = metric.documents().values()
    lower, upper = json.loads(text)['bins']
    assert lower == {'from': 0.0, 'to': 0.5, 'pixels': 3, 'confidence': 0.5, 'accuracy': pytest.approx(1 / 3)}
    assert (upper['pixels'], upper['confidence'], upper['accuracy']) == (1, 1.0, 1.0)


def test_no_pixel_and_no_probability():
    metric = metric_batches.create('calibration', metric_batches.context(2))
    assert set(metric.result().values()) == {None}
    metric.update(np.array([[[0, 255]]]), np.array([[[0, 0]]]), confidence=np.zeros((1, 1, 2), np.float32))
    assert metric.result() == {'ece': 1.0, 'largest': 1.0, 'confidence': 0.0}


def test_a_probability_that_is_not_a_number_is_refused():
    metric = metric_batches.create('calibration', metric_batches.context(2), calibration_bins=2)
    zeros = np.zeros((1, 1, 2), np.int32)
    with pytest.raises(DataError, match='NaN.*deeplab checkpoint'):
        metric.update(zeros, zeros, confidence=np.array([[[0.5, np.nan]]], np.float32))
