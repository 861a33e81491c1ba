"""Exports to the formats of other runtimes: proof, metadata, and that `Predictor` runs them.

The network is the tiny one of the tests of prediction, with a made data set.

Covers export/destinations.py, export/proof.py, export/results.py,
export/work.py, inference/export_metadata.py, export/portable.py,
export/formats/tflite.py, export/formats/onnx.py, export/formats/openvino.py, inference/exports.py,
inference/network_source.py, export/speed.py,
programs/benchmark/side_by_side.py and system/processors.py.
"""

import dataclasses
import io
import json
import zipfile

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from tensorflow.core.framework.tensor_pb2 import TensorProto

from deeplab import Predictor, cli, export_model
from deeplab import eval as evaluation
from deeplab import vis as visualization
from deeplab.checks.checkpoint_network import network_shapes
from deeplab.datasets import descriptor, wire
from deeplab.datasets.segmentation_dataset import DataSource
from deeplab.errors import CheckpointError, DataError, OptionError, UserError
from deeplab.evaluation import split_images
from deeplab.export import proof, results, work
from deeplab.export import speed as export_figures
from deeplab.export.formats import saved_model
from deeplab.export.speed import ExportFigures
from deeplab.inference import export_metadata, exports, predictor
from deeplab.inference.comparison import Comparison
from deeplab.inference.runtimes import tflite
from deeplab.options import (
    ConversionOptions,
    DatasetOptions,
    EvalOptions,
    ExportOptions,
    ModelOptions,
    PredictionOptions,
    ProofOptions,
    RasterOptions,
    VisOptions,
    WaitOptions,
)
from deeplab.programs.benchmark import benchmark
from deeplab.registry import EXPORT_FORMATS, Outputs
from deeplab.system import packages, processors
from deeplab.tasks import edges
from tests.helpers import checkpoint_files, dataset_files, given_weights, predictor_setup

pytestmark = pytest.mark.usefixtures('tiny_network')
MODEL = dataclasses.replace(predictor_setup.MODEL, crop_size=(33, 49))
FIGURES = ExportFigures(1, 1, (33, 49), 1000, 0.1, 0.1, 0.01, 0.01, 10**8)


@pytest.fixture(scope='module')
def training(tmp_path_factory):
    """A checkpoint with its run.json, and records of its data set."""
    folder = predictor_setup.write_training(tmp_path_factory.mktemp('exports') / 'log', MODEL)
    records = [dataset_files.record(seed, 33 - seed, 49 - seed) for seed in range(3)]
    dataset_files.write_split(folder, 'train', [records])
    return folder


@pytest.fixture(autouse=True)
def no_process(monkeypatch):
    """Speed and memory are measured in a process of its own, which one test alone starts."""
    monkeypatch.setattr(work.speed, 'measured', lambda path, format_name: FIGURES)


def _options(training, path, *formats, proof_options=None, **conversion):
    return ExportOptions(
        MODEL,
        str(training / 'model.ckpt-7'),
        str(path),
        formats=formats,
        conversion=ConversionOptions(**conversion),
        proof=proof_options or ProofOptions(),
    )


def _with_records(training, **changes):
    return ProofOptions(dataset_dir=str(training), sample_images=2, **changes)


def _skip_without(name):
    if missing := packages.missing(EXPORT_FORMATS.get(name).requires):
        pytest.skip(f'{missing} are not installed')


