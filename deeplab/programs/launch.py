"""Synchronous workers of one training on this machine, started and watched together (`deeplab launch`).

Each worker is a process `deeplab train`, with its own number and, if there are GPUs, its own GPUs. A worker that loses
another one begins again by itself; a worker that was killed is started again here. Signals reach all workers.
"""

from __future__ import annotations

if __name__ == '__main__':  # `python -m deeplab.launch`
    from deeplab.start import run_program

    run_program('launch')

import functools
import math
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import IO, NamedTuple

from absl import logging

from deeplab.errors import OptionError
from deeplab.names import counted
from deeplab.options import LaunchOptions
from deeplab.system import child_process
from deeplab.system.interrupts import deferred
from deeplab.wording import option

DEEPLAB = (sys.executable, '-m', 'deeplab')  # the command line of a worker, without program and flags
_POLL_SECS = 0.2
_GRACE_SECS = 30.0  # in which the others end by themselves after one has ended
_GPU_FILES = 'nvidia[0-9]*'  # in /dev
_SIGNALED = 128  # exit status of a shell, and of `deeplab`, for signal 0
_REQUESTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class LaunchResult(NamedTuple):
    """What worker 0 printed, and the exit status.

    It is 0 if worker 0 has completed the training and no other worker has failed, otherwise the first other status.
    """

    report: str
    status: int


def run(options: LaunchOptions) -> LaunchResult:
    """Runs all workers until they have ended."""
    starts_left = options.restarts
    first_end = math.inf
    with deferred() as interrupts:  # before the workers start: a signal to end is for them, too
        workers = _start(options)
        passed_on: int | None = None
        while any(worker.status is None for worker in workers):
            time.sleep(_POLL_SECS)
            if passed_on is None and interrupts.received is not None:
                passed_on = interrupts.received
                _send(workers, passed_on)
            for worker in workers:
                if not worker.has_ended():
                    continue
                if worker.was_killed and starts_left and passed_on is None:
                    starts_left -= 1
                    logging.warning('Worker %d was killed. It is started again.', worker.number)
                    worker.start()
                else:
                    first_end = min(first_end, time.monotonic())
            if time.monotonic() - first_end > _GRACE_SECS:
                first_end = math.inf
                _send(workers, signal.SIGTERM)  # they wait for one that does not come
    for worker in workers:
        worker.finish()
    statuses = [worker.status or 0 for worker in workers]
    if not statuses[0]:  # the training is complete: others were ended because they waited for it
        statuses = [status for status in statuses if status != _SIGNALED + signal.SIGTERM]
    return LaunchResult(''.join(workers[0].output).rstrip('\n'), next(filter(None, statuses), 0))


class _Worker:
    """One worker; `status` is its exit status, None while it runs, `output` what it has printed."""

    def __init__(self, number: int, call: list[str], gpus: str | None) -> None:
        self.number = number
        self.status: int | None = None
        self.output: list[str] = []
        self._call = call
        self._environment = os.environ if gpus is None else {**os.environ, 'CUDA_VISIBLE_DEVICES': gpus}
        self._readers: list[threading.Thread] = []
        self.start()

    def start(self) -> None:
        """Starts the process, in a session of its own: a terminal's Ctrl-C reaches it through this process alone."""
        self.status = None
        self._process = subprocess.Popen(
            self._call,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors='replace',
            env=self._environment,
            start_new_session=True,
            preexec_fn=functools.partial(child_process.die_with, os.getpid()),
        )
        self.output = []  # readers of an earlier process may still add lines to theirs
        for stream, lines in ((self._process.stdout, self.output), (self._process.stderr, None)):
            reader = threading.Thread(target=self._copy, args=(stream, lines), daemon=True)
            reader.start()
            self._readers.append(reader)

    def _copy(self, stream: IO[str], lines: list[str] | None) -> None:
        """Writes each line of a stream to standard error, behind the worker's number; keeps it in `lines`."""
        with stream:
            for line in stream:
                if lines is not None:
                    lines.append(line)
                sys.stderr.write(f'[{self.number}] {line}')
                sys.stderr.flush()

    def has_ended(self) -> bool:
        """Returns whether the process has ended since the last call."""
        if self.status is not None or self._process.poll() is None:
            return False
        code = self._process.returncode
        self.status = code if code >= 0 else _SIGNALED - code
        return True

    @property
    def was_killed(self) -> bool:
        """Whether a signal has ended the worker that is no request to end, or a crash."""
        return (self.status or 0) > _SIGNALED and self.status not in [_SIGNALED + number for number in _REQUESTS]

    def send(self, number: int) -> None:
        """Sends a signal, if the process still runs."""
        if self.status is None:
            self._process.send_signal(number)

    def finish(self) -> None:
        """Waits until everything that it wrote has been copied."""
        for reader in self._readers:
            reader.join()


