"""A classifier from the command line: records, training, evaluation, prediction, report, exports."""

import json

import numpy as np
import pytest
from PIL import Image

from deeplab import Predictor, cli

NETWORK = ['--task=classification', '--model_variant=lenet', '--train_image_size=12', '--preprocessing_name=inception']
FORMATS = {'tflite': 'model.tflite', 'onnx': 'model.onnx', 'frozen_graph': 'frozen_inference_graph.pb'}


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    """A folder with images of two classes, bright and dark, their records, and a trained network."""
    folder = tmp_path_factory.mktemp('classifier')
    random = np.random.default_rng(0)
    for number in range(24):
        pixels = random.integers(0, 90, (15 + number % 3, 20, 3)) + 160 * (number % 2)
        place = folder / 'images' / ('dark', 'bright')[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(place / f'{number}.png')
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        words = ['--image_folder=images', '--val_fraction=0.3', '--output_dir=records', '--num_shards=1']
        assert cli.main(['build_classification_data', *words]) == 0
        words = ['--dataset_dir=records', '--train_split=train', '--train_logdir=log', *NETWORK, '--train_batch_size=4']
        words += ['--training_number_of_steps=30', '--base_learning_rate=0.01', '--eval_split=val', '--eval_every=30']
        assert cli.main(['train', *words]) == 0
    return folder


def test_evaluation_equals_validation_and_a_report_is_made(trained, monkeypatch):
    monkeypatch.chdir(trained)
    words = ['--checkpoint_dir=log', '--dataset_dir=records', '--eval_logdir=eval', '--max_number_of_evaluations=1']
    assert cli.main(['eval', *words]) == 0
    validated, evaluated = (
        json.loads((trained / folder / 'metrics-30.json').read_text())['metrics']['classification']
        for folder in ('log/eval', 'eval')
    )
    assert validated == evaluated and evaluated['accuracy'] == 1.0
    assert (trained / 'eval' / 'classification_confusion-30.csv').read_text().startswith(',bright,dark')
    pytest.importorskip('vl_convert', reason='the package vl-convert-python is not installed')
    assert cli.main(['report', 'log', '--dataset_dir=records', '--output=report.html']) == 0
    report = json.loads((trained / 'report.json').read_text())
    assert 'accuracy' in json.dumps(report)
    assert 'prediction compared with the truth' in (trained / 'report.html').read_text()


@pytest.mark.parametrize(
    'name', ['tflite', *(pytest.param(name, marks=pytest.mark.slow) for name in ('onnx', 'frozen_graph'))]
)
def test_an_export_predicts_what_the_checkpoint_predicts(trained, monkeypatch, name):
    for package in {'tflite': ('ai_edge_litert',), 'onnx': ('tf2onnx', 'onnxruntime')}.get(name, ()):
        pytest.importorskip(package, reason=f'the package {package} is not installed')
    monkeypatch.chdir(trained)
    words = [f'--format={name}', f'--export_path={name}/{FORMATS[name]}', '--verify_split=val', '--dataset_dir=records']
    assert cli.main(['export_model', '--checkpoint_path=log', *words]) == 0
    (facts,) = json.loads((trained / name / 'export.json').read_text())['exports'].values()
    assert '"accuracy"' in json.dumps(facts) and '"classification"' in json.dumps(facts)
    image = np.random.default_rng(1).integers(0, 256, (12, 12, 3)).astype(np.uint8)
    wide = np.random.default_rng(2).integers(0, 256, (31, 40, 3)).astype(np.uint8)
    with Predictor.from_checkpoint('log') as checkpoint, Predictor.from_export(f'{name}/{FORMATS[name]}') as export:
        for pixels, most in ((image, 2e-3), (wide, 0.01)):  # a frozen graph takes whole numbers
            first, second = checkpoint(pixels), export(pixels)
            assert first.class_probabilities.shape == (2,) and first.class_probabilities.sum() == pytest.approx(1)
            np.testing.assert_allclose(first.class_probabilities, second.class_probabilities, atol=most)
    assert facts['figures']['size'] == [12, 12]
    if name != 'frozen_graph':  # the others have a fixed size
        return
    for number, path in enumerate(('log', f'{name}/{FORMATS[name]}')):
        words = [f'--checkpoint_dir={path}', '--dataset_dir=records', f'--eval_logdir={name}/eval{number}']
        assert cli.main(['eval', *words, '--max_number_of_evaluations=1']) == 0
    evaluated = [next((trained / name / f'eval{number}').glob('metrics-30*.json')) for number in (0, 1)]
    first, second = (json.loads(path.read_text())['metrics']['classification'] for path in evaluated)
    assert second == pytest.approx(first, abs=0.01)


def test_predictions_of_files(trained, monkeypatch):
    monkeypatch.chdir(trained)
    assert cli.main(['predict', 'images/dark', '--checkpoint_dir=log', '--output_dir=predictions']) == 0
    tops = json.loads((trained / 'predictions' / 'top.json').read_text())
    assert [each['top'][0]['name'] for each in tops] == ['dark'] * 12
    assert cli.main(['predict', 'images/dark', '--checkpoint_dir=log', '--save=mask', '--output_dir=other']) == 1