def test_tflite_is_proven_described_and_predicts(training, tmp_path):
    path = tmp_path / 'out' / 'm.tflite'
    options = _options(
        training, path, 'tflite', outputs='probabilities', proof_options=_with_records(training, verify_split='train')
    )
    result = export_model.run(options)
    (found,) = result.proofs
    assert found.comparison.agreement > 0.999 and found.comparison.difference < 1e-4
    assert found.verified.images == 3
    assert found.verified.miou == pytest.approx(found.verified.checkpoint_miou, abs=1e-3)
    assert found.verified.difference[1] <= found.verified.difference[0] <= found.verified.difference[2]
    written = json.loads((tmp_path / 'out' / 'export.json').read_text())
    assert written['exports']['m.tflite']['verified']['split'] == 'train'
    assert {'figures', 'comparison', 'checkpoint'} <= written['exports']['m.tflite'].keys()
    assert f'All figures: {tmp_path}/out/export.json' in result.report and 'import PIL.Image\n' in result.report
    with zipfile.ZipFile(path) as archive:
        assert archive.read('labels.txt').decode().split() == predictor_setup.CLASSES
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    (tmp_path / 'damaged.tflite').write_bytes(content)
    with pytest.raises(CheckpointError, match=r'damaged\.tflite.*cannot be loaded \(it is damaged'):
        Predictor.from_export(tmp_path / 'damaged.tflite')
    with exports.opened(str(path)) as exported:
        assert exported.predict(predictor_setup.pixels(33, 49)[np.newaxis], False).probabilities is None
    image = predictor_setup.pixels(20, 40)
    with Predictor.from_checkpoint(training, crop_size=(33, 49)) as predictor, Predictor.from_export(path) as exported:
        assert exported.class_names == tuple(predictor_setup.CLASSES)
        assert exported.colors.tolist() == predictor_setup.COLORS
        np.testing.assert_array_equal(exported(image).labels, predictor(image).labels)
        np.testing.assert_allclose(exported(image).probabilities, predictor(image).probabilities, atol=1e-4)
        assert exported(predictor_setup.pixels(50, 60)).labels.shape == (50, 60)  # in windows


def test_eval_and_vis_take_an_export_in_the_place_of_a_checkpoint(training, tmp_path):
    path = str(tmp_path / 'm.tflite')
    proof_options = _with_records(training, verify_split='train')
    (proven,) = export_model.run(_options(training, path, 'tflite', proof_options=proof_options)).proofs
    data = DatasetOptions('train', str(training), str(training / 'tiny.json'))
    network = dataclasses.replace(MODEL, crop_size=None)
    rounds = [
        evaluation.run(
            EvalOptions(network, data, source, str(tmp_path / 'eval'), wait=WaitOptions(max_rounds=1))
        ).rounds[0]
        for source in (str(training), path)
    ]
    assert rounds[0].metrics.confusion_matrix == rounds[1].metrics.confusion_matrix
    assert proven.verified.checkpoint_miou == pytest.approx(rounds[0].metrics.miou, rel=1e-6)
    assert proven.verified.miou == pytest.approx(rounds[1].metrics.miou, rel=1e-6)
    assert rounds[1].global_step == 7 and rounds[1].path.endswith('metrics-7-m.tflite-train.json')
    logdir = tmp_path / 'vis'
    wait = WaitOptions(max_rounds=1)
    visualization.run(VisOptions(network, data, path, str(logdir), wait=wait, also_save_raw_predictions=True))
    assert len(list((logdir / 'raw_segmentation_results').iterdir())) == 3
    for part, given in (
        ('scales', {'prediction': PredictionOptions((0.5, 1.0))}),
        ('use_moving_average', {'use_moving_average': True}),
        (r'm\.tflite.*compare', {'further_checkpoint_dirs': (str(training),)}),
    ):
        with pytest.raises(OptionError, match=part):
            evaluation.run(EvalOptions(network, data, path, str(tmp_path / 'eval'), **given))
    other = dataclasses.replace(network, outputs_to_num_classes={'semantic': 9})
    with pytest.raises(CheckpointError, match=r'm\.tflite.* 4 classes.* 9'):
        evaluation.run(EvalOptions(other, data, path, str(tmp_path / 'eval')))


@pytest.mark.slow
def test_int8_is_calibrated_and_a_loss_names_its_layers(training, tmp_path):
    path = tmp_path / 'm.tflite'
    options = _options(training, path, 'tflite:int8', input_type='uint8', proof_options=_with_records(training))
    (found,) = export_model.run(options).proofs
    assert found.comparison.agreement > 0.8
    with exports.opened(str(path)) as exported:
        assert exported.metadata['variant'] == 'int8' and not exported.has_probabilities
    lost = proof.Verified('train', 3, 0.5, 0.3, (-0.2, -0.3, -0.1))
    limit = dataclasses.replace(options.proof, verify_split='train', max_miou_loss=0.1)
    refused = dataclasses.replace(options, proof=limit, export_path=str(tmp_path / 'refused' / 'm.tflite'))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proof.Verification, 'of', lambda self, export, reference: lost)
        with pytest.raises(OptionError, match=r'0\.3000.*0\.5000.*max_miou_loss=0\.1.*of the deviation') as caught:
            export_model.run(refused)
    assert str(caught.value).count('% of the deviation') == 3
    assert not list((tmp_path / 'refused').iterdir())


