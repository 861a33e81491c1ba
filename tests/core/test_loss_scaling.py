"""Dynamic loss scaling, alone and in the gated update."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import checkpoints, loss_scaling, sessions
from deeplab.training import training_step
from deeplab.utils import train_utils


def values_of(running):
    return running.run({v.op.name: v for v in tf.compat.v1.global_variables()})


def test_it_halves_on_overflow_and_doubles_after_enough_good_steps(monkeypatch):
    monkeypatch.setattr(loss_scaling, 'STEPS_TO_GROW', 3)
    with tf.Graph().as_default(), sessions.open_session() as running:
        scale = loss_scaling.LossScale()
        grow, shrink = tf.group(scale.grow()), tf.group(scale.shrink(tf.constant(0.5)))
        running.run(tf.compat.v1.global_variables_initializer())
        assert values_of(running) == {'loss_scale/factor': 2.0**15, 'loss_scale/good_steps': 0}
        seen = []
        for operation in (grow, grow, shrink, grow, grow, grow, grow):
            running.run(operation)
            seen.append(tuple(values_of(running).values()))
    small = 2.0**14
    assert seen == [(2.0**15, 1), (2.0**15, 2), (small, 0), (small, 1), (small, 2), (2.0**15, 0), (2.0**15, 1)]


@pytest.mark.parametrize(('first', 'method', 'last'), [(1.5, 'shrink', 1.0), (2.0**24, 'grow', 2.0**24)])
def test_it_has_bounds(monkeypatch, first, method, last):
    monkeypatch.setattr(loss_scaling, 'FIRST_FACTOR', first)
    monkeypatch.setattr(loss_scaling, 'STEPS_TO_GROW', 1)
    with tf.Graph().as_default(), sessions.open_session() as running:
        scale = loss_scaling.LossScale()
        update = tf.group(scale.grow() if method == 'grow' else scale.shrink(tf.constant(0.5)))
        running.run(tf.compat.v1.global_variables_initializer())
        running.run(update)
        assert values_of(running)['loss_scale/factor'] == last


@pytest.mark.parametrize('loss', [np.nan, np.inf, -np.inf])
def test_it_is_not_to_blame_for_a_loss_that_is_not_finite(loss):
    with tf.Graph().as_default(), sessions.open_session() as running:
        scale = loss_scaling.LossScale()
        grow, shrink = tf.group(scale.grow()), tf.group(scale.shrink(tf.constant(loss, tf.float32)))
        blamed = [scale.has_overflowed(tf.constant(value, tf.float32)) for value in (0.5, loss)]
        running.run(tf.compat.v1.global_variables_initializer())
        running.run(grow)
        running.run(shrink)
        assert values_of(running) == {'loss_scale/factor': 2.0**15, 'loss_scale/good_steps': 1}
        assert running.run(blamed) == [True, False]


def test_the_smallest_factor_is_not_to_blame(monkeypatch):
    monkeypatch.setattr(loss_scaling, 'FIRST_FACTOR', 1.0)
    with tf.Graph().as_default(), sessions.open_session() as running:
        blamed = loss_scaling.LossScale().has_overflowed(tf.constant(0.5))
        running.run(tf.compat.v1.global_variables_initializer())
        assert not running.run(blamed)


def test_a_checkpoint_of_another_precision_lacks_it(tmp_path):
    with tf.Graph().as_default(), sessions.open_session() as running:
        tf.compat.v1.get_variable('w', initializer=1.0)
        running.run(tf.compat.v1.global_variables_initializer())
        without = checkpoints.CheckpointWriter(str(tmp_path / 'without')).save(running, 0)
        loss_scaling.LossScale()
        running.run(tf.compat.v1.global_variables_initializer())
        held = checkpoints.CheckpointWriter(str(tmp_path / 'with')).save(running, 0)
        variables = tf.compat.v1.global_variables()
        tf.compat.v1.get_variable('other', initializer=1.0)  # what else is missing stays missing
        everything = tf.compat.v1.global_variables()
    assert [v.op.name for v in train_utils.restorable(everything, without)] == ['w', 'other']
    assert train_utils.restorable(variables, held) == variables


def test_a_gate_that_skips_does_the_other_updates_instead():
    with tf.Graph().as_default(), sessions.open_session() as running:
        step = tf.compat.v1.train.get_or_create_global_step()
        w = tf.compat.v1.get_variable('w', initializer=1.0)
        skipped = tf.compat.v1.get_variable('skipped', initializer=0, trainable=False)
        bad = tf.compat.v1.placeholder(tf.float32, [])
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
        more = training_step.MoreUpdates(skipped=lambda: [skipped.assign_add(1, read_value=False)])
        applied, _ = training_step.gated_update(bad, [(w * bad, w)], optimizer, step, more)
        running.run(tf.compat.v1.global_variables_initializer())
        assert not running.run(applied, {bad: np.inf})
        assert running.run([w, step, skipped]) == [1.0, 0, 1]
        assert running.run(applied, {bad: 0.5})
        assert running.run([w, step, skipped]) == [0.5, 1, 1]
