"""Last layers, gradient multipliers and what an initial checkpoint restores, against the original."""

import pytest
import tensorflow as tf

from deeplab import model
from deeplab.options import OptimizerOptions
from deeplab.utils import train_utils
from tests.parity import goldens, network_options


def pytest_generate_tests(metafunc):
    table = goldens.table(goldens.directory(metafunc.config), 'restore') or []
    names = [f'{number}-{row["model_variant"]}' for number, row in enumerate(table)]
    metafunc.parametrize('row', table, ids=names)


@pytest.fixture
def variables(row):
    """The model variables of a row's network."""
    flags = [f'--model_variant={row["model_variant"]}']
    options = {}
    if row['decoder_output_stride']:
        flags.append(f'--decoder_output_stride={row["decoder_output_stride"]}')
        options['atrous_rates'] = (6, 12, 18)
    with tf.Graph().as_default():
        network = network_options.model_options(flags, options)
        model.multi_scale_logits(tf.zeros([1, 129, 129, 3]), network)
        tf.compat.v1.train.get_or_create_global_step()
        yield tf.compat.v1.model_variables()


def test_row(row, variables):
    options = OptimizerOptions(last_layers_contain_logits_only=row['last_layers_contain_logits_only'])
    scopes = options.last_layer_scopes
    assert list(scopes) == row['extra_layer_scopes']
    multipliers = train_utils.get_model_gradient_multipliers(scopes, 10.0)
    assert multipliers == row['gradient_multipliers_for_last_layer_10']
    everything = [*variables, tf.compat.v1.train.get_global_step()]
    restored = train_utils.variables_to_restore(everything, row['initialize_last_layer'], scopes)
    assert len(restored) == row['restored_count']
    left_out = {v.op.name for v in variables} - {v.op.name for v in restored}
    assert left_out == set(row['not_restored'])
