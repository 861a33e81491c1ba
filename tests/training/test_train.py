"""The train program on a tiny network and seven tiny images.

Covers train.py, training/network_clone.py, training/split_input.py, training/step_input.py and training/train_run.py.
"""

import dataclasses
import functools
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from deeplab import train
from deeplab.checks import label_weights, record_check
from deeplab.core import checkpoints, moving_average, sessions
from deeplab.datasets import segmentation_dataset
from deeplab.datasets.segmentation_dataset import DataSource
from deeplab.deployment import model_deploy
from deeplab.errors import CheckpointError, DataError, NonFiniteError, OptionError
from deeplab.options import (
    LearningRateOptions,
    LossOptions,
    OptimizerOptions,
    ValidationOptions,
)
from deeplab.registry import OPTIMIZERS
from deeplab.training import run_manifest, split_input, train_hooks, train_run
from deeplab.utils import input_generator
from tests.helpers import dataset_files, training_setup
from tests.helpers.checkpoint_files import values_of

ROOT = pathlib.Path(__file__).parents[2]
STEP_LINE = re.compile(r'^global step (\d+): loss = (\d+\.\d{4}) \((\d+\.\d{3}) sec/step\)$')


pytestmark = pytest.mark.usefixtures('tiny_network')


def assert_same_bytes(first, second):
    first, second = values_of(first), values_of(second)
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert value.tobytes() == second[name].tobytes(), name


def losses_of(lines):
    """Losses by step from a log's lines."""
    return {int(match[1]): match[2] for match in map(STEP_LINE.match, lines) if match}


def run_logged(options, caplog):
    """Trains; returns the result and the losses by step, as logged."""
    caplog.clear()
    with caplog.at_level('INFO'):
        result = train.run(options)
    return result, losses_of(record.getMessage() for record in caplog.records)


def plain_run(data, logdir):
    """Three steps with a checkpoint of each, which tests share."""
    return training_setup.trained(data, logdir, 3, save_interval_secs=0)


def summarized_run(data, logdir):
    """Three steps with a checkpoint and all summaries of each, which tests share."""
    every = {'save_summaries_secs': 0, 'save_interval_secs': 0}
    return training_setup.trained(data, logdir, 3, save_summaries_images=True, **every)


def test_the_result_and_the_files_of_a_run(data, tmp_path):
    result = plain_run(data, tmp_path / 'log')
    assert (result.step, result.status, result.checkpoint) == (3, 0, str(tmp_path / 'log' / 'model.ckpt-3'))
    assert result.report.startswith('Trained to step 3 in ')
    names = {path.name for path in (tmp_path / 'log').iterdir()}
    assert {'checkpoint', 'graph.pbtxt', 'model.ckpt-0.index', 'model.ckpt-3.index'} <= names


def test_summaries_have_the_tags_of_the_original(data, tmp_path):
    summarized_run(data, tmp_path / 'log')
    tags = training_setup.summaries(tmp_path / 'log')
    assert {'learning_rate', 'total_loss', 'global_step/sec', 'losses/semantic_merged_logits/value'} <= tags.keys()
    assert {'samples/image/image/0', 'samples/label/image/1', 'samples/semantic/image/0'} <= tags.keys()
    assert {'tiny/conv1/weights', 'logits/semantic/biases', 'aspp0/BatchNorm/moving_mean'} <= tags.keys()


def test_summaries_change_no_step(data, tmp_path):
    summarized, plain = (run(data, tmp_path / run.__name__) for run in (summarized_run, plain_run))
    assert_same_bytes(summarized.checkpoint, plain.checkpoint)


def test_the_loss_is_the_same_in_log_lines_and_summaries(data, tmp_path, caplog):
    _, losses = run_logged(training_setup.options(data, tmp_path, 2, save_summaries_secs=0), caplog)
    assert list(losses) == [1, 2]
    assert f'{training_setup.summaries(tmp_path)["total_loss"]:.4f}' == losses[2]


