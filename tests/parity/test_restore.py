"""Last layers, gradient multipliers and restored variables compared with the original."""

import functools
import types

import pytest

from deeplab.checks import checkpoint_network
from deeplab.options import OptimizerOptions
from deeplab.registry import TASKS
from deeplab.utils import train_utils
from tests.parity import goldens, network_options

pytestmark = pytest.mark.rewritten


def pytest_generate_tests(metafunc):
    table = goldens.table(goldens.directory(metafunc.config), 'restore') or []
    names = [f'{number}-{row["model_variant"]}' for number, row in enumerate(table)]
    metafunc.parametrize('row', table, ids=names)


@functools.cache
def variables_of(variant, decoder_output_stride):
    """The names of a network's model variables, and its global step; several rows share one."""
    flags, options = [f'--model_variant={variant}'], {}
    if decoder_output_stride:
        flags.append(f'--decoder_output_stride={decoder_output_stride}')
        options['atrous_rates'] = (6, 12, 18)
    network = network_options.model_options(flags, options)
    names = [*checkpoint_network.network_shapes(network), 'global_step']
    *variables, step = [types.SimpleNamespace(op=types.SimpleNamespace(name=name)) for name in names]
    return variables, step


def test_row(row):
    variables, step = variables_of(row['model_variant'], row['decoder_output_stride'])
    options = OptimizerOptions(last_layers_contain_logits_only=row['last_layers_contain_logits_only'])
    scopes = options.last_layer_scopes
    # Scopes of tasks that the original does not have follow; no variable of its networks has their names.
    assert [scope for scope in scopes if scope not in TASKS.branch_scopes()] == row['extra_layer_scopes']
    multipliers = train_utils.get_model_gradient_multipliers(scopes, 10.0, variables)
    assert multipliers == row['gradient_multipliers_for_last_layer_10']
    everything = [*variables, step]
    restored = train_utils.variables_to_restore(everything, row['initialize_last_layer'], scopes)
    assert len(restored) == row['restored_count']
    left_out = {v.op.name for v in variables} - {v.op.name for v in restored}
    assert left_out == set(row['not_restored'])