@pytest.mark.parametrize(('resize', 'size'), [({}, (33, 44)), ({'min_value': 12, 'max_value': 14}, (10, 14))])
def test_images_are_changed_as_before_the_export_in_use(resize, size, tmp_path):
    folder = predictor_setup.write_training(tmp_path / 'log', MODEL)
    run = json.loads((folder / 'run.json').read_text())
    run['runs'][0]['options']['resize'].update(resize)
    (folder / 'run.json').write_text(json.dumps(run))
    quarters = np.kron([[10, 20], [30, 40]], np.ones((60, 80), np.uint8))[..., np.newaxis].repeat(3, axis=2)
    record = dataset_files.record(0, 120, 160, image=dataset_files.png(quarters.astype(np.uint8)))
    dataset_files.write_split(folder, 'train', [[record]])
    options = _options(folder, tmp_path / 'out', 'tflite:int8', proof_options=_with_records(folder))
    source = DataSource(DatasetOptions('', str(folder), str(folder / 'tiny.json')))
    (image,) = proof.images_of(options, source, 'train', 2, 'ConversionOptions.calibration_split')
    assert image.shape == (*size, 3) and image[[0, 0, -1, -1], [0, -1, 0, -1], 0].tolist() == [10, 20, 30, 40]
    (padded,) = proof.calibration_images(options, source, np.float32(7))
    np.testing.assert_array_equal(padded[0, : size[0], : size[1]], image)
    assert padded.shape == (1, 33, 49, 3) and np.all(padded[0, :, size[1] :] == 7)
    facts = work.CheckpointExports(options, options.checkpoint_path)._facts(options.targets[0])
    assert facts['resize_in_training'] == ([12, 14, None] if resize else None) and facts['resize'] is None
    verified = dataclasses.replace(options, proof=_with_records(folder, verify_split='train'))
    if not resize:
        with pytest.raises(DataError, match='crop_size'):
            proof.Verification(verified, source)
        return
    verification = proof.Verification(verified, source)
    split = verification._split
    (batch,) = split_images.batches(split.reader, verification._steps, split.records, True)
    assert batch['image'].shape[1:3] == batch['label'].shape[1:3] == size


@pytest.mark.parametrize(
    ('name', 'advice'),
    [('frozen_graph', 'Allow more, or try another format'), ('tflite', 'Try another variant: float32, ')],
)
def test_an_export_that_loses_more_than_is_allowed_is_not_written(name, advice, training, tmp_path, monkeypatch):
    lost = proof.Verified('train', 3, 0.5, 0.3, (-0.2, -0.3, -0.1))
    monkeypatch.setattr(proof.Verification, 'of', lambda self, export, reference: lost)
    limits = {most: _with_records(training, verify_split='train', max_miou_loss=most) for most in (0.1, 0.25)}
    with pytest.raises(OptionError, match=rf'0\.3000 on train.*0\.5000.*max_miou_loss=0\.1.*written\. {advice}'):
        export_model.run(_options(training, tmp_path / 'out' / 'm', name, proof_options=limits[0.1]))
    assert not list((tmp_path / 'out').iterdir())
    (found,) = export_model.run(_options(training, tmp_path / 'out' / 'm', name, proof_options=limits[0.25])).proofs
    assert found.verified == lost


class _Known:
    """A runner that gives an image the class ids of its size, and their edges."""

    def __init__(self, *ids):
        self._ids = {each.shape: each for each in ids}

    def run(self, images, with_probabilities):
        ids = self._ids[images.shape[1:3]]
        on_edge, _ = edges.compute_targets(ids, 255, 4)
        maps = np.concatenate([np.eye(4)[ids], on_edge[..., np.newaxis]], axis=2)
        return Outputs(ids[np.newaxis], maps[np.newaxis].astype(np.float32) if with_probabilities else None)


