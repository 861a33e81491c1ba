"""Several machines: parameter servers hold the variables, replicas compute, and the first of them leads.

Every replica is a `deeplab train` of its own with the same flags but for `--task` and `--master`, the server of its
machine. All build the same graph; variables of one name on one parameter server are one variable, so that each replica
reads and updates what all others do, without waiting for them. Replica 0 gives the variables their first values and
writes checkpoints and summaries; the others begin when it says so.

Records are read, and images prepared, by the process that the user started: a server knows nothing of its Python. What
a step needs is fed to it.

Source: Dean et al., "Large Scale Distributed Deep Networks" (NIPS 2012), section 4.1, the asynchronous update.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from absl import logging

from deeplab.core import session
from deeplab.core.reasons import reason_of
from deeplab.deployment import model_deploy
from deeplab.errors import MachineError
from deeplab.options import CloneOptions

READY = 'replicas/is_ready'
PATIENCE_SECS = 10.0


def worker_device(clones: CloneOptions) -> str:
    """Job and task of the machine that computes; empty where one server, or this process, is all there is."""
    return f'/job:worker/task:{clones.task}' if clones.num_ps_tasks else ''


def device_filters(clones: CloneOptions) -> tuple[str, ...]:
    """What a replica's session sees of the cluster: it need not wait for the other replicas to be there."""
    return ('/job:ps', f'/job:worker/task:{clones.task}') if clones.num_ps_tasks else ()


def connect(clones: CloneOptions) -> model_deploy.DeploymentConfig:
    """Looks at the cluster behind `clones.master`, and says where things go in it.

    Waits for servers that are not there yet, and says so.

    Raises:
      MachineError: there is no such server, or its cluster is not what the flags say.
    """
    devices = _devices_of(clones.master, device_filters(clones))
    jobs = {match[1] for match in map(re.compile(r'/job:(\w+)/').match, devices) if match}
    worker = worker_device(clones)
    for wanted in [worker] * bool(worker) + [f'/job:ps/task:{number}' for number in range(clones.num_ps_tasks)]:
        job, task = wanted[1:].split('/')
        if not any(f'/{job}/' in name and f'/{task}/' in name for name in devices):
            raise MachineError(
                f'--master={clones.master}: the cluster of this server has no {wanted}, which --task={clones.task} '
                f'--num_ps_tasks={clones.num_ps_tasks} asks for; it has {", ".join(devices)}. Start its servers with '
                'the jobs ps and worker (deeplab server)'
            )
    if not worker and 'ps' in jobs:
        raise MachineError(
            f'--master={clones.master}: the cluster of this server has parameter servers. Set --num_ps_tasks to their '
            'number'
        )
    gpus = sum(':GPU:' in name and not name.startswith('/job:ps/') for name in devices)
    return model_deploy.deployment_config(clones.num_clones, clones.clone_on_cpu, worker, clones.num_ps_tasks, gpus)


def _knock(master: str) -> None:
    """Raises `MachineError` if nobody listens at `master` for a while: TensorFlow would wait for ever."""
    host, _, port = master.removeprefix('grpc://').rpartition(':')
    given_up = time.monotonic() + PATIENCE_SECS
    while True:
        try:
            socket.create_connection((host.strip('[]'), int(port)), timeout=PATIENCE_SECS).close()
            return
        except (OSError, ValueError, OverflowError) as error:
            if time.monotonic() < given_up:
                time.sleep(min(1.0, PATIENCE_SECS))
                continue
            raise MachineError(
                f"--master={master}: nobody listens there ({error}). Start this machine's server (deeplab server), or "
                'leave the flag away to compute in this process'
            ) from error


def _devices_of(master: str, filters: tuple[str, ...]) -> list[str]:
    """Names of the devices that a session sees."""
    _knock(master)
    answer: list[Any] = []

    def ask() -> None:
        try:
            with session.open_session(tf.Graph(), master=master, device_filters=filters) as running:
                answer.append([device.name for device in running.list_devices()])
        except Exception as error:  # it is raised where somebody waits for the answer
            answer.append(error)

    # TensorFlow waits for missing servers without an end, deaf to Ctrl-C: in a thread of its own it may.
    thread = threading.Thread(target=ask, name='deeplab-connect', daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(PATIENCE_SECS)
        if thread.is_alive():
            logging.info('Waiting for %s, or for servers of its cluster that it waits for.', master)
    if isinstance(answer[0], Exception):
        raise MachineError(
            f'--master={master}: no TensorFlow server answers there ({reason_of(answer[0])})'
        ) from answer[0]
    return answer[0]


class StartSign:
    """A variable on the first parameter server by which replica 0 tells the others that they may begin.

    That all variables have values does not say so: the values may be those from before a checkpoint is restored.
    """

    def __init__(self) -> None:
        """Makes the variable; it is in no checkpoint."""
        with tf.device('/job:ps/task:0/device:CPU:0'):
            self._sign = tf.compat.v1.get_variable(
                READY,
                [],
                tf.bool,
                tf.compat.v1.zeros_initializer(),
                trainable=False,
                collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES],
            )
            self._value = self._sign.read_value()
            self._give = self._sign.assign(True, read_value=False)

    def take_back(self, running: tf.compat.v1.Session) -> None:
        """Called by replica 0 before it touches the variables."""
        running.run(self._sign.initializer)

    def give(self, running: tf.compat.v1.Session) -> None:
        """Called by replica 0 when all variables have their values."""
        running.run(self._give)

    def is_given(self, running: tf.compat.v1.Session) -> bool:
        """Whether replica 0 has given it."""
        try:
            return bool(running.run(self._value))
        except (tf.errors.FailedPreconditionError, tf.errors.NotFoundError):
            return False  # nobody has made the variable yet


