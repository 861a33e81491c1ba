"""Training on several machines: when each replica starts, which samples it takes, how it feeds a remote server."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from absl import logging

from deeplab.core import sessions
from deeplab.deployment import cluster, model_deploy
from deeplab.options import CloneOptions
from deeplab.training import agreement, train_loop, training_step

READY = 'replicas/is_ready'


class StartSign:
    """A variable on the first parameter server by which replica 0 tells the others what it trains: they may begin.

    Initialized variables alone are no such sign: they may have the values from before a checkpoint is restored.
    """

    def __init__(self) -> None:
        """Creates the variable; it is in no checkpoint."""
        with tf.device('/job:ps/task:0/device:CPU:0'):
            self._sign = tf.compat.v1.get_variable(
                READY,
                [],
                tf.string,
                tf.compat.v1.constant_initializer(''),
                trainable=False,
                collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES],
            )
            self._value = self._sign.read_value()
            self._text = tf.compat.v1.placeholder(tf.string, [], f'{READY}/text')
            self._give = self._sign.assign(self._text, read_value=False)

    def take_back(self, running: tf.compat.v1.Session) -> None:
        """Withdraws the sign; called by replica 0 before it initializes the variables."""
        running.run(self._sign.initializer)

    def give(self, running: tf.compat.v1.Session, text: str) -> None:
        """Gives the sign, a text that is not empty; called by replica 0 when all variables have their values."""
        running.run(self._give, {self._text: text})

    def given(self, running: tf.compat.v1.Session) -> str:
        """Returns the text with which replica 0 has given the sign; empty if it has not."""
        try:
            return str(running.run(self._value), 'utf-8')
        except (tf.errors.FailedPreconditionError, tf.errors.NotFoundError):
            return ''  # the variable has not been created yet


class Group:
    """Coordination of a replica with the others, for the training loop.

    Attributes:
      step: the training step, with the steps of all replicas if there are several.
      remote: the servers that compute; None for this process.
    """

    def __init__(self, training: agreement.Training, step: training_step.TrainStep):
        """Adds the coordination to the graph; nothing without a master.

        Args:
          training: what this replica trains, on which machines.
          step: the training step.
        """
        self._training = training
        self._clones = clones = training.options.clones
        self._sign = StartSign() if clones.num_ps_tasks else None
        # No replica waits for a step after the last one.
        self._first_step = min(clones.startup_delay_steps * clones.task, training.options.number_of_steps)
        self._has_logged = self._has_compared = False
        self.step = step
        if clones.num_replicas > 1:
            with tf.control_dependencies([step.is_applied]):
                self.step = dataclasses.replace(step, steps_done=step.global_step.read_value())
        self.remote = None
        if clones.master:
            self.remote = train_loop.Remote(clones.master, cluster.device_filters(clones), self._is_ready)

    def initialize(self, first_values: Callable[[tf.compat.v1.Session], None], running: tf.compat.v1.Session) -> None:
        """Calls `first_values`, which gives all variables their initial values, if this replica is the chief."""
        if not self._clones.is_chief:
            return
        if self._sign is not None:
            self._sign.take_back(running)
        first_values(running)
        if self._sign is not None:
            self._sign.give(running, json.dumps(self._training.facts()))

    def _is_ready(self, running: tf.compat.v1.Session) -> bool:
        """Returns whether this replica may begin: task 0 at once, the others after the sign, each some steps later.

        Raises:
          OptionError: task 0 trains on another data set, or other variables.
        """
        if self._clones.is_chief or self._sign is None:
            return True
        if not self._has_logged:
            logging.info('Task %d waits for task 0, and for step %d.', self._clones.task, self._first_step)
            self._has_logged = True
        text = self._sign.given(running)
        if text and not self._has_compared:
            self._training.require_agreement(json.loads(text))
            self._has_compared = True
        return bool(text) and int(running.run(self.step.global_step)) >= self._first_step


def is_mine(clones: CloneOptions, batch_size: int) -> Callable[[tf.Tensor], tf.Tensor] | None:
    """Returns which sample positions a replica takes, as a function of a position; None for all.

    Batch number b of the common order goes to replica b mod n. So no two replicas read the same sample, whenever each
    of them started, and as long as they are equally fast, together they read each epoch once.

    Args:
      clones: task and number of replicas.
      batch_size: samples of one step of one replica.
    """
    if clones.num_replicas == 1:
        return None
    return lambda position: tf.equal(position // batch_size % clones.num_replicas, clones.task)


class FedInput(train_loop.Hook):
    """Batches that this process reads and feeds to the server that computes.

    Used instead of `model_deploy.OrderedQueue`; as a hook of the loop it feeds each step. The pipeline runs in a
    session of this process and starts at the sample position of the step at which the loop begins.
    """

    def __init__(self, config: model_deploy.DeploymentConfig, batch_size: int):
        """Creates the placeholder of the first position.

        Args:
          config: the clones, and the CPU on which they get their batches.
          batch_size: samples per step.
        """
        self._config = config
        self._batch_size = batch_size
        self._pipeline: Any = None
        self._batches: list[dict[str, tf.Tensor]] = []
        self._handed_out = 0
        self._open = contextlib.ExitStack()
        self._local: tf.compat.v1.Session | None = None
        with tf.device('/device:CPU:0'):
            self.first_position = tf.compat.v1.placeholder(tf.int64, [], 'first_position')

    def take(self, pipeline: Any) -> FedInput:
        """Reads from `pipeline` (`input_generator.Pipeline`), which must start at `first_position`; returns itself."""
        self._pipeline = pipeline
        with tf.device(self._config.host_device):
            self._batches = [
                {key: tf.compat.v1.placeholder(part.dtype, part.shape, f'fed/{key}') for key, part in named.items()}
                for named in [pipeline.samples] * self._config.num_clones
            ]
        return self

    def dequeue(self) -> dict[str, tf.Tensor]:
        """Returns the next clone's batch, by the names of its parts."""
        self._handed_out += 1
        return self._batches[self._handed_out - 1]

    def begin(self, running: tf.compat.v1.Session, step: int) -> None:
        """Starts reading at the sample position of `step`."""
        self._local = self._open.enter_context(sessions.open_session(running.graph, places_what_it_runs=True))
        self._local.run(self._pipeline.initializer, {self.first_position: step * self._batch_size})

    def feeds(self, step: int) -> dict[tf.Tensor, Any]:
        """Returns the batches of one step."""
        assert self._local is not None
        result = {}
        for placeholders in self._batches:
            values = self._local.run(self._pipeline.samples)
            result.update({placeholder: values[key] for key, placeholder in placeholders.items()})
        return result

    def end(self, step: int) -> None:
        """Stops reading."""
        self._open.close()
