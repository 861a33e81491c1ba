"""Memory of graphs, counted by hand. A tensor of 1000 float32 is 4000 bytes."""

import tensorflow as tf

from deeplab.core import graph_memory


def _placeholder(size=1000):
    return tf.compat.v1.placeholder(tf.float32, [size])


def test_what_nobody_reads_any_more_is_released():
    with tf.Graph().as_default():
        chain = [tf.roll(_placeholder(), 1, 0)]
        for _ in range(5):
            chain.append(tf.roll(chain[-1], 1, 0))
        assert graph_memory.peak([chain[-1]]) - 2 * 4000 < 100  # one and the next; and the numbers that say how far
        assert 5 * 4000 <= graph_memory.peak(chain[:6]) - 4000 < 5 * 4000 + 100


def test_what_gradients_need_lives_until_they_come():
    with tf.Graph().as_default():
        x = tf.roll(_placeholder(), 1, 0)
        steps = [x]
        for _ in range(4):
            steps.append(tf.sin(steps[-1]))  # its gradient needs its input
        forward = graph_memory.peak([steps[-1]])
        backward = graph_memory.peak(tf.gradients(steps[-1], x))
    assert forward < 3 * 4000
    assert 5 * 4000 <= backward < 8 * 4000


def test_names_and_work_in_place_take_nothing():
    with tf.Graph().as_default():
        x = tf.roll(_placeholder(), 1, 0)
        alone = graph_memory.peak([x])
        y = tf.nn.relu(tf.reshape(tf.identity(x), [10, 100]) + 1.0)
        assert graph_memory.peak([y]) - alone < 100
        assert graph_memory.peak([x, y]) - alone >= 4000  # x is kept: y needs room of its own


def test_variables_constants_and_unknown_sizes_are_left_out():
    with tf.Graph().as_default():
        variable = tf.compat.v1.get_variable('v', [1000])
        unknown = tf.compat.v1.placeholder(tf.float32, [None])
        total = tf.reduce_sum(variable + tf.constant(0.5, shape=[1000])) + tf.reduce_sum(unknown * 2.0)
        assert 4000 <= graph_memory.peak([total]) < 4100
        assert graph_memory.bytes_of(variable) == 4000
