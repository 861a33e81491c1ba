"""How much memory is free for this process, what a run needs of it, and what to do where it is too little.

Without `/proc` nothing is known, and nothing is said.
"""

from __future__ import annotations

import pathlib

# What to do where the memory is too little, by program. Those without an entry need hardly any.
_CLOSE_OTHERS = 'close other programs, or take a machine with more memory'
ADVICE = {
    'train': 'Reduce --train_batch_size (--accumulation_steps keeps the batch of a step) or --train_crop_size. The '
    'last checkpoint is kept: the same command goes on from it',
    'eval': 'Reduce --eval_batch_size, --eval_crop_size or the largest of --eval_scales',
    'vis': 'Reduce --vis_batch_size, --vis_crop_size or the largest of --eval_scales',
    'export_model': 'Reduce --crop_size or the largest of --inference_scales',
    'preview': f'Reduce --train_crop_size, {_CLOSE_OTHERS}',
    'demo': f'To go on, {_CLOSE_OTHERS}',
    'server': f'Reduce --train_batch_size or --train_crop_size of the training, {_CLOSE_OTHERS}',
}

_PROC, _CGROUPS = pathlib.Path('/proc'), pathlib.Path('/sys/fs/cgroup')
_NO_LIMIT = 1 << 60  # version 1 of control groups writes a number beyond this


def free() -> int | None:
    """Bytes that this process may still take: of the machine, of its control groups, of its own address space.

    What the system can take back at once, such as cached files, is free. None where nobody says.
    """
    limits = [_available(), *_in_groups(), _in_address_space()]
    known = [limit for limit in limits if limit is not None]
    return max(min(known), 0) if known else None


def _available() -> int | None:
    """Bytes that the machine has left."""
    return _numbers(_PROC / 'meminfo').get('MemAvailable')


def _in_groups() -> list[int]:
    """Bytes left below the limit of each control group that this process is in, the outer ones included.

    A container sees its own group as the root; a path that it cannot see counts for the root.
    """
    left = []
    for line in _lines(_PROC / 'self' / 'cgroup'):
        _, controllers, path = line.split(':', 2)
        if not controllers:
            left += _below(_CGROUPS, path, 'memory.max', 'memory.current', 'inactive_file')
        elif 'memory' in controllers.split(','):
            names = ('memory.limit_in_bytes', 'memory.usage_in_bytes', 'total_inactive_file')
            left += _below(_CGROUPS / 'memory', path, *names)
    return left


def _below(root: pathlib.Path, path: str, limit_file: str, usage_file: str, cache: str) -> list[int]:
    """Bytes left below the limits of the group `path` and those above it; `cache` is what it can give back."""
    left = []
    folder = root / path.lstrip('/')
    for group in (folder, *folder.parents):
        limit, usage = _number(group / limit_file), _number(group / usage_file)
        if limit is not None and usage is not None and limit < _NO_LIMIT:
            left.append(limit - usage + _numbers(group / 'memory.stat').get(cache, 0))
        if group == root:
            break
    return left


def _in_address_space() -> int | None:
    """Bytes left below RLIMIT_AS (`ulimit -v`); None for no limit."""
    try:
        import resource  # not on every system
    except ImportError:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    used = _numbers(_PROC / 'self' / 'status').get('VmSize')
    return None if limit == resource.RLIM_INFINITY or used is None else limit - used


def _lines(path: pathlib.Path) -> list[str]:
    try:
        return path.read_text('utf-8', errors='replace').splitlines()
    except OSError:
        return []


def _number(path: pathlib.Path) -> int | None:
    """The number in a file; None where there is no file, or a word such as `max` in it."""
    lines = _lines(path)
    return int(lines[0]) if lines and lines[0].strip().isdigit() else None


def _numbers(path: pathlib.Path) -> dict[str, int]:
    """The bytes in lines such as `MemAvailable:  123 kB` and `inactive_file 123`."""
    found = {}
    for line in _lines(path):
        name, _, rest = line.replace(':', ' ', 1).partition(' ')
        value, *unit = rest.split() or ['']
        if value.isdigit():
            found[name] = int(value) * (1024 if unit == ['kB'] else 1)
    return found
