"""average_checkpoints: the mean of weights, statistics of batch norms, a checkpoint that other programs take.

Covers training/weight_averaging.py.
"""

import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from deeplab import Predictor, cli
from deeplab.core import checkpoints, moving_updates, sessions
from deeplab.errors import CheckpointError, NetworkMismatchError
from deeplab.registry import BACKBONES, register
from deeplab.training import weight_averaging
from tests.helpers import checkpoint_files, predictor_setup, registries, training_setup
from tests.helpers.toy_network import TOY

pytestmark = pytest.mark.usefixtures('tiny_network')


@pytest.fixture(scope='module')
def network_with_decoder(tiny_network):
    with registries.changes_undone(BACKBONES):
        register(TOY)
        yield ['--model_variant=toy', '--decoder_output_stride=8', '--decoder_filters=8']


@pytest.fixture(scope='module')
def training(tmp_path_factory, network_with_decoder):
    """Records, and the log folder of a training of a network with batch norms after a dropout."""
    folder = tmp_path_factory.mktemp('training')
    data = training_setup.write_data(folder / 'records')
    line = [f'--dataset_dir={data.directory}', f'--dataset={data.name}', f'--train_logdir={folder}/log']
    line += [*network_with_decoder, '--aspp_convs_filters=8', '--train_crop_size=17,33', '--train_batch_size=2']
    line += ['--training_number_of_steps=3', '--save_interval_secs=0', '--base_learning_rate=0.05', '--seed=3']
    assert cli.main(['train', *line]) == 0
    return folder


@pytest.fixture(scope='module')
def sources(training):
    """The first and the last checkpoint of the training."""
    paths = sorted(checkpoints.on_disk(str(training / 'log')), key=checkpoints.step_in_name)
    assert len(paths) == 2 and paths[1].endswith('model.ckpt-3')
    return paths


def average(sources, output, *more):
    return cli.main(['average_checkpoints', *sources, f'--output_dir={output}', *more])


@pytest.fixture(scope='module')
def averaged(tmp_path_factory, sources):
    folder = tmp_path_factory.mktemp('averaged') / 'mean'
    assert average(sources, folder) == 0
    return folder


def is_statistic(name):
    return name.endswith(('moving_mean', 'moving_variance'))


def test_weights_are_the_mean(averaged, sources):
    mean = checkpoint_files.values_of(averaged / 'model.ckpt-3')
    one, two = (checkpoint_files.values_of(path) for path in sources)
    assert mean.pop('global_step') == 3
    slots = {name for name in one if name.rpartition('/')[0] in one}
    assert mean.keys() == one.keys() - slots - {'global_step'}
    weights = [name for name in mean if not is_statistic(name)]
    for name in weights:
        np.testing.assert_allclose(mean[name], (one[name].astype(float) + two[name]) / 2, rtol=1e-6)
    assert any(np.any(one[name] != two[name]) for name in weights)


def test_statistics_are_measured_with_the_mean(averaged, sources):
    """Batches of all images give the statistics; the mean of the two statistics is something else."""
    mean = checkpoint_files.values_of(averaged / 'model.ckpt-3')
    statistics = [name for name in mean if is_statistic(name)]
    assert statistics
    one, two = (checkpoint_files.values_of(path) for path in sources)
    assert all(np.abs(mean[name] - (one[name] + two[name]) / 2).max() > 1e-6 for name in statistics)


def test_without_images_statistics_are_the_mean_too(sources, tmp_path):
    assert average(sources, tmp_path / 'mean', '--batch_norm_images=0') == 0
    mean = checkpoint_files.values_of(tmp_path / 'mean' / 'model.ckpt-3')
    one, two = (checkpoint_files.values_of(path) for path in sources)
    for name in filter(is_statistic, mean):
        np.testing.assert_allclose(mean[name], (one[name] + two[name]) / 2, rtol=1e-5, atol=1e-7)


