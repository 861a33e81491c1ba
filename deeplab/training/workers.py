"""Synchronous workers: equal first values, the sums of a step over all workers, and a common end.

Each worker has the whole network and its own weights. In a step it computes its part of the batch; then loss, gradients
and the batch norm statistics of worker 0 are added over all workers, and each applies the same update. So all weights
stay equal to the bit, and no worker ever sends them again.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from absl import logging

from deeplab.core import collectives
from deeplab.core.moving_updates import MovingUpdate
from deeplab.deployment import model_deploy, worker_group
from deeplab.deployment.model_deploy import Gradient
from deeplab.errors import CheckpointError, LostWorkerError, MachineError, reason_of
from deeplab.options import CloneOptions
from deeplab.system.interrupts import Interrupts

_SCOPE = 'workers'
_DONE = 'done'  # key of the chief's message that everything has been saved
_ABORTED = 'Collective ops is aborted'  # in messages of TensorFlow


class StepSums(NamedTuple):
    """What the clones and workers of a step have added.

    Attributes:
      loss: scalar float32, the total loss.
      gradients: pairs of gradient and variable.
      updates: updates by the batch of worker 0.
      votes: scalar float32, number of workers that want to stop after this step; None without workers.
    """

    loss: tf.Tensor
    gradients: Sequence[Gradient]
    updates: Sequence[MovingUpdate]
    votes: tf.Tensor | None = None


class WorkerSums:
    """The sums of one worker with the others, in the current graph.

    Attributes:
      ballot: placeholder, scalar float32; 1 if this worker wants to stop after the step, 0 (the default) if not.
      initializers: operations to run before the first step.
    """

    def __init__(
        self, config: model_deploy.DeploymentConfig, global_step: tf.Variable, sends_16_bits: bool = False
    ) -> None:
        """Creates the sums of the worker that `config` describes; `sends_16_bits` adds gradients in bfloat16."""
        self._device = config.sum_device
        self._is_first = not config.first_clone
        self._sends_16_bits = sends_16_bits
        self._participant = collectives.Participant(collectives.WORKERS, config.clones_of_step // config.num_clones)
        self._global_step = global_step
        zero = tf.compat.v1.zeros_initializer()
        with tf.device(config.host_device), tf.compat.v1.variable_scope(_SCOPE):
            self._update_begun = tf.compat.v1.get_local_variable('update_begun', [], tf.int64, zero)
            self.initializers = [self._update_begun.initializer]
            self.ballot = tf.compat.v1.placeholder_with_default(tf.constant(0.0), [], 'ballot')

    def of_step(self, loss: tf.Tensor, gradients: Sequence[Gradient], updates: Sequence[MovingUpdate]) -> StepSums:
        """Adds the results of a step, which are parts of a mean over all clones.

        Args:
          loss: scalar float32.
          gradients: pairs of gradient and variable, in the same order for every worker.
          updates: updates by the batch of this worker; only worker 0's take part.
        """
        values = [tf.convert_to_tensor(gradient) for gradient, _ in gradients]
        batch_values = [update.batch_value for update in updates]
        with tf.device(self._device), tf.name_scope(_SCOPE):
            if self._sends_16_bits:
                values = [tf.cast(value, tf.bfloat16) for value in values]
            if not self._is_first:
                batch_values = [tf.zeros_like(value) for value in batch_values]
            for value, (_, variable) in zip(values, gradients, strict=True):
                value.set_shape(variable.shape)
            loss, votes, *sums = self._participant.sum_all([loss, self.ballot, *values, *batch_values])
            values, batch_values = sums[: len(values)], sums[len(values) :]
            values = [tf.cast(value, tf.float32) if self._sends_16_bits else value for value in values]
        return StepSums(
            loss,
            [(value, variable) for value, (_, variable) in zip(values, gradients, strict=True)],
            [update._replace(batch_value=value) for update, value in zip(updates, batch_values, strict=True)],
            votes,
        )

    def of_terms(self, terms: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Adds the terms of the loss, scalars by name."""
        with tf.device(self._device), tf.name_scope(_SCOPE):
            return dict(zip(terms, self._participant.sum_all(list(terms.values())), strict=True))

    def equal_values(self, variables: Sequence[tf.Variable]) -> tf.Operation:
        """Returns the operation that gives `variables` of every worker the values of worker 0, to the bit."""
        with tf.device(self._device), tf.name_scope(_SCOPE):
            # As integers: adding 0.0 would change -0.0.
            bits = [_as_integers(variable.read_value()) for variable in variables]
            own = bits if self._is_first else [tf.zeros_like(value) for value in bits]
            sums = self._participant.sum_all(own)
            return tf.group(
                *(
                    variable.assign(tf.bitcast(value, variable.dtype.base_dtype), read_value=False)
                    for variable, value in zip(variables, sums, strict=True)
                )
            )

    def begin_update(self) -> list[tf.Operation]:
        """Returns the operations before an update; from then on until the step is counted, there is no whole step."""
        return [self._update_begun.assign(self._global_step + 1, read_value=False)]

    def whole_step(self, session: tf.compat.v1.Session) -> int | None:
        """Returns the steps done; None if the last update has stopped halfway, so that the weights are of no step."""
        done, begun = session.run([self._global_step, self._update_begun])
        return int(done) if begun <= done else None