def test_figures_of_an_export_are_its_own(training):
    options = dataclasses.replace(
        _options(training, 'm.tflite', 'tflite', proof_options=_with_records(training, verify_split='train')),
        model=dataclasses.replace(MODEL, task='semantic+edges'),
    )
    truth = [dataset_files.ids(33 - seed, 49 - seed, seed=seed) for seed in range(3)]  # as in the records
    source = DataSource(DatasetOptions('train', str(training), str(training / 'tiny.json')))
    verification = proof.Verification(options, source)
    found = verification.of(export=_Known(*map(np.zeros_like, truth)), reference=_Known(*truth))
    share = np.mean(np.concatenate([ids.ravel() for ids in truth]) == 0)
    assert found.checkpoint_miou == 1 and found.miou == pytest.approx(share / 3)  # of the first of three classes alone
    assert found.difference[0] == found.miou - 1
    assert found.figures == {'f': (1, 0)}


def test_a_split_without_a_labeled_pixel_verifies_nothing(training, tmp_path):
    (tmp_path / 'four.json').write_text(json.dumps({'num_classes': 4, 'splits': ['val']}))
    nothing = dataset_files.png(np.full((33, 49), 255, np.uint8))
    dataset_files.write_split(tmp_path, 'val', [[dataset_files.record(0, 33, 49, label=nothing)]])
    proof_options = ProofOptions(dataset_dir=str(tmp_path), verify_split='val')
    options = _options(training, tmp_path, 'frozen_graph', proof_options=proof_options)
    with pytest.raises(DataError, match="verify_split='val': no pixel of its masks has a class"):
        proof.Verification(options, DataSource(DatasetOptions('val', str(tmp_path), str(tmp_path / 'four.json'))))


@pytest.mark.parametrize('input_type', [pytest.param('float32', marks=pytest.mark.slow), 'uint8'])
def test_a_network_of_8_bit_training_needs_no_images(input_type, tmp_path):
    model = dataclasses.replace(MODEL, quantize_delay_step=0)
    training = predictor_setup.write_training(tmp_path / 'log', model)
    values = {name: given_weights.some_value(name, list(shape)) for name, shape in network_shapes(model).items()}
    for name, value in values.items():
        if name.endswith(('/min', '/max')):
            values[name] = np.full_like(value, 3 if name.endswith('/max') else -3 if 'weights' in name else 0)
    checkpoint_files.write(training / 'model.ckpt-7', values | {'global_step': np.int64(7)})
    path = str(tmp_path / 'm.tflite')
    conversion = ConversionOptions(input_type=input_type)
    checkpoint = str(training / 'model.ckpt-7')
    options = ExportOptions(model, checkpoint, path, formats=('tflite:int8',), conversion=conversion)
    (found,) = export_model.run(options).proofs
    assert found.comparison.agreement > 0.97
    kinds = [details['dtype'] for details in tflite.interpreter_class()(path).get_tensor_details()]
    assert kinds.count(np.int8) + kinds.count(np.uint8) > kinds.count(np.float32)
    with exports.opened(path) as exported:
        assert exported.metadata['variant'] == 'int8'


def test_layers_by_error_finds_the_one_that_is_wrong():
    exact = {name: np.random.default_rng(0).normal(size=(4, 5)) for name in 'abc'}
    # 'b' adds the most, although the error of 'c', which includes it, is larger.
    wrong = {**exact, 'b': exact['b'] + 1.0, 'c': exact['c'] + 1.5}
    activations = {'exact': exact, 'wrong': wrong}
    record = dataclasses.replace(EXPORT_FORMATS.get('tflite'), activations=lambda path, image: activations[path])
    errors = {'a': 0.0, 'b': 1.0 / exact['b'].std(), 'c': 1.5 / exact['c'].std()}
    assert errors['b'] < errors['c']
    found = proof.layers_by_error(record, 'wrong', 'exact', None)
    assert [name for name, _ in found] == ['b', 'c', 'a']
    assert dict(found) == pytest.approx({'a': 0.0, 'b': errors['b'], 'c': errors['c'] - errors['b']})


@pytest.mark.slow
def test_several_formats_in_a_folder(training, tmp_path):
    _skip_without('openvino')
    result = export_model.run(
        _options(training, tmp_path / 'all', 'openvino', 'openvino:float16', 'frozen', 'saved_model')
    )
    assert {each.path.rpartition('/')[2] for each in result.proofs} == {
        'openvino',
        'openvino_float16',
        'frozen_inference_graph.pb',
        'saved_model',
    }
    image = predictor_setup.pixels(33, 49)
    with Predictor.from_checkpoint(training, crop_size=(33, 49)) as predictor:
        expected = predictor(image).labels
    for each in result.proofs:
        with Predictor.from_export(each.path) as exported:
            assert exported.class_names == tuple(predictor_setup.CLASSES), each.path
            assert np.mean(exported(image).labels == expected) > 0.99