def test_a_checkpoint_has_step_weights_slots_and_updated_statistics(data, tmp_path):
    variables = values_of(plain_run(data, tmp_path / 'log').checkpoint)
    assert variables['global_step'] == 3
    assert variables['global_step'].dtype == np.int64
    assert 'tiny/conv1/weights/Momentum' in variables
    assert 'tiny/conv1/BatchNorm/moving_mean/Momentum' not in variables
    assert (variables['tiny/conv1/BatchNorm/moving_variance'] != 1).all()  # moving updates are part of the step


def test_label_weights_from_the_records_are_logged_and_noted_in_run_json(data, tmp_path, caplog):
    loss = LossOptions(auto_label_weights=True, label_weights_power=0.5)
    with caplog.at_level('INFO'):
        train.run(training_setup.options(data, tmp_path, 1, loss=loss))
    assert ', split train: 1 step of 2 images = 0.3 passes over them (epochs).' in caplog.text
    exact = label_weights.median_frequency(*histograms(data)) ** 0.5
    assert sorted(exact)[1] == 1.0  # the median class
    (line,) = re.findall(r"label_weights='auto': (.*)\.", caplog.text)
    classes, weights = zip(*(part.split() for part in line.split(', ')), strict=True)
    assert classes == ('0', '1', '2')
    np.testing.assert_allclose([float(weight) for weight in weights], exact, rtol=5e-3)
    assert run_manifest.load(str(tmp_path))['options']['loss']['label_weights'] == exact.tolist()


def test_each_scale_of_an_image_pyramid_has_its_sum_of_losses(data, tmp_path):
    loss = LossOptions(formula='softmax+0.5*lovasz', top_k_percent_pixels=0.5, hard_example_mining_step=2)
    options = training_setup.options(data, tmp_path, 2, loss=loss, save_summaries_secs=0)
    train.run(dataclasses.replace(options, model=dataclasses.replace(options.model, image_pyramid=(0.5, 1.0))))
    tags = training_setup.summaries(tmp_path)
    for key in ('logits_0.50', 'logits_1.00', 'merged_logits'):
        softmax, lovasz = (tags[f'losses/semantic_{key}/{name}'] for name in ('softmax', 'lovasz'))
        assert tags[f'losses/semantic_{key}/value'] == pytest.approx(softmax + 0.5 * lovasz, rel=1e-5)


def histograms(data):
    """Pixels of each class, and those of the images that have it."""
    dataset = segmentation_dataset.get_dataset(data.name, data.split, data.directory)
    check_result = record_check.check(dataset, 3)
    return check_result.class_pixels, check_result.class_image_pixels


@pytest.mark.parametrize(
    'optimizer',
    [
        pytest.param('adam', marks=pytest.mark.slow),
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in OPTIMIZERS.names()
            if name not in ('momentum', 'adam')
        ),
    ],
)
def test_resume_is_exact(data, tmp_path, caplog, optimizer):
    chosen = dataclasses.replace(training_setup.RATE, name=optimizer)
    rate = chosen.learning_rate.changed(decay_steps=4)  # so that 2 steps and 4 share their rates
    chosen = dataclasses.replace(chosen, learning_rate=rate)
    straight = train.run(training_setup.options(data, tmp_path / 'a', 4, optimizer=chosen))
    train.run(training_setup.options(data, tmp_path / 'b', 2, optimizer=chosen))
    resumed, rest = run_logged(training_setup.options(data, tmp_path / 'b', 4, optimizer=chosen), caplog)
    assert training_setup.losses(tmp_path / 'a') == training_setup.losses(tmp_path / 'b')
    assert list(rest) == [3, 4]
    assert_same_bytes(straight.checkpoint, resumed.checkpoint)


