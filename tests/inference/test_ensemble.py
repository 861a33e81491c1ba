"""Ensembles average the probabilities of their networks, in Python, in predict and in eval."""

import dataclasses
import json
import os
import pathlib
import re

import numpy as np
import pytest
from PIL import Image

from deeplab import cli
from deeplab.errors import CheckpointError, DataError, OptionError
from deeplab.files import cross_validation
from deeplab.files.cross_validation import CrossValidation, Fold
from deeplab.inference import ensemble
from deeplab.inference.predictor import Predictor
from deeplab.options import AsppOptions, WindowOptions
from tests.helpers import checkpoint_files, dataset_files, predictor_setup

pytestmark = pytest.mark.usefixtures('tiny_network')

SMALLER = dataclasses.replace(predictor_setup.MODEL, aspp=AsppOptions(filters=4, image_level_feature=False))
CV = 'cv'


@pytest.fixture(scope='module')
def trainings(tmp_path_factory, tiny_network):
    """Two trainings of different networks, in the folder of a cross-validation."""
    folder = tmp_path_factory.mktemp('trainings') / CV
    paths = [
        predictor_setup.write_training(folder / 'fold1'),
        predictor_setup.write_training(folder / 'fold2', SMALLER),
    ]
    folds = [
        Fold(number, f'fold{number}', str(path), str(path / 'model.ckpt-7'), False, 0.5)
        for number, path in enumerate(paths, 1)
    ]
    cross_validation.write(CrossValidation(str(folder), 2, tuple(folds)))
    return [str(path) for path in paths]


@pytest.fixture(scope='module')
def opened(trainings):
    with Predictor.from_checkpoints(trainings) as predictor:
        yield predictor


def alone(path, image, **options):
    with Predictor.from_checkpoint(path, **options) as predictor:
        return predictor.predict([image])[0].probabilities


def changed_run(folder, other, model=None, **dataset):
    """A copy of a training whose run.json says something else of the network, or of the data set."""
    os.mkdir(other)
    checkpoint_files.write(other / 'model.ckpt-7', checkpoint_files.values_of(f'{folder}/model.ckpt-7'))
    for name in ('run.json', 'tiny.json'):
        content = json.loads((folder / name).read_text())
        if name == 'run.json':
            (run,) = content['runs']
            run['folder'] = str(other)
            run['options']['model'] |= model or {}
        else:
            content |= dataset
        (other / name).write_text(json.dumps(content))
    return str(other)


def test_it_averages_probabilities_of_different_networks(trainings, opened):
    image = predictor_setup.pixels(40, 60)
    (prediction,) = opened.predict([image])
    one, two = (alone(path, image) for path in trainings)
    np.testing.assert_allclose(prediction.probabilities, (one + two) / 2, rtol=1e-5, atol=1e-7)
    assert np.array_equal(prediction.labels, ((one + two) / 2).argmax(axis=2))
    assert np.any(one.argmax(axis=2) != two.argmax(axis=2))  # otherwise nothing is shown
    assert opened.class_names == tuple(predictor_setup.CLASSES)


def test_members_give_the_probabilities_of_each(trainings, opened):
    image = predictor_setup.pixels(33, 50)
    each = [member.predict([image])[0].probabilities for member in opened.members]
    for probabilities, path in zip(each, trainings, strict=True):
        np.testing.assert_array_equal(probabilities, alone(path, image))
    assert opened.digest() not in {member.digest() for member in opened.members}


def test_flips_scales_windows_and_a_crop_size_apply_to_each(trainings):
    image = predictor_setup.pixels(60, 90)
    ways = {'scales': (0.75, 1.0), 'add_flipped_images': True}
    for options in (ways, {'crop_size': (65, 97)}, {'windows': WindowOptions((33, 49))}):
        with Predictor.from_checkpoints(trainings, **options) as predictor:
            mean = predictor.predict([image])[0].probabilities
        expected = np.mean([alone(path, image, **options) for path in trainings], axis=0)
        np.testing.assert_allclose(mean, expected, rtol=1e-4, atol=1e-6)


def test_the_folder_of_a_cross_validation_means_its_folds(trainings, tmp_path):
    folder = os.path.dirname(trainings[0])
    assert ensemble.expanded([folder]) == [os.path.join(path, 'model.ckpt-7') for path in trainings]
    cross_validation.write(CrossValidation(str(tmp_path), 2, ()))
    with pytest.raises(DataError, match='not finished'):
        Predictor.from_checkpoints([str(tmp_path)])


def test_one_checkpoint_is_no_ensemble(trainings):
    one = re.escape(f"'{trainings[0]}/model.ckpt-7' is")
    with pytest.raises(OptionError, match=f'{one} the only one'):
        Predictor.from_checkpoints(trainings[:1])
    with pytest.raises(OptionError, match=f'{one} given twice'):
        Predictor.from_checkpoints([trainings[0], f'{trainings[0]}/model.ckpt-7'])
    with pytest.raises(CheckpointError, match='no folder and no checkpoint'):
        Predictor.from_checkpoints([trainings[0], 'missing'])


