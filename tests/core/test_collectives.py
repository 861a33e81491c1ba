"""Sums over devices of one process: values, gradients, several types together."""

import numpy as np
import tensorflow as tf

from deeplab.core import collectives, sessions

PARTS = [np.array(values, np.float32) for values in ([1.0, 2.0, 3.0], [10.0, 20.0, 30.0], [100.0, 200.0, 300.0])]


def over_devices(build):
    """Runs what `build` returns for each of three participants, on devices of their own."""
    with tf.Graph().as_default():
        results = []
        for number in range(3):
            with tf.device(f'/device:CPU:{number}'):
                results.append(build(number, collectives.Participant(collectives.CLONES, 3)))
        with sessions.open_session(cpu_devices=3, keeps_sums=True) as running:
            running.run(tf.compat.v1.global_variables_initializer())
            return running.run(results)


def test_everyone_gets_the_sum():
    sums = over_devices(lambda number, one: one.sum(tf.constant(PARTS[number])))
    np.testing.assert_array_equal(sums, [[111.0, 222.0, 333.0]] * 3)


def test_gradient_is_the_sum_of_the_gradients():
    """The loss of participant k is (k + 1) * sum(x)^2 / 2: all of them together have the gradient 6 * sum(x)."""

    def build(number, one):
        own = tf.constant(PARTS[number])
        total = one.sum(own)
        return tf.gradients((number + 1.0) * tf.reduce_sum(total**2) / 2.0, [own])[0]

    np.testing.assert_allclose(over_devices(build), [6 * sum(PARTS)] * 3, rtol=1e-6)


def test_several_sums_of_a_participant_are_kept_apart():
    def build(number, one):
        return [one.sum(tf.constant(float(number))), one.sum(tf.constant(10.0 * number))]

    assert over_devices(build) == [[3.0, 30.0]] * 3


def test_types_are_added_together():
    def build(number, one):
        tensors = [tf.constant(PARTS[number]), tf.constant(number, tf.int64), tf.constant([[0.5, number]])]
        sums = one.sum_all(tensors)
        assert [(total.dtype, total.shape) for total in sums] == [(each.dtype, each.shape) for each in tensors]
        return sums

    for vector, whole, matrix in over_devices(build):
        np.testing.assert_array_equal(vector, [111.0, 222.0, 333.0])
        assert whole == 3
        np.testing.assert_array_equal(matrix, [[1.5, 3.0]])
    with tf.Graph().as_default() as graph:
        build(0, collectives.Participant(collectives.CLONES, 3))
        assert sum(op.type.startswith('CollectiveReduce') for op in graph.get_operations()) == 2  # one for each type


def test_one_participant_adds_nothing_to_the_graph():
    with tf.Graph().as_default() as graph:
        values = tf.constant(PARTS[0])
        one = collectives.Participant(collectives.CLONES, 1)
        assert one.sum(values) is values
        assert one.sum_all([values])[0] is values
        assert len(graph.get_operations()) == 1
