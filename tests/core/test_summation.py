"""Sums in a fixed order, and sessions that preserve it."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import sessions, summation

pytestmark = pytest.mark.rewritten


def test_one_tensor_is_its_own_sum():
    with tf.Graph().as_default():
        tensor = tf.constant(1.0)
        assert summation.in_order([tensor]) is tensor


def test_it_adds_from_the_first_to_the_last():
    values = [np.float32(value) for value in (1.0, 1e8, -1e8)]
    with tf.Graph().as_default(), sessions.open_session() as running:
        assert running.run(summation.in_order([tf.constant(value) for value in values])) == 0.0
        assert running.run(summation.in_order([tf.constant(value) for value in values[::-1]])) == 1.0


def _gradient_operations(keeps_sums):
    """The additions that a session really runs where three branches flow back to one tensor."""
    with tf.Graph().as_default(), sessions.open_session(keeps_sums=keeps_sums) as running:
        trunk = tf.tanh(tf.compat.v1.placeholder(tf.float32, [8, 8], 'inputs'))
        weights = [tf.Variable(tf.ones([8, 8])) for _ in range(3)]
        total = tf.add_n([tf.reduce_sum(tf.tanh(trunk @ weight)) for weight in weights])
        gradient = tf.gradients(total, trunk.op.inputs[0], aggregation_method=summation.GRADIENT_AGGREGATION)
        running.run(tf.compat.v1.global_variables_initializer())
        options = tf.compat.v1.RunOptions(output_partition_graphs=True)
        metadata = tf.compat.v1.RunMetadata()
        running.run(gradient, {'inputs:0': np.ones([8, 8], np.float32)}, options, metadata)
        return [node for graph in metadata.partition_graphs for node in graph.node if node.op in ('AddN', 'AddV2')]


def test_a_training_session_adds_in_pairs():
    nodes = _gradient_operations(keeps_sums=True)
    assert nodes
    assert {len([name for name in node.input if not name.startswith('^')]) for node in nodes} == {2}


def test_any_other_session_joins_them():
    """The reason for `keeps_sums`: if TensorFlow stops joining sums, it can be removed."""
    nodes = _gradient_operations(keeps_sums=False)
    assert max(len(node.input) for node in nodes) > 2
