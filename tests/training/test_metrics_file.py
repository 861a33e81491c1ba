"""metrics.jsonl: its lines, and how a resume treats existing ones."""

import json
import math

import pytest

from deeplab import train
from deeplab.options import LoggerOptions
from deeplab.training import metrics_file
from deeplab.training.run_loggers import RunLoggers
from deeplab.training.train_loop import StepResult
from tests.helpers import training_setup


def write(directory, *lines):
    (directory / 'metrics.jsonl').write_text(''.join(lines), errors='surrogateescape')


def hook(directory, every_steps=2):
    return metrics_file.MetricsHook(str(directory), every_steps, 4, RunLoggers(LoggerOptions(())))


def test_a_line_holds_the_means_since_the_one_before(tmp_path):
    metrics = hook(tmp_path)
    metrics.begin(None, 0)
    metrics.after_step(StepResult(1, 9.0, 0.1, 0.5, 3.0, 0.25), {})
    assert not (tmp_path / 'metrics.jsonl').exists()
    metrics.after_step(StepResult(2, 1.5, 0.1, 1.5, 2.0, 0.25), {})
    metrics.after_step(StepResult(3, 1.5, 0.1, 1.0), {})
    metrics.after_step(StepResult(4, 1.25, 0.05, 1.0), {})
    first, second = metrics_file.read(str(tmp_path / 'metrics.jsonl'))
    assert first.pop('time') > 1e9
    assert first == {
        'step': 2, 'loss': 1.5, 'learning_rate': 0.1, 'gradient_norm': 2.0, 'seconds_per_step': 1.0,
        'images_per_second': 4.0, 'waiting_share': 0.25,
    }  # fmt: skip
    assert second['step'] == 4
    assert second['gradient_norm'] is None
    assert 'waiting_share' not in second


def test_steps_that_others_count_too(tmp_path):
    metrics = hook(tmp_path, 5)
    metrics.begin(None, 4)
    for step in (6, 9, 11, 13, 27):
        metrics.after_step(StepResult(step, 1.5, 0.1, 1.0), {})
    lines = metrics_file.read(str(tmp_path / 'metrics.jsonl'))
    assert [line['step'] for line in lines] == [6, 11, 27]


def test_validations_stand_in_lines_of_their_own_once(tmp_path):
    val, train_split, larger = (
        {'split': 'val', 'crop_size': [33, 49], 'moving_average': False, 'min_resize_value': None},
        {'split': 'train', 'crop_size': [33, 49], 'moving_average': False, 'min_resize_value': None},
        {'split': 'val', 'crop_size': [65, 65], 'moving_average': True, 'min_resize_value': 33},
    )
    metrics = hook(tmp_path)
    metrics.begin(None, 0)
    metrics.add_validation(2, {'miou': 0.5}, val)
    metrics = hook(tmp_path)
    metrics.begin(None, 2)  # killed before the validation's own file was written: it is repeated
    metrics.add_validation(2, {'miou': 0.5}, val)
    metrics.add_validation(2, {'miou': 0.7}, train_split)
    metrics.add_validation(2, {'miou': 0.6}, larger)
    metrics.add_validation(4, {'miou': None}, val)
    lines = metrics_file.read(str(tmp_path / 'metrics.jsonl'))
    assert [(line['step'], line['miou'], line['eval_split'], line['eval_crop_size']) for line in lines] == [
        (2, 0.5, 'val', [33, 49]),
        (2, 0.7, 'train', [33, 49]),
        (2, 0.6, 'val', [65, 65]),
        (4, None, 'val', [33, 49]),
    ]
    assert lines[2]['eval_moving_average'] and lines[2]['eval_min_resize_value'] == 33
    assert not {'eval_moving_average', 'eval_min_resize_value'} & set(lines[0])


