"""One TensorFlow server of a cluster, for training on several machines (`deeplab server`)."""

from __future__ import annotations

if __name__ == '__main__':  # `python -m deeplab.server`; first, so that help does not wait for TensorFlow
    from deeplab.start import run_program

    run_program('server')

import threading

import tensorflow as tf
from absl import logging

from deeplab.core import sessions
from deeplab.deployment import cluster
from deeplab.options import ServerOptions


def start(options: ServerOptions) -> tf.distribute.Server:
    """Starts the server, which runs in threads of this process until the process ends.

    Raises:
      MachineError: it cannot listen at its address.
    """
    hosts = {'worker': options.worker_hosts, 'ps': options.ps_hosts}
    return cluster.start_server(hosts, options.job_name, options.task, sessions.config())


def run(options: ServerOptions) -> None:
    """Serves until the process is stopped (Ctrl-C).

    Raises:
      MachineError: see `start`.
    """
    server = start(options)
    logging.info('%s %d is serving at %s. Stop it with Ctrl-C.', options.job_name, options.task, server.target)
    threading.Event().wait()  # a server's own join() ignores Ctrl-C