class Group:
    """What a replica has to do with the others, for the training loop.

    Attributes:
      step: the training step, with the count of all replicas where there are several.
      remote: the servers that compute; None for this process.
    """

    def __init__(self, clones: CloneOptions, step: session.TrainStep, number_of_steps: int):
        """Adds what is needed to the graph; nothing without a master.

        Args:
          clones: which machines there are.
          step: the training step.
          number_of_steps: steps in the end, so that nobody waits for a step that does not come.
        """
        self._clones = clones
        self._sign = StartSign() if clones.num_ps_tasks else None
        self._first_step = min(clones.startup_delay_steps * clones.task, number_of_steps)
        self._has_said = False
        self.step = step
        if clones.num_replicas > 1:
            with tf.control_dependencies([step.is_applied]):
                self.step = dataclasses.replace(step, steps_done=step.global_step.read_value())
        self.remote = None
        if clones.master:
            self.remote = session.Remote(clones.master, device_filters(clones), self._is_ready)

    def initialise(self, first_values: Callable[[tf.compat.v1.Session], None], running: tf.compat.v1.Session) -> None:
        """Gives all variables their first values by `first_values`, where that is for this replica to do."""
        if not self._clones.is_chief:
            return
        if self._sign is not None:
            self._sign.take_back(running)
        first_values(running)
        if self._sign is not None:
            self._sign.give(running)

    def _is_ready(self, running: tf.compat.v1.Session) -> bool:
        """Whether this replica may begin: task 0 at once, the others at the sign, each some steps later."""
        if self._clones.is_chief or self._sign is None:
            return True
        if not self._has_said:
            logging.info('Task %d waits for task 0, and for step %d.', self._clones.task, self._first_step)
            self._has_said = True
        return self._sign.is_given(running) and int(running.run(self.step.global_step)) >= self._first_step


def is_mine(clones: CloneOptions, batch_size: int) -> Callable[[tf.Tensor], tf.Tensor] | None:
    """Which sample positions a replica takes; None for all.

    The batches of the common order are dealt out in turn, number b to replica b mod n. So no two replicas read the same
    sample, whenever each of them started, and as long as they are equally fast, all together read each epoch once.

    Args:
      clones: task and number of replicas.
      batch_size: samples of one step of one replica.
    """
    if clones.num_replicas == 1:
        return None
    return lambda position: tf.equal(position // batch_size % clones.num_replicas, clones.task)


class FedInput(session.Hook):
    """Batches that this process reads and feeds to the server which computes.

    Takes the place of `model_deploy.OrderedQueue`; as a hook of the loop it feeds each step. The pipeline runs in a
    session of this process, from the sample position on that follows from the step at which the loop begins.
    """

    def __init__(self, config: model_deploy.DeploymentConfig, batch_size: int):
        """Makes the placeholder of the first position.

        Args:
          config: the clones, and the CPU at which they get their batches.
          batch_size: samples of a step.
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
        """The next clone's batch, by the names of its parts."""
        self._handed_out += 1
        return self._batches[self._handed_out - 1]

    def begin(self, running: tf.compat.v1.Session, step: int) -> None:
        """Starts reading where `step` steps end."""
        self._local = self._open.enter_context(session.open_session(running.graph, places_what_it_runs=True))
        self._local.run(self._pipeline.initializer, {self.first_position: step * self._batch_size})

    def feeds(self, step: int) -> dict[tf.Tensor, Any]:
        """The batches of one step."""
        assert self._local is not None
        result = {}
        for placeholders in self._batches:
            values = self._local.run(self._pipeline.samples)
            result.update({placeholder: values[key] for key, placeholder in placeholders.items()})
        return result

    def end(self, step: int) -> None:
        """Stops reading."""
        self._open.close()
