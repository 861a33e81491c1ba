"""Networks with the weights of a checkpoint, opened in an engine.

Covers inference/engine_choice.py, inference/network.py and inference/runners.py.
"""

import contextlib
import dataclasses
import json
import pathlib
import sys

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from deeplab import common, model
from deeplab.errors import OptionError
from deeplab.inference import opening
from deeplab.inference.calibration_images import CalibrationError
from deeplab.inference.comparison import Comparison
from deeplab.inference.engine_choice import Candidate
from deeplab.inference.network import InferenceNetwork
from deeplab.inference.runners import CheckpointRunner
from deeplab.options import EngineOptions, ModelOptions, PredictionOptions
from deeplab.registry import BACKBONES, ENGINES, Engine, Outputs, register
from deeplab.system import packages, processors
from tests.helpers.registries import changes_undone
from tests.helpers.toy_network import TOY

MODEL = ModelOptions({common.OUTPUT_TYPE: 3}, crop_size=(33, 49), model_variant='toy')


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory):
    """A checkpoint of the toy network with its initial weights; the network is known while the tests run."""
    path = str(tmp_path_factory.mktemp('checkpoint') / 'model.ckpt-0')
    with changes_undone(BACKBONES):
        register(TOY)
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            model.multi_scale_logits(tf.zeros([1, *MODEL.crop_size, 3]), MODEL)
            session.run(tf.compat.v1.global_variables_initializer())
            tf.compat.v1.train.Saver().save(session, path, write_meta_graph=False)
        yield path


@pytest.fixture
def weights(checkpoint, tmp_path):
    """The checkpoint in a folder of its own."""
    for path in pathlib.Path(checkpoint).parent.glob('model*'):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return opening.Weights(str(tmp_path / 'model.ckpt-0'))


class FakeEngine:
    """An engine whose format is a file with the labels to return; a test changes how it works."""

    def __init__(self):
        self.conversions = 0
        self.error = None
        self.labels = None

    def convert(self, graph, folder, execution):
        self.conversions += 1
        if self.error:
            raise self.error
        pathlib.Path(folder, 'graph').write_bytes(graph.graph_def.SerializeToString(deterministic=True))
        self.graph = graph

    @contextlib.contextmanager
    def load(self, folder, execution):
        with ENGINES.get('tensorflow').open(self.graph, execution) as predict:
            yield (lambda images: Outputs(self.labels)) if self.labels is not None else predict


@pytest.fixture
def fake():
    """The engine 'fake', as the tests of this file know it."""
    engine = FakeEngine()
    with changes_undone(ENGINES):
        register(Engine(name='fake', convert=engine.convert, load=engine.load))
        yield engine


def _network(**changes):
    return InferenceNetwork(dataclasses.replace(MODEL, **changes), PredictionOptions(), 1)


def _images(n=2, height=33, width=49):
    return np.random.default_rng(0).uniform(0, 255, [n, height, width, 3]).astype(np.float32)


def test_a_network_of_any_size_predicts_as_one_of_that_size(weights):
    of_one = InferenceNetwork(MODEL, PredictionOptions(), 2, with_probabilities=True)
    of_any = InferenceNetwork(dataclasses.replace(MODEL, crop_size=None), PredictionOptions(), None, True)
    images = _images()
    with opening.opened(of_one, weights, EngineOptions()) as predict:
        expected = predict(images)
    with opening.opened(of_any, weights, EngineOptions()) as predict:
        found = predict(images)
        larger = predict(_images(1, 65, 33))
    assert expected.labels.dtype == np.int32 and expected.probabilities.dtype == np.float32
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=1e-5)
    assert len(np.unique(found.labels)) > 1
    assert larger.labels.shape == (1, 65, 33) and larger.probabilities.shape == (1, 65, 33, 3)


@pytest.mark.usefixtures('checkpoint')
def test_the_memory_of_a_batch_is_known_with_its_size():
    one, two = (InferenceNetwork(MODEL, PredictionOptions(), n).memory_need() for n in (1, 2))
    assert two.activations == 2 * one.activations > 2 * 33 * 49 * 3
    assert two.held == one.held > 0
    for crop_size, batch_size in ((None, 1), ((33, 49), None), (None, None)):
        network = InferenceNetwork(dataclasses.replace(MODEL, crop_size=crop_size), PredictionOptions(), batch_size)
        assert network.memory_need() is None and network.at_once == 1


