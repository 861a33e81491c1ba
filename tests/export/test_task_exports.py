"""Exports of networks of several outputs: each output has its name, and equals the checkpoint's.

The network is a MobileNet v2 of quarter width with random weights and the task `panoptic`. Covers
inference/comparison.py.
"""

import contextlib
import dataclasses
import json
import pathlib
import re
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from deeplab import cli, common, export_model
from deeplab import eval as evaluation
from deeplab.checks.checkpoint_network import network_shapes
from deeplab.core import cost, panoptic_merge
from deeplab.datasets import build_folder_data, descriptor, task_data
from deeplab.errors import CheckpointError, OptionError
from deeplab.export import export_graph, proof, results, work
from deeplab.export.speed import ExportFigures
from deeplab.inference import export_metadata, exports, network_source, opening, task_decoding
from deeplab.inference.any_size import AnySize
from deeplab.inference.comparison import Comparison, compared
from deeplab.inference.network import InferenceNetwork
from deeplab.inference.opening import Weights
from deeplab.inference.predictor import Predictor
from deeplab.inference.runners import CheckpointRunner, ExportRunner
from deeplab.inference.runtimes import tflite
from deeplab.options import (
    BuildFolderOptions,
    ConversionOptions,
    DatasetOptions,
    EngineOptions,
    EvalOptions,
    ExportOptions,
    ModelOptions,
    PredictionOptions,
    ProofOptions,
    WaitOptions,
    WindowOptions,
)
from deeplab.programs.demo import dataset
from deeplab.registry import ENGINES, EXPORT_FORMATS, Outputs
from deeplab.system import packages
from tests.export import test_deployment_page
from tests.helpers import checkpoint_files, given_weights

MODEL = ModelOptions(
    {common.OUTPUT_TYPE: 8},
    crop_size=(65, 65),
    output_stride=16,
    depth_multiplier=0.25,
    task='panoptic',
    settings={'stuff_area': 16},
)
CHANNELS = {common.OUTPUT_TYPE: 8, 'center': 1, 'offset': 2}
FIGURES = ExportFigures(1, 1, (65, 65), 1000, 0.1, 0.1, 0.01, 0.01, 10**8)
IMAGE = np.random.default_rng(0).integers(0, 256, (1, 65, 65, 3)).astype(np.uint8)
SLOW = ('frozen_graph', 'saved_model', 'onnx', 'openvino')


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory):
    """A checkpoint with random weights, beside the records of drawn streets."""
    folder = tmp_path_factory.mktemp('tasks')
    values = {name: given_weights.some_value(name, list(shape)) for name, shape in network_shapes(MODEL).items()}
    values['logits/center/biases'] += 0.2
    values['logits/semantic/biases'][5] += 1.5  # a thing
    dataset.write_dataset(str(folder / 'street'), 0, {'train': 2, 'val': 2}, (64, 64), with_instances=True)
    build_folder_data.run(
        BuildFolderOptions(
            image_folder=str(folder / 'street' / dataset.IMAGES),
            mask_folder=str(folder / 'street' / dataset.MASKS),
            instance_folder=str(folder / 'street' / dataset.INSTANCES),
            list_folder=str(folder / 'street' / dataset.LISTS),
            dataset=str(folder / 'street' / dataset.DESCRIPTION),
            output_dir=str(folder / 'records'),
        )
    )
    return checkpoint_files.write(folder / 'model.ckpt-7', {**values, 'global_step': np.int64(7)})


@pytest.fixture(scope='module')
def expected(checkpoint):
    """What the checkpoint predicts for `IMAGE`."""
    runner = CheckpointRunner(InferenceNetwork(MODEL, PredictionOptions()), Weights(checkpoint), EngineOptions())
    yield runner.run(IMAGE.astype(np.float32), True)
    runner.close()


@pytest.fixture(autouse=True)
def no_process(monkeypatch):
    monkeypatch.setattr(work.speed, 'measured', lambda path, format_name: FIGURES)


def _options(checkpoint, path, *formats, proof_options=None, **conversion):
    return ExportOptions(
        MODEL,
        checkpoint,
        str(path),
        formats=formats,
        conversion=ConversionOptions(**conversion),
        proof=proof_options or ProofOptions(),
    )


def _with_records(checkpoint, **changes):
    folder = checkpoint.rpartition('/')[0]
    return ProofOptions(f'{folder}/street/street.json', f'{folder}/records', sample_images=1, **changes)


def _of_frozen_graph(path):
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        with open(path, 'rb') as file:
            tf.graph_util.import_graph_def(tf.compat.v1.GraphDef.FromString(file.read()), name='')
        return session.run({name: f'{name}:0' for name in CHANNELS}, {'ImageTensor:0': IMAGE})


