"""Options of clones, replicas and servers."""

from __future__ import annotations

import dataclasses
import re

from deeplab.errors import OptionError
from deeplab.options.fields import Options, declarations, declared
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


def _require_addresses(options: Options, **hosts: tuple[str, ...]) -> None:
    """Raises `OptionError` for an address that is none, or that two servers have.

    Args:
      options: what has the fields JOB_hosts.
      **hosts: the addresses of the servers by job.
    """
    servers: dict[tuple[str, int], str] = {}  # job and task, by address
    for job, addresses in hosts.items():
        for task, address in enumerate(addresses):
            place = _split(address)
            allowed = f'each address must be HOST:PORT, with a port from 1 to {_LAST_PORT}; separate several by commas'
            options._require(place is not None, f'{job}_hosts', allowed)
            assert place is not None
            other = servers.setdefault(place, f'{job} {task}')
            allowed = f'{address} is the address of {other}, too; give each server its own'
            options._require(other == f'{job} {task}', f'{job}_hosts', allowed)


@dataclasses.dataclass(frozen=True)
class CloneOptions(Options):
    """Clones of the network that share its variables, and the machines that they run on.

    Machines train together in one of two ways: synchronous workers (`worker_hosts`), or replicas that share the
    variables of parameter servers (`num_replicas`).
    """

    num_clones: int = declared(
        1,
        'Number of clones of the network, one per GPU, among which each batch is split.',
        range='(0, inf)',
    )
    clone_on_cpu: bool = declared(False, 'Place the clones on CPUs.')
    task: int = declared(0, 'Index of this machine among the {num_replicas} or {worker_hosts}, from 0.')
    num_replicas: int = declared(1, 'Number of machines that train together.', range='(0, inf)')
    num_ps_tasks: int = declared(0, 'Number of parameter servers; 0: none.', range='[0, inf)')
    master: str = declared('', 'Address of the TensorFlow server to compute on; empty: this process.')
    startup_delay_steps: int = declared(
        15,
        'Machine k starts training after k times this many steps.',
        range='[0, inf)',
    )
    worker_hosts: tuple[str, ...] = declared(
        (),
        'Comma-separated HOST:PORT of all synchronous workers: each computes a part of every batch, and all apply the '
        'sum of their gradients. Not set: this machine trains alone, or with {num_ps_tasks}.',
    )
    worker_timeout_secs: float = declared(
        60.0,
        'Seconds without a response after which a synchronous worker is considered lost and the others stop.',
        range='(0, inf)',
        needs=('worker_hosts',),
    )
    restarts: int = declared(
        0,
        'Number of times that a synchronous worker restarts from the last checkpoint after another one was lost.',
        range='[0, inf)',
        needs=('worker_hosts',),
    )
    sync_batch_norm: bool = declared(
        False, 'Compute batch norm statistics over all clones and synchronous workers instead of per clone.'
    )
    reduce_precision: bool = declared(
        False,
        'Add up the gradients of synchronous workers in 16 bits, which halves the bytes that they send.',
        needs=('worker_hosts',),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_one_mode()
        _require_addresses(self, worker=self.worker_hosts)
        last = max(self.num_replicas, self.workers) - 1
        field = 'worker_hosts' if self.worker_hosts else 'num_replicas'
        replicas = option(f'CloneOptions.{field}', getattr(self, field))
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
            'machines that train without waiting for each other need parameter servers; set '
            f'{option("CloneOptions.num_ps_tasks")}, or name synchronous workers with '
            f'{option("CloneOptions.worker_hosts")} instead',
        )
        self._require(
            self.num_ps_tasks == 0 or bool(self.master),
            'num_ps_tasks',
            'parameter servers are reached through the server of this machine; set '
            f'{option("CloneOptions.master", "grpc://HOST:PORT")}. For several GPUs of one machine, set only '
            f'{option("CloneOptions.num_clones")}',
        )

    def _require_one_mode(self) -> None:
        """Raises `OptionError` for synchronous workers with options of parameter servers or other servers."""
        for name in ('num_ps_tasks', 'num_replicas', 'master') if self.worker_hosts else ():
            self._require(
                getattr(self, name) == declarations(CloneOptions)[name].default,
                name,
                f'synchronous workers ({option("CloneOptions.worker_hosts")}) have servers of their own, and no '
                'parameter servers; omit one of the two',
            )

    @property
    def workers(self) -> int:
        """Number of synchronous workers, this machine included."""
        return max(1, len(self.worker_hosts))

    @property
    def parts(self) -> int:
        """Number of equal parts of a batch: the clones of all synchronous workers."""
        return self.workers * self.num_clones

    @property
    def explained_parts(self) -> str:
        """The options that `parts` follows from, for messages."""
        clones = option('CloneOptions.num_clones', self.num_clones)
        if self.workers == 1:
            return clones
        workers = f'the {self.workers} workers of {option("CloneOptions.worker_hosts")}'
        return workers if self.num_clones == 1 else f'{workers}, times {clones},'

    @property
    def is_chief(self) -> bool:
        """Whether this machine initializes, restores, and writes checkpoints and summaries."""
        return self.task == 0


@dataclasses.dataclass(frozen=True)
class LaunchOptions(Options):
    """Options of `deeplab launch`, which runs synchronous workers on this machine."""

    workers: int | None = declared(None, 'Number of workers. Not set: one for each GPU.', range='[2, inf)')
    command: tuple[str, ...] = declared(
        (), 'Program and flags of each worker, after --: train or train_image_classifier.', kind='repeated string'
    )
    restarts: int = declared(
        0,
        'Number of times that killed workers are restarted, and that each of the others restarts from the last '
        'checkpoint.',
        range='[0, inf)',
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        programs = ('train', 'train_image_classifier')
        self._require(
            self.command[:1] in [(name,) for name in programs],
            'command',
            f'after --, write {" or ".join(programs)}, and its flags',
        )
        for word in self.command[1:]:
            name, _, value = word.lstrip('-').partition('=')
            is_task = name == 'task' and value.isdecimal()  # else a task of the network
            self._require(
                not (word.startswith('-') and (is_task or name in ('worker_hosts', 'restarts'))),
                'command',
                f'launch itself sets {word.partition("=")[0]} of each worker; omit it',
            )


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
            raise OptionError(f'{option(field)} is empty: set HOST:PORT of each {self.job_name}.')
        self._require(
            0 <= self.task < len(hosts),
            'task',
            f'{option(field)} has the servers 0 to {len(hosts) - 1}',
        )
        _require_addresses(self, worker=self.worker_hosts, ps=self.ps_hosts)

    @property
    def address(self) -> str:
        """The address of the server itself, HOST:PORT."""
        return (self.ps_hosts if self.job_name == 'ps' else self.worker_hosts)[self.task]