# runtimes/test_parity.py has the other engines.
def test_a_network_in_another_engine(weights):
    if packages.missing(ENGINES.get('tflite').requires):
        pytest.skip('it is not installed')
    network = InferenceNetwork(MODEL, PredictionOptions(), 1, with_probabilities=True)
    images = _images(1)
    with opening.opened(network, weights, EngineOptions()) as predict:
        expected = predict(images)
    with opening.opened(network, weights, EngineOptions('tflite')) as predict:
        found = predict(images)
    assert np.mean(found.labels == expected.labels) >= 0.999
    np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=1e-4)


def test_a_checkpoint_is_converted_once_for_each_network(weights, fake):
    for _ in range(2):
        with opening.opened(_network(), weights, EngineOptions('fake')) as predict:
            predict(_images(1))
    assert fake.conversions == 1
    with opening.opened(_network(output_stride=8), weights, EngineOptions('fake')):
        pass
    assert fake.conversions == 2
    assert len(list(pathlib.Path(weights.checkpoint).parent.glob('.engines/*'))) == 2


@pytest.mark.parametrize(
    ('message', 'parts'),
    [
        (
            'Model was not converted.\n-- No conversion rule found for operations: ResizeBilinear, Other',
            'ResizeBilinear',
        ),
        ("'tf.ArgMax'\nCustom ops: ArgMax, Conv2D", 'ArgMax, Conv2D'),
        ('something else: Conv2D\nmore', 'something else: Conv2D.'),
    ],
)
def test_operations_that_an_engine_cannot_convert_are_named(weights, fake, message, parts):
    fake.error = RuntimeError(message)
    with pytest.raises(OptionError) as error:
        with opening.opened(_network(), weights, EngineOptions('fake')):
            pass
    assert parts in str(error.value) and "engine='fake'" in str(error.value) and '\n' not in str(error.value)


@pytest.mark.parametrize('engine', ['tflite', pytest.param('openvino', marks=pytest.mark.slow)])
def test_an_engine_names_an_operation_that_it_does_not_know(weights, engine, monkeypatch):
    if packages.missing(ENGINES.get(engine).requires):
        pytest.skip('it is not installed')
    predict_labels = model.predict_labels

    def with_bessel(images, *arguments, **keywords):
        return predict_labels(tf.raw_ops.BesselI0(x=images), *arguments, **keywords)

    monkeypatch.setattr(model, 'predict_labels', with_bessel)
    with pytest.raises(OptionError, match='no conversion for the operation BesselI0'):
        with opening.opened(_network(), weights, EngineOptions(engine)):
            pass


def test_an_engine_with_other_labels_is_refused(weights, fake):
    fake.labels = np.zeros([1, 33, 49], np.int32)
    with pytest.raises(OptionError, match=r'fake.*TensorFlow.*99.9%'):
        with opening.opened(_network(), weights, EngineOptions('fake')):
            pass
    assert not list(pathlib.Path(weights.checkpoint).parent.glob('.engines/*'))


@pytest.mark.usefixtures('checkpoint')
def test_an_engine_that_is_not_installed():
    network, weights = _network(), opening.Weights('none')
    with changes_undone(ENGINES):
        register(Engine(name='fake', requires=('no_such_package',), install="'deeplab-toolkit[fake]'"))
        fake = EngineOptions('fake')
        for use in (lambda: opening.check(fake), lambda: CheckpointRunner(network, weights, fake)):
            with pytest.raises(OptionError, match=r"no_such_package, .*pip install 'deeplab-toolkit\[fake\]'"):
                use()


def test_an_engine_whose_package_is_broken(weights, fake):
    def precisions():
        raise ImportError('libfake.so: no such file')

    register(Engine(name='broken', precisions=precisions))
    with pytest.raises(OptionError, match=r"engine='broken' .*cannot be imported: libfake.so"):
        opening.check(EngineOptions('broken'))
    fake.error = ImportError('libfake.so: no such file')
    with pytest.raises(OptionError, match=r"engine='fake' .*cannot be imported: libfake.so"):
        with opening.opened(_network(), weights, EngineOptions('fake')):
            pass