def _start(options: LaunchOptions) -> list[_Worker]:
    """Starts the workers on unused ports."""
    gpus = _gpus_of_workers(options)
    hosts = ','.join(_unused_addresses(len(gpus)))
    call = [*DEEPLAB, *options.command, f'--worker_hosts={hosts}', f'--restarts={options.restarts}']
    return [_Worker(number, [*call, f'--task={number}'], own) for number, own in enumerate(gpus)]


def _send(workers: list[_Worker], number: int) -> None:
    for worker in workers:
        worker.send(number)


def _unused_addresses(number: int) -> list[str]:
    """Returns addresses of this machine at which nothing listens."""
    sockets = [socket.create_server(('localhost', 0)) for _ in range(number)]
    addresses = [f'localhost:{each.getsockname()[1]}' for each in sockets]
    for each in sockets:
        each.close()
    return addresses


def _visible_gpus() -> list[str]:
    """Returns the names of the GPUs of this machine that programs may use."""
    visible = os.environ.get('CUDA_VISIBLE_DEVICES')
    if visible is None:
        return [str(number) for number, _ in enumerate(pathlib.Path('/dev').glob(_GPU_FILES))]
    return [name for name in visible.split(',') if name.strip() and name.strip() != '-1']


def _gpus_of_workers(options: LaunchOptions) -> list[str | None]:
    """Returns the GPUs of each worker, as CUDA_VISIBLE_DEVICES; None for each without GPUs.

    Raises:
      OptionError: there are GPUs, but not one for each worker: NCCL refuses to add on one GPU twice; or neither several
        GPUs nor a number of workers.
    """
    on_cpu = '--clone_on_cpu' in options.command
    gpus = [] if on_cpu else _visible_gpus()
    workers = options.workers or len(gpus)
    if workers < 2:
        raise OptionError(
            f'{option("LaunchOptions.workers")} is needed, 2 or more: its default, the number of GPUs to compute on, '
            f'is {workers}'
        )
    if not gpus:
        return ['' if on_cpu else None] * workers
    each = len(gpus) // workers
    if not each:
        raise OptionError(
            f'{option("LaunchOptions.workers", workers)} needs {workers} GPUs, but there '
            f'{"is" if len(gpus) == 1 else "are"} {counted(len(gpus), "GPU")}. Use fewer workers, or set the '
            'environment variable CUDA_VISIBLE_DEVICES to nothing: `CUDA_VISIBLE_DEVICES= deeplab launch ...` runs '
            'them on the CPU'
        )
    clones = int((re.findall(r'-num_clones[= ](\d+)', ' '.join(options.command)) or [1])[-1])
    idle = len(gpus) - workers * min(each, clones)
    if idle:
        logging.warning(
            '%d of %d GPUs stay idle: each of the %d workers uses %s (%s). Start more workers, or more clones.',
            idle, len(gpus), workers, counted(min(each, clones), 'GPU'), option('CloneOptions.num_clones', clones),
        )  # fmt: skip
    return [','.join(gpus[number * each : (number + 1) * each]) for number in range(workers)]
