"""The gated update, on a toy of one weight."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import sessions
from deeplab.training import training_step
from tests.helpers.toy_training import Toy


class TestGatedUpdate:
    def test_everything_moves_together(self):
        with tf.Graph().as_default(), sessions.open_session() as running:
            toy = Toy([2.0, 3.0])
            assert {v.op.name for v in toy.variables()} == {'w', 'm', 'global_step', 'w/Momentum'}
            toy.initialize(running)
            assert running.run([toy.train_step.is_applied, toy.train_step.loss, toy.train_step.gradient_norm]) == [
                True,
                2.0,
                2.0,
            ]
            assert running.run([toy.w, toy.m, toy.step]) == [0.0, 2.0, 1]

    @pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf])
    def test_nothing_moves_where_something_is_not_finite(self, bad):
        with tf.Graph().as_default(), sessions.open_session() as running:
            toy = Toy([2.0, bad])
            toy.initialize(running)
            running.run(toy.train_step.is_applied)
            before = running.run(toy.variables())
            assert not running.run(toy.train_step.is_applied)
            assert running.run(toy.variables()) == before

    def test_finite_loss_with_infinite_gradient(self):
        with tf.Graph().as_default(), sessions.open_session() as running:
            step = tf.compat.v1.train.get_or_create_global_step()
            w = tf.compat.v1.get_variable('w', initializer=0.0)
            optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
            loss = tf.sqrt(w)
            gradients = [(tf.gradients(loss, w)[0], w)]
            applied, norm = training_step.gated_update(loss, gradients, optimizer, step)
            running.run(tf.compat.v1.global_variables_initializer())
            assert running.run([applied, loss, norm]) == [False, 0.0, np.inf]
            assert running.run([w, step]) == [0.0, 0]

    @pytest.mark.parametrize(('clip_norm', 'share'), [(None, 1.0), (10.0, 1.0), (2.5, 0.5), (0.5, 0.1)])
    def test_clips_all_gradients_by_one_factor_and_reports_the_norm_before(self, clip_norm, share):
        with tf.Graph().as_default(), sessions.open_session() as running:
            step = tf.compat.v1.train.get_or_create_global_step()
            a = tf.compat.v1.get_variable('a', initializer=[0.0, 0.0])
            b = tf.compat.v1.get_variable('b', initializer=0.0)
            gradients = [(tf.constant([3.0, 0.0]), a), (tf.constant(-4.0), b)]
            optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
            applied, norm = training_step.gated_update(
                tf.constant(0.0), gradients, optimizer, step, clip_norm=clip_norm
            )
            running.run(tf.compat.v1.global_variables_initializer())
            assert running.run([applied, norm]) == [True, 5.0]
            np.testing.assert_allclose(running.run(a), [-3.0 * share, 0.0], rtol=1e-6)
            np.testing.assert_allclose(running.run(b), 4.0 * share, rtol=1e-6)

    @pytest.mark.parametrize('bad', [np.nan, np.inf])
    def test_clipping_hides_nothing_that_is_not_finite(self, bad):
        with tf.Graph().as_default(), sessions.open_session() as running:
            step = tf.compat.v1.train.get_or_create_global_step()
            w = tf.compat.v1.get_variable('w', initializer=1.0)
            optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
            gradients = [(tf.constant(bad, tf.float32), w)]
            applied, _ = training_step.gated_update(tf.constant(0.0), gradients, optimizer, step, clip_norm=1.0)
            running.run(tf.compat.v1.global_variables_initializer())
            assert running.run([applied, w, step])[0] is np.False_
            assert running.run([w, step]) == [1.0, 0]

    def test_adam_keeps_the_names_of_its_slots(self):
        with tf.Graph().as_default():
            step = tf.compat.v1.train.get_or_create_global_step()
            with tf.compat.v1.variable_scope('net'):
                w = tf.compat.v1.get_variable('weights', initializer=1.0)
            optimizer = tf.compat.v1.train.AdamOptimizer(0.1)
            training_step.gated_update(w * w, [(tf.gradients(w * w, w)[0], w)], optimizer, step)
            names = {v.op.name for v in tf.compat.v1.global_variables()}
        slots = {'net/weights/Adam', 'net/weights/Adam_1', 'beta1_power', 'beta2_power'}
        assert names == {'global_step', 'net/weights', *slots}
