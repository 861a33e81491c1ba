"""Training hooks: log lines, progress bar, event files and profiles."""

import io
import pathlib
import sys

import pytest
import tensorflow as tf

from deeplab.core import sessions
from deeplab.options import LoggerOptions
from deeplab.registry import LoggedRun
from deeplab.training import summaries, train_hooks
from deeplab.training.run_loggers import RunLoggers
from deeplab.training.train_loop import StepResult, TrainResult

SUMMARY = tf.compat.v1.Summary(value=[tf.compat.v1.Summary.Value(tag='any')]).SerializeToString()


def test_log_line(caplog):
    hook = train_hooks.LogHook(2, train_hooks.ProgressHook(1051, 8))
    with caplog.at_level('INFO'):
        hook.after_step(StepResult(1049, 9.0, 0.1, 1.0), {})
        hook.after_step(StepResult(1050, 0.57951, 0.1, 0.482), {})
        hook.after_step(StepResult(1051, 9.0, 0.1, 1.0), {})
    assert [record.getMessage() for record in caplog.records] == ['global step 1050: loss = 0.5795 (0.741 sec/step)']


def test_a_step_that_jumps_over_a_multiple():
    steps = [1, 4, 9, 11, 12, 15, 16, 31]
    passed = [
        step for before, step in zip([0, *steps], steps, strict=False) if train_hooks.passes_multiple(before, step, 5)
    ]
    assert passed == [9, 11, 15, 31]
    assert [step for step in range(1, 10) if train_hooks.passes_multiple(step - 1, step, 3)] == [3, 6, 9]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_bar_shows_on_a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, 'stderr', terminal)
    bar = train_hooks.ProgressHook(number_of_steps=20, batch_size=8)
    bar.begin(None, 5)
    bar.after_step(StepResult(6, 1.25, 0.007, 0.5), {})
    with bar.hidden():
        pass
    bar.after_step(StepResult(9, 1.25, 0.007, 0.5), {})  # of several replicas
    bar.end(9)
    assert '9/20' in terminal.getvalue()
    assert 'loss 1.2500, rate 0.007, 16.0 images/s' in terminal.getvalue()


def test_no_bar_elsewhere(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, 'stderr', stream)
    monkeypatch.setattr(train_hooks.logging, 'info', lambda *_: None)  # which may write to the stream, too
    bar = train_hooks.ProgressHook(20, 8)
    bar.begin(None, 0)
    bar.after_step(StepResult(1, 1.0, 0.1, 0.5), {})
    with bar.hidden():
        pass
    bar.end(1)
    assert stream.getvalue() == ''


def test_without_a_terminal_the_log_has_the_total_and_the_time_left(monkeypatch, caplog):
    monkeypatch.setattr(sys, 'stderr', io.StringIO())
    clock = iter([100, 102, 105, 106, 110, 120, 160, 161, 219, 220, 299, 300])
    monkeypatch.setattr(train_hooks.time, 'monotonic', lambda: float(next(clock)))
    hook = train_hooks.ProgressHook(number_of_steps=32, batch_size=8)
    with caplog.at_level('INFO'):
        hook.begin(None, 20)
        for step in range(21, 33):
            hook.after_step(StepResult(step, 1.0, 0.1, 1.0), {})
    assert [record.getMessage() for record in caplog.records] == [
        'step 20 of 32',
        'step 23 of 32, 22 s left',  # 9 steps of 2.5 s: the first one, which is slow, is left out
        'step 25 of 32, 18 s left',
        'step 26 of 32, 24 s left',
        'step 27 of 32, 50 s left',
        'step 30 of 32, 27 s left',
        'step 31 of 32, 20 s left',
    ]


def tags_of(directory):
    """(step, tag, value) of every scalar in a folder's event files."""
    found = []
    for path in sorted(pathlib.Path(directory).glob('events.out.tfevents.*')):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
    return found


@pytest.mark.parametrize(('interval', 'steps'), [(0, [1, 2, 3]), (1000, [1])])
def test_summaries_come_at_first_and_then_every_so_many_seconds(tmp_path, interval, steps):
    with tf.Graph().as_default(), sessions.open_session() as running:
        merged = tf.compat.v1.summary.merge([tf.compat.v1.summary.scalar('total_loss', tf.constant(2.0))])
        is_due = tf.compat.v1.placeholder(tf.bool, [])
        values = tf.where(is_due, merged, b'')
        loggers = RunLoggers(LoggerOptions())
        hook = train_hooks.SummaryHook(loggers, summaries.MergedSummaries(values, is_due), interval)

        def train():
            loggers.begin(running, 0)
            hook.begin(running, 0)
            for step in (1, 2, 3):
                fetched = running.run(hook.fetches(step), hook.feeds(step))
                hook.after_step(StepResult(step, 2.0, 0.1, 0.1), fetched)
            return TrainResult(3, 2.0, 0.1, None)

        loggers.run(LoggedRun(str(tmp_path), 0, {}), train)
    found = tags_of(tmp_path)
    assert [step for step, tag, _ in found if tag == 'total_loss'] == steps
    speeds = [value for _, tag, value in found if tag == 'global_step/sec']
    assert len(speeds) == len(steps) - 1
    assert all(speed > 0 for speed in speeds)


