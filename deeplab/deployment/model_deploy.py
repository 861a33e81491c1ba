"""Clones: copies of one network that share its variables and split a batch, and their placement on devices.

Each clone computes on its own device; the variables are on the CPU, with the same names for any number of clones. Only
a process with one clone on a GPU has them there, so that a step copies no weights and no gradients to the CPU.
The loss of each clone is divided by their number and the gradients are summed, so that n clones of batch size b compute
the step of one clone of batch size n * b. Regularization is added once, and only the first clone updates the statistics
of batch norms.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
import tf_slim as slim
from absl import logging

from deeplab import names
from deeplab.core import collectives, summation
from deeplab.wording import option

# A gradient and the variable that it belongs to.
Gradient = tuple[tf.Tensor, tf.Variable]

_VARIABLE_OPS = frozenset(('VarHandleOp', 'Variable', 'VariableV2'))
_CPU = '/device:CPU:0'


@dataclasses.dataclass(frozen=True)
class DeploymentConfig:
    """Number and placement of clones.

    Attributes:
      num_clones: number of clones of this process.
      use_gpus: whether clone i computes on GPU i; else on CPU device i.
      worker: job and task of the machine that computes, such as /job:worker/task:1; empty for a single machine.
      num_ps_tasks: parameter servers over which the variables are distributed; 0: they are on `update_device`.
      first_clone: number of the first clone among the clones of all synchronous workers.
      all_clones: clones of all synchronous workers; None for `num_clones`.
      sums_on_devices: whether the clones add their gradients on their devices, by one reduction; else on the CPU.
        It needs a device for each clone.
    """

    num_clones: int = 1
    use_gpus: bool = False
    worker: str = ''
    num_ps_tasks: int = 0
    first_clone: int = 0
    all_clones: int | None = None
    sums_on_devices: bool = False

    @property
    def clones_of_step(self) -> int:
        """Number of clones that compute a step together."""
        return self.all_clones or self.num_clones

    @property
    def cpu_devices(self) -> int:
        """Number of CPU devices that the session must have."""
        return 1 if self.use_gpus else self.num_clones

    @property
    def host_device(self) -> str:
        """The worker's CPU, for input, updates and checkpoints."""
        return self.worker + _CPU

    @property
    def update_device(self) -> str:
        """The device of variables that are not on a parameter server, and of their updates."""
        return self.clone_device(0) if self.sums_on_devices and self.num_clones == 1 else self.host_device

    def clone_device(self, index: int) -> str:
        """Returns the device on which clone `index` computes."""
        return f'{self.worker}/device:{"GPU" if self.use_gpus else "CPU"}:{index}'

    def variable_device(self, number: int) -> str:
        """Returns the device of the variable that is created after `number` others."""
        return f'/job:ps/task:{number % self.num_ps_tasks}{_CPU}' if self.num_ps_tasks else self.update_device

    @contextlib.contextmanager
    def host_scope(self) -> Iterator[None]:
        """Places what is built inside on the worker's CPU, and variables on their own devices."""
        with tf.device(self.host_device):
            if self.num_ps_tasks:
                with tf.compat.v1.device(self.placement(None)):
                    yield
            else:
                yield

    @contextlib.contextmanager
    def update_scope(self) -> Iterator[None]:
        """Places what is built inside where the variables are, or on the worker's CPU with parameter servers."""
        with self.host_scope():
            if self.update_device == self.host_device:
                yield
            else:
                with tf.device(self.update_device):
                    yield

    def placement(self, device: str | None) -> Callable[[tf.Operation], str]:
        """Returns a device function: `device` (None for the operation's own) for everything except variables."""

        def place(operation: tf.Operation) -> str:
            if operation.type in _VARIABLE_OPS:
                # Their order is the same in each process that builds this graph, and so is their placement.
                return self.variable_device(len(tf.compat.v1.global_variables()))
            if operation.type == 'VarIsInitializedOp':  # only runs on the variable's device
                return str(operation.inputs[0].device)
            return operation.device if device is None else device

        return place

    def clone_scope(self, index: int) -> str:
        """Returns the name scope of clone `index`; empty for a single clone.

        It says which clone of the step this is, because the masks of dropout follow from it.
        """
        return '' if self.clones_of_step == 1 else f'clone_{self.first_clone + index}'

    @property
    def sum_device(self) -> str:
        """The device on which the gradients of all workers are added: where the sum over this worker's clones is."""
        return self.clone_device(0) if self.num_clones == 1 or self.sums_on_devices else self.host_device

    @property
    def gradient_group(self) -> int | None:
        """Key of the group in which the clones of this worker add their gradients; None for the CPU."""
        worker = self.first_clone // self.num_clones
        return collectives.GRADIENTS + worker if self.sums_on_devices else None


