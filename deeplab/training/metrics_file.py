"""TRAIN_LOGDIR/metrics.jsonl: the figures of a training for anybody's plots, one JSON object a line.

Lines of steps come as often as those of the log; `miou` stands in lines of its own, where there are validations. Each
step occurs once: a run that goes on from a checkpoint first drops the lines of the steps that it will do again, and a
last line that a killed process has left half written.
"""

from __future__ import annotations

import json
import math
import os
import time
from typing import Any

import tensorflow as tf
from absl import logging

from deeplab.training.train_hooks import passes_multiple
from deeplab.training.train_loop import Hook, StepResult
from deeplab.utils import documents, files, output_files

FILE = 'metrics.jsonl'

Line = dict[str, Any]


def read(path: str) -> list[Line]:
    """The whole lines of a file of metrics; empty where there is none."""
    try:
        lines = documents.load_lines(path)
    except OSError:
        return []
    return [line for line in lines if isinstance(line, dict) and isinstance(line.get('step'), int)]


def text_of(line: Line) -> str:
    """A line as it stands in the file. JSON has no word for infinity and what is no number: they become null."""
    plain = {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in line.items()}
    return json.dumps(plain) + '\n'


class MetricsHook(Hook):
    """Writes a line every few steps; where the file cannot be written, training goes on without."""

    def __init__(self, directory: str, every_steps: int, batch_size: int) -> None:
        """Writes nothing yet.

        Args:
          directory: where metrics.jsonl is, or will be.
          every_steps: steps between two lines.
          batch_size: images in one step.
        """
        self._path = os.path.join(directory, FILE)
        self._output = output_files.Dispensable(self._path)
        self._every_steps = every_steps
        self._batch_size = batch_size
        self._results: list[StepResult] = []
        self._last_step = 0
        self._validated: set[tuple[int, str]] = set()

    def begin(self, session: tf.compat.v1.Session, step: int) -> None:
        """Drops what later steps have left in the file, and what is not whole."""
        self._last_step = step
        lines = [line for line in read(self._path) if line['step'] <= step]
        self._validated = {(line['step'], line.get('eval_split', '')) for line in lines if 'miou' in line}
        text = ''.join(text_of(line) for line in lines)
        try:
            with open(self._path, encoding='utf-8') as file:
                if file.read() == text:
                    return
        except OSError:  # a new file
            return
        self._output.attempt(lambda: _rewrite(self._path, text))
        if self._output.is_on:
            logging.info('%s: dropped the lines of steps after step %d, which come again.', self._path, step)

    def after_step(self, result: StepResult, fetched: dict[str, Any]) -> None:
        """Writes the line where one is due."""
        self._results.append(result)
        before, self._last_step = self._last_step, result.step
        if not passes_multiple(before, result.step, self._every_steps):
            return
        seconds = sum(each.seconds for each in self._results)
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
        waited = [each.waiting_seconds for each in self._results if each.waiting_seconds is not None]
        if waited:
            line['waiting_share'] = round(min(sum(waited) / max(seconds, 1e-9), 1.0), 4)
        self._results.clear()
        self._write(line)

    def add_validation(self, step: int, miou: float | None, split: str) -> None:
        """Writes the line of a validation, unless it is there already.

        Args:
          step: of the checkpoint that was validated.
          miou: what it is worth; None where no pixel counts.
          split: what it was measured on.
        """
        if (step, split) in self._validated:
            return
        self._validated.add((step, split))
        self._write({'step': step, 'time': round(time.time(), 3), 'miou': miou, 'eval_split': split})

    def _write(self, line: Line) -> None:
        """Adds a line to the file."""
        self._output.attempt(lambda: _append(self._path, text_of(line)))


def _rewrite(path: str, text: str) -> None:
    """Replaces the content of the file."""
    with files.written_whole(path) as stream:
        stream.write(text)


def _append(path: str, text: str) -> None:
    """Adds to a file in one write, which a process does or does not do as a whole but for a full disk."""
    with open(path, 'a', encoding='utf-8') as file:
        file.write(text)
