"""The network whose logits differ most from the original's, compared with itself in float64: it amplifies rounding."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common, model
from deeplab.core import compute_types, resize, shapes
from tests.parity import goldens, network_options

NAME = 'xception_65_bounded'
BOUND = 1e-3  # of the logits' deviation; a wrong operation differs by a hundred times as much


@pytest.fixture
def float64_layers(monkeypatch):
    """Lets all layers compute in the type of float64 inputs, which TensorFlow's batch norm does not support."""
    fused, as_type, resized = tf.compat.v1.nn.fused_batch_norm, compute_types.as_type, shapes.resize_bilinear

    def batch_norm(inputs, *statistics, is_training):
        if inputs.dtype != tf.float64:
            return fused(inputs, *statistics, is_training=is_training)
        gamma, beta, mean, variance, epsilon = (tf.cast(value, tf.float64) for value in statistics)
        return ((inputs - mean) / tf.sqrt(variance + epsilon) * gamma + beta,)

    def resize_bilinear(images, size):
        if images.dtype != tf.float64:
            return resized(images, size)
        return tf.transpose(resize.bilinear_planes(images, tuple(size)), [1, 2, 3, 0])

    monkeypatch.setattr(tf.compat.v1.nn, 'fused_batch_norm', batch_norm)
    monkeypatch.setattr(shapes, 'resize_bilinear', resize_bilinear)
    monkeypatch.setattr(
        compute_types,
        'as_type',
        lambda values, wanted: values if values.dtype.base_dtype == tf.float64 else as_type(values, wanted),
    )


def _logits(facts, image, compute_type):
    model_options = network_options.model_options(facts['flags'], facts['options'])
    with tf.Graph().as_default():
        images = tf.constant(image[np.newaxis], tf.float32)
        scales = model.multi_scale_logits(images, model_options, mode=model.Mode(compute_type=compute_type))
        variables = tf.compat.v1.model_variables()
        with tf.compat.v1.Session() as session:
            values = goldens.initial_values(variables, facts['options']['gain'])
            session.run([v.initializer for v in variables], values)
            return session.run(scales[common.OUTPUT_TYPE][common.MERGED_LOGITS])


@pytest.mark.long
def test_the_original_is_as_far_from_float64_as_this_network(float64_layers, pytestconfig):
    (golden,) = (found for found in goldens.find(goldens.directory(pytestconfig), 'networks') if found.name == NAME)
    arrays = golden.arrays
    original = arrays[f'logits:{common.MERGED_LOGITS}']
    ours, exact = (_logits(golden.facts, arrays['image'], kind) for kind in (tf.float32, tf.float64))
    assert (ours.dtype, exact.dtype) == (np.float32, np.float64)
    of_ours, of_original = (np.abs(logits - exact) / original.std() for logits in (ours, original))
    assert max(of_ours.max(), of_original.max()) < BOUND
    assert 0.5 < _rms(of_ours) / _rms(of_original) < 2


def _rms(values):
    return np.sqrt(np.mean(np.square(values)))
