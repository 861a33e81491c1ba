"""What goes wrong in silence while a network trains, noticed and said once: one line with the mend.

Predictions that have collapsed to one class, a loss that is dead, an input that is slower than the network. What is
looked at is computed in the step itself, and only in the steps that the log is written at; in between the branch of the
graph that does it does not run.
"""

from __future__ import annotations

import dataclasses
import math
import os
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from deeplab.datasets import label_checks
from deeplab.training.train_hooks import ProgressHook
from deeplab.training.train_loop import Hook, StepResult

# A network that has just begun may well say one class for a while: it takes this long until that counts.
FEWEST_LOOKS = 5
FEWEST_STEPS = 200
CONSTANT_STEPS = 100
WAITING_SHARE = 0.3
WARM_UP_STEPS = 20  # the first steps compile, and their batches are not there yet
STEPS_OF_A_WAITING_SHARE = 50


class Look(NamedTuple):
    """What one batch shows, of the first clone.

    Attributes:
      labelled_pixels: pixels that are not ignored.
      label_classes: classes that occur among them.
      predicted_share: share of the predictions that the most frequent class has.
      predicted_class: that class.
      loss: the clone's own, without regularisation.
    """

    labelled_pixels: float
    label_classes: float
    predicted_share: float
    predicted_class: float
    loss: float


def due(global_step: tf.Variable, every_steps: int) -> tf.Tensor:
    """Whether the step that is made now is one to look at; the batch must wait for it, or the step moves on before.

    Args:
      global_step: steps done before this one.
      every_steps: steps between two looks.

    Returns:
      A scalar bool.
    """
    return tf.equal((global_step.read_value() + 1) % every_steps, 0)


def look(
    is_due: tf.Tensor, logits: tf.Tensor, labels: tf.Tensor, loss: tf.Tensor, num_classes: int, ignore_label: int
) -> tf.Tensor:
    """The fields of `Look` where it is due, else zeros: [5] float64.

    To be built on the device of the logits, or they would travel in every step.

    Args:
      is_due: scalar bool.
      logits: [n, h', w', num_classes].
      labels: [n, h, w, 1] integer, 0 to 255.
      loss: scalar.
      num_classes: number of classes.
      ignore_label: label of pixels that count nowhere.
    """

    def seen() -> tf.Tensor:
        predicted = tf.reshape(tf.argmax(logits, axis=3, output_type=tf.int32), [-1])
        with tf.device('/device:CPU:0'):
            predictions = tf.math.bincount(predicted, minlength=num_classes, maxlength=num_classes)  # [classes]
            counts = tf.math.bincount(tf.reshape(tf.cast(labels, tf.int32), [-1]), minlength=256, maxlength=256)
            counts *= tf.constant(np.arange(256) != ignore_label, tf.int32)  # [256]
            fields = (
                tf.reduce_sum(counts),
                tf.math.count_nonzero(counts),
                tf.reduce_max(predictions) / tf.reduce_sum(predictions),
                tf.argmax(predictions),
                loss,
            )
            return tf.stack([tf.cast(field, tf.float64) for field in fields])

    return tf.cond(is_due, seen, lambda: tf.zeros([len(Look._fields)], tf.float64), name='look')


