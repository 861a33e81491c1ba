"""Files of Linux about the machine and this process: /proc, and control groups, which limit containers."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

PROC, CGROUPS = pathlib.Path('/proc'), pathlib.Path('/sys/fs/cgroup')


def groups(controller: str) -> Iterator[tuple[pathlib.Path, int]]:
    """Yields the control groups that limit this process, from the innermost to the root, for 'memory' or 'cpu'.

    Of each, it yields the folder of its files, and the version of their format, 1 or 2. A container sees its own group
    as the root; a path that it cannot see is treated as the root.
    """
    for line in lines(PROC / 'self' / 'cgroup'):
        _, controllers, path = line.split(':', 2)
        if controllers and controller not in controllers.split(','):
            continue
        root, version = (CGROUPS / controller, 1) if controllers else (CGROUPS, 2)
        folder = root / path.lstrip('/')
        for group in (folder, *folder.parents):
            yield group, version
            if group == root:
                break


def lines(path: pathlib.Path) -> list[str]:
    """Returns the lines of a file; none if it cannot be read."""
    try:
        return path.read_text('utf-8', errors='replace').splitlines()
    except OSError:
        return []


def number(path: pathlib.Path) -> int | None:
    """Returns the number in a file; None if there is no file, or it has a word such as `max`."""
    text = ''.join(lines(path)[:1]).strip()
    return int(text) if text.isdigit() else None


def numbers(path: pathlib.Path) -> dict[str, int]:
    """Parses lines such as `MemAvailable:  123 kB` and `inactive_file 123` into bytes by name."""
    values = {}
    for line in lines(path):
        name, _, rest = line.replace(':', ' ', 1).partition(' ')
        value, *unit = rest.split() or ['']
        if value.isdigit():
            values[name] = int(value) * (1024 if unit == ['kB'] else 1)
    return values


def peak_bytes(process: int) -> int | None:
    """Returns the peak resident memory of a process; None if unknown."""
    return numbers(PROC / str(process) / 'status').get('VmHWM')
