"""The name of the processor, and the number of its cores that this process may use."""

from __future__ import annotations

import contextlib
import os
import pathlib
import platform
from typing import Any

_CGROUPS = pathlib.Path('/sys/fs/cgroup')
_GROUP_FILE = pathlib.Path('/proc/self/cgroup')


def name() -> str:
    """Returns the name of the processor; what Python knows, such as its architecture, without /proc."""
    with contextlib.suppress(OSError), open('/proc/cpuinfo', encoding='utf-8') as file:
        for line in file:
            if line.startswith('model name'):
                return line.partition(':')[2].strip()
    return platform.processor() or platform.machine()


def available_cores() -> int:
    """Returns the number of cores that this process may use: of its affinity mask and its control groups, at least 1.

    A share of a core counts as a whole one.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1
    return max(min([cores, *_limits()]), 1)


def _limits() -> list[int]:
    """Returns the limits on the number of cores from all control groups of this process."""
    limits = []
    for line in _read(_GROUP_FILE).splitlines():
        _, controllers, path = line.split(':', 2)
        if not controllers:
            root, files = _CGROUPS, ['cpu.max']
        elif 'cpu' in controllers.split(','):
            root, files = _CGROUPS / 'cpu', ['cpu.cfs_quota_us', 'cpu.cfs_period_us']
        else:
            continue
        folder = root / path.lstrip('/')
        for group in (folder, *folder.parents):
            numbers = ' '.join(_read(group / name) for name in files).split()
            if len(numbers) == 2 and all(number.isdigit() for number in numbers) and int(numbers[1]):
                limits.append(-(-int(numbers[0]) // int(numbers[1])))  # without a limit: "max", or -1
            if group == root:
                break
    return limits


def _read(path: pathlib.Path) -> str:
    """Returns the text of a file; empty if there is none."""
    try:
        return path.read_text('utf-8', errors='replace')
    except OSError:
        return ''


def facts() -> dict[str, Any]:
    """Returns what describes the machine in a file of figures, as JSON values."""
    return {'processor': name(), 'cores': available_cores(), 'python': platform.python_version()}
