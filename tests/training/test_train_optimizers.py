"""Optimizers, gradient clipping and schedules in trainings of a tiny network."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab import cli, train
from deeplab.cli.words import UsageError
from deeplab.core import sessions
from deeplab.options import LearningRateOptions, OptimizerOptions
from deeplab.registry import OPTIMIZERS
from deeplab.training import training_step
from tests.helpers import training_setup
from tests.helpers.checkpoint_files import values_of

pytestmark = pytest.mark.usefixtures('tiny_network')


def run(data, logdir, steps=1, **changes):
    """The result of a training, and the values of its variables before and after."""
    base = {'learning_rate': LearningRateOptions(base=0.05)}
    chosen = OptimizerOptions().changed(**base, **changes)
    result = train.run(training_setup.options(data, logdir, steps, optimizer=chosen))
    return result, values_of(f'{logdir}/model.ckpt-0'), values_of(result.checkpoint)


# How they decay is in core/test_optimizers.py.
@pytest.mark.parametrize(
    'name', ['adamw', pytest.param('lamb', marks=pytest.mark.slow), pytest.param('lars', marks=pytest.mark.long)]
)
def test_decay_is_in_the_update_and_not_in_the_loss(data, tmp_path, name):
    """Only the weights of convolutions differ (and slots of LARS, which include the decay), and none that is frozen."""
    scopes = ('logits', 'aspp0')
    little, before, without = run(data, tmp_path / 'little', name=name, weight_decay=0.0, trainable_scopes=scopes)
    much, _, decayed = run(data, tmp_path / 'much', name=name, weight_decay=0.5, trainable_scopes=scopes)
    assert much.loss == little.loss
    differ = {key for key in without if (without[key] != decayed[key]).any() and not key.endswith('/LARS')}
    assert differ == {'logits/semantic/weights', 'aspp0/weights'}
    if name == 'adamw':
        for key in differ:
            np.testing.assert_allclose(decayed[key] - without[key], -0.05 * 0.5 * before[key], rtol=1e-3, atol=1e-6)
    changed = {key for key in before if (before[key] != decayed[key]).any()} - {'global_step'}
    assert {key.partition('/')[0] for key in changed} - {'beta1_power', 'beta2_power'} == {'logits', 'aspp0'}


# Of float32, tests/core/test_session.py shows it on a toy.
@pytest.mark.parametrize('precision', [pytest.param('float32', marks=pytest.mark.slow), 'float16'])
def test_clipping_bounds_the_step(data, tmp_path, precision):
    """A step of momentum at rate 1 is the gradient; float16 scales the loss, and the clip must not see that."""
    rate = LearningRateOptions(base=1.0)
    chosen = OptimizerOptions(learning_rate=rate, weight_decay=0.0, clip_gradient_norm=0.01)
    options = training_setup.options(data, tmp_path / 'log', 1, optimizer=chosen, precision=precision)
    slots = [value for name, value in values_of(train.run(options).checkpoint).items() if 'Momentum' in name]
    length = np.sqrt(sum((value.astype(np.float64) ** 2).sum() for value in slots))
    assert length == pytest.approx(0.01, rel=1e-4)


def test_the_new_ones_follow_the_schedule(data, tmp_path):
    with tf.Graph().as_default(), sessions.open_session() as running:
        step = tf.constant(5)
        for name in OPTIMIZERS.names():
            rate = LearningRateOptions('cosine', base=0.2)
            chosen = OptimizerOptions(name, rate, settings={'adam_learning_rate': 0.7})
            options = training_setup.options(data, tmp_path, 10, optimizer=chosen)
            expected = 0.7 if name == 'adam' else 0.1
            assert running.run(
                training_step.learning_rate(options.optimizer, options.number_of_steps, step)
            ) == pytest.approx(expected)


def test_flags(tmp_path):
    words = ['--train_logdir=a', '--dataset_dir=b', '--optimizer=rmsprop', '--rmsprop_decay=0.8']
    words += ['--learning_policy=cosine', '--slow_start_burnin_type=linear', '--clip_gradient_norm=2']
    chosen = cli.options_of('train', words).optimizer
    rate = LearningRateOptions('cosine', slow_start_burnin_type='linear')
    assert chosen == OptimizerOptions().changed(
        name='rmsprop', rmsprop_decay=0.8, learning_rate=rate, clip_gradient_norm=2.0
    )


def test_an_unknown_optimizer_is_told_which_exist():
    with pytest.raises(UsageError) as error:
        cli.options_of('train', ['--train_logdir=a', '--dataset_dir=b', '--optimizer=adams'])
    assert 'adadelta, adagrad, adam, adamw, ftrl, lamb, lars, momentum, rmsprop, scheduled_adam, sgd' in str(
        error.value
    )
