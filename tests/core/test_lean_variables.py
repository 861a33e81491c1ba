"""Lean variables against TensorFlow's own."""

import contextlib

import numpy as np
import tensorflow as tf

from deeplab.core import lean_variables


def _trained(scope):
    """Facts and values of variables that were created in `scope` and trained for a step, and the operations."""
    with tf.Graph().as_default() as graph, scope:
        with tf.device('/device:CPU:0'), tf.compat.v1.variable_scope('net'):
            counter = tf.compat.v1.get_variable('step', [], tf.int64, tf.compat.v1.zeros_initializer(), trainable=False)
            weights = tf.compat.v1.get_variable('weights', [2, 3], initializer=tf.compat.v1.ones_initializer())
        (gradient,) = tf.gradients(tf.reduce_sum(weights * weights), [weights])
        update = tf.compat.v1.train.MomentumOptimizer(0.1, 0.9).apply_gradients([(gradient, weights)], counter)
        variables = tf.compat.v1.global_variables()
        facts = [(v.name, v.op.name, v.device, v.shape.as_list(), v.dtype, v.trainable) for v in variables]
        assert [v.op.name for v in tf.compat.v1.trainable_variables()] == ['net/weights']
        with tf.compat.v1.variable_scope('net', reuse=True):
            assert tf.compat.v1.get_variable('weights', [2, 3]) is weights
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            session.run(update)
            session.run(counter.initializer, {counter.initializer.inputs[1]: 7})
            return facts, session.run(variables), {operation.type for operation in graph.get_operations()}


def test_they_differ_in_nothing_but_their_operations():
    own_facts, own_values, own_operations = _trained(contextlib.nullcontext())
    facts, values, operations = _trained(lean_variables.scope())
    assert facts == own_facts
    for value, own in zip(values, own_values, strict=True):
        np.testing.assert_array_equal(value, own)
    assert own_operations - operations == {'VarIsInitializedOp'}


def test_a_variable_that_begins_with_a_tensor_is_tensorflow_s_own():
    with tf.Graph().as_default() as graph, lean_variables.scope():
        tf.compat.v1.get_variable('first', initializer=tf.constant([1.0, 2.0]))
    assert 'VarIsInitializedOp' in {operation.type for operation in graph.get_operations()}
