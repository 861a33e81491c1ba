"""The cluster of a TensorFlow server (`CloneOptions.master`): its devices, and whether its servers respond."""

from __future__ import annotations

import dataclasses
import os
import re
import socket
import threading
import time
from collections.abc import Mapping, Sequence

import tensorflow as tf
from absl import logging

from deeplab.core import sessions
from deeplab.deployment import model_deploy
from deeplab.errors import MachineError, OptionError, reason_of
from deeplab.names import counted
from deeplab.options import CloneOptions
from deeplab.wording import option

PATIENCE_SECS = 10.0
_MASTER, _PS_TASKS = 'CloneOptions.master', 'CloneOptions.num_ps_tasks'
_PROXIES = ('grpc_proxy', 'https_proxy', 'http_proxy')  # environment variables that gRPC reads, in this order


def device_filters(clones: CloneOptions) -> tuple[str, ...]:
    """Returns the part of the cluster that a replica's session uses, so that it does not wait for other replicas."""
    return ('/job:ps', f'/job:worker/task:{clones.task}') if clones.num_ps_tasks else ()


def start_server(
    hosts: Mapping[str, Sequence[str]], job: str, task: int, config: tf.compat.v1.ConfigProto
) -> tf.distribute.Server:
    """Starts a server, which runs in threads of this process until the process ends.

    Args:
      hosts: HOST:PORT of all servers by job.
      job: the job of this one.
      task: its index in the job.
      config: its configuration.

    Raises:
      MachineError: it cannot listen at its address.
    """
    cluster = {name: list(addresses) for name, addresses in hosts.items() if addresses}
    try:
        return tf.distribute.Server(cluster, job_name=job, task_index=task, protocol='grpc', config=config)
    except tf.errors.OpError as error:
        raise MachineError(
            f'{job} {task} cannot listen at {hosts[job][task]}. Use an address of this machine and a free port; '
            'another server may still be using this one'
        ) from error


def connect(clones: CloneOptions) -> model_deploy.DeploymentConfig:
    """Connects to the cluster of `clones.master`, and returns the placement of clones in it.

    Waits for servers that have not started yet, and logs that. Without a master, the clones are on this machine.

    Raises:
      MachineError: there is no such server, or its cluster does not match the options.
      OptionError: there are too few GPUs for clones with common statistics.
    """
    if not clones.master:
        _require_own_gpus(clones, 0 if clones.clone_on_cpu else len(tf.config.list_physical_devices('GPU')))
        config = model_deploy.deployment_config(clones.num_clones, clones.clone_on_cpu)
        return dataclasses.replace(config, first_clone=clones.task * clones.num_clones, all_clones=clones.parts)
    devices = _devices_of(clones.master, device_filters(clones))
    jobs = {match[1] for match in map(re.compile(r'/job:(\w+)/').match, devices) if match}
    worker = f'/job:worker/task:{clones.task}' if clones.num_ps_tasks else ''
    for wanted in [worker] * bool(worker) + [f'/job:ps/task:{number}' for number in range(clones.num_ps_tasks)]:
        job, task = wanted[1:].split('/')
        if not any(f'/{job}/' in name and f'/{task}/' in name for name in devices):
            raise MachineError(
                f'{option(_MASTER, clones.master)}: the cluster of this server has no {wanted}, as required by '
                f'{option("CloneOptions.task", clones.task)} and {option(_PS_TASKS, clones.num_ps_tasks)}; it has '
                f'{", ".join(devices)}. Start its servers with the jobs ps and worker (`deeplab server`)'
            )
    if not worker and 'ps' in jobs:
        raise MachineError(
            f'{option(_MASTER, clones.master)}: the cluster of this server has parameter servers. Set '
            f'{option(_PS_TASKS)} to their number'
        )
    gpus = sum(':GPU:' in name and not name.startswith('/job:ps/') for name in devices)
    _require_own_gpus(clones, gpus)
    return model_deploy.deployment_config(clones.num_clones, clones.clone_on_cpu, worker, clones.num_ps_tasks, gpus)


def _require_own_gpus(clones: CloneOptions, gpus: int) -> None:
    """Raises `OptionError` if clones with common statistics share a GPU: each would wait for the others forever."""
    if clones.sync_batch_norm and not clones.clone_on_cpu and 0 < gpus < clones.num_clones:
        raise OptionError(
            f'{option("CloneOptions.num_clones", clones.num_clones)} with {option("CloneOptions.sync_batch_norm")} '
            f'needs {clones.num_clones} GPUs, but there {"is" if gpus == 1 else "are"} {counted(gpus, "GPU")}. Use '
            f'fewer clones, omit {option("CloneOptions.sync_batch_norm")}, or set {option("CloneOptions.clone_on_cpu")}'
        )


def _knock(master: str) -> None:
    """Raises `MachineError` if no connection to `master` is possible for a while: TensorFlow would wait forever."""
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
                f"{option(_MASTER, master)}: no connection ({error}). Start this machine's server (`deeplab server`), "
                f'or omit {option(_MASTER)} to compute in this process'
            ) from error


def _devices_of(master: str, filters: tuple[str, ...]) -> list[str]:
    """Returns the names of the devices that a session sees."""
    _knock(master)
    names: list[str] = []
    errors: list[Exception] = []

    def ask() -> None:
        try:
            with tf.Graph().as_default() as graph:
                nothing = tf.no_op()
            with sessions.open_session(graph, server=sessions.Server(master, filters)) as running:
                running.run(nothing)  # waits for the servers; list_devices would stop all threads of Python meanwhile
                names.extend(device.name for device in running.list_devices())
        except Exception as error:  # raised below, in the thread that waits
            errors.append(error)

    # TensorFlow waits for missing servers forever and ignores Ctrl-C, hence a thread of its own.
    thread = threading.Thread(target=ask, name='deeplab-connect', daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(PATIENCE_SECS)
        if thread.is_alive():
            logging.info('Waiting for %s, or for other servers of its cluster.%s', master, proxy_note())
    if errors:
        raise MachineError(
            f'{option(_MASTER, master)}: no TensorFlow server responds there ({reason_of(errors[0])})'
        ) from errors[0]
    return names


def proxy_note() -> str:
    """Returns a sentence about the proxy through which gRPC connects; empty without one."""
    name = next((name for name in _PROXIES if os.environ.get(name)), None)
    return f' They connect through the proxy in {name}, unless no_proxy lists their machines.' if name else ''