class Clone(NamedTuple):
    """One copy of the network.

    Attributes:
      outputs: what was built.
      scope: its name scope; empty for a single clone.
      device: where it computes.
      gradient_group: key of the group in which it adds its gradients to the other clones' (`collectives`); None for a
        sum on the CPU.
    """

    outputs: Any
    scope: str
    device: str
    gradient_group: int | None = None


def deployment_config(
    num_clones: int, clone_on_cpu: bool, worker: str = '', num_ps_tasks: int = 0, gpus: int | None = None
) -> DeploymentConfig:
    """Returns the configuration for the machine that computes: its GPUs if it has any, unless `clone_on_cpu`.

    `gpus` is the number of GPUs of that machine, None if this process computes; the others: see `DeploymentConfig`.
    """
    is_here = gpus is None
    if gpus is None:
        gpus = 0 if clone_on_cpu else len(tf.config.list_physical_devices('GPU'))
    if 0 < gpus < num_clones:
        clones = option('CloneOptions.num_clones', num_clones)
        logging.warning('%s, but this machine has %s: some clones will share one.', clones, names.counted(gpus, 'GPU'))
    has_gpus = gpus > 0 and not clone_on_cpu
    own_gpus = is_here and has_gpus and gpus >= num_clones
    return DeploymentConfig(num_clones, has_gpus, worker, num_ps_tasks, sums_on_devices=own_gpus)


class Batches:
    """Gives each clone its batch; each clone calls `dequeue` once while it is built."""

    def __init__(self, batches: Sequence[dict[str, tf.Tensor]], asked: tf.Tensor | None = None):
        """Creates an object that gives the clones `batches`, in order.

        `asked` is the time at which a step begins to wait for them, scalar float64; None if that is not measured.
        """
        self._batches = batches
        self._unused = iter(batches)
        self._asked = asked

    def dequeue(self) -> dict[str, tf.Tensor]:
        """Returns the batch of the next clone, by the names of its parts."""
        return next(self._unused)

    def waiting_seconds(self) -> tf.Tensor | None:
        """Returns how long a step waits for its last batch, scalar float64; None if that is not measured."""
        if self._asked is None:
            return None
        with tf.device(_CPU):
            return _time_after([next(iter(batch.values())) for batch in self._batches]) - self._asked


def _time_after(before: Sequence[tf.Tensor | tf.Operation]) -> tf.Tensor:
    """Returns the time at which all of `before` are computed, scalar float64."""
    with tf.control_dependencies(list(before)), tf.device(_CPU):
        return tf.timestamp()


def prefetch(samples: dict[str, tf.Tensor], capacity: int, clones: int, before: Sequence[tf.Tensor] = ()) -> Batches:
    """Returns batches of a queue that a thread of the session fills with evaluations of `samples`.

    Args:
      samples: the parts of a batch, by name.
      capacity: largest number of batches in the queue.
      clones: number of clones.
      before: what must be computed before the first batch of a step is taken.
    """
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel('ERROR')  # TensorFlow advises against queue runners, at length
    try:
        with tf.device(_CPU):
            return dequeued(slim.prefetch_queue.prefetch_queue(samples, capacity=capacity), clones, before)
    finally:
        logger.setLevel(level)


def dequeued(queue: tf.queue.QueueBase, clones: int, before: Sequence[tf.Tensor] = ()) -> Batches:
    """Returns a batch of a queue for each clone, taken in the order of the clones.

    TensorFlow runs independent operations in any order. Here the first clone gets the first batch of every step, so
    that a run can be repeated.
    """
    asked = _time_after(before)
    batches: list[dict[str, tf.Tensor]] = []
    last = asked
    for _ in range(clones):
        with tf.control_dependencies([last]), tf.device(_CPU):
            batches.append(queue.dequeue())
        last = next(iter(batches[-1].values()))
    return Batches(batches, asked)


def on_devices(
    clones: int, read: Callable[[int, tf.Tensor], dict[str, tf.Tensor]], before: Sequence[tf.Tensor] = ()
) -> Batches:
    """Returns batches that wait in the memory of each clone's device.

    Each clone has an input pipeline of its own, which reads its batches alone: no order has to be kept among clones.

    Args:
      clones: number of clones.
      read: builds the pipeline of a clone; takes its index and what must be computed before it gives a batch, and
        returns this batch.
      before: what must be computed before the first batch of a step is taken.
    """
    asked = _time_after(before)
    return Batches([read(index, asked) for index in range(clones)], asked)


