"""Piecewise-linear activations against NumPy."""

import numpy as np
import tensorflow as tf

from deeplab.core import activations

VALUES = np.array([-9.0, -3.0, -1.5, 0.0, 1.0, 3.0, 8.0], np.float32)


def test_hard_sigmoid_is_flat_outside_plus_minus_three():
    expected = np.array([0.0, 0.0, 0.25, 0.5, 4 / 6, 1.0, 1.0])
    np.testing.assert_allclose(activations.hard_sigmoid(tf.constant(VALUES)), expected, atol=3e-5)


def test_hard_sigmoid_has_the_slope_of_published_checkpoints():
    assert activations.hard_sigmoid(tf.constant(3.0)).numpy() == np.float32(6.0) * np.float32(0.16667)


def test_hard_swish_is_the_identity_beyond_three_and_zero_below_minus_three():
    expected = VALUES * np.clip(VALUES + 3, 0, 6) / 6
    np.testing.assert_allclose(activations.hard_swish(tf.constant(VALUES)), expected, rtol=1e-6)
    assert expected[-1] == 8.0 and expected[0] == 0.0