def _of_saved_model(path):
    signatures = tf.saved_model.load(path).signatures
    assert set(signatures) >= {'labels', 'maps', 'encoded', 'encoded_maps'}
    outputs = signatures['serving_default'](image=tf.constant(IMAGE))
    assert set(outputs) == {'predictions', *CHANNELS}
    return {name: outputs[name].numpy() for name in CHANNELS}


def _of_tflite(path):
    model = tflite.interpreter(path, 1)
    model.allocate_tensors()
    (image,) = model.get_input_details()
    model.set_tensor(image['index'], IMAGE.astype(image['dtype']))
    model.invoke()
    by_name = {each['name']: model.get_tensor(each['index']) for each in model.get_output_details()}
    assert set(by_name) == {'labels', *CHANNELS}
    return by_name


def _of_onnx(path):
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    return dict(zip(CHANNELS, session.run(list(CHANNELS), {'images': IMAGE.astype(np.float32)}), strict=True))


def _of_openvino(path):
    import openvino

    compiled = openvino.Core().compile_model(f'{path}/model.xml', 'CPU', {'INFERENCE_PRECISION_HINT': 'f32'})
    outputs = compiled(IMAGE.astype(np.float32))
    return {name: outputs[name] for name in CHANNELS}


NATIVE = {
    'frozen_graph': _of_frozen_graph,
    'saved_model': _of_saved_model,
    'tflite': _of_tflite,
    'onnx': _of_onnx,
    'openvino': _of_openvino,
}


@pytest.mark.parametrize(
    'name', [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in NATIVE]
)
def test_each_output_has_its_name_and_equals_the_checkpoint(name, checkpoint, expected, tmp_path):
    if missing := packages.missing(EXPORT_FORMATS.get(name).requires):
        pytest.skip(f'{missing} are not installed')
    conversion = {'frozen_graph': {'has_dynamic_batch': True}, 'tflite': {'input_type': 'uint8'}}.get(name, {})
    result = export_model.run(_options(checkpoint, tmp_path / 'export', name, **conversion))
    (proven,) = result.proofs
    assert proven.comparison.agreement == 1.0
    assert proven.comparison.differences.keys() == CHANNELS.keys()
    assert proven.comparison.difference < 1e-4
    suffix = ':0' if name == 'frozen_graph' else ''
    batch = 'n' if name == 'frozen_graph' else 1
    assert f'        center{suffix} float32 [{batch}, ' in result.report
    assert re.search('largest difference +semantic +center +offset\n', result.report)
    arrays = NATIVE[name](result.path)
    ends = np.cumsum(list(CHANNELS.values()))[:-1]
    for (output, channels), part in zip(CHANNELS.items(), np.split(expected.probabilities, ends, axis=-1), strict=True):
        assert arrays[output].shape == (1, 65, 65, channels)
        np.testing.assert_allclose(arrays[output], part, atol=2e-4 * max(1, np.abs(part).max()))
    with exports.opened(result.path) as exported:
        opened = exported.predict(IMAGE, True)
        assert exported.num_classes == 8
        assert exported.metadata['outputs'] == ['labels', *CHANNELS]
        assert exported.metadata['task']['channels'] == CHANNELS
        assert exported.metadata['task']['settings']['stuff_area'] == 16
        assert exported.metadata['task']['calibration'] == {}
        assert exported.predict(IMAGE, False).probabilities is None
    with contextlib.closing(ExportRunner(result.path)) as runner:
        wide = np.concatenate([IMAGE[0], IMAGE[0, :, :20]], axis=1)
        (scores,) = AnySize(runner, WindowOptions()).predict([wide], with_probabilities=True)
    assert scores.probabilities.shape == (65, 85, 11)
    np.testing.assert_array_equal(opened.labels, expected.labels)
    np.testing.assert_allclose(opened.probabilities, expected.probabilities, atol=1e-2)
    written = json.loads((tmp_path / 'export.json').read_text())['exports']['export']
    assert written['comparison']['differences'].keys() == CHANNELS.keys()


