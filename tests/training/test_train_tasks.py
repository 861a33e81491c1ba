"""Trainings of tasks: validation by their figures, terms of the loss, pictures, and a resume with another task."""

import dataclasses
import json
import logging

import pytest

from deeplab import eval as eval_program
from deeplab import train
from deeplab.core import checkpoints
from deeplab.errors import NetworkMismatchError, OptionError
from deeplab.options import EvalOptions, ValidationOptions, WaitOptions
from deeplab.training import metrics_file, summaries, validation
from tests.helpers import training_setup

pytestmark = pytest.mark.usefixtures('tiny_network')
EVERY = ValidationOptions('train', 1)


def options(data, logdir, task, steps=2, **changes):
    plain = training_setup.options(data, logdir, steps, **changes)
    return dataclasses.replace(plain, model=dataclasses.replace(plain.model, task=task))


def evaluated(data, folder, checkpoint, task, **changes):
    model = dataclasses.replace(training_setup.options(data, '').model, task=task, crop_size=None)
    return eval_program.run(EvalOptions(model, data, checkpoint, str(folder), wait=WaitOptions(0, 1, 0), **changes))


def test_a_training_of_classes_and_edges(data, tmp_path, caplog):
    shown = {'save_summaries_secs': 0, 'save_summaries_images': True, 'save_summaries_miou': True}
    both = options(data, tmp_path / 'log', 'semantic+edges', accumulation_steps=2, validation=EVERY, **shown)
    both = dataclasses.replace(both, validation=dataclasses.replace(EVERY, best_metric='edges/f'))
    with caplog.at_level(logging.INFO):
        result = train.run(both)
    lines = metrics_file.read(str(tmp_path / 'log' / metrics_file.FILE))
    steps, validations = ([line for line in lines if key in line] for key in ('loss', 'edges/f'))
    terms = {'losses/semantic/semantic', 'losses/edges/entropy'}
    assert all(terms <= line.keys() for line in steps) and len(steps) == 2
    assert all(sum(line[name] for name in terms) <= line['loss'] for line in steps)  # and weight decay
    assert f', edges/entropy = {steps[0]["losses/edges/entropy"]:.4f}' in caplog.text
    assert [line['eval_best_metric'] for line in validations] == ['edges/f'] * 2
    best = max(validations, key=lambda line: line['edges/f'] or 0.0)
    assert f' Best edges/f {best["edges/f"]:.4f} at step {best["step"]}' in result.report
    assert f'eval/edges_1.0_f[{best["edges/f"]:.9g}]' in caplog.text
    tags = training_setup.summaries(tmp_path / 'log')
    assert {'samples/label/image/0', 'samples/edges/image/0', 'samples/edges_target/image/0'} <= tags.keys()
    assert 0.0 <= tags['miou/semantic'] <= 1.0 and 'losses/edges/entropy' in tags
    caplog.clear()
    train.run(options(data, tmp_path / 'log', 'edges', 3, accumulation_steps=2))
    assert "task='semantic+edges'" not in caplog.text and 'task: semantic+edges -> edges' in caplog.text


def test_edges_alone_have_no_iou(data, tmp_path, caplog):
    result = train.run(options(data, tmp_path / 'log', 'edges', 1))
    caplog.clear()
    with caplog.at_level(logging.INFO):
        evaluation = evaluated(data, tmp_path / 'eval', result.checkpoint, 'edges')
    assert 'IoU' not in evaluation.report and 'Dice' not in evaluation.report
    assert evaluation.report.startswith('edges f')
    assert 'miou' not in caplog.text and 'eval/edges_1.0_f[' in caplog.text
    content = json.loads(next((tmp_path / 'eval').glob('metrics-*.json')).read_text())
    assert content['miou'] is None and content['metrics']['edges'].keys() >= {'f', 'threshold'}
    with pytest.raises(OptionError, match='needs a class for each pixel'):
        evaluated(data, tmp_path / 'eval', result.checkpoint, 'edges', metrics=('boundary_iou',))
    with pytest.raises(NetworkMismatchError) as raised:
        train.run(options(data, tmp_path / 'log', 'semantic+edges', 2))
    assert 'task edges, with the outputs edges (1); the network here is of the task ' in str(raised.value)
    assert "semantic+edges, with semantic (3), edges (1). Set task='edges', or" in str(raised.value)


def test_another_figure_starts_the_comparison_anew(data, tmp_path):
    chosen = options(data, tmp_path / 'log', 'semantic', validation=EVERY)
    other = dataclasses.replace(chosen, validation=dataclasses.replace(EVERY, best_metric='-pixel_accuracy'))
    plain, changed = validation.settings_of(chosen), validation.settings_of(other)
    assert 'best_metric' not in plain
    assert validation.setting_changes({}, changed) == ['best_metric: miou -> -pixel_accuracy']
    assert validation.setting_changes(changed, plain) == ['best_metric: -pixel_accuracy -> miou']
    assert validation.setting_changes(changed, changed) == []
    score = validation.Score(validation._figure_of(other))
    assert [score.add(step, value) for step, value in enumerate([0.5, 0.75, 0.25, None])] == [True, False, True, False]
    assert (score.best, score.since_best) == (0.25, 1)


def test_a_figure_that_does_not_exist_is_refused_before_training(data, tmp_path):
    wrong = options(data, tmp_path / 'log', 'edges', validation=dataclasses.replace(EVERY, best_metric='edges/g'))
    with pytest.raises(OptionError, match="best_metric='edges/g' is not allowed: validation has no such figure"):
        train.run(wrong)
    assert not (tmp_path / 'log').exists()
    with pytest.raises(OptionError, match='save_summaries_miou=True needs a class for each pixel'):
        summaries.check(options(data, tmp_path / 'log', 'edges', save_summaries_miou=True))
    assert checkpoints.newest(str(tmp_path)) is None
