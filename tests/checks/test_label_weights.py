"""Median-frequency class weights against values by hand."""

import numpy as np
import pytest

from deeplab.checks import label_weights


def test_by_hand():
    # Shares where the class occurs: 60 of 100, 30 of 100, 5 of 50 pixels; the median is 0.3.
    weights = label_weights.median_frequency(np.array([60, 30, 5]), np.array([100, 100, 50]))
    np.testing.assert_allclose(weights, [0.5, 1.0, 3.0])


def test_a_class_without_pixels_weighs_nothing_and_leaves_the_median_alone():
    weights = label_weights.median_frequency(np.array([60, 0, 30, 5]), np.array([100, 0, 100, 50]))
    np.testing.assert_allclose(weights, [0.5, 0.0, 1.0, 3.0])


def test_the_heaviest_are_held_back():
    weights = label_weights.median_frequency(np.array([500, 499, 1]), np.array([1000, 1000, 1000]))
    np.testing.assert_allclose(weights, [0.998, 1.0, label_weights.LARGEST_WEIGHT])


def test_no_pixels_at_all():
    with pytest.raises(ValueError, match='no class occurs'):
        label_weights.median_frequency(np.zeros(3, int), np.zeros(3, int))