@pytest.mark.parametrize('half', ['', '{"step": 6, "lo', '{"step": 6}', 'null\n', '[1]\n', '{"loss": 2}\n', '\udcff\n'])
def test_what_comes_again_and_what_is_half_written_goes(tmp_path, half):
    lines = [json.dumps({'step': step, 'loss': step / 3}) + '\n' for step in (2, 4, 6, 8)]
    write(tmp_path, *lines, half)
    metrics = hook(tmp_path)
    metrics.begin(None, 4)
    for step in (5, 6):
        metrics.after_step(StepResult(step, 0.25, 0.1, 1.0), {})
    found = metrics_file.read(str(tmp_path / 'metrics.jsonl'))
    assert [(line['step'], line['loss']) for line in found] == [(2, 2 / 3), (4, 4 / 3), (6, 0.25)]
    assert [path.name for path in tmp_path.iterdir()] == ['metrics.jsonl']


def test_a_file_that_needs_nothing_is_left_alone(tmp_path):
    write(tmp_path, metrics_file.text_of({'step': 2, 'loss': 1 / 3}))
    before = (tmp_path / 'metrics.jsonl').stat()
    hook(tmp_path).begin(None, 2)
    assert (tmp_path / 'metrics.jsonl').stat().st_ino == before.st_ino


def test_json_has_no_infinity():
    text = metrics_file.text_of({'step': 1, 'a': math.inf, 'b': math.nan, 'c': 0.1})
    assert text == '{"step": 1, "a": null, "b": null, "c": 0.1}\n'


def test_training_writes_it_and_a_resume_goes_on(tmp_path, tiny_network, caplog):
    data = training_setup.write_data(tmp_path / 'records')
    with caplog.at_level('INFO'):
        training_setup.trained(data, tmp_path / 'log', 3, save_interval_secs=0)
        with (tmp_path / 'log' / 'metrics.jsonl').open('a') as file:
            file.write('{"step": 4, "loss": 77')
        result = train.run(training_setup.options(data, tmp_path / 'log', 5))
    lines = metrics_file.read(str(tmp_path / 'log' / 'metrics.jsonl'))
    assert [line['step'] for line in lines] == [1, 2, 3, 4, 5]
    assert lines[-1]['loss'] == result.loss
    logged = [message for message in caplog.messages if message.startswith('global step')]
    assert [f'global step {line["step"]}: loss = {line["loss"]:.4f}' for line in lines[3:]] == [
        message.partition(' (')[0] for message in logged[-2:]
    ]
    assert all(line['gradient_norm'] > 0 and line['seconds_per_step'] > 0 for line in lines)
    assert all(line['learning_rate'] > 0 for line in lines)


def test_a_file_that_cannot_be_written_is_told_once_and_left_alone(tmp_path, caplog):
    (tmp_path / 'metrics.jsonl').mkdir()
    metrics = hook(tmp_path)
    metrics.begin(None, 0)
    for step in (2, 4):
        metrics.after_step(StepResult(step, 1.0, 0.1, 1.0), {})
    metrics.add_validation(4, {'miou': 0.5}, {'split': 'val'})
    (message,) = caplog.messages
    assert message.startswith(f"'{tmp_path}/metrics.jsonl' cannot be written (Is a directory). Training continues")


def test_later_lines_that_cannot_be_dropped(tmp_path, monkeypatch, caplog):
    write(tmp_path, metrics_file.text_of({'step': 8, 'loss': 1.0}))

    def fail(path, content):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(metrics_file.writing, 'write', fail)
    hook(tmp_path).begin(None, 4)
    assert len(caplog.messages) == 1
    assert 'cannot be written (No space left on device)' in caplog.text


def test_terms_and_figures_of_tasks_have_keys_of_their_own(tmp_path):
    metrics = hook(tmp_path, 1)
    metrics.begin(None, 0)
    metrics.after_step(StepResult(1, 1.5, 0.1, 1.0, terms={'depth/silog': 0.25}), {})
    for _ in range(2):  # once, although it has no mIoU
        metrics.add_validation(1, {'depth/abs_rel': 0.5}, {'split': 'val', 'best_metric': '-depth/abs_rel'})
        metrics.begin(None, 1)
    step, validation = metrics_file.read(str(tmp_path / 'metrics.jsonl'))
    assert step['losses/depth/silog'] == 0.25
    assert (validation['depth/abs_rel'], validation['eval_best_metric']) == (0.5, '-depth/abs_rel')
