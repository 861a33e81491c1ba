"""Normalization of images."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import feature_extractor
from deeplab.registry import Normalization


@pytest.mark.parametrize(
    ('scale', 'offset', 'expected'),
    [
        (1.0, (10.0, 20.0, 30.0), [90, 180, 270, 380]),
        (1.0, (10.0, 20.0, 30.0), [90, 180, 270]),
        (0.5, (10.0, 10.0, 40.0), [40, 90, 110]),  # of which two are equal
        (2.0, (10.0, 10.0, 10.0), [190, 390, 590, 790]),
    ],
)
def test_each_channel_is_scaled_and_then_reduced_by_its_own_offset(scale, offset, expected):
    images = 100.0 * tf.range(1.0, len(expected) + 1)[tf.newaxis, tf.newaxis, tf.newaxis]
    normalized = feature_extractor.normalize(images, Normalization(scale, offset))
    np.testing.assert_allclose(normalized[0, 0, 0], expected)