@pytest.mark.slow
@pytest.mark.parametrize('name', ['w.onnx', 'm.xml'])
def test_the_ending_alone_chooses_the_format(name, training, tmp_path, monkeypatch):
    record = EXPORT_FORMATS.get({'w.onnx': 'onnx', 'm.xml': 'openvino'}[name])
    _skip_without(record.name)
    result = export_model.run(_options(training, tmp_path / 'out' / name))
    files_of = {'w.onnx': {name}, 'm.xml': {name, 'm.bin'}}[name]
    assert {each.name for each in (tmp_path / 'out').iterdir()} == {*files_of, results.FILE}
    image = predictor_setup.pixels(33, 49)
    with Predictor.from_checkpoint(training, crop_size=(33, 49)) as predictor:
        expected = predictor(image).labels
    with Predictor.from_export(tmp_path / 'out' / name) as exported:
        np.testing.assert_array_equal(exported(image).labels, expected)
    Image.fromarray(image).save(tmp_path / 'image.png')
    monkeypatch.chdir(tmp_path)
    ran = {}
    exec(result.report.partition('To run it in Python:\n\n')[2].partition('\nexport ')[0], ran)
    assert np.mean(ran['labels'] == expected) > 0.99  # OpenVINO may compute in bfloat16 by itself


def _field(message, number):
    """The content of a field of a message."""
    (content,) = wire._messages(memoryview(message), number)
    return bytes(content)


def test_classes_in_run_json_are_exported_where_the_data_set_is_not_there(tmp_path):
    folder = predictor_setup.write_training(tmp_path / 'log', MODEL)
    manifest = json.loads((folder / 'run.json').read_text())
    manifest['runs'][0]['classes'] = descriptor.load(str(folder / 'tiny.json')).as_json()
    (folder / 'run.json').write_text(json.dumps(manifest))
    (folder / 'tiny.json').unlink()
    export_model.run(_options(folder, tmp_path / 'served', 'saved_model'))
    with Predictor.from_export(tmp_path / 'served') as exported:
        assert exported.class_names == tuple(predictor_setup.CLASSES)
        assert exported.colors.tolist() == predictor_setup.COLORS


def test_a_saved_model_for_a_server(training, tmp_path):
    path = tmp_path / 'served'
    export_model.run(_options(training, path, 'saved_model', serving_version=3, has_warmup=True))
    assert {'saved_model.pb', 'assets.extra'} <= {each.name for each in (path / '3').iterdir()}
    image = predictor_setup.pixels(20, 40)
    encoded = io.BytesIO()
    Image.fromarray(image).save(encoded, 'PNG')
    signatures = tf.saved_model.load(str(path / '3')).signatures
    whole = signatures['serving_default'](image=tf.constant(image[np.newaxis]))
    found = signatures['encoded_probabilities'](image_bytes=tf.constant([encoded.getvalue()]))
    for name in ('predictions', 'probabilities'):
        np.testing.assert_array_equal(found[name], whole[name])
    assert set(signatures['encoded'].structured_outputs) == set(signatures['labels'].structured_outputs)
    with pytest.raises(tf.errors.InvalidArgumentError):  # of which it would predict the first alone
        signatures['encoded'](image_bytes=tf.constant([encoded.getvalue()] * 2))
    with Predictor.from_export(path) as exported:  # the folder of the versions
        np.testing.assert_array_equal(exported(image).labels, whole['predictions'][0])
        assert exported.class_names == tuple(predictor_setup.CLASSES)
    (request,) = tf.data.TFRecordDataset(str(path / '3' / 'assets.extra' / saved_model.WARMUP)).as_numpy_iterator()
    request = _field(_field(request, 6), 1)
    assert _field(_field(request, 1), 3) == b'serving_default'
    name, tensor = (_field(_field(request, 2), number) for number in (1, 2))
    warmup = tf.make_ndarray(TensorProto.FromString(tensor))
    assert (name, warmup.shape, warmup.dtype) == (b'image', (1, 33, 49, 3), np.uint8)