def test_a_type_that_processor_or_engine_do_not_have(weights, fake, monkeypatch):
    with pytest.raises(OptionError, match=r"precision='bfloat16' .*fake computes in float32 only"):
        opening.check(EngineOptions('fake', 'bfloat16'))
    known = (ENGINES.get('fake'),)
    monkeypatch.setattr(ENGINES, 'records', lambda: known)
    with pytest.raises(OptionError, match=r"no engine .*precision='bfloat16'\. fake: computes in float32 only"):
        opening.choose(_network(), weights, EngineOptions('auto', 'bfloat16'))


@pytest.fixture
def known(fake, monkeypatch):
    """Engines that 'auto' can choose from, by name; a test sets the times of their batches by name and precision."""
    engines = {name: ENGINES.get(name) for name in ('fake', 'tensorflow')}
    monkeypatch.setattr(ENGINES, 'records', lambda: tuple(engines.values()))
    return engines


def _registered(known, record):
    register(record)
    known[record.name] = record


def _set_times(monkeypatch, *seconds):
    """Sets the times of the candidates that are timed, in their order."""
    times = iter(seconds)
    monkeypatch.setattr(opening, '_time', lambda predict, images: next(times))


def test_auto_takes_the_fastest_and_leaves_out_what_fails(weights, known, monkeypatch, caplog):
    broken = FakeEngine()
    broken.error = RuntimeError('it is broken')
    _registered(known, Engine(name='broken', convert=broken.convert, load=broken.load))
    _registered(known, Engine(name='absent', requires=('no_such_package',)))
    _set_times(monkeypatch, 0.25, 0.5)  # of fake, of tensorflow
    network, asked = _network(), EngineOptions('auto', threads=2)
    with caplog.at_level('INFO'):
        choice = opening.choose(network, weights, asked)
    assert choice.options == EngineOptions('fake', threads=2)
    (line,) = [message for message in caplog.messages if 'takes fake' in message]
    assert "engine='auto' takes fake in float32" in line and 'precision=' not in line
    assert 'fake in float32 250 ms (100.00% of the labels), tensorflow in float32 500 ms' in line
    assert 'it is broken' in line and 'no_such_package not installed' in line
    assert opening.choose(network, weights, asked) is choice  # not timed again


class RoundedEngine(FakeEngine):
    """An engine that in 16 bits gives another label for a share of the pixels."""

    def __init__(self, share):
        super().__init__()
        self.share = share

    @contextlib.contextmanager
    def load(self, folder, execution):
        with super().load(folder, execution) as predict:

            def rounded(images):
                outputs = predict(images)
                labels = outputs.labels.copy()
                if execution.precision != 'float32':
                    changed = labels.reshape(-1)[: round(self.share * labels.size)]
                    changed[:] = (changed + 1) % 3
                return outputs._replace(labels=labels)

            yield rounded


def _expected(weights):
    with opening.opened(_network(), weights, EngineOptions()) as predict:
        return predict(_images(1)).labels


def _add(known, name, share, precisions=('float32', 'bfloat16')):
    engine = RoundedEngine(share)
    _registered(known, Engine(name=name, convert=engine.convert, load=engine.load, precisions=lambda: precisions))


def test_auto_precision_takes_16_bits_if_the_labels_stay(weights, known, monkeypatch, caplog):
    _add(known, 'good', 0.015)
    _set_times(monkeypatch, 0.4, 0.5, 0.3, 0.2)  # of fake, tensorflow, good in float32 and in bfloat16
    asked = EngineOptions('auto', 'auto')
    with caplog.at_level('INFO'):
        choice = opening.choose(_network(), weights, asked)
    assert choice.options == EngineOptions('good', 'bfloat16')
    taken, *slower = choice.candidates
    assert (taken.name, taken.seconds, taken.reason) == ('good in bfloat16', 0.2, '')
    assert taken.agreement == pytest.approx(0.985, abs=1e-3)
    assert [(each.name, each.seconds, each.reason) for each in slower] == [
        ('good in float32', 0.3, 'slower'),
        ('fake in float32', 0.4, 'slower'),
        ('tensorflow in float32', 0.5, 'slower'),
    ]
    assert all(each.agreement == 1.0 for each in slower)
    (line,) = [message for message in caplog.messages if "engine='auto' precision='auto' takes good" in message]
    assert 'good in bfloat16 200 ms (98.5' in line


