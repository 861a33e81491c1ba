"""One TensorFlow server of a cluster, for training on several machines: `deeplab server --job_name=ps ...`."""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and mistakes need not wait for TensorFlow
    import os
    import sys

    if not __package__:  # started by its path: the folder above deeplab/ takes the place of this file's own
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    from deeplab import start

    sys.exit(start.main(['server', *sys.argv[1:]]))

import threading

import tensorflow as tf
from absl import logging

from deeplab.core import sessions
from deeplab.errors import MachineError
from deeplab.options import ServerOptions


def start(options: ServerOptions) -> tf.distribute.Server:
    """Starts the server, which runs in threads of this process until the process ends.

    Raises:
      MachineError: it cannot listen at its address.
    """
    cluster = {'worker': list(options.worker_hosts)}
    if options.ps_hosts:
        cluster['ps'] = list(options.ps_hosts)
    try:
        return tf.distribute.Server(
            cluster, job_name=options.job_name, task_index=options.task, protocol='grpc', config=sessions.config()
        )
    except tf.errors.OpError as error:
        raise MachineError(
            f'{options.job_name} {options.task} cannot listen at {options.address}. Is the port taken, perhaps by a '
            'server that still runs? Or is the address not one of this machine?'
        ) from error


def run(options: ServerOptions) -> None:
    """Serves until the process is ended (Ctrl-C).

    Raises:
      MachineError: see `start`.
    """
    server = start(options)
    logging.info('%s %d serves at %s. Ctrl-C ends it.', options.job_name, options.task, server.target)
    threading.Event().wait()  # a server's own join() would be deaf to Ctrl-C
