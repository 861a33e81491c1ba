"""Variables with weight decay compared with the original."""

import pytest
import tensorflow as tf

from deeplab import model
from deeplab.core import weight_decays
from tests.helpers import given_weights
from tests.parity import goldens, network_options

pytestmark = pytest.mark.rewritten

# Of the same layers as a smaller one; test_nas.py shows the decay of searched cells.
SAME_LAYERS = ('nas_pnasnet', 'resnet_v1_50_beta')


def pytest_generate_tests(metafunc):
    if 'row' in metafunc.fixturenames:
        table = goldens.table(goldens.directory(metafunc.config), 'weight_decay') or {}
        every = metafunc.config.getoption('--goldens')  # whoever names a folder wants all of it
        cases = []
        for name, row in table.items():
            marks = [pytest.mark.slow] if name in SAME_LAYERS and not every else []
            cases.append(pytest.param(row, marks=marks, id=name))
        metafunc.parametrize('row', cases)


def _variable_name(kernel: str) -> str:
    """The original's layer names end in /kernel; the variables behind them in /weights."""
    return kernel.removesuffix('kernel') + 'weights'


def _decayed(losses) -> set[str]:
    """Names of the variables whose half squared sums are the regularization losses."""
    names = set()
    for loss in losses:
        pending = [loss.op]
        while pending:
            op = pending.pop()
            if op.type in ('VarHandleOp', 'Placeholder'):
                names.add(op.name)
            pending += [tensor.op for tensor in op.inputs]
    return names


def test_terms(row):
    options = network_options.model_options(row['flags'], row['options'])
    with given_weights.network():
        images = tf.zeros([1, 129, 129, 3])
        model.multi_scale_logits(images, options, mode=model.Mode(True, weight_decay=4e-5))
        losses = tf.compat.v1.losses.get_regularization_losses()
        assert len(losses) == len(row['terms'])
        assert _decayed(losses) == {_variable_name(term) for term in row['terms']}
        assert weight_decays.factors() == dict.fromkeys(_decayed(losses), 4e-5)