def test_onnx_computes_probabilities_only_if_they_are_asked_for(tmp_path):
    _skip_without('onnx')
    from onnx import TensorProto as Types
    from onnx import helper, save

    nodes = [
        helper.make_node('ArgMax', ['image'], ['labels'], axis=3, keepdims=0),
        helper.make_node('Softmax', ['image'], ['probabilities'], axis=3),
    ]
    sides = (1, 4, 5, 3)
    image, probabilities = (helper.make_tensor_value_info(n, Types.FLOAT, sides) for n in ('image', 'probabilities'))
    labels = helper.make_tensor_value_info('labels', Types.INT64, sides[:3])
    graph = helper.make_graph(nodes, 'network', [image], [labels, probabilities])
    save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid('', 13)], ir_version=8, producer_name='test'),
        tmp_path / 'm.onnx',
    )
    images = predictor_setup.pixels(4, 5)[np.newaxis]
    with exports.opened(str(tmp_path / 'm.onnx')) as exported:
        assert (exported.size, exported.num_classes, exported.has_probabilities) == ((4, 5), 3, True)
        np.testing.assert_array_equal(exported.predict(images, True).labels, images.argmax(axis=3))
        assert exported.predict(images, True).probabilities.shape == sides
        assert exported.predict(images, False).probabilities is None


@pytest.mark.slow
def test_onnx_in_each_variant(training, tmp_path):
    _skip_without('onnx')
    formats = ('onnx', 'onnx:float16', 'onnx:int8')
    result = export_model.run(_options(training, tmp_path, *formats, proof_options=_with_records(training)))
    least = {'float32': 0.9999, 'float16': 0.99, 'int8': 0.8}
    for each in result.proofs:
        assert each.comparison.agreement > least[each.variant], each.variant
        with Predictor.from_export(each.path) as exported:
            assert exported.class_names == tuple(predictor_setup.CLASSES)


@pytest.mark.parametrize('name', ['tflite', pytest.param('openvino', marks=pytest.mark.slow)])
def test_any_size_and_number_of_images(name, training, tmp_path):
    _skip_without(name)
    path = str(tmp_path / 'model')
    export_model.run(_options(training, path, name, is_resizable=True, has_dynamic_batch=name != 'tflite'))
    images = np.stack([predictor_setup.pixels(40, 70, seed) for seed in range(2)])
    with Predictor.from_checkpoint(training) as predictor, exports.opened(path) as exported:
        assert exported.size is None
        for image in images:
            assert predictor(image).labels.shape == (40, 70)
    with Predictor.from_export(path) as found, Predictor.from_checkpoint(training) as predictor:
        for image in images:
            np.testing.assert_array_equal(found(image).labels, predictor(image).labels)


def test_exports_state_the_bands_of_rasters(training, tmp_path):
    described = {'num_classes': 4, 'bands': [4, 3, 2], 'value_range': [0, 3000]}
    (tmp_path / 'rasters.json').write_text(json.dumps(described))
    options = _options(training, tmp_path / 'm', 'tflite', proof_options=ProofOptions(str(tmp_path / 'rasters.json')))
    facts = work.CheckpointExports(options, options.checkpoint_path)._facts(options.targets[0])
    assert predictor._classes_in(facts).raster == RasterOptions((4, 3, 2), (0, 3000))


def test_each_export_in_a_folder_has_one_entry(tmp_path):
    """Beside earlier ones, whatever their formats, until it is replaced or deleted."""

    def write(name, checkpoint):
        (tmp_path / name).write_text(checkpoint)
        path = str(tmp_path / name)
        comparison = Comparison(1, 1.0, None)
        results.write(str(tmp_path), results.Proof('tflite', 'float32', path, checkpoint, comparison, FIGURES))

    def entries():
        content = json.loads((tmp_path / results.FILE).read_text())
        return {name: entry['checkpoint'] for name, entry in content['exports'].items()}

    write('one.tflite', 'first')
    write('two.tflite', 'second')
    assert entries() == {'one.tflite': 'first', 'two.tflite': 'second'}
    write('one.tflite', 'third')
    assert entries() == {'one.tflite': 'third', 'two.tflite': 'second'}
    results.forget(str(tmp_path / 'two.tflite'))  # replaced by an export without figures
    assert entries() == {'one.tflite': 'third'}
    (tmp_path / 'one.tflite').unlink()
    write('three.tflite', 'fourth')
    assert entries() == {'three.tflite': 'fourth'}