def test_the_result_states_its_sources_and_other_programs_take_it(averaged, sources, training, tmp_path, capsys):
    (run,) = json.loads((averaged / 'run.json').read_text())['runs']
    assert [each['path'] for each in run['averaged']['checkpoints']] == sources
    assert run['averaged']['batch_norm_images'] == training_setup.IMAGES
    with Predictor.from_checkpoint(averaged) as predictor:
        assert predictor(predictor_setup.pixels(20, 30)).labels.shape == (20, 30)
    line = [f'--dataset_dir={training}/records', f'--checkpoint_dir={averaged}', f'--eval_logdir={tmp_path}']
    assert cli.main(['eval', *line, '--eval_split=train', '--max_number_of_evaluations=1']) == 0
    assert 'mean IoU' in capsys.readouterr().out
    export = ['export_model', f'--checkpoint_path={averaged}/model.ckpt-3', f'--export_path={tmp_path}/graph.pb']
    assert cli.main([*export, '--crop_size=33,33', '--output_stride=16']) == 0 and (tmp_path / 'graph.pb').exists()


def test_a_folder_means_all_its_checkpoints(sources, tmp_path):
    folder = str(pathlib.Path(sources[0]).parent)
    assert weight_averaging.checkpoints_at([folder, sources[1]]) == sources
    with pytest.raises(CheckpointError, match='the only checkpoint'):
        weight_averaging.checkpoints_at(sources[:1])


def test_different_networks_are_refused(sources, tmp_path, capsys):
    other = predictor_setup.write_training(tmp_path / 'other')
    with pytest.raises(NetworkMismatchError, match=r'different networks.*ensemble') as error:
        weight_averaging.require_one_network([*sources, f'{other}/model.ckpt-7'])
    assert sources[0] in str(error.value) and f'{other}/model.ckpt-7' in str(error.value)
    assert average([sources[0], f'{other}/model.ckpt-7'], tmp_path / 'mean') == 1
    assert not (tmp_path / 'mean').exists()


def test_networks_whose_variables_are_alike_are_refused(sources, training, tmp_path, capsys):
    other = shutil.copytree(training / 'log', tmp_path / 'other')
    content = json.loads((other / 'run.json').read_text())
    content['runs'][-1]['options']['model']['output_stride'] = 32
    (other / 'run.json').write_text(json.dumps(content))
    assert average([sources[0], f'{other}/model.ckpt-3'], tmp_path / 'mean') == 1
    assert 'differ' in (error := capsys.readouterr().err) and 'output_stride' in error


def test_the_folder_of_a_training_is_not_written_to(sources, training, capsys):
    before = sorted(path.name for path in (training / 'log').iterdir())
    assert average(sources, training / 'log') == 1
    assert '--output_dir' in capsys.readouterr().err
    assert sorted(path.name for path in (training / 'log').iterdir()) == before


def test_checkpoints_of_another_training_are_not_replaced(sources, averaged, tmp_path, capsys):
    for file in pathlib.Path(sources[0]).parent.glob(f'{pathlib.Path(sources[0]).name}.*'):
        shutil.copy(file, tmp_path / file.name.replace('model.ckpt', 'best'))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert average(sources, tmp_path) == 1
    assert 'has checkpoints, from which a training run may continue' in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert average(sources, averaged) == 0  # an earlier mean is replaced


def test_the_state_of_a_training_is_no_part_of_its_network(tmp_path):
    values = {'net/w': np.ones(2, np.float32), 'net/w/Momentum': np.ones(2, np.float32)}
    more = {'beta1_power': np.float32(0.9), 'loss_scale/factor': np.float32(8), 'net/w/Adam': np.ones(2, np.float32)}
    paths = [
        checkpoint_files.write(tmp_path / 'one/model.ckpt-1', values),
        checkpoint_files.write(tmp_path / 'two/model.ckpt-1', {'net/w': values['net/w'], **more}),
    ]
    weight_averaging.require_one_network(paths)