def test_auto_precision_refuses_16_bits_that_change_labels(weights, known, monkeypatch, caplog):
    _add(known, 'bad', 0.03, ('float32', 'bfloat16', 'float16'))
    _set_times(monkeypatch, 0.4, 0.1, 0.2)  # of bad in float32, bfloat16 and float16
    with caplog.at_level('INFO'):
        choice = opening.choose(_network(), weights, EngineOptions('bad', 'auto', threads=3))
    assert choice.options == EngineOptions('bad', 'float32', threads=3)
    assert [each.engine for each in choice.candidates] == ['bad'] * 3
    refused = choice.candidates[1]
    assert (refused.precision, refused.seconds) == ('bfloat16', 0.1) and '98.0% are required' in refused.reason
    assert any('bad in bfloat16: its labels equal' in message for message in caplog.messages)


def test_auto_precision_opens_the_network_in_what_it_chose(weights, known, monkeypatch):
    _add(known, 'good', 0.01)
    _set_times(monkeypatch, 0.2, 0.1)
    opening.check(EngineOptions('good', 'auto'))
    with opening.opened(_network(), weights, EngineOptions('good', 'auto')) as predict:
        changed = np.mean(predict(_images(1)).labels != _expected(weights))
    assert changed == pytest.approx(0.01, abs=1e-3)


def test_maps_of_further_tasks_may_differ_by_what_16_bits_round(known):
    comparison = Comparison(1, 1.0, 0.04, {'depth': 0.04})
    assert opening._refusal(comparison, Candidate('fake', 'bfloat16')) == ''
    assert 'depth 0.04' in opening._refusal(comparison, Candidate('fake', 'float32'))
    assert 'nan' in opening._refusal(Comparison(1, 1.0, np.nan, {'depth': np.nan}), Candidate('fake', 'bfloat16'))


@pytest.fixture
def photos(tmp_path):
    """A folder of eight images, two of which do not calibrate."""
    folder = tmp_path / 'photos'
    folder.mkdir()
    for number, image in enumerate(_images(8)):
        Image.fromarray(image.astype(np.uint8)).save(folder / f'{number}.png')
    return folder


class QuantizingEngine(FakeEngine):
    """An engine that in 8 bits gives another label for a share of the pixels."""

    def __init__(self, share):
        super().__init__()
        self.share = share
        self.calibrated = []  # images of each conversion to 8 bits

    def convert(self, graph, folder, execution):
        super().convert(graph, folder, execution)
        if execution.precision == 'int8':
            self.calibrated.append(np.concatenate([*execution.calibration()]))
        pathlib.Path(folder, 'precision').write_text(execution.precision)

    @contextlib.contextmanager
    def load(self, folder, execution):
        is_int8 = pathlib.Path(folder, 'precision').read_text() == 'int8'
        with super().load(folder, execution) as predict:

            def rounded(images):
                labels = predict(images).labels.copy()
                changed = labels.reshape(-1)[: round(self.share * labels.size) if is_int8 else 0]
                changed[:] = (changed + 1) % 3
                return Outputs(labels)

            yield rounded


def _add_quantizing(known, share, **more):
    engine = QuantizingEngine(share)
    _registered(
        known,
        Engine(
            name='quantizing',
            convert=engine.convert,
            load=engine.load,
            precisions=lambda: ('float32', 'int8'),
            **more,
        ),
    )
    return engine


