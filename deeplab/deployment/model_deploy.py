"""Clones: copies of one network that share its variables and split a batch; where they compute, where variables live.

Each clone computes on its own device; the variables live on the CPU, under the same names for any number of clones.
The loss of each clone is divided by their number and the gradients are summed, so that n clones of batch b make the
step of one clone of batch n * b. Regularisation counts once, and the first clone alone moves the batch norms'
statistics.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
import tf_slim as slim
from absl import logging

from deeplab.core import summation

# A gradient and the variable that it belongs to.
Gradient = tuple[tf.Tensor, tf.Variable]

_VARIABLE_OPS = frozenset(('VarHandleOp', 'Variable', 'VariableV2'))
_CPU = '/device:CPU:0'


@dataclasses.dataclass(frozen=True)
class DeploymentConfig:
    """How many clones there are, and where they compute.

    Attributes:
      num_clones: number of clones.
      use_gpus: whether clone i computes on GPU i; else it does on CPU device i.
      worker: job and task of the machine that computes, such as /job:worker/task:1; empty where there is but one.
      num_ps_tasks: parameter servers that hold the variables in turn; 0 for none: the worker's CPU holds them.
    """

    num_clones: int = 1
    use_gpus: bool = False
    worker: str = ''
    num_ps_tasks: int = 0

    @property
    def cpu_devices(self) -> int:
        """CPU devices that the session must have."""
        return 1 if self.use_gpus else self.num_clones

    @property
    def host_device(self) -> str:
        """The worker's CPU: reading, updates and checkpoints."""
        return self.worker + _CPU

    def clone_device(self, index: int) -> str:
        """Device on which clone `index` computes."""
        return f'{self.worker}/device:{"GPU" if self.use_gpus else "CPU"}:{index}'

    def variable_device(self, number: int) -> str:
        """Device of the variable that is made after `number` others."""
        return f'/job:ps/task:{number % self.num_ps_tasks}{_CPU}' if self.num_ps_tasks else self.host_device

    @contextlib.contextmanager
    def host_scope(self) -> Iterator[None]:
        """Puts what is built inside on the worker's CPU, and variables where they belong."""
        with tf.device(self.host_device):
            if self.num_ps_tasks:
                with tf.compat.v1.device(self.placement(None)):
                    yield
            else:
                yield

    def placement(self, device: str | None) -> Callable[[tf.Operation], str]:
        """A device function: `device` (None for what the operation has) for everything but variables."""

        def place(operation: tf.Operation) -> str:
            if operation.type in _VARIABLE_OPS:
                # Their number does not depend on the process: each that builds this graph finds each where it is.
                return self.variable_device(len(tf.compat.v1.global_variables()))
            if operation.type == 'VarIsInitializedOp':  # can only be asked where the variable is
                return operation.inputs[0].device
            return operation.device if device is None else device

        return place

    def clone_scope(self, index: int) -> str:
        """Name scope of clone `index`; empty where there is one clone."""
        return '' if self.num_clones == 1 else f'clone_{index}'


class Clone(NamedTuple):
    """One copy of the network.

    Attributes:
      outputs: what the building function returned.
      scope: its name scope, empty for the only clone.
      device: where it computes.
    """

    outputs: Any
    scope: str
    device: str


def deployment_config(
    num_clones: int, clone_on_cpu: bool, worker: str = '', num_ps_tasks: int = 0, gpus: int | None = None
) -> DeploymentConfig:
    """The configuration for the machine that computes: GPUs where there are any, unless `clone_on_cpu`.

    Args:
      num_clones: number of clones.
      clone_on_cpu: whether they compute on CPUs although there are GPUs.
      worker: see `DeploymentConfig`.
      num_ps_tasks: see `DeploymentConfig`.
      gpus: number of the machine's GPUs; None to ask this process's own machine.
    """
    if gpus is None:
        gpus = 0 if clone_on_cpu else len(tf.config.list_physical_devices('GPU'))
    if 0 < gpus < num_clones:
        logging.warning('--num_clones=%d but this machine has %d GPUs: some clones will share one.', num_clones, gpus)
    return DeploymentConfig(num_clones, gpus > 0 and not clone_on_cpu, worker, num_ps_tasks)


def prefetch(samples: dict[str, tf.Tensor], capacity: int) -> OrderedQueue:
    """A queue that a thread of the session fills with what `samples` evaluates to, `capacity` batches at most."""
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel('ERROR')  # TensorFlow advises against queue runners, at length
    try:
        with tf.device(_CPU):
            return OrderedQueue(slim.prefetch_queue.prefetch_queue(samples, capacity=capacity))
    finally:
        logger.setLevel(level)


