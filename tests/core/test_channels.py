"""Numbers of channels: rounding, and depth multipliers of networks."""

import pytest
import tensorflow as tf

from deeplab.core import feature_extractor, layers
from deeplab.core.channels import round_channels, scaled_channels
from deeplab.options import ModelOptions
from tests.helpers import given_weights


@pytest.mark.parametrize(
    ('channels', 'divisor', 'smallest', 'expected'),
    [
        (30, 8, 8, 32),
        (18, 8, 8, 24),  # 16 would be below 90 %
        (20, 8, 8, 24),  # halves go up
        (16.9, 8, 8, 16),
        (1, 8, 8, 8),
        (11.4, 1, 1, 11),
        (0.2, 1, 1, 1),
    ],
)
def test_round_channels(channels, divisor, smallest, expected):
    assert round_channels(channels, divisor, smallest) == expected


@pytest.mark.parametrize(('channels', 'multiplier', 'expected'), [(20, 1.0, 20), (64, 0.5, 32), (24, 0.25, 8)])
def test_scaled_channels(channels, multiplier, expected):
    assert scaled_channels(channels, ModelOptions({'semantic': 3}, depth_multiplier=multiplier)) == expected


def shapes_of(variant, multiplier):
    """Shapes of the weights of a backbone by name, and the channels of its features."""
    options = ModelOptions({'semantic': 3}, model_variant=variant, depth_multiplier=multiplier)
    with given_weights.network() as network, layers.mode_scope(is_training=False, fine_tune_batch_norm=False):
        features, _ = feature_extractor.extract_features(tf.zeros([1, 33, 33, 3]), options)
        return network.shapes, features.shape[-1]


@pytest.mark.parametrize('variant', ['resnet_v1_18', 'resnet_v1_18_beta', 'xception_41'])
def test_half_a_network_has_the_same_layers_with_half_the_channels(variant):
    full, channels = shapes_of(variant, 1.0)
    half, half_channels = shapes_of(variant, 0.5)
    assert half_channels == channels // 2
    assert half.keys() == full.keys()
    for name, shape in full.items():
        if name.endswith('/weights'):
            # The input has three channels; the narrow beta root of 16 keeps at least 8.
            expected = [side if axis == 2 and side == 3 else side / 2 for axis, side in enumerate(shape) if axis > 1]
            assert half[name][2:] == pytest.approx(expected, rel=0.011), name  # 728 / 2 is no multiple of 8