def test_auto_tries_8_bits_with_images_for_calibration_alone(weights, known, monkeypatch, photos, caplog):
    engine = _add_quantizing(known, 0.04)
    _set_times(monkeypatch, 0.4, 0.5, 0.3)
    choice = opening.choose(_network(), weights, EngineOptions('auto', 'auto'))
    assert choice.options == EngineOptions('quantizing') and not engine.calibrated
    assert 'engines_compared_on' not in choice.as_json()

    _set_times(monkeypatch, 0.4, 0.5, 0.3, 0.1)
    asked = EngineOptions('auto', 'auto', calibration_dir=str(photos))
    with caplog.at_level('INFO'):
        choice = opening.choose(_network(), weights, asked)
    assert choice.options == EngineOptions('quantizing', 'int8', calibration_dir=str(photos))
    taken, *slower = choice.candidates
    assert (taken.name, taken.seconds) == ('quantizing in int8', 0.1)
    assert taken.agreement == pytest.approx(0.96, abs=1e-3) and all(each.agreement == 1.0 for each in slower)
    assert choice.as_json()['engines_compared_on'] == f"2 other images of '{photos}'"
    text = '\n'.join(caplog.messages)
    assert f"TensorFlow in float32 on 2 other images of '{photos}': quantizing in int8 100 ms (95.98%" in text
    assert f"calibrated with 6 images of '{photos}': the labels equal TensorFlow's in float32 on 95.98%" in text
    (calibrated,) = engine.calibrated
    assert calibrated.shape == (6, 33, 49, 3)

    _set_times(monkeypatch, 0.1)
    choice = opening.choose(_network(), weights, dataclasses.replace(asked, precision='int8'))
    assert choice.options == EngineOptions('quantizing', 'int8', calibration_dir=str(photos))
    assert {each.engine: each.reason for each in choice.candidates[1:]} == dict.fromkeys(
        ('fake', 'tensorflow'), 'computes in float32 only on this processor'
    )


def test_auto_takes_a_float_type_without_the_images(weights, known, monkeypatch, photos):
    _add_quantizing(known, 0.0)
    _set_times(monkeypatch, 0.4, 0.1, 0.3, 0.2)
    asked = EngineOptions('auto', 'auto', calibration_dir=str(photos))
    assert opening.choose(_network(), weights, asked).options == EngineOptions()


def test_8_bits_that_change_too_many_labels_are_refused_and_not_converted_again(weights, known, monkeypatch, photos):
    engine = _add_quantizing(known, 0.06)
    _set_times(monkeypatch, 0.4, 0.5, 0.3)
    asked = EngineOptions('auto', 'auto', calibration_dir=str(photos))
    choice = opening.choose(_network(), weights, asked)
    assert choice.options == EngineOptions('quantizing')
    (refused,) = [each for each in choice.candidates if each.precision == 'int8']
    assert 'on 94.0' in refused.reason and '95% are required' in refused.reason
    with pytest.raises(OptionError, match=r"quantizing'.*precision='int8'.*on 94\.0.*2 other images.*95% are required"):
        with opening.opened(_network(), weights, EngineOptions('quantizing', 'int8', calibration_dir=str(photos))):
            pass
    assert len(engine.calibrated) == 1


def test_other_images_convert_again_in_8_bits_and_not_in_float32(weights, known, photos):
    engine = _add_quantizing(known, 0.04)
    in_int8 = EngineOptions('quantizing', 'int8', calibration_dir=str(photos))
    for _ in range(2):
        with opening.opened(_network(), weights, in_int8) as predict:
            changed = np.mean(predict(_images(1)).labels != _expected(weights))
        with opening.opened(_network(), weights, in_int8.in_precision('float32')):
            pass
    assert changed == pytest.approx(0.04, abs=1e-3)
    assert engine.conversions == 2
    Image.new('RGB', (49, 33), 'red').save(photos / '0.png')
    for options in (in_int8, in_int8.in_precision('float32')):
        with opening.opened(_network(), weights, options):
            pass
    assert engine.conversions == 3
    first, second = engine.calibrated
    assert not np.array_equal(first, second)


def test_images_that_do_not_fit_are_no_fault_of_an_engine(weights, known, photos):
    _add_quantizing(known, 0.0)
    (photos / '0.png').write_bytes(b'no image')  # which calibrates
    asked = EngineOptions('quantizing', 'auto', calibration_dir=str(photos))
    with pytest.raises(CalibrationError, match=r'0\.png.*not an image'):
        opening.choose(_network(), weights, asked)


