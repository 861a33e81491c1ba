"""Export: the graph on images of many sizes, the files, and errors.

The network here is small enough to follow by hand: one weight, class = round(red / 10 * weight), at the pixel itself.

Covers export/export_graph.py, export/tensor_names.py, export/formats/frozen_graph.py, export/formats/saved_model.py,
export/formats/_sessions.py, export/plain.py and options/export.py.
"""

import dataclasses
import json
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from tensorflow.core.protobuf import saved_model_pb2

from deeplab import cli, common, export_model
from deeplab.core import checkpoints, preprocess_utils, sessions
from deeplab.datasets import example
from deeplab.errors import CheckpointError, DataError, OptionError, UserError
from deeplab.export import destinations, export_graph, plain
from deeplab.inference import exports
from deeplab.inference.comparison import compared
from deeplab.options import (
    ConversionOptions,
    DecoderOptions,
    ExportOptions,
    ModelOptions,
    PredictionOptions,
    ResizeOptions,
)
from deeplab.registry import EXPORT_FORMATS, Outputs
from tests.helpers import checkpoint_files, numpy_layers
from tests.helpers.registries import changes_undone

pytestmark = pytest.mark.rewritten

MODEL = ModelOptions({common.OUTPUT_TYPE: 4}, crop_size=(17, 33))
FROZEN_GRAPH = EXPORT_FORMATS.get('frozen_graph')
WEIGHTS = {'weight': np.ones(1, np.float32), 'logits/semantic/weights': np.ones((1, 1, 1, 4), np.float32)}


def _predictions(images, options):
    """Replaces the network; has the names that a real one has."""
    images = tf.identity(images, name='MobilenetV2/MobilenetV2/input')
    weight = tf.compat.v1.get_variable('weight', [1])
    logits = tf.compat.v1.get_variable('logits/semantic/weights', [1, 1, 1, options.num_classes])
    distance = tf.abs(images[..., :1] / 10 * weight - tf.range(options.num_classes, dtype=tf.float32))
    probabilities = tf.nn.softmax(-9 * distance * logits)
    labels = tf.argmax(probabilities, axis=3, output_type=tf.int32)
    return {common.OUTPUT_TYPE: labels, common.OUTPUT_TYPE + common.PROBABILITY_SUFFIX: probabilities}


@pytest.fixture
def small_network(monkeypatch):
    """Replaces real networks by the small one; returns its calls."""
    calls = []

    def predict_labels(images, options, image_pyramid=None, *, native_dilation=None):
        calls.append(('single', image_pyramid, native_dilation))
        return _predictions(images, options)

    def predict_labels_multi_scale(images, options, eval_scales, add_flipped_images=False, *, native_dilation=None):
        calls.append(('multi', tuple(eval_scales), add_flipped_images, native_dilation))
        return _predictions(images, options)

    monkeypatch.setattr('deeplab.model.predict_labels', predict_labels)
    monkeypatch.setattr('deeplab.model.predict_labels_multi_scale', predict_labels_multi_scale)
    return calls


@pytest.fixture
def checkpoint(tmp_path):
    return checkpoint_files.write(tmp_path / 'train' / 'model.ckpt-30', WEIGHTS)


def _options(checkpoint, tmp_path, **changes):
    return ExportOptions(
        **{'model': MODEL, 'checkpoint_path': checkpoint, 'export_path': str(tmp_path / 'out' / 'g.pb')} | changes
    )