@pytest.mark.parametrize(
    ('change', 'parts'),
    [
        ({'class_names': ['sky', 'road', 'car', 'tree']}, ("'tree' as class 2", "'car' as class 2")),
        ({'model': {'outputs_to_num_classes': {'semantic': 5}}}, ('4 classes', '5 classes')),
        ({'model': {'input_channels': 1}}, ('3 channels', '1 channel')),
        ({'model': {'task': 'depth'}}, ('task', 'semantic', 'depth')),
    ],
)
def test_what_predicts_something_else_is_refused(trainings, tmp_path, change, parts):
    other = changed_run(pathlib.Path(trainings[0]), tmp_path / 'other', **change)
    if change.get('model', {}).get('outputs_to_num_classes'):
        (tmp_path / 'other' / 'tiny.json').unlink()
    with pytest.raises(OptionError) as error:
        Predictor.from_checkpoints([trainings[0], other])
    text = str(error.value)
    assert all(part in text for part in (*parts, trainings[0], other)) and '\n' not in text


def test_maps_of_further_tasks_are_averaged(tmp_path):
    model = dataclasses.replace(predictor_setup.MODEL, task='semantic+depth')
    other = dataclasses.replace(SMALLER, task='semantic+depth')
    paths = [
        predictor_setup.write_training(tmp_path / 'one', model),
        predictor_setup.write_training(tmp_path / 'two', other),
    ]
    image = predictor_setup.pixels(33, 49)
    with Predictor.from_checkpoints(paths) as predictor:
        mean = predictor.predict([image])[0]
        each = [member.predict([image])[0] for member in predictor.members]
    depths = [one.results['depth']['depth'] for one in each]
    np.testing.assert_allclose(mean.results['depth']['depth'], np.mean(depths, axis=0), rtol=1e-4)
    assert np.abs(depths[0] - depths[1]).max() > 1e-3


def labels_of(trainings, image):
    with Predictor.from_checkpoints(trainings) as predictor:
        return predictor(image).labels


def test_predict(trainings, tmp_path, capsys):
    image = predictor_setup.pixels(40, 60)
    (tmp_path / 'photo.png').write_bytes(dataset_files.png(image))
    for checkpoints in ([os.path.dirname(trainings[0])], trainings):
        line = [f'--checkpoint_dir={path}' for path in checkpoints] + ['--ensemble', '--save=mask']
        assert cli.main(['predict', str(tmp_path / 'photo.png'), *line, f'--output_dir={tmp_path}/out']) == 0
        mask = np.array(Image.open(tmp_path / 'out' / 'mask' / 'photo.png'))
        assert np.array_equal(mask, labels_of(trainings, image))
    summary = json.loads((tmp_path / 'out' / 'predictions.json').read_text())
    assert summary['network'] == ' + '.join(f'{path}/model.ckpt-7' for path in trainings)
    assert cli.main(['predict', str(tmp_path / 'photo.png'), '--ensemble', f'--checkpoint_dir={trainings[0]}']) == 1
    assert 'is the only one' in capsys.readouterr().err


def test_eval(trainings, tmp_path, capsys):
    images = [predictor_setup.pixels(40, 60, seed) for seed in range(2)]
    truths = [dataset_files.ids(40, 60, classes=4, seed=seed) for seed in range(2)]
    records = [
        dataset_files.example.encode(dataset_files.png(image), 'png', f'{i}', 40, 60, 3, dataset_files.png(truth))
        for i, (image, truth) in enumerate(zip(images, truths, strict=True))
    ]
    dataset_files.write_split(tmp_path, 'val', [records])
    line = ['eval', f'--dataset_dir={tmp_path}', f'--checkpoint_dir={os.path.dirname(trainings[0])}', '--ensemble']
    assert cli.main([*line, f'--dataset={trainings[0]}/tiny.json', f'--eval_logdir={tmp_path}/eval']) == 0
    (path,) = (tmp_path / 'eval').glob('metrics-7-ensemble.json')
    assert str(path) in capsys.readouterr().out
    metrics = json.loads(path.read_text())
    expected = np.zeros((4, 4), int)
    for image, truth in zip(images, truths, strict=True):
        np.add.at(expected, (truth, labels_of(trainings, image)), 1)
    assert np.array_equal(metrics['confusion_matrix'], expected)
    assert metrics['flags']['ensemble'] == [os.path.dirname(trainings[0])]


@pytest.mark.parametrize('flag', ['--all_checkpoints', '--part=1/2', '--master=grpc://one:2222'])
def test_eval_refuses_what_does_not_suit_an_ensemble(trainings, tmp_path, flag, capsys):
    line = [f'--dataset_dir={tmp_path}', f'--checkpoint_dir={trainings[0]}', f'--eval_logdir={tmp_path}/eval']
    assert cli.main(['eval', *line, f'--dataset={trainings[0]}/tiny.json', '--ensemble', flag]) == 2
    error = capsys.readouterr().err
    assert flag.partition('=')[0] in error and '--ensemble' in error


@pytest.mark.parametrize('program', ['eval', 'predict'])
def test_the_folder_of_a_cross_validation_without_the_flag_is_explained(trainings, tmp_path, program, capsys):
    folder = os.path.dirname(trainings[0])
    dataset_files.write_split(tmp_path, 'val', [[dataset_files.record(1)]])
    (tmp_path / 'photo.png').write_bytes(dataset_files.png(predictor_setup.pixels(40, 60)))
    line = {
        'eval': [f'--dataset_dir={tmp_path}', f'--dataset={trainings[0]}/tiny.json', f'--eval_logdir={tmp_path}/eval'],
        'predict': [f'{tmp_path}/photo.png', f'--output_dir={tmp_path}/out'],
    }[program]
    assert cli.main([program, f'--checkpoint_dir={folder}', *line]) == 1
    error = capsys.readouterr().err
    assert f"'{folder}' is the folder of a cross-validation" in error and '--ensemble' in error