def test_a_plain_export_has_metadata_and_evaluates_as_the_checkpoint(checkpoint, tmp_path):
    options = dataclasses.replace(
        _options(checkpoint, tmp_path / 'g.pb', proof_options=_with_records(checkpoint)), formats=()
    )
    export_model.run(options)
    with exports.opened(str(tmp_path / 'g.pb')) as exported:
        assert exported.metadata['task']['things'] == [5, 6]
    with Predictor.from_export(tmp_path / 'g.pb', stuff_area=5) as predictor:
        context = predictor.decoder.context
        assert (context.things, context.settings['stuff_area'], len(context.palette)) == ((5, 6), 5, 8)
        assert predictor(IMAGE[0]).instance_ids.shape == (65, 65)
    with pytest.raises(OptionError, match='output_stride cannot be changed'):
        Predictor.from_export(tmp_path / 'g.pb', output_stride=8)
    folder = checkpoint.rpartition('/')[0]
    data = DatasetOptions('val', f'{folder}/records', f'{folder}/street/street.json')
    wait = WaitOptions(interval_secs=0, max_rounds=1, timeout_secs=0)
    figures = []
    for model, path in ((MODEL, checkpoint), (ModelOptions({common.OUTPUT_TYPE: 8}), str(tmp_path / 'g.pb'))):
        logdir = str(tmp_path / f'eval{len(figures)}')
        result = evaluation.run(EvalOptions(model, data, path, logdir, wait=wait)).rounds[0]
        figures.append(result.further['panoptic'])
    assert figures[0] == pytest.approx(figures[1], abs=1e-3)
    with pytest.raises(CheckpointError, match=r"g\.pb' is not a network of .*semantic\+panoptic.*, but of panoptic"):
        other = ModelOptions({common.OUTPUT_TYPE: 8}, task='semantic+panoptic')
        network_source.with_tasks(other, {'task': {'name': 'panoptic'}}, 'g.pb')


@pytest.mark.parametrize('program', ['eval', 'vis'])
def test_a_given_default_takes_precedence_over_the_export(program, monkeypatch):
    settings = {'stuff_area': 16, 'center_threshold': 0.3}
    metadata = {'task': {'name': 'panoptic', 'settings': settings}}
    opened = types.SimpleNamespace(metadata=metadata, num_classes=None)
    monkeypatch.setattr(exports, 'opened', lambda path: contextlib.nullcontext(opened))
    monkeypatch.setattr(export_metadata, 'maps_of', lambda metadata: {'semantic': 21, 'center': 1, 'offset': 2})
    line = ['--dataset=pascal_voc_seg', '--dataset_dir=data', '--checkpoint_dir=g.pb', f'--{program}_logdir=out']
    options = cli.options_of(program, [*line, '--center_threshold=0.1'])
    model = network_source._Export('g.pb').applied(options).model
    assert (model.stuff_area, model.center_threshold) == (16, 0.1)
    if program == 'eval':
        assert network_source._Export('g.pb').reported(options)[0].model.center_threshold == 0.1


@pytest.mark.slow
def test_the_example_of_the_page_decodes_as_the_task_does(checkpoint, tmp_path, monkeypatch, capsys):
    if packages.missing(['ai_edge_litert']):
        pytest.skip('ai_edge_litert is not installed')
    (code,) = re.findall(r'```python\n# panoptic.py\n(.*?)```', test_deployment_page.PAGE, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / 'fit.py').write_text(test_deployment_page.FIT)
    shutil.copy(panoptic_merge.__file__, tmp_path)
    Image.fromarray(IMAGE[0]).save('photo.jpg', 'PNG')  # no decoder of JPEG differs from another here
    model = dataclasses.replace(MODEL, settings={'stuff_area': 16, 'center_threshold': 0.0})
    options = _options(checkpoint, 'model.tflite', 'tflite', proof_options=_with_records(checkpoint))
    export_model.run(dataclasses.replace(options, model=model))
    names = {}
    exec(compile(code, 'panoptic.py', 'exec'), names)
    with exports.opened('model.tflite') as exported:
        maps = exported.predict(IMAGE, True).probabilities[0]
        model = network_source.with_tasks(ModelOptions({common.OUTPUT_TYPE: 8}), exported.metadata, 'model.tflite')
    assert model.task == 'panoptic' and (model.stuff_area, model.center_threshold) == (16, 0.0)
    described = descriptor.load(_with_records(checkpoint).dataset)
    result = task_decoding.TaskDecoder(model, task_data.context_of(described, model))(maps).results['panoptic']
    np.testing.assert_array_equal(names['classes'], result['class_ids'])
    assert len(capsys.readouterr().out.splitlines()) == len(result['instances']) > 0


@pytest.mark.slow
@pytest.mark.parametrize('task', ['depth', 'semantic+edges', 'multilabel'])
def test_other_tasks_are_exported(task, tmp_path):
    model = dataclasses.replace(MODEL, task=task, settings={})
    values = {name: given_weights.some_value(name, list(shape)) for name, shape in network_shapes(model).items()}
    path = checkpoint_files.write(tmp_path / 'model.ckpt-7', {**values, 'global_step': np.int64(7)})
    options = _options(path, tmp_path / 'out', 'frozen_graph', 'tflite', 'onnx')
    for proven in export_model.run(dataclasses.replace(options, model=model)).proofs:
        assert proven.comparison.difference < 1e-3
        with exports.opened(proven.path) as exported:
            maps = export_metadata.maps_of(exported.metadata)
            shape = exported.predict(IMAGE, True).probabilities.shape
            assert shape == (1, 65, 65, sum(maps.values()))
    expected = {'depth': {'depth': 1}, 'multilabel': {'multilabel': 8}, 'semantic+edges': {'semantic': 8, 'edges': 1}}
    assert maps == expected[task]