def _image(height, width, seed=0):
    """[h, w, 3] uint8 whose red is 1 to 31, never half way between two classes."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3))
    pixels[..., 0] = pixels[..., 0] % 7 * 5 + 1
    return pixels.astype(np.uint8)


def _ids(red):
    return np.minimum(np.rint(red / 10), 3)


def _run(path, image, *names):
    """Runs a frozen graph as its users do."""
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(tf.compat.v1.GraphDef.FromString(pathlib.Path(path).read_bytes()), name='')
        with tf.compat.v1.Session(graph=graph) as session:
            return session.run([f'{name}:0' for name in names], {'ImageTensor:0': image[np.newaxis]})


def _written(tmp_path):
    """What lies in the folder for exports."""
    return sorted(path.name for path in (tmp_path / 'out').iterdir()) if (tmp_path / 'out').exists() else []


# --- The graph -------------------------------------------------------------------------------------------------------


def test_names_types_and_shapes(small_network, checkpoint, tmp_path):
    result = export_model.run(_options(checkpoint, tmp_path))
    with tf.Graph().as_default() as graph:
        graph_def = tf.compat.v1.GraphDef.FromString(pathlib.Path(result.path).read_bytes())
        tf.graph_util.import_graph_def(graph_def, name='')
    facts = {}
    outputs = (export_graph.PREDICTIONS, export_graph.PROBABILITIES)
    raw = (export_graph.RAW_PREDICTIONS, export_graph.RAW_PROBABILITIES)
    for name in (export_graph.IMAGE, *outputs, *raw, 'MobilenetV2/MobilenetV2/input'):
        tensor = graph.get_tensor_by_name(f'{name}:0')
        facts[name] = (tensor.dtype.name, tensor.shape.as_list())
    assert facts == {
        'ImageTensor': ('uint8', [1, None, None, 3]),
        'SemanticPredictions': ('int32', [1, None, None]),
        'SemanticProbabilities': ('float32', [1, None, None, 4]),
        'RawSemanticPredictions': ('float32', [1, 17, 33]),
        'RawSemanticProbabilities': ('float32', [1, 17, 33, 4]),
        'MobilenetV2/MobilenetV2/input': ('float32', [1, 17, 33, 3]),
    }
    assert graph.get_tensor_by_name('ArgMax:0').shape.as_list() == [1, 17, 33]
    kinds = {node.op for node in graph_def.node}
    assert not graph_def.library.function
    assert not kinds & {'If', 'StatelessIf', 'Switch', 'ReadVariableOp', 'VarHandleOp', 'VariableV2'}
    assert small_network == [('single', None, False)]


@pytest.mark.parametrize('size', [(17, 33), (16, 20), (1, 1), (17, 1), (3, 33)])
def test_any_size_up_to_the_crop(size, small_network, checkpoint, tmp_path):
    path = export_model.run(_options(checkpoint, tmp_path)).path
    image = _image(*size)
    labels, probabilities, raw = _run(
        path, image, 'SemanticPredictions', 'SemanticProbabilities', 'RawSemanticPredictions'
    )
    np.testing.assert_array_equal(labels[0], _ids(image[..., 0]))
    np.testing.assert_array_equal(probabilities.argmax(axis=3), labels)
    assert probabilities.shape == (1, *size, 4)
    np.testing.assert_array_equal(raw[:, : size[0], : size[1]], labels)
    padding = raw.copy()
    padding[:, : size[0], : size[1]] = 3
    assert (padding == 3).all()  # padded with 127.5, which MobileNetV2 normalizes to 0


def test_a_larger_image_is_refused_in_words(small_network, checkpoint, tmp_path):
    path = export_model.run(_options(checkpoint, tmp_path)).path
    with pytest.raises(tf.errors.InvalidArgumentError, match='larger than the 17 x 33 pixels .*crop_size.*18.*33'):
        _run(path, _image(18, 33), 'SemanticPredictions')


@pytest.mark.parametrize(
    ('resize', 'size'),
    [
        (ResizeOptions(13, 29, 4), (40, 50)),
        (ResizeOptions(13, 29, None), (9, 80)),
        (ResizeOptions(16, None, None), (31, 45)),
        (ResizeOptions(None, 15, None), (60, 31)),
        (ResizeOptions(13, 33, 16), (8, 10)),
    ],
)
def test_resized_inside_and_back(resize, size, small_network, checkpoint, tmp_path):
    path = export_model.run(_options(checkpoint, tmp_path, resize=resize)).path
    image = np.zeros((*size, 3), np.uint8)
    image[: size[0] // 2, size[1] // 3 :, 0] = 20  # large areas: edges alone depend on rounding
    labels, probabilities, raw = _run(
        path, image, 'SemanticPredictions', 'SemanticProbabilities', 'RawSemanticPredictions'
    )
    inside = preprocess_utils.size_in_range(*size, resize.min_value, resize.max_value, resize.factor)
    seen = _ids(numpy_layers.resized(image[..., :1].astype(float), inside)[..., 0])
    assert np.mean(raw[0, : inside[0], : inside[1]] == seen) > 0.97
    rows, columns = (np.floor(np.linspace(0, inside[i] - 1, size[i]) + 0.5).astype(int) for i in (0, 1))
    expected = raw[0][rows][:, columns]
    assert labels.shape == (1, *size)
    assert np.mean(labels[0] == expected) > 0.97  # halves round differently in float32
    assert np.mean(labels[0] == _ids(image[..., 0])) > 0.75
    with exports.opened(path) as exported:
        assert exported.resizes and exported.size is None
    (raw_probabilities,) = _run(path, image, 'RawSemanticProbabilities')
    twin = numpy_layers.resized(raw_probabilities[0, : inside[0], : inside[1]], size)
    np.testing.assert_allclose(probabilities[0], twin, atol=1e-5)


def test_images_of_16_bits_reach_the_network_as_those_of_8(checkpoint, tmp_path):
    image = _image(16, 20)
    inputs = []
    for bits, values in ((8, image), (16, image.astype(np.uint16) * 257)):
        with tf.Graph().as_default(), sessions.open_session() as running:
            options = _options(checkpoint, tmp_path, image_bits=bits)
            inputs.append(running.run(export_graph._prepare(tf.constant(values[np.newaxis]), options)[0]))
    np.testing.assert_allclose(*inputs, atol=1e-3)


def test_scales_flips_and_pyramid_reach_the_network(small_network, checkpoint, tmp_path):
    prediction = PredictionOptions((0.5, 1.25), True)
    export_model.run(_options(checkpoint, tmp_path, prediction=prediction))
    pyramid = ModelOptions(MODEL.outputs_to_num_classes, MODEL.crop_size, image_pyramid=(0.5, 1.0))
    export_model.run(_options(checkpoint, tmp_path, model=pyramid))
    assert small_network == [('multi', (0.5, 1.25), True, False), ('single', (0.5, 1.0), False)]


def test_a_pyramid_beside_scales_is_left_out_with_a_warning(small_network, checkpoint, tmp_path, caplog):
    pyramid = ModelOptions(MODEL.outputs_to_num_classes, MODEL.crop_size, image_pyramid=(0.5, 1.0))
    prediction = PredictionOptions((0.5,))
    export_model.run(_options(checkpoint, tmp_path, model=pyramid, prediction=prediction))
    assert 'image_pyramid is ignored: it applies only with scales=(1.0,)' in caplog.text


def test_flips_that_do_nothing_are_named(small_network, checkpoint, tmp_path, caplog):
    export_model.run(_options(checkpoint, tmp_path, prediction=PredictionOptions((1.0,), True)))
    assert 'add_flipped_images has no effect with scales=(1.0,)' in caplog.text


# --- The files -------------------------------------------------------------------------------------------------------


def test_saved_model(small_network, checkpoint, tmp_path):
    path = str(tmp_path / 'out' / 'model')
    result = export_model.run(_options(checkpoint, tmp_path, export_path=f'{path}/', export_format='saved_model'))
    assert (result.path, result.parameters, result.agreement) == (path, 5, 1.0)
    signature = tf.saved_model.load(path).signatures['serving_default']
    (inputs,) = signature.structured_input_signature[1].items()
    assert (inputs[0], inputs[1].dtype, inputs[1].shape.as_list()) == ('image', tf.uint8, [1, None, None, 3])
    image = _image(11, 30)
    outputs = signature(image=tf.constant(image[np.newaxis]))
    assert outputs.keys() == {'predictions', 'probabilities'}
    np.testing.assert_array_equal(outputs['predictions'][0], _ids(image[..., 0]))
    assert outputs['probabilities'].shape == (1, 11, 30, 4)


@pytest.mark.parametrize(
    ('resize', 'size', 'red'),
    [(ResizeOptions(), (11, 30), _ids), (ResizeOptions(8, None, None), (5, 7), None)],
)
def test_a_dynamic_batch_predicts_as_single_images(resize, size, red, small_network, checkpoint, tmp_path):
    conversion = ConversionOptions(has_dynamic_batch=True)
    changes = {'conversion': conversion, 'resize': resize, 'save_inference_graph': True}
    result = export_model.run(_options(checkpoint, tmp_path, **changes))
    assert 'ImageTensor:0 uint8 [n, height, width, 3]' in result.report
    assert 'SemanticProbabilities:0 float32 [n, height, width, 4]' in result.report
    assert 'a batch of 3 random' in result.report
    single = export_model.run(_options(checkpoint, tmp_path / 'single', resize=resize)).path
    images = np.stack([_image(*size, seed) for seed in range(3)])
    names = (export_graph.PREDICTIONS, export_graph.PROBABILITIES, export_graph.RAW_PREDICTIONS)
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(
            tf.compat.v1.GraphDef.FromString(pathlib.Path(result.path).read_bytes()), name=''
        )
        assert graph.get_tensor_by_name('ImageTensor:0').shape.as_list() == [None, None, None, 3]
        with tf.compat.v1.Session(graph=graph) as session:
            for number in (3, 1):
                batch = session.run([f'{name}:0' for name in names], {'ImageTensor:0': images[:number]})
                for i in range(number):
                    for values, expected in zip(batch, _run(single, images[i], *names), strict=True):
                        np.testing.assert_array_equal(values[i], expected[0])
    if red is not None:
        np.testing.assert_array_equal(batch[0][0], red(images[0, ..., 0]))


@pytest.mark.slow
def test_a_served_model_takes_batches_of_images_and_of_files(small_network, checkpoint, tmp_path):
    path = str(tmp_path / 'out' / 'model')
    conversion = ConversionOptions(has_dynamic_batch=True, serving_version=2)
    options = _options(checkpoint, tmp_path, export_path=path, formats=('saved_model',), conversion=conversion)
    export_model.run(options)
    signatures = tf.saved_model.load(f'{path}/2').signatures
    for name, side in (('serving_default', None), ('labels', None), ('probabilities', None), ('encoded', 0)):
        (spec,) = signatures[name].structured_input_signature[1].values()
        assert spec.shape.as_list()[:1] == [None], name
        outputs = signatures[name].structured_outputs.values()
        assert all(output.shape[0] is None for output in outputs), name
        assert len(spec.shape) == (4 if side is None else 1)
    images = np.stack([_image(11, 30, seed) for seed in range(2)])
    labels = signatures['labels'](image=tf.constant(images))['predictions']
    np.testing.assert_array_equal(labels, _ids(images[..., 0]))
    files = [tf.io.encode_png(image) for image in images]
    np.testing.assert_array_equal(signatures['encoded'](image_bytes=tf.stack(files))['predictions'], labels)
    with pytest.raises(tf.errors.InvalidArgumentError):  # of another size
        signatures['encoded'](image_bytes=tf.stack([files[0], tf.io.encode_png(_image(10, 30))]))


def test_a_format_that_cannot_be_opened_is_compared_image_by_image(small_network, checkpoint, tmp_path, monkeypatch):
    shapes = []

    def run(path, image):
        shapes.append(image.shape)
        return FROZEN_GRAPH.run(path, image)

    closed = dataclasses.replace(FROZEN_GRAPH, run=run, open=None)
    monkeypatch.setattr(EXPORT_FORMATS, 'get', lambda name: closed)
    conversion = ConversionOptions(has_dynamic_batch=True)
    assert export_model.run(_options(checkpoint, tmp_path, conversion=conversion)).agreement == 1.0
    assert shapes == [(13, 27, 3)] * 3


def test_moving_averages_take_the_place_of_the_weights(small_network, tmp_path, caplog):
    values = {name: value * 0 for name, value in WEIGHTS.items()}
    values |= {f'{name}/ExponentialMovingAverage': value for name, value in WEIGHTS.items()}
    path = checkpoint_files.write(tmp_path / 'train' / 'model.ckpt-30', values)
    image = _image(17, 33)
    exported = export_model.run(_options(path, tmp_path, use_moving_average=True)).path
    np.testing.assert_array_equal(_run(exported, image, 'SemanticPredictions')[0][0], _ids(image[..., 0]))
    assert 'use_moving_average=True' not in caplog.text
    export_model.run(_options(path, tmp_path, export_path=str(tmp_path / 'weights.pb')))
    assert 'Set use_moving_average=True to use them' in caplog.text
    checkpoint_files.write_run(tmp_path / 'train', 0.99)
    exported = export_model.run(_options(path, tmp_path, export_path=str(tmp_path / 'averages.pb'))).path
    np.testing.assert_array_equal(_run(exported, image, 'SemanticPredictions')[0][0], _ids(image[..., 0]))


def test_no_moving_averages_to_take(small_network, checkpoint, tmp_path):
    options = _options(checkpoint, tmp_path, use_moving_average=True)
    _refused(options, CheckpointError, f"The checkpoint '{checkpoint}' contains no moving averages")


def test_moving_averages_that_do_not_fit_are_named(small_network, tmp_path):
    values = WEIGHTS | {'weight/ExponentialMovingAverage': np.ones(1, np.float32)}
    path = checkpoint_files.write(tmp_path / 'train' / 'model.ckpt-30', values)
    options = _options(path, tmp_path, use_moving_average=True)
    lacking = '1 of 2 variables (logits/semantic/weights/ExponentialMovingAverage)'
    _refused(options, CheckpointError, lacking)


def test_an_export_is_replaced_as_a_whole(small_network, checkpoint, tmp_path):
    for kind in ('saved_model', 'frozen_graph'):
        options = _options(checkpoint, tmp_path, export_path=str(tmp_path / 'out' / kind), export_format=kind)
        path = export_model.run(options).path
        before = EXPORT_FORMATS.get(kind).run(path, _image(5, 5))[0]
        other = checkpoint_files.write(tmp_path / kind / 'other', WEIGHTS | {'weight': np.zeros(1, np.float32)})
        again = _options(other, tmp_path, export_path=path, export_format=kind)
        export_model.run(again)
        assert before.max() > 0
        assert EXPORT_FORMATS.get(kind).run(path, _image(5, 5))[0].max() == 0
    assert _written(tmp_path) == ['frozen_graph', 'saved_model']


def test_the_same_checkpoint_gives_the_same_bytes(small_network, checkpoint, tmp_path):
    first = pathlib.Path(export_model.run(_options(checkpoint, tmp_path)).path).read_bytes()
    assert pathlib.Path(export_model.run(_options(checkpoint, tmp_path)).path).read_bytes() == first


def test_inference_graph(small_network, checkpoint, tmp_path):
    for _ in range(2):
        result = export_model.run(_options(checkpoint, tmp_path, save_inference_graph=True))
    assert _written(tmp_path) == ['g.pb', 'inference_graph.pbtxt']
    text = (tmp_path / 'out' / 'inference_graph.pbtxt').read_text()
    assert 'name: "SemanticPredictions"' in text
    assert 'op: "VarHandleOp"' in text or 'op: "VariableV2"' in text
    assert str(tmp_path / 'out' / 'inference_graph.pbtxt') in result.report


@pytest.mark.parametrize('kind', ['frozen_graph', 'saved_model'])
def test_the_report_s_lines_run(kind, small_network, checkpoint, tmp_path, monkeypatch, caplog):
    path = str(tmp_path / 'out' / 'g')
    result = export_model.run(_options(checkpoint, tmp_path, export_path=path, export_format=kind))
    said, example = result.report.split('To run it in Python:')
    assert f"Exported '{checkpoint}' (step 30): mobilenet_v2, 4 classes, 5 parameters." in said
    assert 'up to 17 x 33 pixels' in said
    assert '100.00% of its labels' in said
    assert 'deprecated' not in caplog.text  # of TensorFlow, which the export was opened with again
    monkeypatch.chdir(tmp_path)
    red = np.full((8, 8), 20, np.uint8)
    Image.fromarray(np.stack([red] * 3, axis=2)).save('image.jpg', quality=100)
    found = {}
    exec(example, found)
    np.testing.assert_array_equal(found['labels'], np.full((8, 8), 2))


def test_the_report_s_lines_decode_as_records_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    noise = np.random.RandomState(0).randint(0, 256, (64, 64, 3), np.uint8)
    for image_format in ('JPEG', 'PNG'):
        Image.fromarray(noise).save('image.jpg', image_format)
        record = example.encode(pathlib.Path('image.jpg').read_bytes(), 'jpeg', 'noise', 64, 64)
        ours = eval(plain._RGB_IMAGE, {'np': np, 'tf': tf})
        np.testing.assert_array_equal(ours, example.decode(record, with_label=False)[common.IMAGE])


def test_a_folder_gives_its_newest_checkpoint_and_notes_its_training(small_network, checkpoint, tmp_path, caplog):
    newer = checkpoint_files.write(tmp_path / 'train' / 'model.ckpt-120', WEIGHTS)
    best = checkpoint_files.write(tmp_path / 'train' / 'best' / 'model.ckpt-60', WEIGHTS)
    options = {'resize': {'min_value': 9, 'max_value': 17, 'factor': None}}
    (tmp_path / 'train' / 'run.json').write_text(
        json.dumps({'format': 1, 'runs': [{'command': [], 'options': options}]})
    )
    with caplog.at_level('INFO'):
        result = export_model.run(_options(str(tmp_path / 'train'), tmp_path))
    assert (result.checkpoint, result.global_step) == (newer, 120)
    assert f"best one in validation is checkpoint_path='{best}'." in caplog.text
    assert 'resized images with min_value=9 max_value=17, but the export does not resize them.' in caplog.text
    assert 'or set these options' in caplog.text


# --- What is refused -------------------------------------------------------------------------------------------------


def _refused(options, kind, *parts):
    """Asserts that an export stops with a message that holds all of `parts`."""
    with pytest.raises(kind) as caught:
        export_model.run(options)
    for part in parts:
        assert part in str(caught.value)


def test_missing_variables_are_listed(small_network, tmp_path):
    path = checkpoint_files.write(tmp_path / 'model.ckpt', {'other': np.ones(2, np.float32)})
    _refused(
        _options(path, tmp_path, save_inference_graph=True),
        CheckpointError,
        path,
        '2 of 2 variables (weight, logits/semantic/weights)',
    )
    assert _written(tmp_path) == []


def test_other_shapes_are_listed(small_network, tmp_path):
    path = checkpoint_files.write(tmp_path / 'model.ckpt', WEIGHTS | {'weight': np.ones(3, np.float32)})
    _refused(_options(path, tmp_path), CheckpointError, 'weight: [1] here, [3] in the checkpoint')
    assert _written(tmp_path) == []


def test_long_lists_leave_cause_and_fix_on_the_screen(tmp_path):
    path = checkpoint_files.write(tmp_path / 'model.ckpt', {'other': np.ones(2, np.float32)})
    with tf.Graph().as_default(), pytest.raises(CheckpointError) as caught:
        checkpoints.require_all(path, [tf.compat.v1.get_variable(f'v{i}', [1]) for i in range(30)], num_classes=4)
    message = str(caught.value)
    assert message.index('pass another checkpoint') < message.index('30 of 30 variables (v0, v1')
    assert message.endswith('and 22 more)')


def test_another_number_of_classes_says_both(small_network, checkpoint, tmp_path):
    model = ModelOptions({common.OUTPUT_TYPE: 21}, crop_size=(17, 17))
    with pytest.raises(CheckpointError) as caught:
        export_model.run(_options(checkpoint, tmp_path, model=model))
    message = str(caught.value)
    assert message.startswith(f"outputs_to_num_classes=21, but the checkpoint '{checkpoint}' has 4 classes.")
    assert 'Set outputs_to_num_classes=4' in message
    assert _written(tmp_path) == []


def test_classes_of_a_decoder_whose_output_is_logits(tmp_path):
    """There are no separate logits; the number of decoder filters is the number of classes."""
    shapes = {'decoder/feature_projection0/weights': (1, 1, 8, 19), 'decoder/decoder_conv0/weights': (3, 3, 19, 19)}
    values = {name: np.zeros((*shape[:2], 11 if shape[2] == 19 else 8, 11)) for name, shape in shapes.items()}
    path = checkpoint_files.write(tmp_path / 'model.ckpt', values)
    with tf.Graph().as_default():
        variables = [tf.compat.v1.get_variable(name, shape, tf.float64) for name, shape in shapes.items()]
        with pytest.raises(CheckpointError, match='num_classes=19, but .* has 11 classes'):
            checkpoints.require_all(path, variables, num_classes=19)


@pytest.mark.parametrize('ending', ['.index', '.data-00000-of-00001'])
def test_a_checkpoint_s_file(ending, checkpoint, tmp_path):
    _refused(_options(f'{checkpoint}{ending}', tmp_path), CheckpointError, f'without the extension: {checkpoint}')


def test_checkpoints_that_are_not_there(tmp_path):
    _refused(_options(str(tmp_path / 'none'), tmp_path), CheckpointError, f"There is no checkpoint '{tmp_path}/none'")
    (tmp_path / 'empty').mkdir()
    _refused(_options(str(tmp_path / 'empty'), tmp_path), CheckpointError, 'There is no checkpoint in the folder')


def test_a_damaged_checkpoint(small_network, checkpoint, tmp_path):
    data = pathlib.Path(f'{checkpoint}.data-00000-of-00001')
    data.write_bytes(data.read_bytes()[:-4] + b'\0\0\0\0')
    _refused(_options(checkpoint, tmp_path), CheckpointError, 'is damaged')
    assert _written(tmp_path) == []


def test_weights_that_are_not_numbers(small_network, tmp_path):
    path = checkpoint_files.write(tmp_path / 'model.ckpt', WEIGHTS | {'weight': np.full(1, np.nan, np.float32)})
    _refused(_options(path, tmp_path), CheckpointError, 'are not finite')
    assert _written(tmp_path) == []


def test_paths_that_are_taken(checkpoint, tmp_path):
    folder = tmp_path / 'photos'
    folder.mkdir()
    _refused(
        _options(checkpoint, tmp_path, export_path=str(folder)),
        DataError,
        'is a folder, but a frozen graph is one file',
        f'{folder}/frozen_inference_graph.pb',
    )
    (folder / 'cat.jpg').write_bytes(b'')
    _refused(
        _options(checkpoint, tmp_path, export_path=str(folder), export_format='saved_model'),
        DataError,
        'is a folder with other files (cat.jpg)',
        f'{folder}/saved_model',
    )
    _refused(
        _options(checkpoint, tmp_path, export_path=str(folder / 'cat.jpg'), export_format='saved_model'),
        DataError,
        'is a file, but a SavedModel is a folder',
    )
    (folder / 'saved_model.pb').write_bytes(b'')
    with pytest.raises(DataError, match=r'is a folder with other files \(cat.jpg\)'):
        destinations.check_target(str(folder), EXPORT_FORMATS.get('saved_model'))
    (folder / 'cat.jpg').unlink()
    destinations.check_target(str(folder), EXPORT_FORMATS.get('saved_model'))


OTHER_GRAPH = tf.compat.v1.GraphDef(node=[{'name': 'a', 'op': 'NoOp'}]).SerializeToString()


@pytest.mark.parametrize('content', [b'all:\n\tdeeplab demo\n', OTHER_GRAPH], ids=['text', 'graph'])
@pytest.mark.parametrize('kind', ['frozen_graph', 'saved_model', 'inference_graph'])
def test_a_file_that_is_no_export_is_never_overwritten(content, kind, small_network, checkpoint, tmp_path):
    changes = {'export_path': str(tmp_path / 'mk.py')}
    path = tmp_path / 'mk.py'
    if kind == 'saved_model':
        changes = {'export_path': str(tmp_path / 'theirs'), 'export_format': kind}
        path = tmp_path / 'theirs' / 'saved_model.pb'
        path.parent.mkdir()
    if kind == 'inference_graph':
        changes = {'export_path': str(tmp_path / 'graph.pb'), 'save_inference_graph': True}
        path = tmp_path / export_model.INFERENCE_GRAPH
    path.write_bytes(content)
    with pytest.raises(OptionError, match=f"'{path}' exists and is not"):
        export_model.run(_options(checkpoint, tmp_path, **changes))
    assert path.read_bytes() == content
    assert {each.name for each in tmp_path.iterdir()} == {'train', path.relative_to(tmp_path).parts[0]}


def test_a_device_is_not_replaced(checkpoint, tmp_path):
    with pytest.raises(OptionError, match="'/dev/null' exists and is not"):
        export_model.run(_options(checkpoint, tmp_path, export_path='/dev/null'))


def test_an_export_of_another_program_and_an_empty_file_may_be_replaced(tmp_path):
    path = tmp_path / 'frozen_inference_graph.pb'
    path.write_bytes(b'')
    destinations.check_target(str(path), FROZEN_GRAPH)
    graph = tf.compat.v1.GraphDef()
    for name in ('ImageTensor', 'Cast', 'SemanticPredictions'):
        graph.node.add(name=name, op='Placeholder')
    path.write_bytes(graph.SerializeToString())
    destinations.check_target(str(path), FROZEN_GRAPH)


def test_a_saved_model_of_another_program_is_not_replaced(tmp_path):
    model = saved_model_pb2.SavedModel()
    model.meta_graphs.add().signature_def['serving_default'].inputs['x'].name = 'x:0'
    (tmp_path / 'saved_model.pb').write_bytes(model.SerializeToString())
    with pytest.raises(OptionError, match='exists and is not'):
        destinations.check_target(str(tmp_path), EXPORT_FORMATS.get('saved_model'))


def test_a_folder_that_cannot_be_made(small_network, checkpoint, tmp_path):
    (tmp_path / 'file').write_bytes(b'')
    _refused(_options(checkpoint, tmp_path, export_path=str(tmp_path / 'file' / 'g.pb')), DataError, 'Cannot create')


def test_a_resize_that_fits_no_image(checkpoint, tmp_path):
    _refused(
        _options(checkpoint, tmp_path, resize=ResizeOptions(20, 64, None)),
        OptionError,
        'resizing changes 17x33 pixels to 20x38, larger than crop_size=(17, 33). Set crop_size=(20, 38) or larger',
    )


@pytest.mark.parametrize(('side', 'crop_size', 'resized'), [(18, (18, 33), '33x33'), (17, (17, 34), '17x49')])
def test_a_resize_that_is_too_large_in_one_direction(side, crop_size, resized):
    with pytest.raises(OptionError, match=f'to {resized}, larger'):
        export_graph.check_sizes(ResizeOptions(side, None, 16), crop_size)


def test_an_export_that_disagrees_is_not_kept(small_network, checkpoint, tmp_path, monkeypatch):
    options = _options(checkpoint, tmp_path, save_inference_graph=True)
    right = FROZEN_GRAPH.run
    broken = dataclasses.replace(FROZEN_GRAPH, run=lambda *given: (right(*given)[0] + 1, right(*given)[1]))
    monkeypatch.setattr(EXPORT_FORMATS, 'get', lambda name: broken)
    with pytest.raises(RuntimeError, match='predict different results: 0.00% of the labels agree'):
        export_model.run(options)
    assert _written(tmp_path) == []


def test_compare():
    labels, probabilities = np.zeros((40, 50), np.int32), np.full((40, 50, 2), 0.5)
    other = labels.copy()
    other[0, 0] = 1

    def difference(record, *exported):
        comparison = compared([(Outputs(*exported), Outputs(labels, probabilities))], {})
        plain.require_equal(comparison, record)
        return comparison.agreement, comparison.difference

    assert difference(FROZEN_GRAPH, other, probabilities + 1e-3) == (0.9995, pytest.approx(1e-3))
    with pytest.raises(RuntimeError, match='differ by up to 0.003'):
        difference(FROZEN_GRAPH, labels, probabilities + 3e-3)
    with pytest.raises(RuntimeError, match='differ by up to nan'):
        difference(FROZEN_GRAPH, labels, probabilities * np.nan)
    rounded = dataclasses.replace(FROZEN_GRAPH, most_difference=0.01)
    assert difference(rounded, labels, probabilities + 3e-3) == (1.0, pytest.approx(3e-3))


# --- The command line ------------------------------------------------------------------------------------------------

LINE = ['--checkpoint_path=model.ckpt', '--export_path=g.pb']


def test_both_dialects_of_the_crop_size():
    for words in (['--crop_size=65', '--crop_size=129'], ['--crop_size=65,129'], ['--crop_size', '65,129']):
        assert cli.options_of('export_model', [*LINE, *words]).model.crop_size == (65, 129)
    assert cli.options_of('export', LINE).model.crop_size == (513, 513)


def test_an_old_line():
    words = '--logtostderr --model_variant=xception_65 --atrous_rates=6 --atrous_rates=12 --atrous_rates=18'
    words += ' --output_stride=16 --decoder_output_stride=4 --num_classes=19 --crop_size=1025 --crop_size=2049'
    words += ' --inference_scales=0.5 --inference_scales=1.0 --add_flipped_images --min_resize_value=1024'
    made = cli.options_of('export_model', [*LINE, *words.split()])
    assert made == ExportOptions(
        ModelOptions(
            {common.OUTPUT_TYPE: 19},
            (1025, 2049),
            'xception_65',
            aspp=made.model.aspp,
            decoder=DecoderOptions((4,)),
        ),
        'model.ckpt',
        'g.pb',
        ResizeOptions(1024, None, None),
        PredictionOptions((0.5, 1.0), True),
    )
    assert made.model.aspp.rates == (6, 12, 18)
    assert cli.options_of('export_model', LINE).model.output_stride == 8


@pytest.mark.parametrize(
    ('word', 'message'),
    [
        ('--inference_scales=0', '--inference_scales=0.0 is not allowed: it must be greater than 0'),
        ('--checkpoint_path=m.ckpt.index', 'prefix, --checkpoint_path=m.ckpt'),
        ('--crop_size=513', 'write --crop_size=513,513'),
        ('--crop_size=0,513', '--crop_size=0,513 is not allowed'),
        ('--num_classes=0', '--num_classes=0 is not allowed'),
        ('--export_format=caffe', 'export_format'),
        ('--format=caffe', '--format'),
        ('--format=tflite:int4', 'float32, float16, dynamic_int8, int8'),
        ('--format=tflite:int8', '--dataset_dir'),
        ('--format=onnx --min_resize_value=33', '--min_resize_value'),
        ('--max_miou_loss=0.1', '--verify_split'),
        ('--format=frozen --verify_split=val --dataset_dir=d --min_resize_value=33', '(--min_resize_value)'),
        ('--verify_split=val --dataset_dir=d --export_format=saved_model', 'Set --format=saved_model'),
        ('--resizable --export_format=saved_model', '--resizable=true'),
        ('--format=frozen,saved_model --outputs=probabilities', 'onnx, openvino, tflite only'),
        ('--format=tflite --serving_version=1', 'set --format=saved_model'),
        ('--serving_warmup', '--serving_warmup=true'),
    ],
)
def test_values_that_are_refused(word, message):
    with pytest.raises(UserError) as caught:
        cli.options_of('export_model', [*LINE, *word.split()])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ('words', 'target'),
    [
        ('--export_path=w.onnx', 'onnx:float32'),
        ('--export_path=out.d/W.TFLITE --outputs=probabilities', 'tflite:float32'),
        ('--export_path=m.xml', 'openvino:float32'),
        ('--export_path=frozen_inference_graph.pb', 'frozen_graph:float32'),
        ('--export_path=street.v2', 'frozen_graph:float32'),
        ('--export_path=street.v2 --export_format=saved_model', 'saved_model:float32'),
        ('--export_path=w.onnx --format=onnx:float16', 'onnx:float16'),
    ],
)
def test_the_format_follows_from_the_ending(words, target):
    made = cli.options_of('export_model', ['--checkpoint_path=model.ckpt', *words.split()])
    assert [str(each) for each in made.targets] == [target]


@pytest.mark.parametrize(
    ('words', 'parts'),
    [
        ('--export_path=w.onnx --format=tflite', ('--export_path=w.onnx', 'belongs to onnx', '--format=tflite')),
        ('--export_path=w.onnx --export_format=frozen_graph', ('belongs to onnx', '--export_format=frozen_graph')),
        ('--export_path=g.pb --export_format=saved_model', ('belongs to frozen_graph', '--export_format=saved_model')),
        ('--export_path=g.pb --format=tflite:float16', ('belongs to frozen_graph', '--format=tflite:float16')),
        ('--export_path=w.onnx --format=tflite,onnx', ('several exports', 'folder')),
    ],
)
def test_an_ending_that_contradicts_the_format(words, parts):
    with pytest.raises(OptionError) as caught:
        cli.options_of('export_model', ['--checkpoint_path=model.ckpt', *words.split()])
    assert not [part for part in parts if part not in str(caught.value)], str(caught.value)


def test_endings_of_plugins_are_known(small_network, checkpoint, tmp_path):
    with changes_undone(EXPORT_FORMATS):
        for name, suffix in (('packed', '.pb.gz'), ('theirs', '.pb')):
            EXPORT_FORMATS.add(dataclasses.replace(FROZEN_GRAPH, name=name, suffixes=(suffix,)))
        for path, expected in (('g.pb.gz', 'packed'), ('g.pb', 'frozen_graph')):
            (target,) = _options(checkpoint, tmp_path, export_path=path).targets
            assert target.format == expected
        (target,) = _options(checkpoint, tmp_path, export_path='g.pb', export_format='theirs').targets
        assert target.format == 'theirs'


def test_it_runs_from_the_command_line(small_network, checkpoint, tmp_path, capsys):
    path = os.path.join(tmp_path, 'out', 'g.pb')
    figures = tmp_path / 'out' / 'export.json'
    os.mkdir(tmp_path / 'out')
    figures.write_text('{"exports": {"g.pb": {}, "other.pb": {}}}')
    words = [f'--checkpoint_path={checkpoint}', f'--export_path={path}', '--num_classes=4', '--crop_size=17,33']
    assert cli.main(['export', *words]) == 0
    assert json.loads(figures.read_text())['exports'].keys() == {'other.pb'}  # those of this export were another one's
    assert f'Frozen graph: {path} (' in capsys.readouterr().out
    assert cli.main(['export', *words, '--num_classes=5']) == cli.ERROR_STATUS
    assert '--num_classes=5, but the checkpoint' in capsys.readouterr().err


@pytest.mark.parametrize('name', ['g.pb', 'model'])
def test_a_disk_that_is_full(small_network, checkpoint, tmp_path, full_disk, name):
    kind = 'frozen_graph' if name == 'g.pb' else 'saved_model'
    options = _options(checkpoint, tmp_path, export_format=kind, export_path=str(tmp_path / 'out' / name))
    with full_disk(1000), pytest.raises(UserError) as error:
        export_model.run(options)
    for part in ('export_path', 'out', 'File too large'):
        assert part in str(error.value)
    assert os.listdir(tmp_path / 'out') == []


def test_a_disk_too_full_for_the_graph_as_text(small_network, checkpoint, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(sessions, 'write_graph', fail)
    with pytest.raises(UserError, match='export_path.*No space left on device'):
        export_model.run(_options(checkpoint, tmp_path, save_inference_graph=True))
    assert os.listdir(tmp_path / 'out') == []
