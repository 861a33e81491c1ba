"""The name of the processor, and the number of its cores that this process may use."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from typing import Any

from deeplab.system import system_files


def name() -> str:
    """Returns the name of the processor; what Python knows, such as its architecture, without /proc."""
    for line in system_files.lines(system_files.PROC / 'cpuinfo'):
        if line.startswith('model name'):
            return line.partition(':')[2].strip()
    return platform.processor() or platform.machine()


def available_cores() -> int:
    """Returns the number of cores that this process may use: of its affinity mask and its control groups, at least 1.

    A share of a core counts as a whole one.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1
    return max(min([cores, *_limits()]), 1)


def _limits() -> Iterator[int]:
    """Yields the limits on the number of cores from all control groups of this process."""
    for folder, version in system_files.groups('cpu'):
        files = ('cpu.max',) if version == 2 else ('cpu.cfs_quota_us', 'cpu.cfs_period_us')
        numbers = ' '.join(line for name in files for line in system_files.lines(folder / name)).split()
        if len(numbers) == 2 and all(number.isdigit() for number in numbers) and int(numbers[1]):
            yield -(-int(numbers[0]) // int(numbers[1]))  # without a limit: "max", or -1


def facts() -> dict[str, Any]:
    """Returns what describes the machine in a file of figures, as JSON values."""
    return {'processor': name(), 'cores': available_cores(), 'python': platform.python_version()}
