"""Gradient accumulation in trainings of a tiny network."""

import dataclasses
import re

import numpy as np
import pytest

from deeplab import train
from deeplab.errors import OptionError
from deeplab.options import CloneOptions, LearningRateOptions, LossOptions, OptimizerOptions
from tests.helpers import training_setup
from tests.helpers.checkpoint_files import values_of

pytestmark = pytest.mark.usefixtures('tiny_network')


@pytest.mark.parametrize(('num_clones', 'steps'), [(2, 2), pytest.param(1, 4, marks=pytest.mark.slow)])
def test_micro_batches_make_the_step_of_the_whole_batch(data, tmp_path, monkeypatch, num_clones, steps):
    """With frozen batch norms, without dropout, and on images whose every pixel has a label."""
    note = training_setup.without_dropout(monkeypatch)
    whole = training_setup.whole_images(data)
    one = training_setup.trained(whole, tmp_path / 'one', 2, **note, **training_setup.FROZEN)
    clones = CloneOptions(num_clones=num_clones, clone_on_cpu=True)
    options = training_setup.options(
        whole, tmp_path / 'parts', 2, accumulation_steps=steps, clones=clones, **training_setup.FROZEN
    )
    parts = train.run(options)
    assert parts.loss == pytest.approx(one.loss, rel=1e-5)
    first, second = values_of(one.checkpoint), values_of(parts.checkpoint)
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_allclose(second[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.slow
def test_moving_statistics_are_the_mean_of_the_micro_batches(data, tmp_path, monkeypatch):
    """With a decay of 0 they equal the statistics of one batch, of the first of two clones."""
    training_setup.without_dropout(monkeypatch)

    def options(logdir, steps, batch_size, **changes):
        standing = OptimizerOptions(learning_rate=LearningRateOptions(base=1e-30))
        made = training_setup.options(
            data, logdir, steps, batch_size=batch_size, optimizer=standing, save_interval_secs=0, **changes
        )
        return dataclasses.replace(made, model=dataclasses.replace(made.model, batch_norm_decay=0.0))

    train.run(options(tmp_path / 'single', 3, 1))
    clones = CloneOptions(num_clones=2, clone_on_cpu=True)
    result = train.run(options(tmp_path / 'parts', 1, 4, accumulation_steps=2, clones=clones))
    halves = [values_of(tmp_path / 'single' / f'model.ckpt-{step}') for step in (1, 3)]
    parts = values_of(result.checkpoint)
    moving = [name for name in parts if name.endswith(('/moving_mean', '/moving_variance'))]
    assert 'tiny/conv2/BatchNorm/moving_variance' in moving
    for name in moving:
        expected = (halves[0][name] + halves[1][name]) / 2
        np.testing.assert_allclose(parts[name], expected, rtol=1e-4, atol=1e-5, err_msg=name)
    name = 'tiny/conv1/BatchNorm/moving_mean'
    assert (np.abs(halves[0][name] - halves[1][name]) > 1e-3).any()


@pytest.mark.slow
def test_resume_is_exact_and_checkpoints_hold_nothing_more(data, tmp_path):
    changes = {'moving_average_decay': 0.5, 'save_interval_secs': 0}
    plain = training_setup.trained(data, tmp_path / 'plain', 3, **changes)
    parts = training_setup.options(data, tmp_path / 'a', 3, accumulation_steps=2, **changes)
    straight = values_of(train.run(parts).checkpoint)
    for path in (tmp_path / 'a').glob('model.ckpt-3.*'):
        path.unlink()
    resumed = train.run(parts)
    assert resumed.step == 3 and resumed.loss is not None
    resumed = values_of(resumed.checkpoint)
    assert straight.keys() == resumed.keys() == values_of(plain.checkpoint).keys()
    for name, value in straight.items():
        assert value.tobytes() == resumed[name].tobytes(), name
    assert re.search('accumulation|micro_batch', (tmp_path / 'a' / 'graph.pbtxt').read_text())
    assert not re.search('accumulation|micro_batch', (tmp_path / 'plain' / 'graph.pbtxt').read_text())


def test_loss_scale_hard_pixels_and_summaries(data, tmp_path):
    """The total loss that TensorBoard shows is the mean over the micro-batches, as the step's is."""
    loss = LossOptions(top_k_percent_pixels=0.5, hard_example_mining_step=2)
    options = training_setup.options(
        data, tmp_path / 'log', 2, accumulation_steps=2, precision='float16', loss=loss, save_summaries_secs=0
    )
    result = train.run(options)
    tags = training_setup.summaries(tmp_path / 'log')
    assert tags['total_loss'] == pytest.approx(result.loss)
    values = values_of(result.checkpoint)
    assert values['global_step'] == 2
    assert values['loss_scale/good_steps'] == 2


@pytest.mark.parametrize(
    ('changes', 'parts'),
    [
        ({'accumulation_steps': 0}, ('accumulation_steps=0', 'greater than 0')),
        (
            {'batch_size': 12, 'accumulation_steps': 5},
            ('accumulation_steps=5', 'batch_size=12', '1, 2, 3, 4, 6, 12', 'a multiple of 5'),
        ),
        (
            {'batch_size': 4, 'accumulation_steps': 4, 'clones': CloneOptions(num_clones=2)},
            ('accumulation_steps=4', 'batch_size=4 with num_clones=2', '1, 2 only', 'a multiple of 8'),
        ),
        (
            {'accumulation_steps': 2, 'clones': CloneOptions(master='grpc://here:1')},
            ('accumulation_steps=2', 'several machines', 'master'),
        ),
    ],
)
def test_bad_numbers(data, tmp_path, changes, parts):
    with pytest.raises(OptionError) as error:
        training_setup.options(data, tmp_path, **changes)
    assert not [part for part in parts if part not in str(error.value)], str(error.value)
