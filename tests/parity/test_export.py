"""Exports of every golden, run in a process without this package, compared with the golden."""

import collections
import dataclasses
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from deeplab import export_model
from deeplab.options import ExportOptions, PredictionOptions
from tests import checkpoint_files
from tests.parity import goldens, network_options

AGREEMENT = 0.999  # of the labels
TOLERANCE = 2e-3  # of the probabilities
FEW_PARAMETERS = 1_000_000  # networks with more are left to the slow tests
DEEPER = (
    'nas_hnasnet',
    'resnet_v1_101_beta_os8',
    'xception_65_bounded',
    'xception_71_dpc',
)  # of the same parts as others


def pytest_generate_tests(metafunc):
    if 'golden' in metafunc.fixturenames:
        cases = []
        for golden in goldens.find(goldens.directory(metafunc.config), 'networks'):
            marks = [pytest.mark.slow] if golden.facts['parameters'] >= FEW_PARAMETERS else []
            marks = [pytest.mark.long] if golden.name in DEEPER else marks
            cases.append(pytest.param(golden, id=golden.name, marks=marks))
        metafunc.parametrize('golden', cases)


def _export(facts, folder):
    """Exports a golden's network in both formats; returns their paths."""
    options = facts['options']
    model = network_options.model_options(facts['flags'], options)
    model = dataclasses.replace(model, image_pyramid=options.get('image_pyramid'))
    values = {name: goldens.weights(name, shape, options['gain']) for name, shape in facts['variables']}
    checkpoint = checkpoint_files.write(folder / 'model.ckpt-7', values)
    prediction = PredictionOptions(tuple(options.get('eval_scales', (1.0,))), options.get('flip', False))
    results = [
        export_model.run(
            ExportOptions(model, checkpoint, str(folder / kind), prediction=prediction, export_format=kind)
        )
        for kind in ('frozen_graph', 'saved_model')
    ]
    assert {result.parameters for result in results} == {facts['parameters']}
    return [result.path for result in results]


def _run_elsewhere(image, paths, folder):
    """What another process gets from the exports, by name."""
    np.save(folder / 'image.npy', image)
    program = pathlib.Path(__file__).with_name('exported.py')
    words = [sys.executable, '-I', str(program), str(folder / 'image.npy'), *paths, str(folder / 'outputs.npz')]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    with np.load(folder / 'outputs.npz') as outputs:
        return dict(outputs)


def _stretched(values, new, axis):
    """Resizes `values` to `new` along an axis, linearly, with aligned ends."""
    old = values.shape[axis]
    position = np.linspace(0, old - 1, new)
    lower = np.minimum(position.astype(int), max(old - 2, 0))
    share = (position - lower).reshape([-1 if i == axis else 1 for i in range(values.ndim)])
    upper = np.minimum(lower + 1, old - 1)
    return np.take(values, lower, axis) * (1 - share) + np.take(values, upper, axis) * share


def _probabilities(logits, size):
    """Softmax of logits [1, h, w, classes] that are resized to `size` first."""
    stretched = _stretched(_stretched(logits.astype(np.float64), size[0], 1), size[1], 2)
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


def test_export(golden, tmp_path):
    facts, arrays = golden.facts, golden.arrays
    paths = _export(facts, tmp_path)
    network_input = _check_graph(paths[0])
    if 'mobilenet_v2' in golden.name:
        assert network_input == 'MobilenetV2/MobilenetV2/input'
    outputs = _run_elsewhere(arrays['image'], paths, tmp_path)
    for kind in ('labels', 'saved_labels', 'raw', 'argmax'):
        assert outputs[kind].shape[:1] == (1,)
    assert outputs['labels'].dtype == outputs['saved_labels'].dtype == np.int32
    assert outputs['probabilities'].dtype == outputs['raw'].dtype == np.float32
    np.testing.assert_array_equal(outputs['raw'], outputs['labels'])  # the image is as large as the crop
    for kind in ('labels', 'saved_labels'):
        assert outputs[kind].shape == arrays['labels'].shape
        assert np.mean(outputs[kind] == arrays['labels']) >= AGREEMENT, kind
    if 'logits:merged_logits' in arrays:
        _check_probabilities(arrays, outputs)
    else:
        np.testing.assert_array_equal(outputs['probabilities'].argmax(axis=3), outputs['labels'])
        np.testing.assert_allclose(outputs['probabilities'].sum(axis=3), 1.0, rtol=1e-5)
        np.testing.assert_allclose(outputs['saved_probabilities'], outputs['probabilities'], rtol=0, atol=1e-6)


def _check_probabilities(arrays, outputs):
    """Compares probabilities with the golden's logits."""
    expected = _probabilities(arrays['logits:merged_logits'], arrays['image'].shape[:2])
    for kind in ('probabilities', 'saved_probabilities'):
        np.testing.assert_allclose(outputs[kind], expected, rtol=0, atol=TOLERANCE, err_msg=kind)
