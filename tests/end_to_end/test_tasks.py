"""Each task with each feature of training: evaluation, resume, clones, averages, mixed precision, validation."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest

from deeplab import common, train
from deeplab import eval as eval_program
from deeplab.core import checkpoints
from deeplab.options import (
    AsppOptions,
    AugmentOptions,
    EvalOptions,
    ModelOptions,
    TrainOptions,
    ValidationOptions,
    WaitOptions,
)
from deeplab.registry import BACKBONES, TASKS, register
from tests.helpers import task_records, training_setup
from tests.helpers.checkpoint_files import values_of
from tests.helpers.registries import changes_undone
from tests.helpers.toy_network import TOY

COMBINED = 'semantic+depth'
WITHOUT_LABELS = ('depth', 'multilabel', 'classification')
# The others take more time, and show little that these and the tests of their functions do not.
TASK_NAMES = (
    *WITHOUT_LABELS,
    *(pytest.param(name, marks=pytest.mark.slow) for name in ('edges', 'panoptic', COMBINED)),
)
STEPS = 2


@pytest.fixture(scope='module', autouse=True)
def toy():
    with changes_undone(BACKBONES):
        register(TOY)
        yield


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    return task_records.write_data(tmp_path_factory.mktemp('records'))


def options(data, task, logdir, **changes):
    """A training of two steps, with a checkpoint of each."""
    model = ModelOptions(
        {common.OUTPUT_TYPE: task_records.CLASSES},
        crop_size=task_records.SIZE,
        model_variant='toy',
        aspp=AsppOptions(filters=8),
        task=task,
    )
    if task == 'classification':
        model = dataclasses.replace(model, settings={'train_image_size': 33, 'preprocessing_name': 'vgg'})
    split = 'train_bare' if task in WITHOUT_LABELS else 'train'
    usual = TrainOptions(
        model,
        dataclasses.replace(data, split=split),
        str(logdir),
        optimizer=training_setup.RATE,
        batch_size=2,
        number_of_steps=STEPS,
        log_steps=1,
        seed=3,
        save_interval_secs=0,
    )
    return dataclasses.replace(usual, **changes)


def validated(task):
    return ValidationOptions('val_bare' if task in WITHOUT_LABELS else 'val', STEPS)


@pytest.fixture(scope='module')
def run_of(data, tmp_path_factory):
    """Trains each task once, with averages and a validation: its options."""
    runs = {}

    def run(task):
        if task not in runs:
            logdir = tmp_path_factory.mktemp(task) / 'log'
            runs[task] = options(data, task, logdir, moving_average_decay=0.5, validation=validated(task))
            train.run(runs[task])
        return runs[task]

    return run


def with_figures(task):
    """The task of several that has figures of its own."""
    return TASKS.get(task.rpartition('+')[2])


def terms_of(logdir):
    """The loss of each step."""
    losses = training_setup.losses(logdir)
    assert all(np.isfinite(value) and value > 0 for value in losses.values())
    return losses


@pytest.mark.parametrize('task', TASK_NAMES)
def test_training_with_averages_and_validation(run_of, task):
    logdir = pathlib.Path(run_of(task).train_logdir)
    assert list(terms_of(logdir)) == [1, 2]
    figures = json.loads((logdir / 'eval' / f'metrics-{STEPS}.json').read_text())
    record = with_figures(task)
    assert figures['moving_average'] and figures['metrics'][record.name][record.headline.removeprefix('-')] is not None
    assert (figures['miou'] is None) == (task in (*WITHOUT_LABELS, 'edges'))
    chooses = task in ('edges', 'multilabel')
    for folder in (logdir, logdir / 'best'):
        assert (folder / f'model.ckpt-{STEPS}{checkpoints.CALIBRATION}').exists() == chooses
        assert (folder / f'model.ckpt-{STEPS}.index').exists()


@pytest.mark.parametrize('task', TASK_NAMES)
def test_evaluation_finds_what_validation_finds(run_of, task, tmp_path):
    chosen = run_of(task)
    split = dataclasses.replace(chosen.dataset, split=chosen.validation.split)
    crop = dataclasses.replace(chosen.model, crop_size=task_records.SIZE)
    wait = WaitOptions(interval_secs=0, max_rounds=1, timeout_secs=0)
    result = eval_program.run(EvalOptions(crop, split, chosen.train_logdir, str(tmp_path / 'eval'), wait=wait))
    (evaluated,) = result.rounds
    figures = json.loads((pathlib.Path(chosen.train_logdir) / 'eval' / f'metrics-{STEPS}.json').read_text())
    name = with_figures(task).name
    for figure, value in evaluated.further[name].items():
        if not figure.endswith('iou'):  # the evaluation takes the thresholds that the validation has chosen
            assert (value or 0.0) == pytest.approx(figures['metrics'][name][figure] or 0.0, rel=1e-5), figure
    if task == 'multilabel':
        assert evaluated.further[name]['iou'] == evaluated.further[name]['best_iou']


@pytest.mark.slow
@pytest.mark.parametrize('task', ['panoptic', COMBINED])  # resuming knows no task
def test_a_resumed_training_continues_exactly(run_of, task, tmp_path):
    chosen = run_of(task)
    logdir = tmp_path / 'log'
    logdir.mkdir()
    source = pathlib.Path(chosen.train_logdir)
    for path in (*source.glob('model.ckpt-1.*'), source / 'run.json'):
        shutil.copy(path, logdir)
    checkpoints.write_state(str(logdir), ['model.ckpt-1'])
    train.run(dataclasses.replace(chosen, train_logdir=str(logdir), validation=ValidationOptions()))
    first, second = (values_of(f'{folder}/model.ckpt-{STEPS}') for folder in (source, logdir))
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert value.tobytes() == second[name].tobytes(), name


@pytest.mark.slow
@pytest.mark.parametrize('task', TASK_NAMES)
def test_mixed_precision(run_of, data, task, tmp_path):
    train.run(options(data, task, tmp_path, precision='bfloat16'))
    mixed, exact = terms_of(tmp_path), terms_of(run_of(task).train_logdir)
    assert mixed[1] != exact[1]
    assert mixed[1] == pytest.approx(exact[1], rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize('task', TASK_NAMES)
def test_two_clones_make_the_step_of_the_whole_batch(data, task, tmp_path, monkeypatch):
    training_setup.without_dropout(monkeypatch)
    same = {'fine_tune_batch_norm': False, 'augment': AugmentOptions(1.0, 1.0, 0.0), 'batch_size': 4}
    runs = []
    for name, more in (('one', {}), ('two', {'clones': training_setup.two_clones()})):
        train.run(options(data, task, tmp_path / name, **same, **more))
        runs.append(list(terms_of(tmp_path / name).values()))
    # Losses of pixels are means over the batch, which clones weight by images.
    np.testing.assert_allclose(runs[0], runs[1], rtol=0.05 if task in ('edges', 'multilabel') else 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ('first', 'second', 'restored'),
    [
        ('semantic', 'panoptic', 'backbone'),
        ('panoptic', 'semantic', 'backbone'),
        ('semantic', COMBINED, 'everything'),
        ('depth', 'semantic', 'backbone, head'),
    ],
)
def test_a_checkpoint_of_one_task_starts_another(data, tmp_path, caplog, first, second, restored):
    train.run(options(data, first, tmp_path / 'first', number_of_steps=1))
    initial = str(tmp_path / 'first' / 'model.ckpt-1')
    with caplog.at_level('WARNING'):
        train.run(options(data, second, tmp_path / 'second', number_of_steps=1, initial_checkpoint=initial))
    assert 'trained for another task' in caplog.text
    held, begun = values_of(initial), values_of(tmp_path / 'second' / 'model.ckpt-0')
    equal = {name for name in held.keys() & begun.keys() if np.array_equal(held[name], begun[name])}
    assert {'toy/conv1/weights', 'toy/conv3/weights'} <= equal
    assert ('aspp0/weights' in equal) == (restored != 'backbone')
    assert ('logits/semantic/weights' in equal) == (restored == 'everything')
