"""eval and vis with an engine other than TensorFlow: figures, files, reports, refusals."""

import contextlib
import dataclasses
import json
import logging
import pathlib
import re

import numpy as np
import pytest
from PIL import Image

from deeplab import cli, vis
from deeplab import eval as eval_program
from deeplab.errors import CheckpointError, OptionError
from deeplab.inference import opening
from deeplab.options import EngineOptions, EvalOptions, ResizeOptions, VisOptions, WaitOptions
from deeplab.registry import ENGINES, Engine, Outputs, register
from tests.helpers import evaluation_setup as setup
from tests.helpers.registries import changes_undone

ONCE = WaitOptions(interval_secs=0, max_rounds=1, timeout_secs=0)


@contextlib.contextmanager
def _opened(graph, execution):
    """TensorFlow; in bfloat16 it says 1 more for the first row of 17."""
    with ENGINES.get('tensorflow').open(graph, execution) as predict:

        def changed(images):
            labels = predict(images).labels.copy()
            if execution.precision == 'bfloat16':
                labels[:, 0] = (labels[:, 0] + 1) % 4
            return Outputs(labels)

        yield changed


@pytest.fixture(autouse=True)
def engine():
    with changes_undone(ENGINES):
        register(Engine(name='fake', open=_opened, precisions=lambda: ('float32', 'bfloat16')))
        yield


@pytest.fixture
def options(tmp_path, monkeypatch):
    setup.use_small_network(monkeypatch)
    dataset = setup.write_data(tmp_path / 'records')
    setup.write_checkpoint(tmp_path, weight=1.4)
    return EvalOptions(setup.MODEL, dataset, str(tmp_path), str(tmp_path / 'eval'), wait=ONCE, batch_size=2)


def _with(options, *engine):
    return dataclasses.replace(options, engine=EngineOptions(*engine))


def test_figures_are_those_of_tensorflow(options):
    plain = eval_program.run(options)
    other = eval_program.run(_with(options, 'fake'))
    assert other.rounds[0].metrics.confusion_matrix == plain.rounds[0].metrics.confusion_matrix
    assert pathlib.Path(other.rounds[0].path).name == 'metrics-10-fake.json'
    content = json.loads(pathlib.Path(other.rounds[0].path).read_text())
    assert content['engine'] == 'fake' and content['flags']['engine'] == 'fake'
    assert 'Engine: fake, float32' in other.report and 'Engine' not in plain.report
    content = json.loads(pathlib.Path(plain.rounds[0].path).read_text())
    assert 'engine' not in content and 'engine' not in content['flags']


def test_the_share_of_changed_labels_is_stated(options, caplog):
    with caplog.at_level(logging.INFO):
        result = eval_program.run(_with(options, 'fake', 'bfloat16'))
    stated = f'{1 / 17:.3%} of the labels of the first 4 images'
    assert stated in result.report and any(stated in message for message in caplog.messages)
    content = json.loads(pathlib.Path(result.rounds[0].path).read_text())
    assert content['changed_labels'] == pytest.approx(1 / 17) and content['compared_images'] == 4
    assert content['precision'] == 'bfloat16'


def test_what_auto_chose_from_is_in_report_and_figures(options, monkeypatch):
    monkeypatch.setattr(opening, '_time', lambda predict, images: 0.2)
    result = eval_program.run(_with(options, 'fake', 'auto'))
    path = pathlib.Path(result.rounds[0].path)
    content = json.loads(path.read_text())
    assert path.name == 'metrics-10-fake-auto.json' and content['flags']['precision'] == 'auto'
    assert (content['engine'], content['precision']) == ('fake', 'float32')
    taken, refused = content['engine_candidates']
    assert taken == {
        'engine': 'fake', 'precision': 'float32', 'seconds': 0.2, 'agreement': 1.0, 'difference': None, 'reason': ''
    }  # fmt: skip
    assert refused['precision'] == 'bfloat16' and refused['agreement'] < 0.98 and '98.0%' in refused['reason']
    assert "Engine: fake, float32, chosen by precision='auto'" in result.report


