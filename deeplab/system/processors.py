"""The name of the processor, its instruction sets, and the number of its cores that this process may use."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from deeplab.system import system_files

# Variables with the numbers of threads of one operation, of operations beside each other, and of libraries.
_THREADS = ('TF_NUM_INTRAOP_THREADS', 'TF_NUM_INTEROP_THREADS', 'OMP_NUM_THREADS')

_X86 = frozenset({'x86_64', 'AMD64', 'i386', 'i686'})
_VNNI = frozenset({'avx512_vnni', 'avx_vnni', 'amx_int8'})  # which add products of 8-bit integers in 32 bits


def name() -> str:
    """Returns the name of the processor; what Python knows, such as its architecture, without /proc."""
    for line in system_files.lines(system_files.PROC / 'cpuinfo'):
        if line.startswith('model name'):
            return line.partition(':')[2].strip()
    return platform.processor() or platform.machine()


def instructions() -> frozenset[str]:
    """Returns the instruction sets of the processor by Linux's names, such as 'avx512_bf16'; none without /proc."""
    for line in system_files.lines(system_files.PROC / 'cpuinfo'):
        if line.startswith('flags'):
            return frozenset(line.partition(':')[2].split())
    return frozenset()


def saturates_int8() -> bool:
    """Returns whether sums of products of signed and unsigned 8-bit integers saturate: on x86 without VNNI.

    Such a processor adds the products in pairs, in 16 bits. Without /proc, an x86 processor counts as one of them.
    """
    return platform.machine() in _X86 and not instructions() & _VNNI


def available_cores() -> int:
    """Returns the number of cores that this process may use: of its affinity mask and its control groups, at least 1.

    A share of a core counts as a whole one.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1
    return max(min([cores, *_limits()]), 1)


def thread_limit(number: int) -> dict[str, str]:
    """Returns the environment in which TensorFlow and other libraries compute with a number of threads."""
    return dict.fromkeys(_THREADS, str(number))


def _limits() -> Iterator[int]:
    """Yields the limits on the number of cores from all control groups of this process."""
    for folder, version in system_files.groups('cpu'):
        files = ('cpu.max',) if version == 2 else ('cpu.cfs_quota_us', 'cpu.cfs_period_us')
        numbers = ' '.join(line for name in files for line in system_files.lines(folder / name)).split()
        if len(numbers) == 2 and all(number.isdigit() for number in numbers) and int(numbers[1]):
            yield -(-int(numbers[0]) // int(numbers[1]))  # without a limit: "max", or -1


def product_speed(side: int = 1536, repetitions: int = 3) -> float:
    """Returns the operations a second of the fastest of some products of float32 matrices of `side` x `side`."""
    numbers = np.ones([side, side], np.float32)
    seconds = []
    for _ in range(repetitions):
        started = time.perf_counter()
        np.matmul(numbers, numbers)
        seconds.append(time.perf_counter() - started)
    return 2.0 * side**3 / min(seconds)


def facts() -> dict[str, Any]:
    """Returns what describes the machine in a file of figures, as JSON values."""
    return {'processor': name(), 'cores': available_cores(), 'python': platform.python_version()}