def test_a_resume_is_exact_and_leaves_a_damaged_checkpoint_behind(data, tmp_path, caplog):
    straight = plain_run(data, tmp_path / 'straight')
    path = pathlib.Path(f'{plain_run(data, tmp_path / "log").checkpoint}.data-00000-of-00001')
    path.write_bytes(path.read_bytes()[:100])
    result, losses = run_logged(training_setup.options(data, tmp_path / 'log', 3, save_interval_secs=0), caplog)
    assert list(losses) == [3]
    assert "model.ckpt-3' is damaged" in caplog.text
    assert training_setup.losses(tmp_path / 'log') == training_setup.losses(tmp_path / 'straight')
    assert_same_bytes(straight.checkpoint, result.checkpoint)


def frozen_run(data, logdir, monkeypatch):
    """Two steps with frozen batch norms, without dropout, which tests share."""
    note = training_setup.without_dropout(monkeypatch)
    return training_setup.trained(training_setup.whole_images(data), logdir, 2, **note, **training_setup.FROZEN)


def test_two_clones_make_the_step_of_one(data, tmp_path, monkeypatch):
    """With frozen batch norms, without dropout, and on images whose every pixel has a label."""
    one = frozen_run(data, tmp_path / 'one', monkeypatch)
    clones = {'dataset': dataclasses.replace(data, split='whole'), 'clones': training_setup.two_clones()}
    two = train.run(training_setup.options(data, tmp_path / 'two', 2, **clones, **training_setup.FROZEN))
    assert two.loss == pytest.approx(one.loss, rel=1e-5)
    first, second = values_of(one.checkpoint), values_of(two.checkpoint)
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_allclose(second[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_frozen_batch_norm_keeps_its_statistics_and_still_trains(data, tmp_path, monkeypatch):
    result = frozen_run(data, tmp_path / 'log', monkeypatch)
    before, after = values_of(tmp_path / 'log' / 'model.ckpt-0'), values_of(result.checkpoint)
    for name in before:
        if 'moving' in name:
            np.testing.assert_array_equal(after[name], before[name], err_msg=name)
    assert (after['tiny/conv2/BatchNorm/gamma'] != before['tiny/conv2/BatchNorm/gamma']).any()


def test_statistics_come_from_the_first_clone_which_takes_the_first_batch(data, tmp_path):
    plain_run(data, tmp_path / 'one')
    clones = {'batch_size': 4, 'clones': training_setup.two_clones()}
    two = train.run(training_setup.options(data, tmp_path / 'two', 1, **clones))
    name = 'tiny/conv1/BatchNorm/moving_mean'
    one = values_of(tmp_path / 'one' / 'model.ckpt-1')
    np.testing.assert_allclose(values_of(two.checkpoint)[name], one[name], rtol=1e-6)
    assert (one[name] != 0).any()


class _TwoDevices(model_deploy.DeploymentConfig):
    """Two CPU devices in the place of GPUs."""

    cpu_devices = 2

    def clone_device(self, index):
        return f'/device:CPU:{index}'


@pytest.mark.slow
def test_batches_that_wait_on_the_devices_are_those_of_the_queue(data, tmp_path, monkeypatch):
    """From a step on that is not the first."""
    clones = {'batch_size': 4, 'clones': training_setup.two_clones(), 'save_interval_secs': 0}
    straight = train.run(training_setup.options(data, tmp_path / 'queue', 2, **clones))
    shutil.copytree(tmp_path / 'queue', tmp_path / 'devices')
    for path in (tmp_path / 'devices').glob('model.ckpt-2.*'):
        path.unlink()
    # Gradients are added there, too. The sum of two numbers does not depend on their order; the order of a clone's own
    # terms, of weight decay and loss, is the same.
    monkeypatch.setattr(
        model_deploy, 'deployment_config', lambda *_: _TwoDevices(2, use_gpus=True, sums_on_devices=True)
    )
    resumed = train.run(training_setup.options(data, tmp_path / 'devices', 2, **clones))
    assert_same_bytes(straight.checkpoint, resumed.checkpoint)


def test_initial_checkpoint_of_other_classes(data, tmp_path, caplog):
    """Restores what fits, and reports what does not."""
    first = training_setup.trained(data, tmp_path / 'a', 1)
    (pathlib.Path(data.directory) / 'five.json').write_text('{"num_classes": 5}')
    five = dataclasses.replace(data, name=str(pathlib.Path(data.directory) / 'five.json'))
    options = training_setup.options(five, tmp_path / 'b', 1, initial_checkpoint=first.checkpoint)
    model = dataclasses.replace(options.model, outputs_to_num_classes={'semantic': 5})
    run_logged(dataclasses.replace(options, model=model), caplog)
    restored, given = values_of(tmp_path / 'b' / 'model.ckpt-0'), values_of(first.checkpoint)
    name = 'tiny/conv1/weights'
    np.testing.assert_array_equal(restored[name], given[name])
    expected = (
        'Not restored because shapes differ: logits/semantic/weights: [1, 1, 8, 5] here, [1, 1, 8, 3] in the checkpoint'
    )
    assert expected in caplog.text


def test_initial_checkpoint_in_the_folder_of_the_run(data, tmp_path, caplog):
    """It is started from, not resumed from, and neither overwritten nor removed."""
    first = training_setup.trained(data, tmp_path / 'a', 1)
    logdir = tmp_path / 'log'
    logdir.mkdir()
    for ending in ('.index', '.data-00000-of-00001'):
        shutil.copy(first.checkpoint + ending, logdir / f'model.ckpt{ending}')
    options = training_setup.options(data, logdir, 1, initial_checkpoint=str(logdir / 'model.ckpt'))
    assert train.run(options).step == 1
    restored, given = values_of(logdir / 'model.ckpt-0'), values_of(first.checkpoint)
    np.testing.assert_array_equal(restored['tiny/conv1/weights'], given['tiny/conv1/weights'])
    again = train.run(options)
    assert again.report.startswith(f'Nothing to train: {logdir}/model.ckpt-1 is at step 1, with number_of_steps=1.')
    assert again.loss is None
    assert (logdir / 'model.ckpt.index').exists()


class TestNotFinite:
    def test_step_rate_and_images_are_named_and_the_checkpoint_stays(self, data, tmp_path):
        rate = OptimizerOptions(learning_rate=LearningRateOptions(base=1e30))
        with pytest.raises(NonFiniteError) as error:
            of_three = {'batch_size': 3, 'accumulation_steps': 3}  # images of all micro-batches are named
            train.run(training_setup.options(data, tmp_path / 'log', 50, optimizer=rate, **of_three))
        message = str(error.value)
        assert re.match(
            r'Step \d+: the loss is \S+ and the gradient norm \S+, at learning rate \S+, for the images '
            r'image_\d, image_\d, image_\d\. The update was not applied\.',
            message,
        )
        assert 'Gradients by layer: not finite in ' in message
        assert 'nearest to the loss logits/semantic' in message
        assert message.endswith(f'The last good checkpoint is kept: {tmp_path}/log/model.ckpt-0')
        assert all(np.isfinite(value).all() for value in values_of(tmp_path / 'log' / 'model.ckpt-0').values())


class TestBadInput:
    def test_unknown_variant(self, data, tmp_path):
        options = training_setup.options(data, tmp_path / 'log')
        options = dataclasses.replace(options, model=dataclasses.replace(options.model, model_variant='vgg'))
        with pytest.raises(OptionError, match="model_variant='vgg' is not known. Known: .*mobilenet_v2"):
            train.run(options)

    def test_label_weights_of_masks_without_labels(self, tmp_path):
        empty = dataset_files.png(np.full((6, 8), 255, np.uint8))
        data = training_setup.write_data(tmp_path / 'records')
        dataset_files.write_split(tmp_path / 'records', 'empty', [[dataset_files.record(0, label=empty)]])
        data = dataclasses.replace(data, split='empty')
        with pytest.raises(DataError, match="label_weights='auto': no class occurs in the masks of split empty"):
            train.run(training_setup.options(data, tmp_path / 'log', loss=LossOptions(auto_label_weights=True)))

    def test_label_weights(self, data, tmp_path):
        with pytest.raises(OptionError, match='label_weights has 2 weights, but there are 3 classes'):
            train.run(training_setup.options(data, tmp_path / 'log', loss=LossOptions(label_weights=(1.0, 2.0))))

    def test_labels_outside_the_classes_are_named_before_the_first_step(self, data, tmp_path):
        bad = dataset_files.record(label=dataset_files.png(np.full((6, 8), 9, np.uint8)))
        dataset_files.write_split(pathlib.Path(data.directory), 'bad', [[bad]])
        with pytest.raises(DataError, match=r"1 of 1 records of split 'bad' .*id 9 on 48 pixels"):
            train.run(training_setup.options(dataclasses.replace(data, split='bad'), tmp_path / 'log'))
        assert not list((tmp_path / 'log').glob('*.index'))

    def test_image_that_cannot_be_decoded_is_named(self, data, tmp_path):
        good = dataset_files.png(dataset_files.pixels(40, 40))
        broken = dataset_files.record(
            image=good[:-300], height=40, width=40, label=dataset_files.png(dataset_files.ids(40, 40))
        )
        dataset_files.write_split(pathlib.Path(data.directory), 'broken', [[broken]])
        with pytest.raises(DataError, match='image_0'):
            train.run(training_setup.options(dataclasses.replace(data, split='broken'), tmp_path / 'log'))

    def test_image_that_breaks_in_the_middle_loses_no_step(self, data, tmp_path):
        """Header, end and checksum are valid, so the error appears only in decoding."""
        _, last = input_generator.record_at(6, 7, 3)  # the seventh that is taken: the fourth step needs it
        records = [dataset_files.record(seed) for seed in range(7)]
        records[last] = dataset_files.record(9, 40, 40, image=dataset_files.broken_png(40, 40))
        dataset_files.write_split(pathlib.Path(data.directory), 'broken', [records])
        with pytest.raises(DataError) as error:
            train.run(training_setup.options(dataclasses.replace(data, split='broken'), tmp_path / 'log'))
        newest = str(tmp_path / 'log' / 'model.ckpt-3')
        assert f'record {last} (image image_9)' in str(error.value)
        assert newest in str(error.value)
        assert values_of(newest)['global_step'] == 3

    def test_checkpoint_given_by_one_of_its_files(self, data, tmp_path):
        path = training_setup.trained(data, tmp_path / 'a', 1).checkpoint
        with pytest.raises(CheckpointError, match=f'Pass the path of the checkpoint without the extension: {path}'):
            train.run(training_setup.options(data, tmp_path / 'b', initial_checkpoint=f'{path}.index'))
        assert not (tmp_path / 'b').exists()

    @pytest.mark.parametrize('place', ['log', 'log/eval', 'log/best', 'profile'])
    def test_a_file_in_the_place_of_a_folder_is_told_before_the_data_is_read(self, data, tmp_path, monkeypatch, place):
        monkeypatch.setattr(split_input, 'open_data', lambda options: pytest.fail('the data is read first'))
        file = tmp_path / place
        file.parent.mkdir(exist_ok=True)
        file.write_text('mine')
        field = 'profile_logdir' if place == 'profile' else 'train_logdir'
        known = training_setup.options(data, tmp_path / 'log', profile_logdir=str(tmp_path / 'profile' / 'a'))
        known = dataclasses.replace(known, validation=ValidationOptions('train', 2))
        with pytest.raises(
            OptionError, match=f'^{field}: the folder .*/{place}.* cannot be created: .* is not a folder'
        ):
            train.run(known)

    def test_a_folder_that_cannot_be_written(self, data, tmp_path, monkeypatch):
        def fail(*arguments):
            raise OSError(28, 'No space left on device', 'run.json.tmp1')

        monkeypatch.setattr(run_manifest, 'write', fail)
        monkeypatch.setattr(sessions, 'write_graph', fail)
        options = training_setup.options(data, tmp_path / 'log')
        for write in (
            functools.partial(train_run.RunManifestHook(options.train_logdir, {}).begin, None, 0),
            functools.partial(train_run._write_graph, options.train_logdir),
        ):
            with pytest.raises(OptionError, match=r"train_logdir: .*log' .*: No space"):
                write()

    def test_resume_with_another_network(self, data, tmp_path):
        training_setup.trained(data, tmp_path / 'log', 1)
        options = training_setup.options(data, tmp_path / 'log', 2)
        aspp = dataclasses.replace(options.model.aspp, filters=4)
        options = dataclasses.replace(options, model=dataclasses.replace(options.model, aspp=aspp))
        with pytest.raises(
            CheckpointError,
            match='is of another network: .* set another train_logdir. .*: 26 variables differ .*4. here, .*8. in the',
        ):
            train.run(options)

    def test_crop_that_is_not_a_multiple_plus_one_warns(self, data, tmp_path, caplog):
        options = training_setup.options(data, tmp_path / 'log', 1)
        options = dataclasses.replace(options, model=dataclasses.replace(options.model, crop_size=(20, 33)))
        train_run.check_options(options, DataSource(options.dataset))
        assert 'crop_size=(20, 33) is not a multiple' in caplog.text
        assert 'sizes are 17,33 and 33,33.' in caplog.text


def start(records, logdir, steps):
    return subprocess.Popen(
        [sys.executable, '-m', 'tests.helpers.training_setup', str(records), str(logdir), str(steps)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def read_until(process, step):
    """Reads the log until a step is done; returns its lines."""
    lines = []
    for line in process.stderr:
        lines.append(line.partition('] ')[2].strip())
        if f'global step {step}:' in line:
            break
    return lines


@pytest.mark.slow
@pytest.mark.rewritten  # as the processes run
def test_killed_at_any_moment_it_resumes_exactly(data, tmp_path, caplog):
    logdir, steps = tmp_path / 'killed', 300
    straight, losses = run_logged(training_setup.options(data, tmp_path / 'straight', steps), caplog)
    for step in (7, 41):
        with start(data.directory, logdir, steps) as process:
            lines = read_until(process, step)
            process.kill()
            process.communicate(timeout=60)  # until the process that computes has ended too
        for at, loss in losses_of(lines).items():
            assert loss == losses[at], at
        assert all(checkpoints.damage(str(path)[:-6]) is None for path in logdir.glob('*.index'))
        assert checkpoints.newest_whole(str(logdir)) is not None
    expected = values_of(straight.checkpoint)
    ends = values_of(train.run(training_setup.options(data, logdir, steps)).checkpoint)
    assert ends.keys() == expected.keys()
    assert [name for name, value in expected.items() if ends[name].tobytes() != value.tobytes()] == []


def test_a_signal_saves_and_says_how_to_go_on(data, tmp_path, monkeypatch):
    plain_run(data, tmp_path / 'plain')  # before the signal, which would stop it, too
    original = train_hooks.LogHook.after_step

    def after_step(self, result, fetched):
        original(self, result, fetched)
        if result.step == 2:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(train_hooks.LogHook, 'after_step', after_step)
    logdir = tmp_path / 'log'
    result = train.run(training_setup.options(data, logdir, 100_000, seed=4))
    assert 2 <= result.step < 100_000
    assert result.status == 143
    path = checkpoints.newest(str(logdir))
    assert checkpoints.step_of(path) == result.step
    assert result.report == f'Stopped at step {result.step}; the same command resumes from {path}.'
    first, second = (
        values_of(folder / 'model.ckpt-0')['logits/semantic/weights'] for folder in (logdir, tmp_path / 'plain')
    )
    assert (first != second).any()  # another seed has other weights
    assert training_setup.losses(logdir)[1] != training_setup.losses(tmp_path / 'plain')[1]


class TestMovingAverages:
    @staticmethod
    def averaged(data, logdir):
        """The plain run with averages, which tests share."""
        return training_setup.trained(data, logdir, 3, save_interval_secs=0, moving_average_decay=0.5)

    def test_follow_every_variable_of_the_network_and_change_nothing_else(self, data, tmp_path):
        plain = plain_run(data, tmp_path / 'plain')
        self.averaged(data, tmp_path / 'log')
        weights = [values_of(tmp_path / 'plain' / f'model.ckpt-{step}') for step in range(4)]
        saved = [values_of(tmp_path / 'log' / f'model.ckpt-{step}') for step in range(4)]
        shadows = {name for name in saved[0] if moving_average.is_average(name)}
        assert not any(moving_average.is_average(name) for name in values_of(plain.checkpoint))
        own = {name for name in weights[0] if not name.endswith(('/Momentum', 'global_step'))}
        assert shadows == {moving_average.average_name(name) for name in own}
        assert 'aspp0/BatchNorm/moving_variance' in own
        for name in own:
            average = weights[0][name]
            for step in range(4):
                assert saved[step][name].tobytes() == weights[step][name].tobytes(), name
                if step:
                    kept = min(0.5, step / (9 + step))
                    average = kept * average + (1 - kept) * weights[step][name]
                shadow = saved[step][moving_average.average_name(name)]
                np.testing.assert_allclose(shadow, average, rtol=1e-5, atol=1e-7, err_msg=name)

    # That a resume is exact with them too, test_train_accumulation.py shows.

    def test_can_start_in_the_middle(self, data, tmp_path, caplog):
        training_setup.trained(data, tmp_path / 'log', 1)
        options = training_setup.options(data, tmp_path / 'log', 2, moving_average_decay=0.9)
        result, _ = run_logged(options, caplog)
        assert (
            'model.ckpt-1 contains no moving averages (EMA) of the weights: they start from its weights.' in caplog.text
        )
        name = 'tiny/conv1/weights'
        first, last = values_of(tmp_path / 'log' / 'model.ckpt-1')[name], values_of(result.checkpoint)
        # The checkpoint from which it resumed has them now, too: a validation at its step uses them.
        restored = values_of(tmp_path / 'log' / 'model.ckpt-1')[moving_average.average_name(name)]
        np.testing.assert_array_equal(restored, first)
        kept = 2 / 11
        expected = kept * first + (1 - kept) * last[name]
        np.testing.assert_allclose(last[moving_average.average_name(name)], expected, rtol=1e-5, atol=1e-7)

    def test_an_initial_checkpoint_gives_its_weights_to_both(self, data, tmp_path, caplog):
        first = self.averaged(data, tmp_path / 'a').checkpoint
        given = values_of(first)
        name = 'tiny/conv1/weights'
        assert (given[moving_average.average_name(name)] != given[name]).any()
        options = training_setup.options(data, tmp_path / 'b', 1, initial_checkpoint=first, moving_average_decay=0.9)
        run_logged(options, caplog)
        restored = values_of(tmp_path / 'b' / 'model.ckpt-0')
        np.testing.assert_array_equal(restored[name], given[name])
        np.testing.assert_array_equal(restored[moving_average.average_name(name)], given[name])
        assert 'not in the checkpoint' not in caplog.text

    @pytest.mark.parametrize('decay', [0.0, 1.0, -0.5])
    def test_bad_decay(self, data, tmp_path, decay):
        allowed = 'it must be greater than 0 and less than 1'
        with pytest.raises(OptionError, match=f'^moving_average_decay={decay} is not allowed: {allowed}'):
            training_setup.options(data, tmp_path, moving_average_decay=decay)