class WatchHook(Hook):
    """Warns once of each thing that goes wrong."""

    def __init__(
        self, looked: tf.Tensor, every_steps: int, class_names: list[str], bar: ProgressHook | None = None
    ) -> None:
        """Watches from the first step on.

        Args:
          looked: what `look` gives.
          every_steps: steps between two looks.
          class_names: name of each class.
          bar: taken away while a line is written.
        """
        self._looked = looked
        self._every_steps = every_steps
        self._class_names = class_names
        self._has_one_class = len(class_names) == 1
        self._bar = bar or ProgressHook(1, 1)
        self._warned: set[str] = set()
        self._collapsed = _Streak()
        self._unlabelled = _Streak()
        self._zero = _Streak()
        self._constant_since: int | None = None
        self._last_loss = math.nan
        self._first_step = 0
        self._seconds = self._waiting = 0.0
        self._waited_steps = 0

    def begin(self, session: tf.compat.v1.Session, step: int) -> None:
        """Notes where the run begins."""
        self._first_step = step

    def fetches(self, step: int) -> dict[str, tf.Tensor]:
        """Always the same, so that the session prepares one graph."""
        return {'look': self._looked}

    def after_step(self, result: StepResult, fetched: dict[str, Any]) -> None:
        """Judges the step."""
        self._judge_loss(result)
        self._judge_input(result)
        if result.step % self._every_steps == 0:
            self._judge_look(result.step, Look(*(float(field) for field in fetched['look'])))

    def _judge_look(self, step: int, seen: Look) -> None:
        """Notices predictions of one class, and batches without a label or a loss."""
        if self._unlabelled.lasts(step, seen.labelled_pixels == 0):
            self._warn(
                'unlabelled',
                f'No pixel of the batches looked at since step {self._unlabelled.since} has a label that counts, so '
                'nothing is learned. Mend the masks, or ignore_label in the description of the data set; or take '
                'crops large enough to hold labelled pixels (--train_crop_size).',
            )
        if self._zero.lasts(step, seen.loss == 0 and seen.labelled_pixels > 0):
            why = label_checks.ONE_CLASS if self._has_one_class else 'Is each of --label_weights 0?'
            self._warn(
                'zero',
                f'The loss without regularisation has been exactly 0 since step {self._zero.since}, although there are '
                f'labels: nothing is learned. {why}',
            )
        if self._collapsed.lasts(step, seen.predicted_share == 1.0 and seen.label_classes > 1):
            name = self._class_names[int(seen.predicted_class)]
            self._warn(
                'collapsed',
                f"Every prediction looked at since step {self._collapsed.since} is one class, now '{name}' (id "
                f'{int(seen.predicted_class)}), where the labels hold several. Lower the learning rate; weigh rare '
                'classes up (--label_weights=auto); and let batch norms learn (--fine_tune_batch_norm=true) where '
                'training starts from nothing.',
            )

    def _judge_loss(self, result: StepResult) -> None:
        """Notices a loss that does not move by a bit; of one class, `_judge_look` has the reason."""
        if self._has_one_class:
            return
        if result.loss != self._last_loss:
            self._last_loss, self._constant_since = result.loss, result.step
        elif self._constant_since is not None and result.step - self._constant_since >= CONSTANT_STEPS:
            self._warn(
                'constant',
                f'The loss has been exactly {result.loss:.6g} since step {self._constant_since}: nothing is learned. '
                f'Is the learning rate ({result.learning_rate:.3g}) above 0, does a variable train '
                '(--trainable_scopes), and do the masks hold labels that count?',
            )

    def _judge_input(self, result: StepResult) -> None:
        """Notices that steps wait for their batches."""
        if result.waiting_seconds is None or result.step <= self._first_step + WARM_UP_STEPS:
            return
        self._seconds += result.seconds
        self._waiting += result.waiting_seconds
        self._waited_steps += 1
        if self._waited_steps < STEPS_OF_A_WAITING_SHARE:
            return
        share = self._waiting / max(self._seconds, 1e-9)
        if share > WAITING_SHARE:
            first = result.step - self._waited_steps + 1
            self._warn(
                'input',
                f'Training waits for its input {share:.0%} of the time (steps {first} to {result.step}); '
                f'{os.cpu_count()} cores read, decode and change the images. Build the records from '
                'smaller images where --max_resize_value or --max_scale_factor shrinks them anyway, put them on a '
                'faster disk, ask for fewer random changes, or take a machine with more cores.',
            )
        self._seconds = self._waiting = 0.0
        self._waited_steps = 0

    def _warn(self, kind: str, text: str) -> None:
        """Says it, the first time."""
        if kind not in self._warned:
            self._warned.add(kind)
            with self._bar.hidden():
                logging.warning('%s', text)


@dataclasses.dataclass
class _Streak:
    """How long something has been so: `since` is the step of the first look that found it."""

    since: int | None = None
    looks: int = 0

    def lasts(self, step: int, holds: bool) -> bool:
        """Takes in a look; returns whether it has been so for long."""
        if not holds:
            self.since, self.looks = None, 0
            return False
        self.since = step if self.since is None else self.since
        self.looks += 1
        return self.looks >= FEWEST_LOOKS and step - self.since >= FEWEST_STEPS
