"""Learning rates compared with those of the original.

Covers core/learning_policies/decay.py and core/schedules.py.
"""

import inspect

import numpy as np
import pytest
import tensorflow as tf

from deeplab.utils import train_utils
from tests.parity import goldens

pytestmark = pytest.mark.rewritten


def pytest_generate_tests(metafunc):
    table = goldens.table(goldens.directory(metafunc.config), 'learning_rates') or []
    metafunc.parametrize('case', table, ids=[str(number) for number in range(len(table))])


def test_rates(case):
    """In float32 as in the original, so to the last digits."""
    assert case['arguments'].keys() <= inspect.signature(train_utils.get_model_learning_rate).parameters.keys()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.placeholder(tf.int64, [])
        rate = train_utils.get_model_learning_rate(**case['arguments'], global_step=step)
        assert rate.dtype == tf.float32
        for at, expected in case['learning_rate_at_step'].items():
            np.testing.assert_allclose(session.run(rate, {step: int(at)}), expected, rtol=2e-6, err_msg=at)
