"""Synchronous workers: the same training as clones of one machine, with their servers and threads in this process."""

import dataclasses
import json
import pathlib
import threading

import numpy as np
import pytest

from deeplab import train
from deeplab.deployment import model_deploy
from deeplab.errors import MachineError, NonFiniteError, OptionError
from deeplab.evaluation import split_parts
from deeplab.options import CloneOptions, LearningRateOptions, OptimizerOptions, ValidationOptions
from deeplab.training import replicas, train_run
from tests.helpers import servers, training_setup
from tests.helpers.checkpoint_files import values_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('tiny_network')]
STEPS = 4
ONE_CLONE = CloneOptions()
PATIENCE_SECS = 40


@pytest.fixture(autouse=True)
def graphs_one_after_the_other(monkeypatch):
    """Threads share the argument scopes of tf-slim; the processes of real workers do not."""
    lock = threading.Lock()

    def run_alone(place, name):
        function = getattr(place, name)

        def alone(*arguments):
            with lock:
                return function(*arguments)

        monkeypatch.setattr(place, name, alone)

    run_alone(train_run, '_build')
    run_alone(train_run, '_check_memory')
    run_alone(split_parts, 'evaluate')


def run_workers(number, options_of, clones=ONE_CLONE):
    """Trains with `number` workers, worker k with `options_of(k, its CloneOptions)`; returns results, or errors."""
    hosts = servers.free_addresses(number)
    results = [None] * number

    def run(task):
        own = dataclasses.replace(clones, worker_hosts=hosts, task=task, worker_timeout_secs=PATIENCE_SECS)
        try:
            results[task] = train.run(options_of(task, own))
        except Exception as error:
            results[task] = error

    # Daemons: a worker that waits for one that has failed must not keep the tests from ending.
    threads = [threading.Thread(target=run, args=(task,), daemon=True) for task in range(1, number)]
    for thread in threads:
        thread.start()
    run(0)
    for thread in threads:
        thread.join(PATIENCE_SECS)
    return results


def train_together(number, data, logdir, clones=ONE_CLONE, reduce_precision=False, **changes):
    """Trains `data` with workers; returns the result of the chief."""
    changes = {'batch_size': 4, **changes}

    def options(task, own):
        own = dataclasses.replace(own, reduce_precision=reduce_precision)
        return training_setup.options(data, f'{logdir}-{task}', STEPS, clones=own, **changes)

    results = run_workers(number, options, clones)
    for task, result in enumerate(results):
        if isinstance(result, Exception):
            raise result
        assert (result.status, result.step) == (0, STEPS)
        assert (task == 0) == pathlib.Path(f'{logdir}-{task}').exists()
    return results[0]


def assert_equal_training(one, other, **tolerance):
    """Compares losses of all steps and values of the checkpoints."""
    folders = [pathlib.Path(result.checkpoint).parent for result in (one, other)]
    losses, expected_losses = (training_setup.losses(folder) for folder in folders)
    assert losses.keys() == expected_losses.keys() == set(range(1, STEPS + 1))
    values, expected = values_of(one.checkpoint), values_of(other.checkpoint)
    assert values.keys() == expected.keys()
    for value, wanted in [
        *((losses[step], expected_losses[step]) for step in losses),
        *((values[name], expected[name]) for name in values),
    ]:
        np.testing.assert_allclose(value, wanted, **tolerance)


@pytest.mark.parametrize(
    'changes',
    [
        {},
        {'moving_average_decay': 0.9},
        {'accumulation_steps': 2, 'batch_size': 8},
        {'precision': 'bfloat16'},
        {'optimizer': OptimizerOptions(clip_gradient_norm=0.1)},
    ],
    ids=lambda changes: ','.join(changes) or 'plain',
)
def test_two_workers_train_as_two_clones(data, tmp_path, changes):
    changes = {'batch_size': 4, **changes}
    clones = training_setup.trained(data, tmp_path / 'clones', STEPS, clones=training_setup.two_clones(), **changes)
    workers = train_together(2, data, tmp_path / 'workers', **changes)
    assert_equal_training(workers, clones, rtol=1e-6, atol=1e-7)


def test_four_workers_of_two_clones_train_as_eight_clones(data, tmp_path):
    eight = CloneOptions(num_clones=8, clone_on_cpu=True)
    clones = training_setup.trained(data, tmp_path / 'clones', STEPS, clones=eight, batch_size=8)
    workers = train_together(4, data, tmp_path / 'workers', training_setup.two_clones(), batch_size=8)
    assert_equal_training(workers, clones, rtol=1e-5, atol=1e-6)


class _CpuDevices(model_deploy.DeploymentConfig):
    """CPU devices in the place of GPUs."""

    @property
    def cpu_devices(self):
        return self.num_clones

    def clone_device(self, index):
        return f'/device:CPU:{index}'


def test_sums_on_devices(data, tmp_path, monkeypatch):
    """Each worker adds the gradients of its clones in a group of its own, then the workers add theirs."""
    clones = training_setup.two_clones()
    one = train_together(2, data, tmp_path / 'one', clones)
    monkeypatch.setattr(
        model_deploy, 'deployment_config', lambda *_: _CpuDevices(2, use_gpus=True, sums_on_devices=True)
    )
    assert_equal_training(train_together(2, data, tmp_path / 'two', clones), one, rtol=1e-6, atol=1e-7)


def test_two_trainings_are_equal_to_the_byte(data, tmp_path):
    one, two = (train_together(3, data, tmp_path / name, batch_size=6) for name in ('one', 'two'))
    for path in pathlib.Path(one.checkpoint).parent.glob(f'model.ckpt-{STEPS}.*'):
        assert path.read_bytes() == pathlib.Path(two.checkpoint).with_name(path.name).read_bytes()