def create_clones(config: DeploymentConfig, build: Callable[[], Any]) -> list[Clone]:
    """Calls `build` once for each clone, on its device and in its name scope, with shared variables.

    Returns the clones in order, with what `build` has returned.
    """
    clones = []
    for index in range(config.num_clones):
        device, scope = config.clone_device(index), config.clone_scope(index)
        with (
            tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), reuse=True if index else None),
            tf.compat.v1.device(config.placement(device)),
            tf.name_scope(f'{scope}/') if scope else contextlib.nullcontext(),
        ):
            clones.append(Clone(build(), scope, device, config.gradient_group))
    return clones


def optimize_clones(
    clones: Sequence[Clone],
    losses: Sequence[tf.Tensor],
    regularization_losses: Sequence[tf.Tensor],
    variables: Sequence[tf.Variable],
    loss_scale: tf.Tensor | None = None,
    all_clones: int | None = None,
) -> tuple[tf.Tensor, list[Gradient]]:
    """Returns the total loss and its gradients: the mean over the clones, plus the regularization once.

    Args:
      clones: the clones.
      losses: the loss of each clone, scalar, without regularization.
      regularization_losses: scalars, added once; of several workers, give them to one.
      variables: the variables to differentiate by.
      loss_scale: scalar factor of the loss during backpropagation, by which the gradients are divided; None for 1.
      all_clones: number of clones over which to take the mean, if the results are added to the results of other
        workers; None for all.

    Returns:
      the total loss (scalar) and a gradient for each variable that the loss depends on.
    """
    clone_losses, gradients = [], []
    all_clones = all_clones or len(clones)
    for index, (clone, loss) in enumerate(zip(clones, losses, strict=True)):
        with tf.device(clone.device), tf.name_scope(f'{clone.scope}_gradients' if clone.scope else 'gradients'):
            clone_losses.append(loss / all_clones if all_clones > 1 else loss)
            target = clone_losses[-1]
            if regularization_losses and not index:
                target += tf.reduce_sum(tf.stack(regularization_losses))
            seed = None if loss_scale is None else [loss_scale]
            gradients.append(
                tf.compat.v1.gradients(
                    target,
                    list(variables),
                    seed,
                    # Otherwise the parts of a gradient are added where its variable is: on the CPU.
                    colocate_gradients_with_ops=clone.gradient_group is None,
                    aggregation_method=summation.GRADIENT_AGGREGATION,
                )
            )
    with tf.device(_CPU):
        total_loss = tf.reduce_sum(tf.stack([*clone_losses, *regularization_losses]), name='total_loss')
    summed = _sums_over_clones(clones, gradients, variables)
    if loss_scale is not None:
        with tf.device(_CPU if clones[0].gradient_group is None else clones[0].device):
            summed = [(gradient / loss_scale, variable) for gradient, variable in summed]
    return total_loss, summed


def _sums_over_clones(
    clones: Sequence[Clone], gradients: Sequence[Sequence[tf.Tensor | None]], variables: Sequence[tf.Variable]
) -> list[Gradient]:
    """Returns the sum of the clones' gradients for each variable that has one, on the CPU or the first device."""
    summed = []
    if clones[0].gradient_group is None or len(clones) == 1:
        with tf.device(_CPU):
            for variable, *parts in zip(variables, *gradients, strict=True):
                terms = [tf.convert_to_tensor(part) for part in parts if part is not None]
                if terms:
                    summed.append((summation.in_order(terms), variable))
        return summed
    used = [number for number, parts in enumerate(zip(*gradients, strict=True)) if any(p is not None for p in parts)]
    sums = []
    for clone, own in zip(clones, gradients, strict=True):
        assert clone.gradient_group is not None
        with tf.device(clone.device), tf.name_scope('gradient_sums'):
            terms = [tf.zeros(variables[n].shape) if own[n] is None else tf.convert_to_tensor(own[n]) for n in used]
            for number, term in zip(used, terms, strict=True):
                term.set_shape(variables[number].shape)
            sums.append(collectives.Participant(clone.gradient_group, len(clones)).sum_all(terms))
    # A session runs only what a result depends on, but the reduction needs all clones.
    with tf.device(clones[0].device), tf.control_dependencies([tf.group(*sums[1:])]):
        return [(tf.identity(total), variables[number]) for number, total in zip(used, sums[0], strict=True)]