def _as_integers(values: tf.Tensor) -> tf.Tensor:
    """Returns the bits of values of 4 or 8 bytes each, as integers."""
    return values if values.dtype.is_integer else tf.bitcast(values, {4: tf.int32, 8: tf.int64}[values.dtype.size])


class Workers:
    """This process among synchronous workers, for the training loop.

    Attributes:
      must_stop: whether all workers stop after the last step, because of a signal to at least one.
    """

    def __init__(self, group: worker_group.WorkerGroup, sums: WorkerSums) -> None:
        self.must_stop = False
        self._group = group
        self._sums = sums

    @contextlib.contextmanager
    def session_open(self, session: tf.compat.v1.Session) -> Iterator[None]:
        """Closes the session as soon as the group has ended: a step would wait for a lost worker forever.

        Raises:
          MachineError: the group has ended.
        """
        self._group.on_end = session.close
        try:
            with self.explained():
                yield
        finally:
            self._group.on_end = lambda: None

    def feeds(self, step: int, interrupts: Interrupts) -> dict[tf.Tensor, Any]:
        """Returns the ballot of step number `step`.

        Raises:
          MachineError: the group has ended.
        """
        self._group.step = step - 1
        self._group.check()
        return {self._sums.ballot: float(interrupts.received is not None)}

    def count_votes(self, votes: float, interrupts: Interrupts) -> None:
        """Makes all workers stop if at least one wants to."""
        self.must_stop = votes > 0
        if self.must_stop and interrupts.received is None:
            logging.warning('Another worker was stopped by a signal.')
            interrupts.received = signal.SIGTERM

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Turns what TensorFlow raises if another worker is lost, or cannot be reached, into a `MachineError`."""
        try:
            yield
        except (tf.errors.OpError, RuntimeError) as error:  # a RuntimeError if the session is closed already
            if self._group.ended is None and not _is_of_others(error):
                raise
            raise self._group.explain(error) from error

    @contextlib.contextmanager
    def saved(self, writer: Any, session: contextlib.AbstractContextManager[tf.compat.v1.Session]) -> Iterator[None]:
        """Saves a checkpoint if the group has ended, with a new `session`: the variables outlive the closed one.

        Raises:
          MachineError: a worker is lost or ended with an error; the message says where the last checkpoint is.
        """
        try:
            yield
        except MachineError as error:
            with contextlib.suppress(CheckpointError, tf.errors.OpError), session as running:
                step = self._sums.whole_step(running)
                if step is not None and writer.last_path:  # before the first one, weights may not be restored yet
                    writer.save(running, step)
            last = f'. The last checkpoint is {writer.last_path}' if writer.last_path else ''
            raise type(error)(f'{error}{last}') from error


def _is_of_others(error: BaseException) -> bool:
    """Returns whether an error of a step comes from another worker, or from the way to it."""
    kinds = (tf.errors.UnavailableError, tf.errors.CancelledError, tf.errors.AbortedError)
    return isinstance(error, kinds) or any(text in str(error) for text in (_ABORTED, worker_group.NCCL))


@contextlib.contextmanager
def joined(clones: CloneOptions) -> Iterator[worker_group.WorkerGroup | None]:
    """Makes this process one of the synchronous workers within the `with` block; None without them.

    An error that leaves the block ends the group.
    """
    if not clones.worker_hosts:
        yield None
        return
    group = worker_group.WorkerGroup(clones.worker_hosts, clones.task, clones.worker_timeout_secs)
    group.start(clones.num_clones)
    try:
        yield group
        # If the chief dies while it saves the last checkpoint, the others must not have ended: it needs them again.
        if group.task:
            group.get(_DONE)
        else:
            group.put(_DONE, b'')
    except LostWorkerError:
        raise
    except BaseException as error:
        group.end(f'ended ({reason_of(error)})')
        raise
    finally:
        group.leave()
