"""The original's conversion of a frozen graph, with and without imitated 8-bit rounding."""

import zipfile

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from deeplab import Predictor, cli
from deeplab.errors import CheckpointError, OptionError
from deeplab.inference.runtimes import tflite as engine
from deeplab.options import ConvertOptions
from deeplab.registry import Execution
from tests.helpers import predictor_setup

_KERNEL = np.random.default_rng(0).normal(size=(3, 3, 3, 4)).astype(np.float32)


_MEAN = (123.15, 115.90, 103.06)  # of ResNets


def _graph(path, is_quantized=False, scope='MobilenetV2', scale=2 / 255, offset=(1, 1, 1), largest=1.0):
    """Writes a frozen graph with the names of an export's tensors; returns its path."""
    with tf.Graph().as_default() as graph:
        image = tf.compat.v1.placeholder(tf.uint8, [1, None, None, 3], name='ImageTensor')
        net = tf.reshape(tf.cast(image, tf.float32) * scale - tf.constant(offset, tf.float32), [1, 17, 33, 3])
        net = tf.identity(net, name=f'{scope}/{scope}/input')
        kernel = tf.constant(_KERNEL / largest)
        if is_quantized:
            net = tf.quantization.fake_quant_with_min_max_args(net, -largest, largest)
            ends = -3 / largest, 3 / largest
            kernel = tf.quantization.fake_quant_with_min_max_args(kernel, *ends, narrow_range=True)
        net = tf.nn.relu6(tf.nn.conv2d(net, kernel, 1, 'SAME'))
        if is_quantized:
            net = tf.quantization.fake_quant_with_min_max_args(net, 0, 6)
        tf.argmax(net, axis=3, output_type=tf.int32, name='ArgMax')
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return str(path)


@pytest.mark.parametrize('is_quantized', [False, True])
def test_an_old_line(is_quantized, tmp_path, capsys):
    Image.fromarray(predictor_setup.pixels(40, 50)).save(tmp_path / 'photo.png')
    path = str(tmp_path / 'out' / 'model.tflite')
    words = [
        f'--quantized_graph_def_path={_graph(tmp_path / "g.pb", is_quantized)}',
        f'--output_tflite_path={path}',
        '--input_tensor_name=MobilenetV2/MobilenetV2/input:0',
        f'--test_image_path={tmp_path}/photo.png',
    ]
    assert cli.main(['convert_to_tflite', *words]) == 0
    said = capsys.readouterr().out
    assert ('8-bit' in said) == is_quantized and 'of the labels' in said
    assert cli.main(['convert_to_tflite', *words]) == 0  # its own file is replaced
    interpreter = engine.interpreter_class()(path)
    kinds = {details['dtype'] for details in interpreter.get_tensor_details()}
    assert bool({np.int8, np.uint8} & kinds) == is_quantized
    floats = [details for details in interpreter.get_tensor_details() if details['dtype'] == np.float32]
    assert bool(floats) != is_quantized  # all is computed in integers
    image, *_ = interpreter.get_input_details()
    if is_quantized:  # as in the original, the pixels themselves
        assert 'uint8 [1, 17, 33, 3], pixels from 0 to 255' in said
        assert image['dtype'] == np.uint8 and image['quantization'] == (pytest.approx(2 / 255), 128)
    else:
        assert 'float32 [1, 17, 33, 3], normalized to -1 to 1' in said and image['dtype'] == np.float32
    with engine.load(path, Execution()) as predict:
        images = np.random.default_rng(1).uniform(0, 255, (1, 17, 33, 3)).astype(np.float32)
        expected = _labels(images[0] * np.float32(2 / 255) - 1)
        assert np.mean(predict(images).labels == expected) > (0.9 if is_quantized else 0.999)
    _without_metadata(path)
    pixels = predictor_setup.pixels(17, 33)
    with Predictor.from_export(path) as predictor:  # as a model of the original
        expected = _labels(pixels * np.float32(2 / 255) - 1)
        assert np.mean(predictor(pixels).labels == expected) > (0.9 if is_quantized else 0.999)


def _without_metadata(path):
    """Cuts off what follows a model in its file."""
    with zipfile.ZipFile(path) as archive:
        end = min(each.header_offset for each in archive.infolist())
    with open(path, 'r+b') as file:
        file.truncate(end)


def test_a_network_that_subtracts_a_mean_pixel(tmp_path, capsys):
    """Its range is found in the graph, and `Predictor` normalizes images so."""
    pixels = predictor_setup.pixels(17, 33)
    photo, path = tmp_path / 'photo.png', tmp_path / 'model.tflite'
    Image.fromarray(pixels).save(photo)
    graph = _graph(tmp_path / 'g.pb', True, 'resnet_v1_50', 1.0, _MEAN, 152)
    words = [f'--quantized_graph_def_path={graph}', f'--output_tflite_path={path}', f'--test_image_path={photo}']
    assert cli.main(['convert_to_tflite', *words]) == 0
    said = capsys.readouterr().out
    assert all(ends in said for ends in ('-123.15 to 131.85', '-103.06 to 151.94'))
    with Predictor.from_export(path) as predictor:
        assert np.mean(predictor(pixels).labels == _labels(pixels - np.float32(_MEAN), 152)) > 0.9


def _labels(image, largest=1.0):
    """What the network of `_graph` predicts for a normalized image."""
    return tf.argmax(tf.nn.relu6(tf.nn.conv2d(image[np.newaxis], _KERNEL / largest, 1, 'SAME')), axis=3)[0]


def test_what_is_refused(tmp_path):
    from deeplab import convert_to_tflite

    Image.fromarray(predictor_setup.pixels(4, 5)).save(tmp_path / 'photo.png')
    assert convert_to_tflite._read(str(tmp_path / 'photo.png'), 1).mode == 'L'
    with pytest.raises(OptionError, match=r'test_image_path=.*photo\.png.* 4 channels.*Omit it'):
        convert_to_tflite._read(str(tmp_path / 'photo.png'), 4)
    path, target = _graph(tmp_path / 'g.pb'), tmp_path / 'model.tflite'
    for changes, kind, parts in (
        ({'input_tensor_name': 'nothing:0'}, CheckpointError, ('nothing:0', 'MobilenetV2/MobilenetV2/input:0')),
        ({'input_tensor_name': 'ImageTensor:0'}, CheckpointError, ('ImageTensor:0', 'shape')),
        ({'output_tensor_name': 'Nothing'}, CheckpointError, ('Nothing',)),
        ({'quantized_graph_def_path': __file__}, CheckpointError, ('cannot be read',)),
        ({'quantized_graph_def_path': 'gone.pb'}, CheckpointError, ("'gone.pb' cannot be read (No such file",)),
    ):
        options = ConvertOptions(**{'quantized_graph_def_path': path, 'output_tflite_path': str(target)} | changes)
        with pytest.raises(kind) as caught:
            convert_to_tflite.run(options)
        assert all(part in str(caught.value) for part in parts)
    target.write_text('a letter')
    with pytest.raises(OptionError, match='is not a TensorFlow Lite model'):
        convert_to_tflite.run(ConvertOptions(path, str(target)))
    assert target.read_text() == 'a letter'
