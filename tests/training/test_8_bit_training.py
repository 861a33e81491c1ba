"""Training that imitates 8 bits: it resumes exactly, starts from float checkpoints, and its losses fall."""

import dataclasses
import json
import pathlib
import shutil
import types

import numpy as np
import pytest

from deeplab import cli, convert_to_tflite, export_model, train
from deeplab.core import checkpoints, quantization
from deeplab.errors import OptionError
from deeplab.inference.network import InferenceNetwork
from deeplab.inference.runtimes import tflite
from deeplab.options import CheckpointOptions, CloneOptions, ConvertOptions, ExportOptions, PredictionOptions
from deeplab.programs import checkpoint as inspect_checkpoint
from deeplab.registry import BACKBONES, register
from deeplab.utils import train_utils
from tests.helpers import dataset_files, training_setup
from tests.helpers.registries import changes_undone

pytestmark = pytest.mark.usefixtures('tiny_network')

DELAY = 2


def _options(data, logdir, steps, delay=DELAY, **changes):
    known = training_setup.options(data, logdir, steps, **changes)
    return dataclasses.replace(known, model=dataclasses.replace(known.model, quantize_delay_step=delay))


def _values(path):
    reader = checkpoints.open_reader(str(path))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def _copy(source, target, step):
    """Copies a run as it was at a step."""
    target.mkdir()
    for path in source.glob(f'model.ckpt-{step}.*'):
        shutil.copy(path, target)
    checkpoints.write_state(str(target), [f'model.ckpt-{step}'])


@pytest.fixture(scope='module')
def straight(tmp_path_factory):
    """A run of four steps, with a checkpoint of each, and its data."""
    folder = tmp_path_factory.mktemp('straight')
    data = training_setup.write_data(folder / 'records')
    with changes_undone(BACKBONES):
        register(training_setup.TINY)
        train.run(_options(data, folder / 'log', 4, save_interval_secs=0))
    return data, folder / 'log'


@pytest.mark.parametrize('step', [DELAY - 1, pytest.param(DELAY + 1, marks=pytest.mark.slow)])
def test_resumed_before_and_after_the_delay_it_ends_with_the_same_bytes(straight, tmp_path, step):
    data, log = straight
    _copy(log, tmp_path / 'log', step)
    resumed = _values(train.run(_options(data, tmp_path / 'log', 4)).checkpoint)
    expected = _values(log / 'model.ckpt-4')
    assert resumed.keys() == expected.keys()
    for name, value in expected.items():
        assert value.tobytes() == resumed[name].tobytes(), name


def test_a_checkpoint_is_recognized_with_its_ranges(straight):
    checkpoint = str(straight[1] / 'model.ckpt-4')
    expected = _values(checkpoint)
    counter = 'tiny/conv1/act_quant/tiny/conv1/act_quant/min/local_step'
    assert expected[counter] == 4
    assert expected['tiny/conv1/act_quant/min'] == 0 < expected['tiny/conv1/act_quant/max'] != 6
    inspected = inspect_checkpoint.run(CheckpointOptions(checkpoint, json=True))
    assert counter in inspected.slots
    assert 'tiny/conv1/act_quant/max' in inspected.variables
    assert inspected.deduced.fit.is_complete
    assert not inspected.deduced.fit.unused
    assert inspected.deduced.options.quantize_delay_step == 0
    assert not inspected.deduced.options.quantize_per_channel


@pytest.mark.slow
def test_eval_vis_and_export_take_the_flags_from_the_run_manifest(straight, tmp_path, monkeypatch):
    data, source = straight
    log, built = tmp_path / 'log', []
    _copy(source, log, 4)
    command = [f'--train_logdir={log}', f'--dataset_dir={data.directory}', f'--quantize_delay_step={DELAY}']
    command += ['--model_variant=tiny', '--aspp_convs_filters=8', '--output_stride=16']
    (log / 'run.json').write_text(json.dumps({'format': 1, 'runs': [{'command': command, 'folder': str(tmp_path)}]}))
    rounded = quantization.fake_quantize_weights
    monkeypatch.setattr(quantization, 'fake_quantize_weights', lambda *given: built.append(given) or rounded(*given))
    records = [f'--dataset={data.name}', f'--dataset_dir={data.directory}', f'--checkpoint_dir={log}']
    graph = tmp_path / 'graph.pb'
    for program, *words in (
        ('eval', *records, '--eval_split=train', '--eval_crop_size=33,33', f'--eval_logdir={tmp_path}/eval'),
        ('vis', *records, '--vis_split=train', '--vis_crop_size=33,33', f'--vis_logdir={tmp_path}/vis'),
        ('export_model', f'--checkpoint_path={log}', f'--export_path={graph}', '--num_classes=3', '--crop_size=33,33'),
    ):
        once = {'eval': '--max_number_of_evaluations=1', 'vis': '--max_number_of_iterations=1'}
        built.clear()
        assert cli.main([program, *words, *filter(None, [once.get(program)])]) == 0
        assert built, program
    assert b'FakeQuantWithMinMaxVars' in graph.read_bytes()