@pytest.mark.slow
def test_8_bits_state_what_the_metric_of_the_task_loses(checkpoint, tmp_path):
    proof_options = _with_records(checkpoint, verify_split='val')
    result = export_model.run(
        _options(checkpoint, tmp_path / 'int8.tflite', 'tflite:int8', proof_options=proof_options)
    )
    verified = result.proofs[0].verified
    before, after = verified.figures['pq']
    assert 0 <= before <= 1 and 0 <= after <= 1
    assert verified.losses()['pq'] == (before - after, after, before)
    assert 'pq' in result.report


def test_offsets_of_resized_images_are_lengths_in_the_image():
    maps = {'semantic_map': np.full((1, 65, 65, 8), 0.125), 'center_map': np.ones((1, 65, 65, 1))}
    maps['offset_map'] = np.full((1, 65, 65, 2), 8.0)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tensors = {name: tf.constant(values, tf.float32) for name, values in maps.items()}
        own = session.run(export_graph._maps_at_own_size(tensors, MODEL, (65, 33), (33, 65)))
    assert own['offset_map'].shape == (1, 33, 65, 2)
    np.testing.assert_allclose(own['offset_map'][0, 3, 5], [4.0, 16.0])
    np.testing.assert_allclose(own['semantic_map'], 0.125)


def test_an_output_keeps_its_name_where_a_scope_has_it():
    with cost.abstract_graph():
        tf.identity(1.0, name='center/inner')
        export = export_graph.network.named_maps(
            {f'{name}_map': tf.zeros([1, 2, 2, number]) for name, number in CHANNELS.items()}, MODEL
        )
    assert [tensor.name for tensor in export.values()] == [f'{name}:0' for name in CHANNELS]


def _pair(offset=0.0):
    maps = np.ones((1, 2, 2, 11), np.float32)
    maps[..., 9:] = 50.0
    expected = Outputs(np.zeros((1, 2, 2), np.int32), maps.copy())
    maps[0, 0, 0, 10] += offset
    return Outputs(expected.labels, maps), expected


def test_lengths_are_compared_relative_to_the_largest():
    comparison = compared([_pair(), _pair(1.0)], CHANNELS)
    assert comparison.differences == {common.OUTPUT_TYPE: 0.0, 'center': 0.0, 'offset': 1.0}
    assert comparison.difference == pytest.approx(1 / 50)
    assert np.isnan(compared([_pair(np.nan)], CHANNELS).difference)


def test_an_engine_with_other_maps_is_refused():
    opening._require_equal(compared([_pair(0.01)], CHANNELS), 0.99, 'F', 'A.')
    with pytest.raises(OptionError, match=r"F: its outputs differ from TensorFlow's .*offset 1\. A\."):
        opening._require_equal(compared([_pair(1.0)], CHANNELS), 0.99, 'F', 'A.')


@pytest.mark.slow
@pytest.mark.parametrize('name', ['onnxruntime', 'openvino', 'tflite'])
def test_an_engine_runs_the_checkpoint(name, checkpoint, expected, tmp_path):
    if packages.missing(ENGINES.get(name).requires):
        pytest.skip(f'{name} is not installed')
    for path in pathlib.Path(checkpoint).parent.glob('model*'):
        shutil.copy(path, tmp_path)
    weights = Weights(str(tmp_path / 'model.ckpt-7'))
    network = InferenceNetwork(MODEL, PredictionOptions(), 1)
    with opening.opened(network, weights, EngineOptions(name)) as predict:
        outputs = predict(IMAGE.astype(np.float32))
    assert compared([(outputs, expected)], CHANNELS).difference < 1e-4


def test_losses_of_figures_follow_the_direction():
    verified = proof.Verified('val', 1, None, None, (None, None, None), {'-rmse': (1.0, 1.5), 'pq': (0.5, None)})
    assert verified.losses() == {'rmse': (0.5, 1.5, 1.0)}
    proven = results.Proof('tflite', 'int8', 'p', 'c', Comparison(1, 1.0, 0.0, {'depth': 0.1}), FIGURES, verified)
    text = '\n'.join(results.table([proven]))
    assert '1.5000 (+0.5000)' in text and 'rmse' in text and '-rmse' not in text
