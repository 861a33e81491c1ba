"""Exports of every golden, run in a process without this package, compared with the golden."""

import collections
import dataclasses
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from deeplab import export_model
from deeplab.options import ExportOptions, PredictionOptions
from tests.helpers import checkpoint_files, numpy_layers
from tests.parity import goldens, network_options

pytestmark = pytest.mark.rewritten

AGREEMENT = 0.999  # of the labels
TOLERANCE = 2e-3  # of the probabilities
FEW_PARAMETERS = 1_000_000  # networks with more are left to the slow tests
# Of the same parts as others; test_networks.py has their logits.
SAME_PARTS = (
    'mobilenet_v2',
    'mobilenet_v3_large_seg',
    'nas_hnasnet',
    'nas_pnasnet',
    'resnet_v1_101_beta_os8',
    'resnet_v1_50',
    'resnet_v1_50_beta_multi_grid',
    'xception_65_aspp_decoder',
    'xception_65_bounded',
    'xception_71_dpc',
)
# Both formats hold the same frozen graph.
IN_BOTH_FORMATS = ('mobilenet_v2_half_os8', 'mobilenet_v2_multi_scale_flip')


def pytest_generate_tests(metafunc):
    if 'golden' in metafunc.fixturenames:
        cases = []
        for golden in goldens.find(goldens.directory(metafunc.config), 'networks'):
            is_large = golden.facts['parameters'] >= FEW_PARAMETERS or golden.name in IN_BOTH_FORMATS
            marks = [pytest.mark.slow] if is_large else []
            marks = [pytest.mark.long] if golden.name in SAME_PARTS else marks
            cases.append(pytest.param(golden, id=golden.name, marks=marks))
        metafunc.parametrize('golden', cases)


def _export(facts, folder, formats):
    """Exports a golden's network; returns the paths by format."""
    options = facts['options']
    model = network_options.model_options(facts['flags'], options)
    model = dataclasses.replace(model, image_pyramid=options.get('image_pyramid'))
    values = {name: goldens.weights(name, shape, options['gain']) for name, shape in facts['variables']}
    checkpoint = checkpoint_files.write(folder / 'model.ckpt-7', values)
    prediction = PredictionOptions(tuple(options.get('eval_scales', (1.0,))), options.get('flip', False))
    paths = {}
    for kind in formats:
        result = export_model.run(
            ExportOptions(model, checkpoint, str(folder / kind), prediction=prediction, export_format=kind)
        )
        assert result.parameters == facts['parameters']
        paths[kind] = result.path
    return paths


@pytest.fixture(scope='module')
def run_elsewhere(tmp_path_factory):
    """Gives a function that has another process run exports, and returns what it gets, by name."""
    folder = tmp_path_factory.mktemp('elsewhere')
    words = [sys.executable, '-I', str(pathlib.Path(__file__).with_name('exported.py'))]
    with open(folder / 'errors', 'w+') as errors:
        process = subprocess.Popen(
            words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )

        def run(image, paths):
            np.save(folder / 'image.npy', image)
            paths = {**paths, 'image': str(folder / 'image.npy'), 'output': str(folder / 'outputs.npz')}
            print(json.dumps(paths), file=process.stdin, flush=True)
            answer = process.stdout.readline()
            errors.seek(0)
            assert answer == 'done\n', errors.read()
            with np.load(folder / 'outputs.npz') as outputs:
                return dict(outputs)

        with process:
            yield run


def _probabilities(logits, size):
    """Softmax of logits [1, h, w, classes] that are resized to `size` first."""
    stretched = numpy_layers.resized(logits.astype(np.float64), size)
    scores = np.exp(stretched - stretched.max(axis=3, keepdims=True))
    return scores / scores.sum(axis=3, keepdims=True)


def _check_graph(path):
    """Asserts that a frozen graph has plain operations, which any runtime has; returns the network's input's name."""
    graph_def = tf.compat.v1.GraphDef.FromString(pathlib.Path(path).read_bytes())
    kinds = collections.Counter(node.op for node in graph_def.node)
    assert not graph_def.library.function
    assert not [kind for kind in kinds if 'Variable' in kind or 'VarHandle' in kind]
    assert not {'If', 'StatelessIf', 'Switch', 'Merge', 'While', 'PartitionedCall', 'NoOp'} & set(kinds)
    names = {node.name for node in graph_def.node}
    assert 'ArgMax' in names
    (network_input,) = {name for name in names if name.endswith('/input') and len(set(name.split('/')[:-1])) == 1}
    for node in graph_def.node:
        if node.op == 'DepthwiseConv2dNative':
            assert set(node.attr['dilations'].list.i) <= {1}, node.name
    return network_input


def test_export(golden, tmp_path, run_elsewhere):
    facts, arrays = golden.facts, golden.arrays
    formats = ('frozen_graph', 'saved_model') if golden.name in IN_BOTH_FORMATS else ('frozen_graph',)
    paths = _export(facts, tmp_path, formats)
    network_input = _check_graph(paths['frozen_graph'])
    if 'mobilenet_v2' in golden.name:
        assert network_input == 'MobilenetV2/MobilenetV2/input'
    outputs = run_elsewhere(arrays['image'], paths)
    assert outputs['argmax'].shape[:1] == (1,)
    np.testing.assert_array_equal(outputs['raw'], outputs['labels'])  # the image is as large as the crop
    assert outputs['raw'].dtype == np.float32
    for prefix in ('', 'saved_')[: len(formats)]:
        labels, probabilities = (outputs[f'{prefix}{kind}'] for kind in ('labels', 'probabilities'))
        assert (labels.dtype, probabilities.dtype) == (np.int32, np.float32)
        assert labels.shape == arrays['labels'].shape
        assert np.mean(labels == arrays['labels']) >= AGREEMENT, prefix
        if 'logits:merged_logits' in arrays:
            expected = _probabilities(arrays['logits:merged_logits'], arrays['image'].shape[:2])
            np.testing.assert_allclose(probabilities, expected, rtol=0, atol=TOLERANCE, err_msg=prefix)
        else:
            np.testing.assert_array_equal(probabilities.argmax(axis=3), labels)
            np.testing.assert_allclose(probabilities.sum(axis=3), 1.0, rtol=1e-5)
            np.testing.assert_allclose(probabilities, outputs['probabilities'], rtol=0, atol=1e-6)