def test_frozen_statistics_make_the_step_of_one_clone(data, tmp_path, monkeypatch):
    """On images whose every pixel has a label; in bfloat16, gradients differ by its rounding."""
    note = training_setup.without_dropout(monkeypatch)
    whole = training_setup.whole_images(data)
    one = training_setup.trained(whole, tmp_path / 'one', STEPS, **note, **training_setup.FROZEN)
    workers = train_together(2, whole, tmp_path / 'workers', **training_setup.FROZEN)
    assert_equal_training(workers, one, rtol=1e-4, atol=1e-6)
    less = train_together(2, whole, tmp_path / 'less', reduce_precision=True, **training_setup.FROZEN)
    assert_equal_training(less, one, rtol=1e-2, atol=1e-3)
    weights, exact = (values_of(result.checkpoint)['tiny/conv1/weights'] for result in (less, one))
    assert (weights != exact).any()


@pytest.mark.parametrize('number', [1, 2])
def test_common_statistics_make_the_step_of_one_clone(data, tmp_path, monkeypatch, number):
    """Two clones of one worker, or of two: as the whole batch, with its batch norm statistics."""
    note = training_setup.without_dropout(monkeypatch)
    whole = training_setup.whole_images(data)
    changes = {**training_setup.FROZEN, 'fine_tune_batch_norm': True}
    one = training_setup.trained(whole, tmp_path / 'one', STEPS, **note, **changes)
    clones = CloneOptions(num_clones=2, clone_on_cpu=True, sync_batch_norm=True)
    if number == 1:
        parts = train.run(training_setup.options(whole, tmp_path / 'parts', STEPS, clones=clones, **changes))
    else:
        parts = train_together(2, whole, tmp_path / 'workers', clones, **changes)
    assert_equal_training(parts, one, rtol=1e-4, atol=1e-5)


def test_a_divided_validation_has_the_figures_of_one_machine(data, tmp_path):
    validation = ValidationOptions('train', 2)
    one = training_setup.trained(
        data, tmp_path / 'one', STEPS, clones=training_setup.two_clones(), batch_size=4, validation=validation
    )
    workers = train_together(2, data, tmp_path / 'workers', validation=validation)
    for step in (2, 4):
        folders = [pathlib.Path(result.checkpoint).parent for result in (workers, one)]
        contents = [json.loads((folder / 'eval' / f'metrics-{step}.json').read_text()) for folder in folders]
        for content in contents:
            assert content.pop('seconds') > 0
            assert content.pop('checkpoint').endswith(f'model.ckpt-{step}')
        assert contents[0] == contents[1]
    assert [path.name for path in sorted((folders[0] / 'best').glob('*.index'))] == [
        path.name for path in sorted((folders[1] / 'best').glob('*.index'))
    ]


def test_losses_that_are_not_finite_end_all_after_the_same_skips(data, tmp_path):
    steep = OptimizerOptions(learning_rate=LearningRateOptions(base=1e30))
    results = run_workers(
        2,
        lambda task, own: training_setup.options(
            data, tmp_path / f'log{task}', 30, clones=own, optimizer=steep, on_nan='skip', batch_size=4
        ),
    )
    assert all(isinstance(result, NonFiniteError) for result in results), results
    assert [str(result)[:8] for result in results] == [str(results[0])[:8]] * 2  # 'Step 12:'


def different_seed(options):
    return dataclasses.replace(options, seed=4)


def other_steps(options):
    return dataclasses.replace(options, number_of_steps=STEPS + 1)


def other_rate(options):
    return dataclasses.replace(options, optimizer=OptimizerOptions(learning_rate=LearningRateOptions(base=0.1)))


def other_records(options):
    data = training_setup.write_data(pathlib.Path(options.dataset.directory).with_name('others'))
    shard = next(pathlib.Path(data.directory).glob('train-*'))
    shard.write_bytes(shard.read_bytes() * 2)
    for index in pathlib.Path(data.directory).glob('index*'):
        index.unlink()
    return dataclasses.replace(options, dataset=dataclasses.replace(options.dataset, directory=data.directory))


@pytest.mark.parametrize(
    ('changed', 'part'),
    [
        (different_seed, 'seed: 3 -> 4'),
        (other_steps, f'number_of_steps: {STEPS} -> {STEPS + 1}'),
        (other_rate, 'base: 0.05 -> 0.1'),
        (other_records, 'records'),
    ],
)
def test_a_worker_with_another_command_line_or_records_is_refused(data, tmp_path, changed, part):
    def options(task, own):
        made = training_setup.options(data, tmp_path / f'log{task}', STEPS, clones=own, batch_size=4)
        return changed(made) if task else made

    chief, other = run_workers(2, options)
    assert isinstance(other, OptionError)
    assert part in str(other)
    assert isinstance(chief, MachineError)
    assert 'Worker 1' in str(chief)
    assert part in str(chief)
    assert not list((tmp_path / 'log0').glob('*.index'))


def test_a_worker_with_other_code_is_refused(data, tmp_path, monkeypatch):
    digest = replicas._digest_of_code()
    lock = threading.Lock()
    digests = iter([digest, 'other'])

    def digest_of_code():
        with lock:
            return next(digests)

    monkeypatch.setattr(replicas, '_digest_of_code', digest_of_code)
    results = run_workers(
        2, lambda task, own: training_setup.options(data, tmp_path / f'log{task}', STEPS, clones=own, batch_size=4)
    )
    assert any('code, digest' in str(result) for result in results)
    assert all(isinstance(result, Exception) for result in results)
