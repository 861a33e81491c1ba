"""A backbone in one file outside the package: registered, listed, trained, found in its checkpoint, exported."""

import json

import numpy as np
import pytest
import tensorflow as tf

from deeplab import cli, plugins
from deeplab.registry import BACKBONES
from tests import training_setup
from tests.test_extending import EXAMPLES

NETWORK = ['--model_variant=pebble', '--output_stride=16', '--atrous_rates=2', '--decoder_output_stride=4']
NETWORK += ['--aspp_convs_filters=8', '--decoder_filters=8']


@pytest.fixture
def pebble(tmp_path):
    """Imports the example of docs/extending.md; its backbone is gone when the test ends."""
    file = tmp_path / 'pebble.py'
    file.write_text(EXAMPLES['pebble.py'])
    with BACKBONES.changes_undone():
        plugins.load([str(file)])
        yield


def test_trains_and_exports(pebble, tmp_path):
    data = training_setup.write_data(tmp_path / 'records')
    logdir, exported = tmp_path / 'train', tmp_path / 'graph.pb'
    words = [f'--train_logdir={logdir}', f'--dataset_dir={data.directory}', f'--dataset={data.name}']
    words += ['--train_crop_size=33,65', '--train_batch_size=2', '--training_number_of_steps=2', *NETWORK]
    result = cli.run_program('train', words)
    assert result.step == 2
    assert np.isfinite(result.loss)
    words = [f'--checkpoint_path={logdir}', f'--export_path={exported}', '--num_classes=3', '--crop_size=33,65']
    assert cli.run_program('export_model', [*words, *NETWORK]).global_step == 2
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        tf.graph_util.import_graph_def(tf.compat.v1.GraphDef.FromString(exported.read_bytes()), name='')
        assert not [op for op in graph.get_operations() if op.type.startswith('Var')]
        image = np.random.default_rng(0).integers(0, 256, (1, 21, 50, 3), np.uint8)
        labels = session.run('SemanticPredictions:0', {'ImageTensor:0': image})
    assert labels.shape == (1, 21, 50)
    assert set(np.unique(labels)) <= {0, 1, 2}
    _is_told_from_its_checkpoint(logdir)


def _is_told_from_its_checkpoint(logdir):
    found = json.loads(cli.run_program('checkpoint', [str(logdir), '--json', '--num_classes=3', *NETWORK]).report)
    assert found['network']['model_variant'] == 'pebble'
    assert found['network']['num_classes'] == 3
    assert found['network']['decoder_output_strides'] == [4]
    assert found['against']['fits']


def test_is_listed(pebble):
    """With the padding value of its normalization; denser features cost more."""
    found = json.loads(cli.run_program('networks', ['--model_variant=pebble', '--json']).report)[0]
    assert found['scope'] == 'pebble'
    np.testing.assert_allclose(found['input']['mean_pixel'], (123.15, 115.90, 103.06))
    assert found['costs']['16']['multiply_adds'] < found['costs']['8']['multiply_adds']


def test_is_gone_afterwards():
    assert 'pebble' not in BACKBONES.names()
