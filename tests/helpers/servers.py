"""TensorFlow servers of a small cluster in this process."""

import socket

from deeplab.options import ServerOptions
from deeplab.programs import server

_running = []  # a server ends with its process; TensorFlow forbids to drop one


def free_addresses(number):
    """Returns unused addresses of this machine."""
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(('localhost', 0))
    addresses = tuple(f'localhost:{each.getsockname()[1]}' for each in sockets)
    for each in sockets:
        each.close()
    return addresses


def start(workers=1, parameter_servers=1):
    """Starts a cluster; returns the addresses (grpc://...) of its workers."""
    addresses = free_addresses(workers + parameter_servers)
    worker_hosts, ps_hosts = addresses[:workers], addresses[workers:]
    for job, number in (('ps', parameter_servers), ('worker', workers)):
        for task in range(number):
            _running.append(server.start(ServerOptions(job, task, worker_hosts, ps_hosts)))
    return [f'grpc://{address}' for address in worker_hosts]
