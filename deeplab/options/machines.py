"""Options of clones, replicas and servers."""

from __future__ import annotations

import dataclasses
import re

from deeplab.errors import OptionError
from deeplab.options.fields import Options, declared
from deeplab.wording import option

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
class CloneOptions(Options):
    """Clones of the network that share its variables, and the machines that they run on."""

    num_clones: int = declared(
        1,
        'Number of clones of the network, one per GPU, that share each batch.',
        range='(0, inf)',
    )
    clone_on_cpu: bool = declared(False, 'Place the clones on CPUs.')
    task: int = declared(0, 'Index of this machine among the {num_replicas}, from 0.')
    num_replicas: int = declared(1, 'Number of machines that train together.', range='(0, inf)')
    num_ps_tasks: int = declared(0, 'Number of parameter servers; 0: none.', range='[0, inf)')
    master: str = declared('', 'Address of the TensorFlow server to compute on; empty: this process.')
    startup_delay_steps: int = declared(
        15,
        'Machine k starts to train once this many times k steps are done.',
        range='[0, inf)',
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        last = self.num_replicas - 1
        replicas = option('CloneOptions.num_replicas', self.num_replicas)
        self._require(
            0 <= self.task <= last,
            'task',
            f'with {replicas} it must be ' + (f'from 0 to {last}' if last else '0'),
        )
        self._require(
            not self.master
            or (self.master.startswith('grpc://') and _split(self.master[len('grpc://') :]) is not None),
            'master',
            f'it must be the address of a running server, grpc://HOST:PORT, with a port from 1 to {_LAST_PORT}',
        )
        self._require(
            self.num_replicas == 1 or self.num_ps_tasks > 0,
            'num_replicas',
            'machines that train together need parameter servers to share the weights; set '
            f'{option("CloneOptions.num_ps_tasks")}',
        )
        self._require(
            self.num_ps_tasks == 0 or bool(self.master),
            'num_ps_tasks',
            'parameter servers are reached through the server of this machine; set '
            f'{option("CloneOptions.master", "grpc://HOST:PORT")}',
        )

    @property
    def is_chief(self) -> bool:
        """Whether this machine initializes, restores, and writes checkpoints and summaries."""
        return self.task == 0


@dataclasses.dataclass(frozen=True)
class ServerOptions(Options):
    """Options of `deeplab server`, one server of a cluster."""

    job_name: str = declared(
        meaning='Job of this server: ps (parameter server) holds variables, worker computes.',
        choices=('ps', 'worker'),
        flag_default='worker',
    )
    task: int = declared(meaning='Index of this server among the servers of its job, from 0.', flag_default=0)
    worker_hosts: tuple[str, ...] = declared(meaning='Comma-separated HOST:PORT of all workers.')
    ps_hosts: tuple[str, ...] = declared((), 'Comma-separated HOST:PORT of all parameter servers. Not set: none.')

    def __post_init__(self) -> None:
        super().__post_init__()
        field = f'ServerOptions.{self.job_name}_hosts'
        hosts = self.ps_hosts if self.job_name == 'ps' else self.worker_hosts
        if not hosts:
            raise OptionError(f'{option(field)} is empty: give HOST:PORT of each {self.job_name}.')
        self._require(
            0 <= self.task < len(hosts),
            'task',
            f'{option(field)} has the servers 0 to {len(hosts) - 1}',
        )
        self._require_addresses()

    def _require_addresses(self) -> None:
        """Raises `OptionError` for an address that is none, or that two servers have."""
        servers: dict[tuple[str, int], str] = {}  # job and task, by address
        for name, job in (('worker_hosts', 'worker'), ('ps_hosts', 'ps')):
            for task, address in enumerate(getattr(self, name)):
                place = _split(address)
                allowed = (
                    f'each address must be HOST:PORT, with a port from 1 to {_LAST_PORT}; separate several by commas'
                )
                self._require(place is not None, name, allowed)
                assert place is not None
                other = servers.setdefault(place, f'{job} {task}')
                allowed = f'{address} is the address of {other}, too; give each server its own'
                self._require(other == f'{job} {task}', name, allowed)

    @property
    def address(self) -> str:
        """The address of the server itself, HOST:PORT."""
        return (self.ps_hosts if self.job_name == 'ps' else self.worker_hosts)[self.task]
