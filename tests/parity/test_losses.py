"""Losses of given logits and labels compared with those of the original.

Covers core/scale_losses.py.
"""

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common
from deeplab.options import LossOptions
from deeplab.utils import train_utils
from tests.parity import goldens

pytestmark = pytest.mark.rewritten

IGNORE = 255


def pytest_generate_tests(metafunc):
    folder = goldens.directory(metafunc.config)
    table = goldens.table(folder, 'losses') or []
    metafunc.parametrize('case', table, ids=[str(number) for number in range(len(table))])


@pytest.fixture
def arrays(pytestconfig):
    folder = goldens.directory(pytestconfig)
    path = next(path for path in (folder / 'tables' / 'losses.npz', folder / 'losses.npz') if path.is_file())
    with np.load(path) as content:
        return dict(content)


def test_loss(case, arrays):
    arguments = dict(case['arguments'])
    weights = arguments.pop('loss_weight', None)
    options = LossOptions(label_weights=None if weights is None else tuple(np.atleast_1d(weights)), **arguments)
    labels = np.full_like(arrays['label'], IGNORE) if case.get('all_ignored') else arrays['label']
    losses = train_utils.add_softmax_cross_entropy_loss_for_each_scale(
        {common.MERGED_LOGITS: tf.constant(arrays['logits'])},
        tf.constant(labels),
        IGNORE,
        options,
        tf.constant(case['global_step'], tf.int64),
    )
    assert float(losses[common.MERGED_LOGITS]) == pytest.approx(case['loss'], rel=2e-6, abs=1e-9)
