"""The inference engines: parity with TensorFlow, and what they report.

Covers inference/runtimes/openvino.py, inference/runtimes/onnxruntime.py, inference/runtimes/tflite.py,
inference/runtimes/tensorflow.py, inference/runtimes/_calibration.py, inference/exports.py and registry/engines.py.
"""

import logging
import re
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from deeplab.errors import DataError
from deeplab.inference.runtimes import openvino, tflite
from deeplab.inference.runtimes._calibration import full_range
from deeplab.registry import ENGINES, Execution, FrozenGraph
from deeplab.system import packages

ENGINE_NAMES = ('openvino', 'onnxruntime', 'tflite')


def _graph(build, shape=(1, 5, 7, 3)):
    """A frozen graph of images to scores [n, h, w, classes]."""
    with tf.Graph().as_default() as graph:
        images = tf.compat.v1.placeholder(tf.float32, shape, name='images')
        scores = build(images)
        tf.argmax(scores, axis=3, output_type=tf.int32, name='labels')
        tf.nn.softmax(scores, name='probabilities')
    return FrozenGraph(graph.as_graph_def(), 'images:0', 'labels:0', 'probabilities:0', shape, 3)


def _skip_without(engine):
    if missing := packages.missing(ENGINES.get(engine).requires):  # importing them here would load their telemetry
        pytest.skip(f'{missing} are not installed')


def test_the_types_in_which_openvino_computes_are_those_of_the_processor(monkeypatch):
    core = types.SimpleNamespace(get_property=lambda *_: ['FP32', 'BF16', 'INT8'])
    monkeypatch.setattr(openvino, 'package', lambda: types.SimpleNamespace(Core=lambda: core))
    assert openvino.precisions() == ('float32', 'bfloat16', 'int8')


@pytest.mark.parametrize('engine', ENGINE_NAMES)
def test_operations_of_our_networks_give_the_same(engine, tmp_path, caplog, capfd):
    """Corner-aligned resizing, atrous and strided depthwise convolutions, mean, padding, argmax of ties."""
    _skip_without(engine)
    random = np.random.default_rng(3)
    kernel = random.normal(size=(3, 3, 3, 2)).astype(np.float32)

    def build(images):
        net = tf.nn.depthwise_conv2d(images / 255, kernel, [1, 1, 1, 1], 'SAME', dilations=[2, 2])  # [1, 9, 13, 6]
        net = tf.nn.relu6(tf.pad(net, [[0, 0], [1, 1], [1, 1], [0, 0]]))
        net = tf.nn.conv2d(net, random.normal(size=(3, 3, 6, 4)).astype(np.float32), 2, 'VALID')  # [1, 5, 7, 4]
        mean = tf.reduce_mean(net, axis=[1, 2], keepdims=True) + net
        net = tf.concat([mean, tf.raw_ops.ResizeNearestNeighbor(images=net, size=[5, 7], align_corners=True)], 3)
        return tf.raw_ops.ResizeBilinear(images=net, size=[17, 33], align_corners=True)

    graph = _graph(build, (1, 9, 13, 3))
    images = random.uniform(0, 255, graph.shape).astype(np.float32)
    with ENGINES.get('tensorflow').open(graph, Execution()) as predict:
        expected = predict(images)
    record = ENGINES.get(engine)
    with caplog.at_level(logging.INFO):
        record.convert(graph, str(tmp_path), Execution())
    assert not caplog.messages  # of converters
    with record.load(str(tmp_path), Execution()) as predict:
        found = predict(images)
        again = predict(images[:, ::-1].copy())
    assert found.labels.dtype == np.int32
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=2e-5)
    assert 'INFO' not in capfd.readouterr().err  # of their C++ code
    assert not np.array_equal(again.labels, found.labels)  # the first result is no view of the engine's memory


def test_tensorflow_lite_in_8_bits_writes_no_lines_of_its_own(tmp_path, capfd):
    """The converter's, and the kernels' of an interpreter that no engine has opened."""
    images = np.random.default_rng(0).uniform(0, 255, (1, 5, 7, 3)).astype(np.float32)

    def configure(converter):
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: [[images]]

    kernel = np.full((1, 1, 3, 2), 0.1, np.float32)
    content = tflite.converted(_graph(lambda net: tf.nn.conv2d(net, kernel, 1, 'SAME')), configure)
    tflite.interpreter_class()(model_content=content).allocate_tensors()
    assert not re.search('fully_quantize|INFO', capfd.readouterr().err)


def test_openvino_in_8_bits_measures_all_images(monkeypatch, tmp_path, capfd):
    """With a stub of NNCF, which a deployment installs for this alone, and of the rest of OpenVINO."""
    given, written = [], []

    def quantize(model, dataset, subset_size, advanced_parameters):
        print('progress')
        assert advanced_parameters == {'overflow_fix': 'enable'}  # in all layers
        given.append((model, dataset, subset_size))
        return 'the model in 8 bits'

    nncf = types.SimpleNamespace(
        Dataset=list,
        quantize=quantize,
        set_log_level=lambda level: None,
        AdvancedQuantizationParameters=dict,
        OverflowFix=types.SimpleNamespace(ENABLE='enable'),
    )
    own = types.SimpleNamespace(save_model=lambda model, path, **settings: written.append((model, settings)))
    monkeypatch.setattr(openvino, 'package', lambda name='openvino': {'nncf': nncf, 'openvino': own}[name])
    monkeypatch.setattr(openvino, 'converted', lambda graph, folder: 'the model')
    images = np.full((3, 1, 3, 4, 3), 7.0, np.float32)
    openvino.convert(None, str(tmp_path), Execution(calibration=lambda: iter(images)))
    ((model, dataset, subset_size),) = given
    assert (model, subset_size) == ('the model', 3)  # NNCF's own default is 300
    np.testing.assert_array_equal(dataset, list(full_range(lambda: iter(images))))
    assert written == [('the model in 8 bits', {'compress_to_fp16': False})]
    assert openvino.in_int8('the model', lambda: iter(images), 'uint8') == 'the model in 8 bits'
    assert {each.dtype for each in given[1][1]} == {np.dtype(np.uint8)}
    assert not capfd.readouterr().out


def test_the_first_image_for_calibration_has_the_full_range():
    given = np.full((2, 1, 3, 4, 3), 7.0, np.float32)  # images [1, 3, 4, 3]
    first, second = full_range(lambda: iter(given), 'uint8')
    assert first.dtype == second.dtype == np.uint8
    assert np.all(first[0, 0, 0] == 0) and np.all(first[0, -1, -1] == 255)
    assert np.sum(first == 7) == 30 and np.all(second == 7) and np.all(given == 7)
    with pytest.raises(DataError, match='no image for calibration'):
        list(full_range(lambda: iter(())))


def test_openvino_reports_nothing_and_leaves_the_log_alone():
    _skip_without('openvino')
    handlers = [*logging.getLogger().handlers]
    assert ENGINES.get('openvino').version()
    assert logging.getLogger().handlers == handlers
    assert 'openvino' in sys.modules and not any(name.startswith('openvino_telemetry') for name in sys.modules)