def test_figures_are_measured_in_a_process(training, tmp_path, monkeypatch):
    monkeypatch.undo()
    path = tmp_path / 'm.tflite'
    monkeypatch.setattr(export_figures, '_SECONDS', 0.01)
    request = (str(path), 'tflite', 1, 2)
    with pytest.raises(CheckpointError, match=r'm\.tflite.*cannot be loaded'):
        export_figures.measure(*request)
    monkeypatch.setattr(work.speed, 'measured', export_figures.measure)
    (found,) = export_model.run(_options(training, path, 'tflite')).proofs
    assert found.figures.threads == exports.default_threads()
    assert found.figures.size == (33, 49) and found.figures.bytes == path.stat().st_size
    assert export_figures.measure(*request).batch_size == 2
    json_path = tmp_path / 'figures.json'
    words = [f'--output={json_path}', '--threads=1,2', '--batch=1,2', str(path)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export_figures, 'measured', lambda *_: dataclasses.replace(FIGURES, threads=1))
        report = benchmark.run(cli.options_of('benchmark', words)).report
    assert report.count('100 MB') == 4
    assert len(json.loads(json_path.read_text())['exports']) == report.count(str(path)) == 4
    with pytest.raises(CheckpointError, match='none.tflite'):
        benchmark.run(cli.options_of('benchmark', [f'--output={json_path}', str(tmp_path / 'none.tflite')]))
    with pytest.raises(OptionError, match=r'^size=\(65, 65\).*33 x 49'):
        export_figures.measure(*request, (65, 65))


def test_the_lines_that_run_an_export_read_the_images_of_the_network(training):
    for channels, bits, read in ((3, 8, "convert('RGB')"), (1, 8, "np.load('image.npy')  #"), (5, 16, ' / 257  #')):
        model = dataclasses.replace(MODEL, input_channels=channels)
        options = dataclasses.replace(_options(training, 'm.onnx', 'onnx'), model=model, image_bits=bits)
        report = work._report(results.Proof('onnx', 'float32', 'm.onnx', 'c', None, FIGURES), options)
        lines = report.partition('To run it in Python:\n')[2]
        assert read in lines and f', {channels}]' in report and 'then padded' in lines
        compile(lines, 'report', 'exec')


def test_the_lines_for_a_classifier_say_how_its_images_are_changed(training):
    model = ModelOptions({'semantic': 4}, task='classification', model_variant='lenet')
    options = dataclasses.replace(_options(training, 'm.onnx', 'onnx'), model=model)
    report = work._report(results.Proof('onnx', 'float32', 'm.onnx', 'c', None, FIGURES), options)
    assert 'preprocessing as at evaluation' in report and 'padded' not in report
    compile(report.partition('To run it in Python:\n')[2], 'report', 'exec')


def test_a_format_without_an_example_has_no_lines_to_run_it(training, monkeypatch):
    record = dataclasses.replace(EXPORT_FORMATS.get('onnx'), example='')
    options = _options(training, 'm.onnx', 'onnx')
    monkeypatch.setattr(EXPORT_FORMATS, 'get', lambda name: record)
    report = work._report(results.Proof('onnx', 'float32', 'm.onnx', 'c', None, FIGURES), options)
    assert 'Output: labels' in report and 'Python' not in report


def test_threads_of_exports_are_limited_as_those_of_tensorflow(monkeypatch):
    found = []
    for number in ('3', '0', 'all', ''):
        monkeypatch.setenv('TF_NUM_INTRAOP_THREADS', number)
        found.append((exports._limit(), exports.default_threads()))
    assert found == [(3, 3), *[(None, processors.available_cores())] * 3]


# --- What is refused -------------------------------------------------------------------------------------------------


def _refused(options, *parts):
    with pytest.raises(UserError) as caught:
        export_model.run(options)
    for part in parts:
        assert part in str(caught.value)
    assert '\n' not in str(caught.value)


