"""Synchronous workers that environment variables of a scheduler name, in place of --worker_hosts and --task.

Flags that are given always win. A process that a scheduler starts alone is never a worker: a cluster in the environment
is used only if it has several workers.

| variables | set by | name |
|---|---|---|
| TF_CONFIG with several workers | Kubeflow, Vertex AI, scripts | the workers and the task |
| SLURM_* of a step with several tasks (srun) | SLURM | the workers and the task |
| JOB_COMPLETION_INDEX | Kubernetes, indexed jobs | the task, beside --worker_hosts |
| OMPI_COMM_WORLD_RANK | Open MPI | the task, beside --worker_hosts |
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from deeplab.cli.values import Values
from deeplab.cli.words import UsageError

FIRST_PORT = 2222  # of the tasks of a SLURM step; each further task on the same node has the next one
_HOSTS, _TASK = 'CloneOptions.worker_hosts', 'CloneOptions.task'
_OTHER_MODES = ('CloneOptions.master', 'CloneOptions.num_ps_tasks', 'CloneOptions.num_replicas')
_MPI_RANK = 'OMPI_COMM_WORLD_RANK'
_RANKS = ('JOB_COMPLETION_INDEX', _MPI_RANK)


class Membership(NamedTuple):
    """The workers and the index of this one, as an environment names them; None for what it does not name."""

    source: str
    hosts: tuple[str, ...] | None = None
    task: int | None = None


def assume(values: Values, environment: Mapping[str, str] = os.environ) -> None:
    """Sets --worker_hosts and --task from the environment, unless they are given, and notes where they come from.

    Args:
      values: the values of flags, with those of `CloneOptions`.
      environment: the environment variables.

    Raises:
      UsageError: the cluster in the environment has no place for this process.
    """
    cluster = _named(values, environment)
    hosts = None if cluster.hosts is None else ','.join(cluster.hosts)
    flags = {values.flag_names[_HOSTS]: hosts, values.flag_names[_TASK]: cluster.task}
    flags = {name: value for name, value in flags.items() if value is not None and not values.given(name)}
    _require_place(values, cluster, None if values.given(values.flag_names[_TASK]) else cluster.task)
    for name, value in flags.items():
        values.assume(name, value)
    if flags:
        shown = ' '.join(f'--{name}={value}' for name, value in flags.items())
        alone = f' Pass --{values.flag_names[_HOSTS]}= to train without them.' if hosts else ''
        values.notes.append(f'{shown}, from {cluster.source} in the environment.{alone}')


def _require_place(values: Values, cluster: Membership, task: int | None) -> None:
    """Raises `UsageError` if the environment gives this process a task that the list of workers does not have."""
    hosts = cluster.hosts or values.names(values.flag_names[_HOSTS])
    if task is None or task < len(hosts):
        return
    raise UsageError(
        f'{cluster.source} in the environment gives this process the task {task}, but there are {len(hosts)} workers '
        f'({", ".join(hosts)}), whose tasks are 0 to {len(hosts) - 1}. Correct it, or set --{values.flag_names[_TASK]}.'
    )


def number_of_workers(values: Values, environment: Mapping[str, str] = os.environ) -> int:
    """Returns the number of synchronous workers, of flags or of the environment; 1 for a machine alone."""
    return len(_named(values, environment).hosts or values.names(values.flag_names[_HOSTS])) or 1


def _named(values: Values, environment: Mapping[str, str]) -> Membership:
    """Returns what the environment names, of what flags leave open."""
    flags = values.flag_names
    nothing = Membership('')
    if any(values.given(flags[field]) for field in _OTHER_MODES):
        return nothing
    is_given = values.given(flags[_HOSTS])  # an empty value means a machine alone
    if is_given and (len(values.names(flags[_HOSTS])) < 2 or values.given(flags[_TASK])):
        return nothing
    if cluster := _of_tf_config(environment) or _of_slurm(environment, with_hosts=not is_given):
        return cluster._replace(hosts=None) if is_given else cluster
    name = next((name for name in _RANKS if is_given and environment.get(name)), None)
    if name is None:
        return nothing
    if not environment[name].isdecimal():
        raise UsageError(f'{name}={environment[name]} in the environment is no number of a task. Correct or unset it.')
    return Membership(name, task=int(environment[name]))


def _of_tf_config(environment: Mapping[str, str]) -> Membership | None:
    """Returns the workers of TF_CONFIG; None without it, for one worker, or for parameter servers."""
    try:
        content = json.loads(environment.get('TF_CONFIG') or '{}')
        cluster, task = content.get('cluster', {}), content.get('task', {})
        chiefs = len(cluster.get('chief', ()))
        hosts = (*cluster.get('chief', ()), *cluster.get('worker', ()))
        job, index = task.get('type'), str(task.get('index'))
    except (ValueError, AttributeError, TypeError) as error:
        raise UsageError(f'TF_CONFIG in the environment cannot be read ({error}). Correct it, or unset it.') from None
    if len(hosts) < 2 or 'ps' in cluster:
        return None
    if job not in ('chief', 'worker') or not index.isdecimal():
        raise UsageError(
            f'TF_CONFIG gives this process the task {job} {index}, but only chief and worker train. Unset it to train '
            'without the cluster.'
        )
    return Membership('TF_CONFIG', hosts, int(index) + (chiefs if job == 'worker' else 0))


def _of_slurm(environment: Mapping[str, str], with_hosts: bool) -> Membership | None:
    """Returns the tasks of a SLURM step, if there are several; None under Open MPI, whose processes are no tasks.

    A batch script has SLURM_NTASKS and SLURM_PROCID, too, but is no step. Without `with_hosts`, only the task is
    returned, which does not depend on the nodes.
    """
    tasks, rank = (environment.get(f'SLURM_{name}', '') for name in ('STEP_NUM_TASKS', 'PROCID'))
    nodes = environment.get('SLURM_STEP_NODELIST') or environment.get('SLURM_JOB_NODELIST') or ''
    if not (tasks.isdecimal() and rank.isdecimal() and nodes) or int(tasks) < 2 or _MPI_RANK in environment:
        return None
    hosts = _slurm_hosts(environment, nodes, int(tasks)) if with_hosts else None
    return Membership('the SLURM step', hosts, int(rank))


def _slurm_hosts(environment: Mapping[str, str], nodes: str, tasks: int) -> tuple[str, ...]:
    """Returns the address of each task; raises `UsageError` if it is unknown on which node a task is."""
    names = list(expanded(nodes))
    counts = list(_counts(environment.get('SLURM_STEP_TASKS_PER_NODE', ''))) or [1] * len(names)
    distribution = environment.get('SLURM_DISTRIBUTION', 'block')
    has_order = max(counts) == 1 or distribution.startswith('block')
    if len(counts) != len(names) or sum(counts) != tasks or not has_order:
        raise UsageError(
            f'The tasks of this SLURM step cannot be assigned to its nodes: {tasks} tasks, nodes {nodes}, '
            f'SLURM_STEP_TASKS_PER_NODE={environment.get("SLURM_STEP_TASKS_PER_NODE", "")}, distribution '
            f'{distribution}. Use srun --distribution=block, or set --worker_hosts in the order of the tasks; an empty '
            '--worker_hosts= trains without the others.'
        )
    return tuple(f'{name}:{FIRST_PORT + k}' for name, count in zip(names, counts, strict=True) for k in range(count))


def expanded(nodes: str) -> Iterator[str]:
    """Yields the names in a list of SLURM: node01, node02, node07 and b2 for node[01-02,07],b2."""
    for part in re.findall(r'(?:[^,\[]|\[[^\]]*\])+', nodes):
        pieces = re.split(r'\[([^\]]*)\]', part)  # texts, and ranges between them
        choices = [list(_numbers(piece)) if index % 2 else [piece] for index, piece in enumerate(pieces)]
        yield from map(''.join, itertools.product(*choices))


def _numbers(ranges: str) -> Iterator[str]:
    """Yields 01, 02 and 07 for 01-02,07."""
    for text in ranges.split(','):
        first, _, last = text.partition('-')
        for number in range(int(first), int(last or first) + 1):
            yield f'{number:0{len(first)}d}'


def _counts(text: str) -> Iterator[int]:
    """Yields 2, 2 and 1 for 2(x2),1: the tasks of each node."""
    for count, times in re.findall(r'(\d+)(?:\(x(\d+)\))?', text):
        yield from [int(count)] * int(times or 1)
