"""TRAIN_LOGDIR/metrics.jsonl: training metrics for plots, one JSON object per line; loggers get the same numbers.

Lines of steps are as frequent as log lines; with tasks, they also have the unweighted terms of the loss, such
as `losses/panoptic/center`. Each validation adds a line with `miou`, the figures of tasks, such as
`panoptic/pq`, and its settings, such as `eval_split` and `eval_crop_size`, as figures of different settings cannot be
compared. Each step occurs once: a run
that resumes from a checkpoint first drops the lines of steps that it will repeat, and the incomplete last line of a
killed process.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from absl import logging

from deeplab.files import documents, output_files, writing
from deeplab.training.run_loggers import RunLoggers
from deeplab.training.train_hooks import passes_multiple
from deeplab.training.train_loop import Hook, StepResult

FILE = 'metrics.jsonl'

Line = dict[str, Any]


def read(path: str) -> list[Line]:
    """Reads the complete lines of a metrics file; empty if there is none."""
    try:
        lines = documents.load_lines(path)
    except OSError:
        return []
    return [line for line in lines if isinstance(line, dict) and isinstance(line.get('step'), int)]


def text_of(line: Line) -> str:
    """Formats a line of the file. JSON has neither infinity nor NaN: they become null."""
    plain = {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in line.items()}
    return json.dumps(plain) + '\n'


class MetricsHook(Hook):
    """Writes a line every few steps; if the file cannot be written, training continues without it.

    Attributes:
      loggers: the loggers of the training, which get the numbers of each line.
    """

    def __init__(self, directory: str, every_steps: int, batch_size: int, loggers: RunLoggers) -> None:
        """Creates the hook, which writes to a file in `directory` every so many steps of `batch_size` images."""
        self.loggers = loggers
        self._path = os.path.join(directory, FILE)
        self._output = output_files.Dispensable(self._path)
        self._every_steps = every_steps
        self._batch_size = batch_size
        self._results: list[StepResult] = []
        self._last_step = 0
        self._validated: set[str] = set()

    def begin(self, session: tf.compat.v1.Session, step: int) -> None:
        """Drops incomplete lines and the lines of later steps."""
        self._last_step = step
        lines = [line for line in read(self._path) if line['step'] <= step]
        self._validated = {_key_of(line) for line in lines if 'miou' in line or 'eval_split' in line}
        text = ''.join(text_of(line) for line in lines)
        try:
            with open(self._path, encoding='utf-8', errors='replace') as file:
                if file.read() == text:
                    return
        except OSError:  # a new file
            return
        self._output.attempt(lambda: writing.write(self._path, text))
        if self._output.is_on:
            logging.info('%s: dropped the lines of steps after step %d, which will be repeated.', self._path, step)

    def after_step(self, result: StepResult, fetched: dict[str, Any]) -> None:
        """Writes a line if one is due."""
        self._results.append(result)
        before, self._last_step = self._last_step, result.step
        if not passes_multiple(before, result.step, self._every_steps):
            return
        seconds = sum(result.seconds for result in self._results)
        steps = len(self._results)
        line = {
            'step': result.step,
            'time': round(time.time(), 3),
            'loss': result.loss,
            'learning_rate': result.learning_rate,
            'gradient_norm': result.gradient_norm,
            'seconds_per_step': round(seconds / steps, 6),
            'images_per_second': round(steps * self._batch_size / max(seconds, 1e-9), 3),
        }
        line |= {f'losses/{name}': value for name, value in result.terms.items()}
        waited = [seen.waiting_seconds for seen in self._results if seen.waiting_seconds is not None]
        if waited:
            line['waiting_share'] = round(min(sum(waited) / max(seconds, 1e-9), 1.0), 4)
        self._results.clear()
        self._write(line)
        self.loggers.scalars(result.step, {name: v for name, v in line.items() if name not in ('step', 'time')})

    def add_validation(self, step: int, figures: Mapping[str, float | None], settings: Mapping[str, Any]) -> None:
        """Writes the line of a validation with its settings, such as the split, unless the file has it already."""
        line = {'step': step, 'time': round(time.time(), 3), **figures}
        line |= {f'eval_{name}': value for name, value in settings.items() if value not in (None, False)}
        if _key_of(line) not in self._validated:
            self._validated.add(_key_of(line))
            self._write(line)

    def _write(self, line: Line) -> None:
        """Adds a line in one write, which a killed process does as a whole or not at all, except on a full disk."""

        def append() -> None:
            with open(self._path, 'a', encoding='utf-8') as file:
                file.write(text_of(line))

        self._output.attempt(append)


def _key_of(line: Line) -> str:
    """Returns what tells a validation from others: its step and its settings, not what it found."""
    named = {key: value for key, value in line.items() if key == 'step' or key.startswith('eval_')}
    return json.dumps(named, sort_keys=True)