def _learnable(folder):
    """Six images, each of one class, which its brightness shows."""
    records = []
    for number in range(6):
        image = dataset_files.pixels(20, 36, number) // 4 + 80 * (number % 3)
        label = np.full((20, 36), number % 3, np.uint8)
        records.append(
            dataset_files.record(number, 20, 36, dataset_files.png(image.astype(np.uint8)), dataset_files.png(label))
        )
    data = training_setup.write_data(folder / 'learnable')
    dataset_files.write_split(folder / 'learnable', 'bright', [records])
    return dataclasses.replace(data, split='bright')


@pytest.mark.slow
@pytest.mark.parametrize('per_channel', [False, pytest.param(True, marks=pytest.mark.long)])
def test_fifty_steps_from_a_float_checkpoint(data, tmp_path, caplog, per_channel):
    """Its ranges are measured; the losses fall; a folder of a float training is continued too."""
    initial = training_setup.trained(data, tmp_path / 'float', 2).checkpoint
    options = _options(_learnable(tmp_path), tmp_path / 'log', 50, 10, initial_checkpoint=initial, batch_size=4)
    model = dataclasses.replace(options.model, quantize_per_channel=per_channel)
    done = train.run(dataclasses.replace(options, model=model))
    losses = training_setup.losses(tmp_path / 'log')
    assert np.mean([losses[step] for step in range(41, 51)]) < 0.8 * np.mean([losses[step] for step in range(1, 11)])
    shape = _values(done.checkpoint)['tiny/conv2/weights_quant/min'].shape
    assert shape == ((8,) if per_channel else ())
    if not per_channel:
        with caplog.at_level('INFO'):
            assert train.run(_options(data, tmp_path / 'float', 3, 0)).step == 3
        assert 'contains no ranges of 8-bit training' in caplog.text
    inspected = inspect_checkpoint.run(CheckpointOptions(done.checkpoint, json=True))
    assert inspected.deduced.options.quantize_per_channel is per_channel
    network = InferenceNetwork(model, PredictionOptions(), 1)
    frozen = network.frozen(done.checkpoint, is_portable=True)
    kinds = {node.op for node in frozen.graph_def.node}
    assert ('FakeQuantWithMinMaxVarsPerChannel' in kinds) is per_channel
    assert 'FakeQuantWithMinMaxVars' in kinds
    _require_integers(model, done.checkpoint, tmp_path, float_tensors=int(per_channel))  # the image


def _require_integers(model, checkpoint, folder, float_tensors):
    """Asserts that an export is converted to a model that computes in integers, and to nearly the same labels."""
    frozen, lite, picture = (str(folder / name) for name in ('graph.pb', 'model.tflite', 'image.png'))
    pathlib.Path(picture).write_bytes(dataset_files.png(dataset_files.pixels(17, 33)))
    export_model.run(ExportOptions(model, checkpoint, frozen))
    done = convert_to_tflite.run(ConvertOptions(frozen, lite, test_image_path=picture))
    assert done.is_quantized
    assert done.agreement > 0.9
    interpreter = tflite.interpreter_class()(lite)
    floats = [details['name'] for details in interpreter.get_tensor_details() if details['dtype'] == np.float32]
    assert len(floats) == float_tensors


def test_what_cannot_be_combined(data, tmp_path):
    for change, words in (
        ({'clones': CloneOptions(num_clones=2), 'batch_size': 2}, 'num_clones=2'),
        ({'precision': 'bfloat16'}, "precision='bfloat16'"),
    ):
        with pytest.raises(OptionError, match=f'quantize_delay_step=2 .*{words}'):
            _options(data, tmp_path, 1, **change)
    with pytest.raises(OptionError, match='quantize_per_channel=True .*quantize_delay_step=0'):
        dataclasses.replace(training_setup.options(data, tmp_path).model, quantize_per_channel=True)


def test_ranges_are_required_of_a_checkpoint_that_has_some(monkeypatch, caplog):
    caplog.set_level('INFO')
    names = ['conv/weights', 'conv/act_quant/min']
    variables = [types.SimpleNamespace(op=types.SimpleNamespace(name=name)) for name in names]
    for held, expected in ((['conv/weights_quant/min'], variables), (['conv/weights'], variables[:1])):
        monkeypatch.setattr(checkpoints, 'entries', lambda path, held=held: dict.fromkeys(held))
        assert train_utils.restorable(variables, 'model.ckpt-1') == expected
        assert ('model.ckpt-1 contains no ranges' in caplog.text) == (expected != variables)
