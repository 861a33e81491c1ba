"""A choice between two branches of a graph."""

import pytest
import tensorflow as tf

from deeplab.core import conditional, sessions


@pytest.mark.parametrize(('is_on', 'result'), [(True, [2.0, 1.0, 0.0]), (False, [7.0, 0.0, 5.0])])
def test_only_the_chosen_branch_runs(is_on, result):
    with tf.Graph().as_default(), sessions.open_session() as running:
        a, b = (tf.compat.v1.get_variable(name, initializer=0.0) for name in 'ab')
        outside = tf.constant(2.0)

        def if_on():
            with tf.control_dependencies([a.assign_add(1.0, read_value=False)]):
                return tf.identity(outside)

        def if_off():
            with tf.control_dependencies([b.assign(5.0, read_value=False)]):
                return tf.constant(7.0)

        fed = tf.compat.v1.placeholder(tf.bool, [])
        chosen = conditional.choose(fed, if_on, if_off)
        untouched = conditional.choose(fed, lambda: outside, lambda: tf.constant(7.0))
        running.run(tf.compat.v1.global_variables_initializer())
        values = running.run([chosen, untouched], {fed: is_on})
        assert values == [result[0], result[0]]
        assert running.run([a, b]) == result[1:]