@pytest.mark.parametrize(
    ('changes', 'parts'),
    [
        ({'task': 'depth'}, 'other tasks than semantic'),
        ({'quantize_delay_step': 0}, '8-bit training'),
        ({'crop_size': None}, 'one size of images; set crop_size'),
    ],
)
def test_networks_that_are_not_for_8_bits(known, changes, parts, photos):
    _add_quantizing(known, 0.0)
    options = EngineOptions('quantizing', 'int8', calibration_dir=str(photos))
    with pytest.raises(OptionError, match=f"precision='int8' is not possible: .*{parts}"):
        with opening.opened(_network(**changes), opening.Weights('none'), options):
            pass


def test_8_bits_need_an_engine_its_packages_and_images(known, photos):
    _add_quantizing(known, 0.0, precisions_need={'int8': (('no_such_package',), "'deeplab-toolkit[fake]'")})
    with pytest.raises(OptionError, match=r"'quantizing' in int8 needs no_such_package.*toolkit\[fake\]'"):
        opening.check(EngineOptions('quantizing', 'int8', calibration_dir=str(photos)))
    opening.check(EngineOptions('quantizing'))
    for engine in ('quantizing', 'auto'):  # before anything is read or computed
        with pytest.raises(OptionError, match=r"calibration_dir='nowhere': there is no image"):
            opening.check(EngineOptions(engine, 'auto', calibration_dir='nowhere'))
    with pytest.raises(OptionError, match='tensorflow computes in float32 only'):
        opening.check(EngineOptions('tensorflow', 'int8', calibration_dir=str(photos)))
    with pytest.raises(OptionError, match=r"precision='int8' .*8 bits need images.*calibration_dir"):
        EngineOptions('quantizing', 'int8')
    with pytest.raises(OptionError, match=r"calibration_dir='photos' .*precision='int8' or precision='auto'"):
        EngineOptions('quantizing', calibration_dir='photos')


@pytest.mark.slow
@pytest.mark.parametrize('engine', ['tflite', 'onnxruntime', 'openvino'])
def test_each_engine_in_8_bits(weights, engine, photos, capfd):
    needs, _ = ENGINES.get(engine).precisions_need.get('int8', ((), ''))
    if packages.missing([*ENGINES.get(engine).requires, *needs]):
        pytest.skip('it is not installed')
    images = _images(1)
    with opening.opened(_network(), weights, EngineOptions(engine, 'int8', calibration_dir=str(photos))) as predict:
        agreement = np.mean(predict(images).labels == _expected(weights))
    assert 0.85 < agreement < 1  # 8 bits, not 32; all probabilities of this network are about 1 / 3
    (noted,) = pathlib.Path(weights.checkpoint).parent.glob('.engines/*/agreement.json')
    assert 0.95 <= json.loads(noted.read_text()) < 1
    output = capfd.readouterr()
    assert not output.out and 'onsider' not in output.err  # progress bars, advice
    assert not any(name.startswith('openvino_telemetry') for name in sys.modules)


@pytest.mark.slow
@pytest.mark.parametrize(('saturates', 'expected', 'other'), [(True, 'UINT8', 'INT8'), (False, 'INT8', 'UINT8')])
def test_weights_are_unsigned_where_sums_of_signed_ones_saturate(
    weights, photos, monkeypatch, saturates, expected, other
):
    onnx = pytest.importorskip('onnx')
    monkeypatch.setattr(processors, 'saturates_int8', lambda: saturates)
    monkeypatch.setattr(opening, 'LEAST_AGREEMENT_IN_INT8', 0.0)  # this processor may saturate
    in_int8 = EngineOptions('onnxruntime', 'int8', calibration_dir=str(photos))
    with opening.opened(_network(), weights, in_int8):
        pass
    (path,) = pathlib.Path(weights.checkpoint).parent.glob('.engines/*/model.onnx')
    kinds = [onnx.TensorProto.DataType.Name(each.data_type) for each in onnx.load(path).graph.initializer if each.dims]
    assert expected in kinds and other not in kinds
