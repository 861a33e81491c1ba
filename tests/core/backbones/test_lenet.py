"""LeNet: the same figures as a NumPy twin, first values, weight decay."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import classifier, layers, weight_decays
from deeplab.core.backbones import lenet
from deeplab.options import ModelOptions
from tests.helpers import given_weights
from tests.helpers.numpy_layers import conv, dense, max_pool

OPTIONS = ModelOptions({'semantic': 10}, model_variant='lenet', output_stride=4, input_channels=1)


def build(images, weight_decay=0.0):
    with layers.mode_scope(is_training=False, fine_tune_batch_norm=False, weight_decay=weight_decay):
        features, end_points = lenet.build(tf.constant(images), OPTIONS)
        return classifier.logits(features, end_points, OPTIONS, 10)


@pytest.mark.parametrize('size', [(28, 28), (31, 22)])
def test_the_same_figures_as_a_twin(size):
    images = np.random.default_rng(0).normal(size=[2, *size, 1]).astype(np.float32)
    with given_weights.network() as network:
        logits = network.run(build(images))
    weights = {name: given_weights.some_value(name, shape) for name, shape in network.shapes.items()}
    net = max_pool(conv(images, weights, 'LeNet/conv1'))
    net = max_pool(conv(net, weights, 'LeNet/conv2'))
    net = np.maximum(dense(net, weights, 'LeNet/fc3'), 0)
    expected = dense(net, weights, 'LeNet/fc4')
    np.testing.assert_allclose(logits[:, 0, 0], expected, rtol=0, atol=1e-4 * expected.std())


def test_names_shapes_first_values_and_weight_decay():
    with given_weights.network() as network:
        build(np.zeros([1, 28, 28, 1], np.float32), weight_decay=0.5)
        assert network.shapes == {
            'LeNet/conv1/weights': [5, 5, 1, 32],
            'LeNet/conv1/biases': [32],
            'LeNet/conv2/weights': [5, 5, 32, 64],
            'LeNet/conv2/biases': [64],
            'LeNet/fc3/weights': [7 * 7 * 64, 1024],
            'LeNet/fc3/biases': [1024],
            'LeNet/fc4/weights': [1024, 10],
            'LeNet/fc4/biases': [10],
        }
        assert network.trained == set(network.shapes)
        assert weight_decays.factors() == {name: 0.5 for name in network.shapes if name.endswith('weights')}
        first = network.run({name: value(network.shapes[name]) for name, value in network.initializers.items()})
    for name, value in first.items():
        # A unit normal that is truncated at two has the standard deviation 0.8796.
        expected = 0.1 * 0.8796 if name.endswith('weights') else 0.0
        assert value.std() == pytest.approx(expected, rel=0.1) and abs(value).max() <= 0.2
