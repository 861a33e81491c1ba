"""Options of clones, replicas and servers."""

from __future__ import annotations

import dataclasses

from deeplab.errors import OptionError
from deeplab.options.rules import require, require_choice, require_not_negative, require_positive
from deeplab.wording import option

JOBS = ('ps', 'worker')


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
            not self.master or self.master.startswith('grpc://'),
            'CloneOptions.master',
            self.master,
            'it must be the address of a running server, grpc://HOST:PORT',
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
        for name in ('worker_hosts', 'ps_hosts'):
            addresses = getattr(self, name)
            good = all(':' in address and '/' not in address for address in addresses)
            require(
                good, f'ServerOptions.{name}', addresses, 'each address must be HOST:PORT; separate several by commas'
            )

    @property
    def address(self) -> str:
        """The address of the server itself, HOST:PORT."""
        return (self.ps_hosts if self.job_name == 'ps' else self.worker_hosts)[self.task]
