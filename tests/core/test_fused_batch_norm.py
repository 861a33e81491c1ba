"""Batch norms with a number of channels that a processor's kernel computes at full speed."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import fused_batch_norm


def computed(precision, channels, is_moving):
    """Result, gradients of inputs, gamma and beta, and types of operations of a batch norm."""
    random = np.random.default_rng(0)
    values, weights = random.normal(1, 2, (2, 2, 5, 6, channels)).astype(np.float32)
    gamma, beta, mean = random.normal(1, 0.3, (3, channels)).astype(np.float32)
    variance = random.uniform(1, 4, channels).astype(np.float32)
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        given = [tf.constant(each) for each in (values, gamma, beta)]
        moving = (tf.constant(mean), tf.constant(variance)) if is_moving else None
        result = fused_batch_norm.apply(tf.cast(given[0], precision), *given[1:], 1e-3, moving)
        assert result.outputs.dtype == precision and result.outputs.shape == values.shape
        gradients = tf.gradients(tf.reduce_sum(tf.cast(result.outputs, tf.float32) * weights), given)
        types = [operation.type for operation in graph.get_operations()]
        fetches = [tf.cast(result.outputs, tf.float32), result.mean, result.variance, *gradients]
        return session.run(fetches), types


@pytest.mark.parametrize('is_moving', [False, True])
@pytest.mark.parametrize('channels', [3, 24])
def test_added_channels_change_nothing(channels, is_moving):
    found, types = computed(tf.bfloat16, channels, is_moving)
    expected, plain = computed(tf.float32, channels, is_moving)
    assert 'Pad' in types and 'Pad' not in plain
    for values, others in zip(found, expected, strict=True):
        assert values.shape == others.shape
        assert np.abs(values - others).max() < 0.03 * np.abs(others).max()


def test_whole_lanes_stay_as_they_are():
    assert 'Pad' not in computed(tf.bfloat16, 2 * fused_batch_norm.LANES, False)[1]


def test_a_gpu_keeps_its_kernel(monkeypatch):
    monkeypatch.setattr(tf.config, 'list_physical_devices', lambda _: ['GPU'])
    assert 'Pad' not in computed(tf.bfloat16, 24, False)[1]
