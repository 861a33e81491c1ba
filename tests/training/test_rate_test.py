"""Learning rate range test: rates, curve, suggestion, files. Covers training/rate_test.py, pictures/rate_curve.py."""

import dataclasses
import json
import tracemalloc

import numpy as np
import pytest
from PIL import Image

from deeplab import cli, train
from deeplab.core import schedules
from deeplab.errors import OptionError
from deeplab.options import CloneOptions, OptimizerOptions, RateTestOptions, UnlabeledOptions
from deeplab.pictures import drawing
from deeplab.training import initial_checkpoint, rate_test, split_input, train_loop, train_run
from deeplab.training.train_loop import StepResult
from deeplab.utils import train_utils
from tests.helpers import training_setup

pytestmark = pytest.mark.usefixtures('tiny_network')


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    return training_setup.write_data(tmp_path_factory.mktemp('rates') / 'records')


def curve(steps=60):
    """Rates, and a loss that falls most at 0.01, is low from 0.1 to 1 and diverges after that."""
    rates = np.geomspace(1e-5, 10, steps)
    logs = np.log10(rates)
    losses = 2 - 1 / (1 + np.exp(-4 * (logs + 2))) + np.exp(6 * (logs - 0.2)) * 0.01
    return rates, losses


def test_rates_grow_to_the_highest():
    for growth, expected in (('exponential', [0.001, 0.01, 0.1, 1.0]), ('linear', [0.001, 0.334, 0.667, 1.0])):
        options = RateTestOptions(is_on=True, steps=10, lowest=0.001, highest=1.0, growth=growth)
        rates = [float(schedules.growing(step, options)) for step in (0, 3, 6, 9)]
        np.testing.assert_allclose(rates, expected, rtol=1e-4)


def test_the_suggestion_is_where_the_loss_falls_fastest():
    rates, losses = curve()
    noise = np.random.default_rng(0).normal(0, 0.05, len(rates))
    for values in (losses, losses + noise, np.where(rates > 5, 1e6, losses)):
        found = rate_test.suggest(rates, values)
        assert 0.005 < found.steepest < 0.02
        assert 0.1 < found.lowest < 2
        assert found.smoothed.shape == rates.shape
    np.testing.assert_allclose(rate_test.suggest(rates, losses).smoothed[5:40], losses[5:40], atol=0.05)


def test_the_curve_is_the_mean_with_weights_of_a_gaussian():
    losses = np.random.default_rng(0).uniform(1, 2, 90)
    weights = np.exp(-0.5 * np.square((np.arange(90)[:, None] - np.arange(90)) / (0.04 * 90)))
    found = rate_test.suggest(np.geomspace(1e-5, 1, 90), losses)
    np.testing.assert_allclose(found.smoothed, weights @ losses / weights.sum(axis=1), rtol=1e-6)


def test_many_steps_need_little_memory():
    losses = np.linspace(3, 1, 20_000)
    tracemalloc.start()
    rate_test.suggest(np.geomspace(1e-5, 1, 20_000), losses)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6


def test_the_steepest_fall_of_linear_growth_is_not_where_rates_are_dense():
    rates = np.linspace(1e-4, 0.2, 100)
    losses = 3 - np.minimum(rates / 0.04, 1) - 0.3 * rates / 0.2 + 0.08 * np.sin(np.arange(100) * 0.35)
    assert rate_test.suggest(rates, losses).steepest < 0.04


@pytest.mark.parametrize('losses', [np.full(40, 1.5), np.linspace(1.0, 3.0, 40)])
def test_a_loss_that_does_not_fall_suggests_nothing(losses):
    found = rate_test.suggest(np.geomspace(1e-5, 10, 40), losses)
    assert (found.steepest, found.lowest) == (None, None)


def collected(data, tmp_path, losses, **changes):
    options = training_setup.options(data, tmp_path, rate_test=RateTestOptions(is_on=True), **changes)
    test = rate_test.RateTest(options)
    for step, (rate, loss) in enumerate(zip(np.geomspace(1e-5, 10, len(losses)), losses, strict=True)):
        assert test.stop_reason() is None, step
        test.after_step(StepResult(step + 1, loss, rate, 0.1), {})
    return test


def test_divergence_ends_the_test(data, tmp_path):
    losses = [2.0] * 20 + [1.0] * 20 + [3.0] * 3  # a few batches alone are no divergence
    test = collected(data, tmp_path, losses)
    for step in range(10):
        test.after_step(StepResult(44 + step, 9.0, 10.0 + step, 0.1), {})
    assert test.stop_reason() == 'the loss diverges'


@pytest.mark.parametrize(
    ('optimizer', 'field', 'flag'),
    [
        ('momentum', 'LearningRateOptions.base', 'base='),
        ('adam', 'OptimizerOptions.adam_learning_rate', 'adam_learning_rate='),
    ],
)
def test_the_report_names_the_option_of_the_optimizer(optimizer, field, flag, data, tmp_path):
    test = collected(data, tmp_path, curve()[1][:50], optimizer=OptimizerOptions(name=optimizer))
    report = test.finish(is_diverged=True)
    content = json.loads((tmp_path / 'learning_rate_range.json').read_text())
    suggested = float(f'{content["suggestion"]:.2g}')
    assert f'Suggestion: {flag}{suggested}' in report
    assert (content['option'], content['is_diverged'], len(content['points'])) == (field, True, 50)
    assert 'diverges at' in report
    assert drawing.is_sheet(tmp_path / 'learning_rate_range.png')


