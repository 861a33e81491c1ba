"""Machine and versions for the JSON results of benchmarks."""

import importlib.metadata
import json
import os
import pathlib
import platform

RESULTS = pathlib.Path(__file__).resolve().parent / 'results'


def describe() -> dict:
    """Processor, cores, memory and versions of this machine, as a JSON-ready dict."""
    model = platform.processor()
    cpuinfo = pathlib.Path('/proc/cpuinfo')
    if cpuinfo.exists():
        names = [line.split(':', 1)[1].strip() for line in cpuinfo.read_text().splitlines() if 'model name' in line]
        model = names[0] if names else model
    memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30
    packages = ('tensorflow', 'tf-slim', 'numpy', 'pillow')
    return {
        'processor': model,
        'cores': os.cpu_count(),
        'memory_gib': round(memory, 1),
        'python': platform.python_version(),
        'versions': {name: importlib.metadata.version(name) for name in packages},
    }


def write(name: str, result: dict) -> pathlib.Path:
    """Writes `result` and the machine to results/NAME.json and gives the path."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f'{name}.json'
    partial = path.with_suffix('.partial')
    partial.write_text(json.dumps({**result, 'machine': describe()}, indent=1) + '\n')
    os.replace(partial, path)
    return path