@pytest.mark.parametrize(
    ('words', 'batch'),
    [([], 2), (['--sync_batch_norm'], 4), (['--accumulation_steps=2', '--sync_batch_norm'], 2)],
)
def test_statistics_are_those_of_as_many_images_as_in_training(sources, tmp_path, monkeypatch, words, batch):
    class StopError(Exception):
        pass

    def stop(options, *arguments):
        raise StopError(options.batch_size)

    monkeypatch.setattr(weight_averaging.split_input, 'build_input', stop)
    with pytest.raises(StopError, match=f'^{batch}$'):
        average(sources, tmp_path, '--precision=auto', '--train_batch_size=4', '--num_clones=2', *words)


def test_values_that_are_not_finite_are_refused(sources, tmp_path, capsys):
    values = checkpoint_files.values_of(sources[0])
    name = next(name for name in values if name.endswith('gamma'))
    bad = checkpoint_files.write(tmp_path / 'bad' / 'model.ckpt-2', values | {name: values[name] * np.nan})
    assert average([sources[1], bad], tmp_path / 'mean') == 1
    assert 'NaN' in capsys.readouterr().err and not list((tmp_path / 'mean').glob('model.ckpt*'))
    assert not (tmp_path / 'mean' / 'run.json').exists()


def test_averages_of_weights_take_the_place_of_weights(sources, tmp_path):
    """With --use_moving_average, the mean is the mean of the EMA."""
    paths = []
    for number, source in enumerate(sources):
        values = checkpoint_files.values_of(source)
        model = [name for name in values if name.rpartition('/')[0] not in values and name != 'global_step']
        values |= {f'{name}/ExponentialMovingAverage': values[name] + 1 for name in model}
        paths.append(checkpoint_files.write(tmp_path / f'{number}' / 'model.ckpt-2', values))
        shutil.copy(pathlib.Path(source).parent / 'run.json', tmp_path / f'{number}')
    assert average(paths, tmp_path / 'mean', '--use_moving_average=true', '--batch_norm_images=0') == 0
    mean = checkpoint_files.values_of(checkpoints.newest(str(tmp_path / 'mean')))
    one, two = map(checkpoint_files.values_of, paths)
    name = next(name for name in mean if name.endswith('weights'))
    np.testing.assert_allclose(mean[name], (one[name] + two[name]) / 2 + 1, rtol=1e-5)


def test_statistics_of_batches_are_those_of_all_pixels():
    values = np.random.default_rng(0).normal(3, 2, (5, 4, 6, 6, 3)).astype(np.float32)  # batches of four images
    values += 100 * np.arange(5, dtype=np.float32)[:, None, None, None, None]
    with tf.Graph().as_default():
        means = iter(values.mean(axis=(1, 2, 3)))
        variances = iter(values.var(axis=(1, 2, 3)))
        variables = [tf.compat.v1.get_variable(f'norm/{name}', [3]) for name in ('moving_mean', 'moving_variance')]
        fetched = [
            tf.numpy_function(lambda source=source: next(source), [], tf.float32) for source in (means, variances)
        ]
        for variable, value in zip(variables, fetched, strict=True):
            moving_updates.register(variable, value, 0.9)
        steps = []
        next_step = tf.numpy_function(lambda: steps.append(1), [], [])
        with sessions.open_session() as session:
            measured = weight_averaging.measure(session, moving_updates.registered(), 5, next_step)
    assert len(steps) == 5  # dropout masks follow from the step
    np.testing.assert_allclose(measured['norm/moving_mean'], values.mean(axis=(0, 1, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(measured['norm/moving_variance'], values.var(axis=(0, 1, 2, 3)), rtol=1e-6)


def test_without_a_run_json_the_records_must_be_given(tmp_path, capsys):
    paths = [checkpoint_files.write(tmp_path / f'{i}' / 'model.ckpt-2', {'a': np.ones(1)}) for i in range(2)]
    assert average(paths, tmp_path / 'mean') == 1
    assert '--dataset_dir' in capsys.readouterr().err