def test_profile(tmp_path):
    with tf.Graph().as_default(), sessions.open_session() as running:
        product = tf.matmul(tf.ones([8, 8]), tf.ones([8, 8]))
        hook = train_hooks.ProfileHook(str(tmp_path), skipped_steps=2, profiled_steps=2)
        for step in range(1, 6):
            running.run(product)
            hook.after_step(StepResult(step, 1.0, 0.1, 0.1), {})
        hook.end(5)
    assert list(tmp_path.rglob('*.xplane.pb'))


def test_a_profile_is_of_five_steps_after_the_first_ten(tmp_path, monkeypatch):
    steps, events = [], []
    monkeypatch.setattr(tf.profiler.experimental, 'start', lambda folder: events.append((folder, len(steps))))
    monkeypatch.setattr(tf.profiler.experimental, 'stop', lambda: events.append(('stop', len(steps))))
    hook = train_hooks.ProfileHook(str(tmp_path))
    for step in range(1, 21):
        steps.append(step)
        hook.after_step(None, {})
    hook.end(20)
    assert events == [(str(tmp_path), 10), ('stop', 15)]


def test_profile_of_a_run_that_ends_too_early(tmp_path, caplog):
    hook = train_hooks.ProfileHook(str(tmp_path), skipped_steps=1, profiled_steps=5)
    with caplog.at_level('INFO'):
        for step in (1, 2, 3):
            hook.after_step(StepResult(step, 1.0, 0.1, 0.1), {})
        hook.end(3)
    assert list(tmp_path.rglob('*.xplane.pb'))
    assert 'Wrote a profile of 2 steps' in caplog.text


def test_profile_of_a_run_that_ends_before_it_begins(tmp_path, caplog):
    hook = train_hooks.ProfileHook(str(tmp_path), skipped_steps=3)
    hook.after_step(StepResult(1, 1.0, 0.1, 0.1), {})
    hook.end(1)
    assert 'no profile was written. It begins after 3 steps, and this run had 1.' in caplog.text


def test_a_profile_that_cannot_be_written_is_told_once(tmp_path, caplog):
    (tmp_path / 'file').write_text('mine')
    hook = train_hooks.ProfileHook(str(tmp_path / 'file'), skipped_steps=1, profiled_steps=2)
    for step in range(1, 6):
        hook.after_step(StepResult(step, 1.0, 0.1, 0.1), {})
    hook.end(5)
    told = [record.getMessage() for record in caplog.records if record.levelname == 'WARNING']
    assert len(told) == 1
    assert told[0].startswith(f"'{tmp_path}/file' cannot be written (")
    assert 'Wrote a profile' not in caplog.text
    tf.profiler.experimental.start(str(tmp_path))  # none is left running
    tf.profiler.experimental.stop(save=False)


def log_two_summaries(tmp_path, monkeypatch, writer):
    """Logs summaries in two steps with a writer of event files; returns whether they were asked for in each step."""
    monkeypatch.setattr(tf.compat.v1.summary, 'FileWriter', writer)
    loggers, asked = RunLoggers(LoggerOptions()), []
    with tf.Graph().as_default(), sessions.open_session() as running:
        hook = train_hooks.SummaryHook(loggers, summaries.MergedSummaries(tf.constant(b''), tf.constant(True)), 0)

        def train():
            loggers.begin(running, 0)
            hook.begin(running, 0)
            for step in (1, 2):
                asked.extend(hook.feeds(step).values())
                hook.after_step(StepResult(step, 1.0, 0.1, 0.1), {'summary': SUMMARY})
            return TrainResult(2, 1.0, 0.1, None)

        loggers.run(LoggedRun(str(tmp_path), 0, {}), train)
    return asked


def test_summaries_that_cannot_be_written_are_told_once_and_asked_for_no_more(tmp_path, monkeypatch, caplog):
    class Writer:
        def __init__(self, directory):
            pass

        def add_summary(self, summary, step):
            raise tf.errors.ResourceExhaustedError(None, None, 'No space left on device')

        close = add_summary

    assert log_two_summaries(tmp_path, monkeypatch, Writer) == [True, False]
    (message,) = caplog.messages
    assert f"'{tmp_path}/events.out.tfevents.*' cannot be written: No space left on device)." in message
    assert 'The logger tensorboard has failed' in message and 'Training continues' in message


def test_an_event_file_that_cannot_be_made(tmp_path, monkeypatch, caplog):
    def fail(directory):
        raise tf.errors.PermissionDeniedError(None, None, 'a; Permission denied')

    assert log_two_summaries(tmp_path, monkeypatch, fail) == [True, False]
    assert len(caplog.messages) == 1
