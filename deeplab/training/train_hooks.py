"""Hooks of the training loop: log lines, progress bar, summaries, profile."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from absl import logging

from deeplab import names
from deeplab.files import output_files
from deeplab.training import summaries
from deeplab.training.run_loggers import RunLoggers
from deeplab.training.train_loop import Hook, StepResult
from deeplab.wording import option

_FIRST_PROGRESS_SECS = 5.0
_PROGRESS_SECS = 60.0


def passes_multiple(before: int, step: int, every_steps: int) -> bool:
    """Returns whether `step`, which follows `before`, is the first at or after a multiple of `every_steps`.

    With several replicas, a step may be several steps further than the one before, and miss every multiple.
    """
    return step // every_steps != before // every_steps


class LogHook(Hook):
    """Writes `global step 1050: loss = 0.5795 (0.741 sec/step)` every few steps; seconds are those steps' mean.

    The terms of the losses of tasks follow: `, panoptic/center = 0.0012`.
    """

    def __init__(self, every_steps: int, bar: ProgressHook):
        self._every_steps = every_steps
        self._bar = bar
        self._seconds: list[float] = []
        self._last_step: int | None = None

    def after_step(self, result: StepResult, fetched: dict[str, Any]) -> None:
        """Logs a line if one is due."""
        self._seconds.append(result.seconds)
        before, self._last_step = self._last_step, result.step
        if not passes_multiple(result.step - 1 if before is None else before, result.step, self._every_steps):
            return
        mean = sum(self._seconds) / len(self._seconds)
        self._seconds.clear()
        with self._bar.hidden():
            terms = ''.join(f', {name} = {_shown(name, value)}' for name, value in result.terms.items())
            logging.info('global step %d: loss = %.4f (%.3f sec/step)%s', result.step, result.loss, mean, terms)


def _shown(name: str, value: float) -> str:
    return f'{value:.0f}' if name.endswith('_pixels') else f'{value:.4f}'


class ProgressHook(Hook):
    """Progress bar on standard error: step, loss, learning rate, images per second, time left.

    Without a terminal, log lines of their own such as `step 210 of 400, 1 min 40 s left`: the first soon, later ones
    once a minute. Scripts parse the lines of `LogHook`, which stay as in the original.

    Attributes:
      note: additional text, such as the mIoU; empty for none.
    """

    def __init__(self, number_of_steps: int, batch_size: int):
        self.note = ''
        self._number_of_steps = number_of_steps
        self._batch_size = batch_size
        self._bar: Any = None
        self._first: tuple[int, float] | None = None  # the first step of this run, which is slow, and when it ended
        self._due = 0.0  # when the next line is due

    def begin(self, session: tf.compat.v1.Session, step: int) -> None:
        """Shows the bar."""
        if not sys.stderr.isatty():
            logging.info('step %d of %d', step, self._number_of_steps)
            return
        import tqdm  # not needed elsewhere

        self._bar = tqdm.tqdm(
            total=self._number_of_steps, initial=step, unit='step', dynamic_ncols=True, leave=True, smoothing=0.1
        )

    def after_step(self, result: StepResult, fetched: dict[str, Any]) -> None:
        """Advances the bar."""
        if self._bar is None:
            self._log(result.step, time.monotonic())
            return
        speed = self._batch_size / max(result.seconds, 1e-9)
        self._bar.set_postfix_str(
            f'loss {result.loss:.4f}, rate {result.learning_rate:.3g}, {speed:.1f} images/s'
            + (f', {self.note}' if self.note else ''),
            refresh=False,
        )
        self._bar.update(result.step - self._bar.n)  # other replicas may have done some steps

    def _log(self, step: int, now: float) -> None:
        if self._first is None:
            self._first, self._due = (step, now), now + _FIRST_PROGRESS_SECS
        if now < self._due or step >= self._number_of_steps:
            return
        first_step, start = self._first
        left = (self._number_of_steps - step) * (now - start) / max(step - first_step, 1)
        logging.info('step %d of %d, %s left', step, self._number_of_steps, names.duration(left))
        self._due = now + min(now - start, _PROGRESS_SECS)  # soon at first, then every minute

    def end(self, step: int) -> None:
        """Closes the bar and leaves it on the terminal."""
        if self._bar is not None:
            self._bar.close()

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """Hides the bar while something else writes to the terminal."""
        if self._bar is None:
            yield
            return
        self._bar.clear()
        yield
        self._bar.refresh()


class SummaryHook(Hook):
    """Logs the merged summaries and the speed at the first step and then every so many seconds.

    Once no logger takes summaries any more, they are not computed.
    """

    def __init__(self, loggers: RunLoggers, merged: summaries.MergedSummaries, interval_secs: float):
        self._loggers = loggers
        self._merged = merged
        self._interval_secs = interval_secs
        self._last_time: float | None = None
        self._last_step = 0
        self._session: tf.compat.v1.Session | None = None
        self._histograms: list[bytes] = []  # of the step that runs

    def begin(self, session: tf.compat.v1.Session, step: int) -> None:
        """Keeps the session, for the values of variables."""
        self._last_step, self._session = step, session

    def fetches(self, step: int) -> dict[str, tf.Tensor]:
        """Returns the summaries, which are empty unless they are due."""
        return {'summary': self._merged.values}

    def feeds(self, step: int) -> dict[tf.Tensor, Any]:
        """Returns whether the summaries are due; takes the histograms then, of the variables before the step."""
        waits = self._last_time is not None and time.monotonic() - self._last_time < self._interval_secs
        is_due = self._loggers.takes_summaries and not waits
        if is_due and self._merged.variables:
            assert self._session is not None
            self._histograms = summaries.histograms(self._session.run(dict(self._merged.variables)))
        return {self._merged.is_due: is_due}

    def after_step(self, result: StepResult, fetched: dict[str, Any]) -> None:
        """Logs the summaries, if the step computed them."""
        if not fetched['summary']:
            return
        self._loggers.summary(result.step, summaries.joined(fetched['summary'], self._histograms))
        self._histograms = []
        now = time.monotonic()
        if self._last_time is not None:
            speed = (result.step - self._last_step) / max(now - self._last_time, 1e-9)
            value = tf.compat.v1.Summary.Value(tag='global_step/sec', simple_value=speed)
            self._loggers.summary(result.step, tf.compat.v1.Summary(value=[value]))
        self._last_time, self._last_step = now, result.step


class ProfileHook(Hook):
    """Writes a TensorFlow profile of a few steps, after the first ones, which compile and warm up.

    If it cannot be written, training continues without it.
    """

    def __init__(self, directory: str, skipped_steps: int = 10, profiled_steps: int = 5):
        self._directory = directory
        self._output = output_files.Dispensable(directory)
        self._skipped_steps = skipped_steps
        self._profiled_steps = profiled_steps
        self._steps = 0
        self._is_running = False

    def after_step(self, result: StepResult, fetched: dict[str, Any]) -> None:
        """Starts or stops the profile."""
        self._steps += 1
        if self._steps == self._skipped_steps:
            self._output.attempt(lambda: tf.profiler.experimental.start(self._directory))
            self._is_running = self._output.is_on
        elif self._is_running and self._steps == self._skipped_steps + self._profiled_steps:
            self._stop()

    def end(self, step: int) -> None:
        """Stops a running profile, and warns if the run was too short for one."""
        if self._is_running:
            self._stop()
        elif 0 < self._steps < self._skipped_steps:
            logging.warning(
                '%s: no profile was written. It begins after %d steps, and this run had %d.',
                option('TrainOptions.profile_logdir', self._directory),
                self._skipped_steps,
                self._steps,
            )

    def _stop(self) -> None:
        self._is_running = False
        self._output.attempt(tf.profiler.experimental.stop)
        if self._output.is_on:
            steps = names.counted(self._steps - self._skipped_steps, 'step')
            logging.info('Wrote a profile of %s to %s.', steps, self._directory)
