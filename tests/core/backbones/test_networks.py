"""Laws that every backbone obeys."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import feature_extractor, layers
from deeplab.core.backbones import mobilenet_v2, registry, xception
from deeplab.errors import OptionError
from deeplab.options import ModelOptions
from tests.parity import goldens

_QUICK = ('mobilenet_v2', 'xception_41', 'resnet_v1_18')
_SIZE = 65  # 32 * 2 + 1: every stride finds a centre


def _features(name, output_stride, **arguments):
    """Features of a random image with the goldens' weights."""
    options = ModelOptions({'semantic': 3}, model_variant=name, output_stride=output_stride, **arguments)
    image = np.random.RandomState(0).uniform(0, 255, [1, _SIZE, _SIZE, 3]).astype(np.float32)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with layers.mode_scope(is_training=False, fine_tune_batch_norm=False):
            features, _ = feature_extractor.extract_features(tf.constant(image), options)
        variables = tf.compat.v1.model_variables()
        session.run([v.initializer for v in variables], goldens.initial_values(variables, 1.5))
        return session.run(features)


def _families():
    return [name if name in _QUICK else pytest.param(name, marks=pytest.mark.slow) for name in registry.names()]


@pytest.mark.parametrize('name', _families())
def test_dense_features_contain_the_strided_ones(name):
    backbone = registry.get(name)
    if name.startswith('nas_'):
        pytest.skip('searched cells resize their inputs to each other')
    if name.startswith('mobilenet_v3'):
        pytest.skip('gates average over a denser map; test_mobilenets.py holds the law without them')
    strides = sorted(set(backbone.output_strides) & {8, 16, 32})[:2]
    dense, strided = (_features(name, stride) for stride in strides)
    assert strided.std() > 0.01
    np.testing.assert_allclose(dense[:, ::2, ::2], strided, rtol=0, atol=1e-4 * strided.std())


@pytest.mark.parametrize(
    ('channels', 'multiplier', 'expected'),
    [(24, 1.0, 24), (24, 0.5, 12), (32, 0.35, 11), (16, 0.35, 6), (320, 1.4, 448), (32, 1.3, 42)],
)
def test_channels_under_a_depth_multiplier(channels, multiplier, expected):
    options = ModelOptions({'semantic': 3}, depth_multiplier=multiplier)
    assert mobilenet_v2.scaled_channels(channels, options) == expected


def _tiny_xception(**arguments):
    """Features of an Xception of two narrow blocks, output stride 8 made dense from 16."""
    options = ModelOptions({'semantic': 3}, model_variant='xception_41', output_stride=4, **arguments)
    blocks = (
        xception.Block('entry_flow/block1', (4, 4, 4), stride=2),
        xception.Block('middle_flow/block1', (4, 4, 4), shortcut='sum'),
        xception.Block('exit_flow/block1', (4, 4, 4), stride=2),
        xception.Block('exit_flow/block2', (4, 4, 4), shortcut='none', inner_activation=True, multi_grid=True),
    )
    images = np.random.RandomState(0).uniform(-9, 9, [1, 33, 33, 3]).astype(np.float32)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        features, end_points = xception.build(tf.constant(images), options, scope='x', blocks=blocks)
        variables = tf.compat.v1.model_variables()
        session.run([v.initializer for v in variables], goldens.initial_values(variables, 3.0))
        return session.run([features, end_points['middle_flow/block1/unit_1/xception_module']])


def test_multi_grid_multiplies_the_last_rates():
    plain, same, other = (_tiny_xception(multi_grid=grid)[0] for grid in (None, (1, 1, 1), (1, 2, 4)))
    assert plain.shape == (1, 9, 9, 4)
    np.testing.assert_array_equal(plain, same)
    assert np.abs(plain - other).max() > 0.1 * plain.std()


def test_multi_grid_of_the_wrong_length():
    with pytest.raises(OptionError, match='--multi_grid=1,2 has 2 numbers; xception_41 needs 3'):
        _tiny_xception(multi_grid=(1, 2))


def test_bounded_activations():
    _, free = _tiny_xception()
    _, bounded = _tiny_xception(use_bounded_activation=True)
    assert free.min() < 0 and free.max() > 6
    assert bounded.min() == 0 and bounded.max() <= 6