class OrderedQueue:
    """A queue from which the next batch is taken only after the one asked for before it.

    TensorFlow runs independent operations in any order. With this, the clone that is built first takes the first
    batch of every step, so that a run can be repeated.
    """

    def __init__(self, queue: tf.queue.QueueBase):
        self._queue = queue
        self._last: tf.Operation | None = None
        self._asked: tf.Tensor | None = None

    def begin_step(self, before: Sequence[tf.Tensor] = ()) -> None:
        """Lets the first batch of a step wait until `before` is computed, and notes when it is asked for."""
        with tf.control_dependencies(list(before)), tf.device(_CPU):
            self._asked = tf.timestamp()
        self._last = self._asked.op

    def waiting_seconds(self) -> tf.Tensor | None:
        """How long a step waits until its last batch is there: scalar float64; None without `begin_step`."""
        if self._asked is None or self._last is None or self._last.graph is not self._asked.graph:
            return None
        with tf.control_dependencies([self._last]), tf.device(_CPU):
            return tf.timestamp() - self._asked

    def dequeue(self) -> dict[str, tf.Tensor]:
        """The next batch, by the names under which it was enqueued."""
        with tf.control_dependencies([self._last] if self._last is not None else []), tf.device(_CPU):
            batch = self._queue.dequeue()
        self._last = next(iter(batch.values())).op
        return batch


def create_clones(config: DeploymentConfig, build: Callable[[], Any]) -> list[Clone]:
    """Calls `build` once for each clone, on its device and in its name scope, with the variables shared.

    Args:
      config: number and devices of the clones.
      build: builds one clone in the current graph and returns whatever belongs to it.

    Returns:
      the clones, in order.
    """
    clones = []
    for index in range(config.num_clones):
        device, scope = config.clone_device(index), config.clone_scope(index)
        with (
            tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), reuse=True if index else None),
            tf.compat.v1.device(config.placement(device)),
            tf.name_scope(f'{scope}/') if scope else contextlib.nullcontext(),
        ):
            clones.append(Clone(build(), scope, device))
    return clones


def optimize_clones(
    clones: Sequence[Clone],
    losses: Sequence[tf.Tensor],
    regularization_losses: Sequence[tf.Tensor],
    variables: Sequence[tf.Variable],
    loss_scale: tf.Tensor | None = None,
) -> tuple[tf.Tensor, list[Gradient]]:
    """The total loss and its gradients: the mean over the clones, plus the regularisation once.

    Args:
      clones: where to compute.
      losses: the loss of each clone, scalar, regularisation left out.
      regularization_losses: scalars.
      variables: what to differentiate by.
      loss_scale: scalar factor on all that flows back, taken away from the result again; None for 1.

    Returns:
      the total loss (scalar) and a gradient for each variable that the loss depends on.
    """
    shares, gradients = [], []
    for index, (clone, loss) in enumerate(zip(clones, losses, strict=True)):
        with tf.device(clone.device), tf.name_scope(f'{clone.scope}_gradients' if clone.scope else 'gradients'):
            share = loss / len(clones) if len(clones) > 1 else loss
            shares.append(share)
            target = share if index or not regularization_losses else share + _total(regularization_losses)
            seed = None if loss_scale is None else [loss_scale]
            gradients.append(
                tf.gradients(target, list(variables), seed, aggregation_method=summation.GRADIENT_AGGREGATION)
            )
    with tf.device(_CPU):
        total_loss = _total([*shares, *regularization_losses], 'total_loss')
        summed = sum_gradients(gradients, variables)
        if loss_scale is not None:
            summed = [(gradient / loss_scale, variable) for gradient, variable in summed]
        return total_loss, summed


def _total(losses: Sequence[tf.Tensor], name: str | None = None) -> tf.Tensor:
    """The sum of scalars."""
    return tf.reduce_sum(tf.stack(losses), name=name)


def sum_gradients(gradients: Sequence[Sequence[tf.Tensor | None]], variables: Sequence[tf.Variable]) -> list[Gradient]:
    """Adds up the gradients of the clones; a variable on which no clone depends is left out.

    Args:
      gradients: for each clone, a gradient (or None) for each variable.
      variables: the variables, in that order.
    """
    summed = []
    for variable, *parts in zip(variables, *gradients, strict=True):
        known = [tf.convert_to_tensor(part) for part in parts if part is not None]
        if known:
            summed.append((summation.in_order(known), variable))
    return summed
