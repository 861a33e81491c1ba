"""Machine and versions for the JSON results of benchmarks."""

import importlib.metadata
import json
import os
import pathlib
import platform
import time

INSTRUCTIONS = ('avx2', 'avx512f', 'avx512_bf16', 'amx_bf16')  # that TensorFlow's speed depends on
ENVIRONMENT = (
    'TF_ENABLE_ONEDNN_OPTS',
    'ONEDNN_MAX_CPU_ISA',
    'MALLOC_ARENA_MAX',
)  # that change kernels or memory, if set
RESULTS = pathlib.Path(__file__).resolve().parent / 'results'


def describe() -> dict:
    """Processor, cores, memory, environment and versions of this machine, as a JSON-ready dict."""
    model, instructions = platform.processor(), []
    cpuinfo = pathlib.Path('/proc/cpuinfo')
    if cpuinfo.exists():
        lines = [line.partition(':') for line in cpuinfo.read_text().splitlines()]
        found = {name.strip(): value.strip() for name, _, value in lines}
        model = found.get('model name', model)
        instructions = [name for name in INSTRUCTIONS if name in found.get('flags', '').split()]
    memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30
    packages = ('tensorflow', 'tf-slim', 'numpy', 'pillow')
    return {
        'processor': model,
        'instructions': instructions,
        'cores': os.cpu_count(),
        'memory_gib': round(memory, 1),
        'python': platform.python_version(),
        'environment': {name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
        'versions': {name: importlib.metadata.version(name) for name in packages},
    }


def load() -> dict[str, float]:
    """Load of the machine: its average over a minute, and the cores that are busy during a second from now."""
    busy, total = _ticks()
    time.sleep(1)
    later_busy, later_total = _ticks()
    share = (later_busy - busy) / max(later_total - total, 1)
    return {'average': os.getloadavg()[0], 'busy_cores': round(share * (os.cpu_count() or 1), 2)}


def _ticks() -> tuple[int, int]:
    """Busy and total time of all cores since the machine started, in ticks; 0 and 0 without /proc."""
    stat = pathlib.Path('/proc/stat')
    if not stat.exists():
        return 0, 0
    ticks = [int(text) for text in stat.read_text().split('\n', 1)[0].split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)  # idle, and waiting for a disk


def write(name: str, result: dict) -> pathlib.Path:
    """Writes `result` and the machine to results/NAME.json and gives the path."""
    path = RESULTS / f'{name}.json'
    write_json(path, {**result, 'machine': describe()})
    return path


def write_json(path: pathlib.Path, document: dict) -> None:
    """Writes a JSON file, completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix('.partial')
    partial.write_text(json.dumps(document, indent=1) + '\n')
    os.replace(partial, path)
