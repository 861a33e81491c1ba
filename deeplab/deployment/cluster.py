"""The cluster behind --master: its devices, and whether its servers answer."""

from __future__ import annotations

import re
import socket
import threading
import time
from typing import Any

import tensorflow as tf
from absl import logging

from deeplab.core import sessions
from deeplab.core.reasons import reason_of
from deeplab.deployment import model_deploy
from deeplab.errors import MachineError
from deeplab.options import CloneOptions

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
            with sessions.open_session(tf.Graph(), master=master, device_filters=filters) as running:
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
