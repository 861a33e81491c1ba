"""Each optimizer against its formula in NumPy, inside the gated update.

Covers registry/optimizers.py and core/optimizers/coupled.py, core/optimizers/decoupled.py,
core/optimizers/_decoupled.py, core/optimizers/further.py.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import sessions
from deeplab.errors import OptionError
from deeplab.options import LearningRateOptions, OptimizerOptions
from deeplab.registry import OPTIMIZERS, Optimizer
from deeplab.training import training_step
from deeplab.utils import train_utils

STEPS = 6
DECAY = 0.3
# Decays; has no decay; has one axis and decays (which no network has); begins at 0, as a beta does.
FIRST = {
    'kernel': np.random.default_rng(1).normal(size=(3, 3, 2, 4)),
    'depthwise': np.random.default_rng(2).normal(size=(3, 3, 2, 1)),
    'vector': np.random.default_rng(3).normal(size=(4,)),
    'zero': np.zeros((2, 3)),
}
DECAYS = {'kernel': DECAY, 'vector': DECAY / 2}
OPTIONS = OptimizerOptions(
    settings={
        'momentum': 0.8,
        'adam_epsilon': 1e-3,
        'rmsprop_decay': 0.7,
        'rmsprop_epsilon': 1e-2,
        'adagrad_initial_accumulator_value': 0.2,
        'adadelta_rho': 0.8,
        'adadelta_epsilon': 0.01,
        'ftrl_initial_accumulator_value': 0.3,
        'ftrl_l1': 0.05,
        'ftrl_l2': 0.02,
        'adam_beta1': 0.8,
        'adam_beta2': 0.99,
    }
)


def rate_of(step):
    return 0.2 / (1 + step)


def gradient_of(name, step):
    """Small gradients for some steps, 0 for one."""
    rng = np.random.default_rng([step, len(name)])
    return rng.normal(size=FIRST[name].shape) * (0.0 if step == 3 else 0.5)


def adam_moments(state, gradient, step):
    state['m'] = 0.9 * state.get('m', 0.0) + 0.1 * gradient
    state['v'] = 0.999 * state.get('v', 0.0) + 0.001 * gradient**2
    return state['m'], state['v'], 1 - 0.9 ** (step + 1), 1 - 0.999 ** (step + 1)


def momentum(w, g, rate, decay, state, step):
    state['a'] = OPTIONS.momentum * state.get('a', 0.0) + g
    return w - rate * state['a']


def adam(w, g, rate, decay, state, step):
    m, v, m_share, v_share = adam_moments(state, g, step)
    return w - rate * v_share**0.5 / m_share * m / (np.sqrt(v) + OPTIONS.adam_epsilon)


def adamw(w, g, rate, decay, state, step):
    return adam(w, g, rate, decay, state, step) - rate * decay * w


def rmsprop(w, g, rate, decay, state, step):
    kept = OPTIONS.rmsprop_decay
    state['square'] = kept * state.get('square', 1.0) + (1 - kept) * g**2
    state['a'] = OPTIONS.momentum * state.get('a', 0.0) + rate * g / np.sqrt(state['square'] + OPTIONS.rmsprop_epsilon)
    return w - state['a']


def lars(w, g, rate, decay, state, step):
    w_norm, g_norm = np.sqrt((w**2).sum()), np.sqrt((g**2).sum())
    trust = 0.001 * w_norm / (g_norm + decay * w_norm) if w.ndim > 1 and w_norm and g_norm else 1.0
    state['a'] = OPTIONS.momentum * state.get('a', 0.0) + rate * trust * (g + decay * w)
    return w - state['a']


def lamb(w, g, rate, decay, state, step):
    m, v, m_share, v_share = adam_moments(state, g, step)
    u = (m / m_share) / (np.sqrt(v / v_share) + OPTIONS.adam_epsilon) + decay * w
    w_norm, u_norm = np.sqrt((w**2).sum()), np.sqrt((u**2).sum())
    return w - rate * (w_norm / u_norm if w.ndim > 1 and w_norm and u_norm else 1.0) * u


def sgd(w, g, rate, decay, state, step):
    return w - rate * g


def adagrad(w, g, rate, decay, state, step):
    state['square'] = state.get('square', 0.2) + g**2
    return w - rate * g / np.sqrt(state['square'])


def adadelta(w, g, rate, decay, state, step):
    state['square'] = 0.8 * state.get('square', 0.0) + 0.2 * g**2
    moved = np.sqrt(state.get('moved', 0.0) + 0.01) / np.sqrt(state['square'] + 0.01) * g
    state['moved'] = 0.8 * state.get('moved', 0.0) + 0.2 * moved**2
    return w - rate * moved


def ftrl(w, g, rate, decay, state, step):
    before = state.get('n', 0.3)
    state['n'] = before + g**2
    state['z'] = state.get('z', 0.0) + g - (np.sqrt(state['n']) - np.sqrt(before)) / rate * w
    shrunk = np.sign(state['z']) * 0.05 - state['z']
    return np.where(np.abs(state['z']) > 0.05, shrunk / (np.sqrt(state['n']) / rate + 2 * 0.02), 0.0)


def scheduled_adam(w, g, rate, decay, state, step):
    state['m'] = 0.8 * state.get('m', 0.0) + 0.2 * g
    state['v'] = 0.99 * state.get('v', 0.0) + 0.01 * g**2
    share = (1 - 0.99 ** (step + 1)) ** 0.5 / (1 - 0.8 ** (step + 1))
    return w - rate * share * state['m'] / (np.sqrt(state['v']) + OPTIONS.adam_epsilon)


TWINS = {
    twin.__name__: twin
    for twin in (momentum, adam, adamw, rmsprop, lars, lamb, sgd, adagrad, adadelta, ftrl, scheduled_adam)
}


def run(name, gradients=gradient_of, decays=DECAYS, steps=STEPS):
    """Values of all variables after each step."""
    with tf.Graph().as_default(), sessions.open_session() as running:
        step = tf.compat.v1.train.get_or_create_global_step()
        variables = {key: tf.compat.v1.get_variable(key, initializer=np.float32(w)) for key, w in FIRST.items()}
        fed = {key: tf.compat.v1.placeholder(tf.float32, w.shape) for key, w in FIRST.items()}
        rate = tf.compat.v1.placeholder(tf.float32, [])
        optimizer = train_utils.make_optimizer(dataclasses.replace(OPTIONS, name=name), rate, decays)
        pairs = [(fed[key], variable) for key, variable in variables.items()]
        applied, _ = training_step.gated_update(tf.constant(0.0), pairs, optimizer, step)
        running.run(tf.compat.v1.global_variables_initializer())
        found = []
        for number in range(steps):
            feeds = {fed[key]: gradients(key, number) for key in FIRST}
            assert running.run(applied, feeds | {rate: rate_of(number)})
            found.append(running.run(variables))
        return found


@pytest.mark.parametrize('name', OPTIMIZERS.names())
def test_follows_its_formula(name):
    weights, states = dict(FIRST), {key: {} for key in FIRST}
    for number, found in enumerate(run(name)):
        for key in FIRST:
            decay = DECAYS.get(key, 0.0)
            weights[key] = TWINS[name](
                weights[key], gradient_of(key, number), rate_of(number), decay, states[key], number
            )
            np.testing.assert_allclose(found[key], weights[key], rtol=2e-4, atol=2e-6, err_msg=f'{key} at {number}')


@pytest.mark.parametrize('name', ['adamw', 'lars', 'lamb'])
def test_without_gradients_only_what_decays_moves(name):
    (found,) = run(name, lambda key, step: np.zeros(FIRST[key].shape), steps=1)
    moved = {key for key, value in found.items() if (value != np.float32(FIRST[key])).any()}
    assert moved == set(DECAYS)


@pytest.mark.parametrize('name', ['lars', 'lamb'])
def test_the_size_of_a_gradient_does_not_matter_to_a_kernel(name):
    """LAMB up to its epsilon, which is small beside such gradients."""
    small, large = (
        run(name, lambda key, step, size=size: size * gradient_of(key, step), decays={}, steps=1)[0]
        for size in (1e5, 1e6)
    )
    np.testing.assert_allclose(small['kernel'], large['kernel'], rtol=1e-4)
    if name == 'lars':
        assert (small['vector'] != large['vector']).all()


def test_adamw_without_decay_is_adam():
    for plain, decoupled in zip(run('adam'), run('adamw', decays={}), strict=True):
        for key in FIRST:
            np.testing.assert_array_equal(plain[key], decoupled[key])


def test_nothing_moves_where_a_gradient_is_not_finite():
    with tf.Graph().as_default(), sessions.open_session() as running:
        step = tf.compat.v1.train.get_or_create_global_step()
        w = tf.compat.v1.get_variable('w', initializer=[[1.0]])
        for name in OPTIMIZERS.names():
            optimizer = train_utils.make_optimizer(
                dataclasses.replace(OPTIONS, name=name), tf.constant(0.1), {'w': 0.1}
            )
            applied, _ = training_step.gated_update(tf.constant(0.0), [(tf.constant([[np.nan]]), w)], optimizer, step)
            running.run(tf.compat.v1.global_variables_initializer())
            before = running.run(tf.compat.v1.global_variables())
            assert not running.run(applied)
            assert running.run(tf.compat.v1.global_variables()) == before


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'name': 'momentun'}, "^name='momentun' is not allowed: did you mean momentum\\? It must be"),
        (
            {'settings': {'rmsprop_decay': 1.0}},
            '^rmsprop_decay=1.0 is not allowed: it must be 0 or more and less than 1',
        ),
        ({'settings': {'rmsprop_epsilon': 0.0}}, '^rmsprop_epsilon=0.0 is not allowed: it must be greater than 0'),
        ({'clip_gradient_norm': 0.0}, '^clip_gradient_norm=0.0 is not allowed: it must be greater than 0'),
    ],
)
def test_bad_options(changes, message):
    with pytest.raises(OptionError, match=message):
        OptimizerOptions(learning_rate=LearningRateOptions(), **changes)


def test_a_learning_rate_parameter_is_one_of_the_parameters():
    with pytest.raises(ValueError, match="'mine' has no parameter 'mine_rate'"):
        Optimizer(name='mine', function=print, learning_rate_parameter='mine_rate')
