"""CifarNet: the same figures as a NumPy twin, first values, weight decay, types."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import classifier, layers, weight_decays
from deeplab.core.backbones import cifarnet
from deeplab.options import ModelOptions
from tests.helpers import given_weights
from tests.helpers.numpy_layers import conv, dense, max_pool

OPTIONS = ModelOptions({'semantic': 10}, model_variant='cifarnet', output_stride=4)


def build(images, is_training=False, **mode):
    with layers.mode_scope(is_training=is_training, fine_tune_batch_norm=False, **mode):
        features, end_points = cifarnet.build(tf.convert_to_tensor(images), OPTIONS)
        return classifier.logits(features, end_points, OPTIONS, 10)


def normalized(values):
    """Each value divided by (1 + 0.001 / 9 * the squares' sum over up to nine channels) ** 0.75."""
    channels = values.shape[-1]
    squares = np.pad(values**2, [(0, 0)] * 3 + [(4, 4)])
    sums = sum(squares[..., i : i + channels] for i in range(9))
    return values / (1 + 0.001 / 9 * sums) ** 0.75


def test_the_same_figures_as_a_twin():
    images = 100 * np.random.default_rng(0).normal(size=[2, 32, 35, 3]).astype(np.float32)
    with given_weights.network() as network:
        logits = network.run(build(images))
    weights = {name: given_weights.some_value(name, shape) for name, shape in network.shapes.items()}
    net = normalized(max_pool(conv(images, weights, 'CifarNet/conv1')))
    assert (net < 0.8 * max_pool(conv(images, weights, 'CifarNet/conv1'))).any()  # so that the law shows
    net = max_pool(normalized(conv(net, weights, 'CifarNet/conv2')))
    for layer in ('fc3', 'fc4'):
        net = np.maximum(dense(net, weights, f'CifarNet/{layer}'), 0)
    expected = dense(net, weights, 'CifarNet/logits')
    np.testing.assert_allclose(logits[:, 0, 0], expected, rtol=0, atol=1e-4 * expected.std())


def test_names_shapes_first_values_and_weight_decay():
    with given_weights.network() as network:
        build(np.zeros([1, 32, 32, 3], np.float32), weight_decay=0.5)
        assert weight_decays.factors() == {'CifarNet/fc3/weights': 0.5, 'CifarNet/fc4/weights': 0.5}
        first = network.run({name: value(network.shapes[name]) for name, value in network.initializers.items()})
    weights = {
        'conv1': ([5, 5, 3, 64], 0.05, 0.0),
        'conv2': ([5, 5, 64, 64], 0.05, 0.0),
        'fc3': ([8 * 8 * 64, 384], 0.04, 0.1),
        'fc4': ([384, 192], 0.04, 0.1),
        'logits': ([192, 10], 1 / 192, 0.0),
    }
    assert network.trained == {f'CifarNet/{layer}/{kind}' for layer in weights for kind in ('weights', 'biases')}
    for layer, (shape, deviation, bias) in weights.items():
        assert network.shapes[f'CifarNet/{layer}/weights'] == shape
        # A unit normal that is truncated at two has the standard deviation 0.8796.
        assert first[f'CifarNet/{layer}/weights'].std() == pytest.approx(0.8796 * deviation, rel=0.1)
        np.testing.assert_array_equal(first[f'CifarNet/{layer}/biases'], np.full(shape[-1], bias, np.float32))


def test_dropout_between_the_fully_connected_layers():
    images = np.random.default_rng(0).normal(size=[1, 8, 8, 3]).astype(np.float32)
    with given_weights.network() as network:
        tensors = [build(images), build(images, is_training=True)]
        assert [op.inputs[0].op.name for op in network.graph.get_operations() if 'SelectV2' in op.type]
        predicted, trained = network.run(tensors)
    assert np.abs(predicted - trained).max() > 0.01 * predicted.std()


def test_short_types():
    images = np.random.default_rng(0).normal(size=[1, 8, 8, 3]).astype(np.float32)
    with given_weights.network() as network:
        expected, short = network.run([build(images), build(tf.cast(images, tf.bfloat16))])
    assert short.dtype == np.float32
    np.testing.assert_allclose(short, expected, rtol=0, atol=0.05 * expected.std())