def test_records_that_are_not_there(training, tmp_path):
    dataset_files.write_split(training, 'empty', [[]])
    proof_options = _with_records(training)
    for split, reason in (('none', "'none-*'"), ('empty', 'no image')):
        _refused(
            _options(training, tmp_path / 'out', 'tflite:int8', calibration_split=split, proof_options=proof_options),
            reason,
        )
    other = dataclasses.replace(proof_options, dataset='pascal_voc_seg')
    _refused(_options(training, tmp_path / 'out', 'tflite:int8', proof_options=other), '4 classes', '21')
    assert not (tmp_path / 'out').exists()


def test_a_resizable_export_of_a_network_with_a_pooling_crop(training, tmp_path):
    options = _options(training, tmp_path / 'm.onnx', 'onnx', is_resizable=True)
    with pytest.raises(OptionError, match=r'is_resizable=True is not .*_crop_size=\(9, 9\)\)\. Omit is_resizable'):
        dataclasses.replace(options, model=dataclasses.replace(options.model, image_pooling_crop_size=(9, 9)))


def test_an_operation_that_a_format_lacks(training, tmp_path, monkeypatch):
    def fail(graph, configure):
        raise ValueError('Error: the following ops need custom ops:\n\tcustom ops: MatMul, Softmax\nDetails:')

    monkeypatch.setattr('deeplab.inference.runtimes.tflite.converted', fail)
    options = _options(training, tmp_path / 'm.tflite', 'tflite', outputs='probabilities', is_resizable=True)
    _refused(options, 'tflite:float32', 'Softmax', 'is_resizable')
    assert not list(tmp_path.iterdir())


def test_a_missing_extra_and_a_full_disk(training, tmp_path, monkeypatch, full_disk):
    for target, absent, words in (
        ('onnx', 'onnx', ("pip install 'deeplab-toolkit[onnx]'",)),
        ('openvino:int8', 'nncf', ('openvino:int8', "pip install 'deeplab-toolkit[nncf]'")),
    ):
        monkeypatch.setattr(packages, 'missing', lambda names, absent=absent: [absent] if absent in names else [])
        _refused(_options(training, tmp_path / 'm', 'tflite', target, proof_options=_with_records(training)), *words)
    monkeypatch.undo()
    with full_disk(1000):
        _refused(_options(training, tmp_path / 'm.tflite', 'tflite'), 'export_path', 'File too large')
    assert not list(tmp_path.iterdir())


def test_exports_that_cannot_be_opened(tmp_path, monkeypatch):
    damaged = tmp_path / 'damaged.tflite'
    damaged.write_bytes(b'\x1c\0\0\0TFL3' + b'\xff' * 64)
    (tmp_path / 'model.onnx').write_bytes(b'no model')
    (tmp_path / 'ov').mkdir()
    (tmp_path / 'ov' / 'model.xml').write_text('<net>')
    for name in ('damaged.tflite', 'model.onnx', 'ov', 'missing.tflite'):
        record = exports.format_of(str(tmp_path / name))
        if record is not None and packages.missing(record.runs_with):
            continue
        damage = r' \(it is damaged' if name == damaged.name else ''  # found before an interpreter crashes of it
        with pytest.raises(CheckpointError, match=f'{name}.*cannot be loaded{damage}') as caught:
            Predictor.from_export(tmp_path / name)
        assert '\n' not in str(caught.value)
    monkeypatch.setattr(tflite, 'has_own_runtime', lambda: False)
    with pytest.raises(CheckpointError, match=r'damaged\.tflite.*cannot be loaded \(it is damaged'):
        Predictor.from_export(damaged)


def test_formats_are_recognized_by_content(tmp_path):
    for content, name in (
        (b'\x08\x08\x12\x07tf2onnx\x1a\x0b1.1', 'onnx'),
        (b'\x1c\0\0\0TFL3', 'tflite'),
        (b'\n\x1a\n\x05image\x12', 'frozen_graph'),
    ):
        (tmp_path / 'model').write_bytes(content)
        assert exports.format_of(str(tmp_path / 'model')).name == name
    (tmp_path / 'model').write_bytes(b'\x08\x08\x12\x07\0\0')
    assert exports.format_of(str(tmp_path / 'model')) is None and exports.format_of(str(tmp_path)) is None
    assert exports.format_of(str(tmp_path / 'missing')) is None


def test_metadata_that_is_none():
    assert export_metadata.loaded('') == export_metadata.loaded('[1]') == export_metadata.loaded('{"a": 1}') == {}
