"""Options of clones, replicas and servers."""

from __future__ import annotations

import dataclasses
import re

from deeplab.errors import OptionError
from deeplab.options.rules import require, require_choice, require_not_negative, require_positive
from deeplab.wording import option

JOBS = ('ps', 'worker')
_ADDRESS = re.compile(r'([^\s/:]+|\[[^\s/\]]+\]):([0-9]{1,5})')
_LAST_PORT = 65535  # TensorFlow takes larger numbers modulo 65536
_THIS_MACHINE = ('localhost', '127.0.0.1', '[::1]')


def _split(address: str) -> tuple[str, int] | None:
    """Returns host and port of HOST:PORT, equal for two spellings of one address; None for anything else."""
    match = _ADDRESS.fullmatch(address)
    if match is None or not 1 <= int(match[2]) <= _LAST_PORT:
        return None
    host = match[1].lower()
    return _THIS_MACHINE[0] if host in _THIS_MACHINE else host, int(match[2])


@dataclasses.dataclass(frozen=True)
class CloneOptions:
    """Clones of the network that share its variables, and the machines that they run on.

    Attributes:
      num_clones: number of clones in this process, which share each batch.
      clone_on_cpu: whether clones are placed on CPUs even if there are GPUs.
      task: index of this machine among the replicas, from 0; machine 0 is the chief.
      num_replicas: number of machines that compute.
      num_ps_tasks: number of parameter servers, which hold the variables; 0 for none.
      master: address of this machine's TensorFlow server; empty for this process.
      startup_delay_steps: machine k starts once this many times k steps are done.
    """

    num_clones: int = 1
    clone_on_cpu: bool = False
    task: int = 0
    num_replicas: int = 1
    num_ps_tasks: int = 0
    master: str = ''
    startup_delay_steps: int = 15

    def __post_init__(self) -> None:
        require_positive('CloneOptions.num_clones', self.num_clones)
        require_positive('CloneOptions.num_replicas', self.num_replicas)
        require_not_negative('CloneOptions.num_ps_tasks', self.num_ps_tasks)
        require_not_negative('CloneOptions.startup_delay_steps', self.startup_delay_steps)
        self._require_cluster()

    def _require_cluster(self) -> None:
        """Raises `OptionError` for an incomplete or inconsistent cluster of machines."""
        last = self.num_replicas - 1
        replicas = option('CloneOptions.num_replicas', self.num_replicas)
        require(
            0 <= self.task <= last,
            'CloneOptions.task',
            self.task,
            f'with {replicas} it must be ' + (f'from 0 to {last}' if last else '0'),
        )
        require(
            not self.master
            or (self.master.startswith('grpc://') and _split(self.master[len('grpc://') :]) is not None),
            'CloneOptions.master',
            self.master,
            f'it must be the address of a running server, grpc://HOST:PORT, with a port from 1 to {_LAST_PORT}',
        )
        require(
            self.num_replicas == 1 or self.num_ps_tasks > 0,
            'CloneOptions.num_replicas',
            self.num_replicas,
            'machines that train together need parameter servers to share the weights; set '
            f'{option("CloneOptions.num_ps_tasks")}',
        )
        require(
            self.num_ps_tasks == 0 or bool(self.master),
            'CloneOptions.num_ps_tasks',
            self.num_ps_tasks,
            'parameter servers are reached through the server of this machine; set '
            f'{option("CloneOptions.master", "grpc://HOST:PORT")}',
        )

    @property
    def is_chief(self) -> bool:
        """Whether this machine initializes, restores, and writes checkpoints and summaries."""
        return self.task == 0


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """Options of `deeplab server`, one server of a cluster.

    Attributes:
      job_name: 'ps' for a parameter server, 'worker' for a server that computes.
      task: index of the server in its job, from 0.
      worker_hosts: HOST:PORT of all workers, in order.
      ps_hosts: HOST:PORT of all parameter servers, in order.
    """

    job_name: str
    task: int
    worker_hosts: tuple[str, ...]
    ps_hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_choice('ServerOptions.job_name', self.job_name, JOBS)
        field = f'ServerOptions.{self.job_name}_hosts'
        hosts = self.ps_hosts if self.job_name == 'ps' else self.worker_hosts
        if not hosts:
            raise OptionError(f'{option(field)} is empty: give HOST:PORT of each {self.job_name}.')
        require(
            0 <= self.task < len(hosts),
            'ServerOptions.task',
            self.task,
            f'{option(field)} has the servers 0 to {len(hosts) - 1}',
        )
        self._require_addresses()

    def _require_addresses(self) -> None:
        """Raises `OptionError` for an address that is none, or that two servers have."""
        servers: dict[tuple[str, int], str] = {}  # job and task, by address
        for name, job in (('worker_hosts', 'worker'), ('ps_hosts', 'ps')):
            field, addresses = f'ServerOptions.{name}', getattr(self, name)
            for task, address in enumerate(addresses):
                place = _split(address)
                allowed = (
                    f'each address must be HOST:PORT, with a port from 1 to {_LAST_PORT}; separate several by commas'
                )
                require(place is not None, field, addresses, allowed)
                assert place is not None
                other = servers.setdefault(place, f'{job} {task}')
                allowed = f'{address} is the address of {other}, too; give each server its own'
                require(other == f'{job} {task}', field, addresses, allowed)

    @property
    def address(self) -> str:
        """The address of the server itself, HOST:PORT."""
        return (self.ps_hosts if self.job_name == 'ps' else self.worker_hosts)[self.task]