def test_a_network_in_8_bits_is_calibrated_with_images_as_eval_resizes_them(options, tmp_path):
    photos = tmp_path / 'photos'
    photos.mkdir()
    for name in ('a', 'b'):
        Image.new('RGB', (8, 4), (20, 0, 0)).save(photos / f'{name}.png')
    graphs, calibrated = [], []

    def convert(graph, folder, execution):
        graphs.append(graph)
        pathlib.Path(folder, 'model').touch()
        if execution.calibration is not None:
            calibrated.extend(execution.calibration())

    def load(folder, execution):
        return ENGINES.get('tensorflow').open(graphs[-1], execution)

    register(Engine(name='quantizing', convert=convert, load=load, precisions=lambda: ('float32', 'int8')))
    engine = EngineOptions('quantizing', 'int8', calibration_dir=str(photos))
    resized = dataclasses.replace(options, engine=engine, resize=ResizeOptions(min_value=8, max_value=16))
    result = eval_program.run(resized)
    (batch,) = calibrated
    assert batch.shape == (2, 17, 17, 3) and np.all(batch[:, :8, :16, 0] == 20)
    assert np.all(batch[:, 8:] == 127.5) and np.all(batch[:, :, 16:] == 127.5)
    content = json.loads(pathlib.Path(result.rounds[0].path).read_text())
    assert (content['engine'], content['precision'], content['changed_labels']) == ('quantizing', 'int8', 0)
    assert content['flags']['calibration_dir'] == str(photos)
    assert 'Engine: quantizing, int8' in result.report


def test_vis_writes_what_it_writes_with_tensorflow(options, tmp_path):
    written = []
    for engine in (EngineOptions(), EngineOptions('fake')):
        folder = tmp_path / f'vis_{engine.engine}'
        result = vis.run(
            VisOptions(
                options.model,
                options.dataset,
                options.checkpoint_dir,
                str(folder),
                wait=ONCE,
                batch_size=2,
                also_save_raw_predictions=True,
                engine=engine,
            )
        )
        files = sorted(path for path in folder.rglob('*.png'))
        written.append({path.relative_to(folder): np.array(Image.open(path)).tobytes() for path in files})
    assert len(written[0]) == 15 and written[0] == written[1]
    assert 'Engine: fake' in result.report


def test_a_checkpoint_that_does_not_match_is_no_fault_of_an_engine(options, tmp_path):
    setup.write_checkpoint(tmp_path, 11, shape=(2,))
    for engine in ('fake', 'auto'):
        with pytest.raises(CheckpointError, match='weight'):
            eval_program.run(_with(options, engine))


@pytest.mark.parametrize(
    ('words', 'parts'),
    [
        (['--engine=openvino', '--master=grpc://here:1'], '--engine=openvino .*--master=grpc://here:1'),
        (['--engine=auto', '--master=grpc://here:1'], '--engine=auto .*TensorFlow'),
        (['--precision=bfloat16', '--master=grpc://here:1'], '--precision=bfloat16 .*--master'),
        (['--inference_threads=2'], '--inference_threads=2 .*--engine'),
        (['--engine=tflite', '--precision=int8'], '--precision=int8 .*images.*--calibration_dir'),
        (['--calibration_dir=photos'], '--calibration_dir=photos .*--precision=int8 or --precision=auto'),
        (['--engine=tflite', '--inference_threads=0'], '--inference_threads=0 .*greater than 0'),
    ],
)
def test_what_does_not_go_together_is_refused(words, parts, capsys):
    line = ['eval', '--checkpoint_dir=logs', '--eval_logdir=eval', '--dataset_dir=records', *words]
    assert cli.main(line) != 0
    (error,) = [text for text in capsys.readouterr().err.splitlines() if 'error:' in text]
    assert re.search(parts, error), error


@pytest.mark.parametrize('words', [['--engine=tensorrt'], ['--precision=int4']])
def test_unknown_values_list_the_known_ones(words, capsys):
    line = ['vis', '--checkpoint_dir=logs', '--vis_logdir=vis', '--dataset_dir=records', *words]
    assert cli.main(line) == 2
    error = capsys.readouterr().err
    assert ('onnxruntime' in error and 'auto' in error) or 'bfloat16' in error


def test_a_type_that_is_not_there_ends_before_the_records_are_read(options):
    missing = dataclasses.replace(options, dataset=dataclasses.replace(options.dataset, directory='nowhere'))
    with pytest.raises(OptionError, match='tensorflow computes in float32 only'):
        eval_program.run(_with(missing, 'tensorflow', 'bfloat16'))
