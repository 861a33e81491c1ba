"""Learning rates against what the original computes."""

import inspect

import numpy as np
import tensorflow as tf

from deeplab.core import schedules
from deeplab.options import LearningRateOptions
from deeplab.utils import train_utils
from tests.parity import goldens


def pytest_generate_tests(metafunc):
    table = goldens.table(goldens.directory(metafunc.config), 'learning_rates') or []
    metafunc.parametrize('case', table, ids=[str(number) for number in range(len(table))])


def test_graph(case):
    """In the graph: float32 as there, so to the last digits."""
    assert case['arguments'].keys() <= inspect.signature(train_utils.get_model_learning_rate).parameters.keys()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.placeholder(tf.int64, [])
        rate = train_utils.get_model_learning_rate(**case['arguments'], global_step=step)
        assert rate.dtype == tf.float32
        for at, expected in case['learning_rate_at_step'].items():
            np.testing.assert_allclose(session.run(rate, {step: int(at)}), expected, rtol=2e-6, err_msg=at)


def test_pure_function(case):
    """In float64, where the poly policy near its end differs from float32 by what 1 - s / total loses there."""
    arguments = case['arguments']
    options = LearningRateOptions(
        policy=arguments['learning_policy'],
        base=arguments['base_learning_rate'],
        decay_steps=arguments.get('decay_steps'),
        end=arguments.get('end_learning_rate', 0.0),
        power=arguments['learning_power'],
        decay_factor=arguments['learning_rate_decay_factor'],
        decay_step=arguments['learning_rate_decay_step'],
        slow_start_steps=arguments['slow_start_step'],
        slow_start_rate=arguments['slow_start_learning_rate'],
        slow_start_burnin_type=arguments.get('slow_start_burnin_type', 'none'),
    )
    for at, expected in case['learning_rate_at_step'].items():
        rate = schedules.learning_rate(int(at), options, arguments['training_number_of_steps'])
        np.testing.assert_allclose(rate, expected, rtol=1e-5, atol=1e-6 * options.base, err_msg=at)
