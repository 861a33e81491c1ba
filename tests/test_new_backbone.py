"""A backbone in one file outside the package: registered, listed, trained, found in its checkpoint, exported."""

import importlib
import json
import sys

import numpy as np
import pytest
import tensorflow as tf

from deeplab import cli
from deeplab.core.backbones import registry
from tests import training_setup

# All that a new network takes: what it is made of, and one record.
FILE = '''
from deeplab.core import layers
from deeplab.core.backbones import densify, registry

FILTERS = (8, 8, 16, 16, 24)


def build(images, options):
    """Five convolutions of stride 2, dense from the output stride on."""
    net, end_points = images, {}
    for i, (stride, rate) in enumerate(densify.densify([2] * len(FILTERS), options.output_stride)):
        net = layers.conv2d(net, FILTERS[i], 3, stride=stride, rate=rate, scope=f'pebble/conv{i}')
        end_points[f'conv{i}'] = net
    return net, end_points


registry.register(
    registry.Backbone(
        name='pebble',
        build=build,
        scope='pebble',
        normalization=registry.SUBTRACT_RGB_MEAN,
        decoder_end_points={4: 'conv1', 8: 'conv2'},
    )
)
'''
NETWORK = ['--model_variant=pebble', '--output_stride=16', '--atrous_rates=2', '--decoder_output_stride=4']
NETWORK += ['--aspp_convs_filters=8', '--decoder_filters=8']


@pytest.fixture
def pebble(tmp_path, monkeypatch):
    """Imports the file; its backbone is gone when the test ends."""
    monkeypatch.setattr(registry, '_backbones', {name: registry.get(name) for name in registry.names()})
    (tmp_path / 'pebble_network.py').write_text(FILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module('pebble_network')
    yield
    del sys.modules['pebble_network']


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
    assert 'pebble' not in registry.names()