def test_a_report_without_suggestion(data, tmp_path):
    report = collected(data, tmp_path, [1.0] * 12).finish(is_diverged=False)
    assert 'does not diverge up to 10' in report and 'does not fall at any rate' in report
    assert 'Suggestion' not in report
    assert json.loads((tmp_path / 'learning_rate_range.json').read_text())['suggestion'] is None
    falling = collected(data, tmp_path, np.linspace(2, 1, 30)).finish(is_diverged=False)
    assert 'It still falls at the highest rate: highest=1000.0' in falling
    early = collected(data, tmp_path, [1.0, 2.0]).finish(is_diverged=True)
    assert 'Begin with a lower learning rate: lowest=1e-08' in early


def test_the_curve_is_drawn_where_the_losses_are(data, tmp_path):
    collected(data, tmp_path, curve()[1][:45]).finish(is_diverged=True)
    picture = np.asarray(Image.open(tmp_path / 'learning_rate_range.png').convert('RGB')).astype(int)
    blue = np.argwhere((picture == (20, 90, 180)).all(axis=2))  # [points, 2], rows and columns
    assert blue[:, 1].min() < 90 and blue[:, 1].max() > 860
    at = {column: blue[blue[:, 1] == column][:, 0].mean() for column in (100, 700)}
    assert at[100] < at[700]  # the loss falls


@pytest.mark.parametrize('optimizer', ['momentum', 'adam'])
def test_a_test_keeps_no_weights(optimizer, data, tmp_path):
    log = tmp_path / 'log'
    earlier = training_setup.trained(data, log, 3)
    before = {path.name: path.read_bytes() for path in log.iterdir() if path.is_file()}
    test = RateTestOptions(is_on=True, steps=12, lowest=1e-4, highest=0.1)
    changes = {'rate_test': test, 'optimizer': OptimizerOptions(name=optimizer)}
    result = train.run(training_setup.options(data, log, **changes))
    assert (result.status, result.checkpoint) == (0, None)
    after = {path.name: path.read_bytes() for path in log.iterdir() if path.is_file()}
    new = {name for name in after.keys() - before.keys() if not name.startswith('record_check')}
    assert new == set(rate_test.FILES)
    assert all(after[name] == before[name] for name in before)
    points = json.loads((log / 'learning_rate_range.json').read_text())['points']
    np.testing.assert_allclose([point['learning_rate'] for point in points], np.geomspace(1e-4, 0.1, 12), rtol=1e-4)
    assert points[0]['loss'] == training_setup.losses(log)[1]  # it starts anew
    again = train.run(training_setup.options(data, log, 4))  # resumes as if there had been no test
    assert (earlier.step, again.step) == (3, 4)


@pytest.mark.parametrize('is_on', [False, True])
def test_it_begins_with_the_initial_checkpoint_beside_checkpoints(is_on, data, tmp_path, monkeypatch):
    given = {}
    monkeypatch.setattr(train_utils, 'get_model_init_fn', lambda *arguments, **named: given.update(named))
    initial_checkpoint.init_fn(training_setup.options(data, tmp_path, rate_test=RateTestOptions(is_on=is_on)))
    assert given == {'is_resumed': not is_on}


def test_images_without_labels_have_the_weight_of_the_training(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(split_input, 'open_all_data', lambda *arguments: None)
    monkeypatch.setattr(split_input, 'with_label_weights', lambda options, data: options)
    stopped = train_loop.TrainResult(0, None, 0.0, None, 15)
    monkeypatch.setattr(train_run, '_train', lambda options, *others: seen.append(options) or stopped)
    data = training_setup.DatasetOptions('train', str(tmp_path), 'camvid')
    unlabeled, test = UnlabeledOptions('photos', magnitude=0.2), RateTestOptions(is_on=True, steps=12)
    train_run._test_rates(training_setup.options(data, tmp_path, 80, unlabeled=unlabeled, rate_test=test), None)
    assert [(each.number_of_steps, each.unlabeled.ramp_steps) for each in seen] == [(12, 20)]


def test_a_loss_that_is_not_finite_ends_the_test(data, tmp_path):
    test = RateTestOptions(is_on=True, steps=40, lowest=1e-3, highest=1e30)
    result = train.run(training_setup.options(data, tmp_path, rate_test=test))
    content = json.loads((tmp_path / 'learning_rate_range.json').read_text())
    assert content['is_diverged'] and len(content['points']) < 40
    assert 'diverges at' in result.report


def test_the_flags(data):
    line = ['--train_logdir=logs', '--dataset_dir=records']
    assert not cli.options_of('train', line).rate_test.is_on
    options = cli.options_of(
        'train', [*line, '--find_learning_rate', '--find_steps=50', '--find_growth=linear']
    ).rate_test
    assert options == RateTestOptions(is_on=True, steps=50, growth='linear')
    for words, message in (
        (['--find_steps=50'], '--find_learning_rate'),
        (['--find_learning_rate', '--find_lowest=20'], '--find_highest=10.0 is not allowed'),
        (['--find_learning_rate', '--find_steps=2'], '--find_steps=2'),
        (['--find_learning_rate', '--worker_hosts=a:1,b:1'], 'one machine'),
    ):
        with pytest.raises(OptionError, match=message):
            cli.options_of('train', [*line, *words])
    clones = CloneOptions(num_clones=2)
    assert dataclasses.replace(training_setup.options(data, 'log'), clones=clones, rate_test=options).rate_test.is_on
