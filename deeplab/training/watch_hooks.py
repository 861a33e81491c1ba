"""Warnings during training: collapsed predictions, a constant or zero loss, input slower than the network.

Each warning is logged once, with its fix. The statistics are computed in the training step, in a branch of the graph
that runs only at the steps that are logged.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from deeplab import common
from deeplab.core import summation
from deeplab.datasets import label_checks
from deeplab.deployment import model_deploy
from deeplab.system import processors
from deeplab.training import network_clone
from deeplab.training.train_hooks import ProgressHook
from deeplab.training.train_loop import Hook, StepResult
from deeplab.wording import option

# A new network may well predict one class for a while, so a condition must hold this long before it is reported.
FEWEST_CHECKS = 5
FEWEST_STEPS = 200
CONSTANT_STEPS = 100
WAITING_SHARE = 0.3
WARM_UP_STEPS = 20  # the first steps compile, and wait for the input pipeline to fill
STEPS_OF_A_WAITING_SHARE = 50


class BatchStatistics(NamedTuple):
    """Statistics of one batch of the first clone.

    Attributes:
      labeled_pixels: pixels that are not ignored.
      label_classes: number of classes among them.
      predicted_share: share of the most frequent predicted class among the predictions.
      predicted_class: the most frequent predicted class.
      loss: the clone's loss without regularization.
    """

    labeled_pixels: float
    label_classes: float
    predicted_share: float
    predicted_class: float
    loss: float


def due(global_step: tf.Variable, every_steps: int) -> tf.Tensor:
    """Returns whether the step after `global_step`, one of `every_steps`, computes the statistics: a scalar bool.

    The dequeue of the batch must depend on it, as the step counter may advance before it is read otherwise.
    """
    return tf.equal((global_step.read_value() + 1) % every_steps, 0)


def statistics(clone: model_deploy.Clone, is_due: tf.Tensor, num_classes: int, ignore_label: int) -> tf.Tensor:
    """Returns the fields of `BatchStatistics` if `is_due`, else zeros: [5] float64.

    Args:
      clone: the clone, whose outputs are `CloneOutputs`, with logits and labels.
      is_due: scalar bool.
      num_classes: number of classes.
      ignore_label: label of pixels excluded from loss and metrics.
    """
    outputs: network_clone.CloneOutputs = clone.outputs
    labels = outputs.batch[common.LABEL]

    def seen() -> tf.Tensor:
        predicted = tf.reshape(tf.argmax(outputs.logits, axis=3, output_type=tf.int32), [-1])
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

    with tf.device(clone.device):  # otherwise the logits of a GPU are copied in every step
        loss = summation.in_order(list(outputs.losses.values()))
        return tf.cond(is_due, seen, lambda: tf.zeros([len(BatchStatistics._fields)], tf.float64), name='look')


class WatchHook(Hook):
    """Logs each kind of warning once."""

    def __init__(self, computed: tf.Tensor, every_steps: int, class_names: list[str], bar: ProgressHook) -> None:
        """Creates the hook; `computed` is the result of `statistics`, one of `every_steps` times."""
        self._statistics = computed
        self._every_steps = every_steps
        self._class_names = class_names
        self._bar = bar
        self._has_one_class = len(class_names) == 1
        self._warned: set[str] = set()
        self._collapsed, self._unlabeled, self._zero = _Streak(), _Streak(), _Streak()
        self._constant_since: int | None = None
        self._last_loss = math.nan
        self._first_step = 0
        self._seconds = self._waiting = 0.0
        self._waited_steps = 0

    def begin(self, session: tf.compat.v1.Session, step: int) -> None:
        """Records the first step."""
        self._first_step = step

    def fetches(self, step: int) -> dict[str, tf.Tensor]:
        """Returns the same tensor every time, so that the session prepares one graph."""
        return {'statistics': self._statistics}

    def after_step(self, result: StepResult, fetched: dict[str, Any]) -> None:
        """Checks the step."""
        self._check_loss(result)
        self._check_input(result)
        if result.step % self._every_steps == 0:
            self._check_statistics(result.step, BatchStatistics(*(float(field) for field in fetched['statistics'])))

    def _check_statistics(self, step: int, batch: BatchStatistics) -> None:
        """Detects predictions of a single class, and batches without labeled pixels or with a loss of 0."""
        if self._unlabeled.lasts(step, batch.labeled_pixels == 0):
            self._warn(
                'unlabeled',
                f'Every pixel of the batches checked since step {self._unlabeled.since} has the ignore label, so '
                'nothing is learned. Fix the masks or ignore_label of the data set, or increase '
                f'{option("ModelOptions.crop_size")} so that crops contain labeled pixels.',
            )
        if self._zero.lasts(step, batch.loss == 0 and batch.labeled_pixels > 0):
            all_zero = f'Check whether every value of {option("LossOptions.label_weights")} is 0.'
            why = label_checks.ONE_CLASS if self._has_one_class else all_zero
            self._warn(
                'zero',
                f'The loss without regularization has been exactly 0 since step {self._zero.since}, although there are '
                f'labels: nothing is learned. {why}',
            )
        if self._collapsed.lasts(step, batch.predicted_share == 1.0 and batch.label_classes > 1):
            name = self._class_names[int(batch.predicted_class)]
            self._warn(
                'collapsed',
                f"Every prediction checked since step {self._collapsed.since} is of a single class, now '{name}' (id "
                f'{int(batch.predicted_class)}), although the labels contain several. Lower the learning rate, weight '
                f'rare classes ({option("LossOptions.label_weights", "auto")}), or train batch norms '
                f'({option("TrainOptions.fine_tune_batch_norm", True)}) if training starts from random values.',
            )

    def _check_loss(self, result: StepResult) -> None:
        """Detects a loss that stays exactly the same; with one class, `_check_statistics` gives the reason."""
        if self._has_one_class:
            return
        if result.loss != self._last_loss:
            self._last_loss, self._constant_since = result.loss, result.step
        elif self._constant_since is not None and result.step - self._constant_since >= CONSTANT_STEPS:
            self._warn(
                'constant',
                f'The loss has been exactly {result.loss:.6g} since step {self._constant_since}: nothing is learned. '
                f'Check that the learning rate ({result.learning_rate:.3g}) is above 0, that variables are trained '
                f'({option("OptimizerOptions.trainable_scopes")}), and that the masks have labeled pixels.',
            )

    def _check_input(self, result: StepResult) -> None:
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
                f'{processors.available_cores()} cores read, decode and augment the images. Build the records from '
                f'smaller images if {option("ResizeOptions.max_value")} or {option("AugmentOptions.max_scale_factor")} '
                'shrinks them anyway, use a faster disk, fewer augmentations, or a machine with more cores.',
            )
        self._seconds = self._waiting = 0.0
        self._waited_steps = 0

    def _warn(self, kind: str, text: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            with self._bar.hidden():
                logging.warning('%s', text)


@dataclasses.dataclass
class _Streak:
    """How long a condition has held: `since` is the step of the first check that found it."""

    since: int | None = None
    checks: int = 0

    def lasts(self, step: int, holds: bool) -> bool:
        """Adds a check; returns whether the condition has held for long enough to report it."""
        if not holds:
            self.since, self.checks = None, 0
            return False
        self.since = step if self.since is None else self.since
        self.checks += 1
        return self.checks >= FEWEST_CHECKS and step - self.since >= FEWEST_STEPS
