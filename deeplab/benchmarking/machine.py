"""The machine on which something is measured."""

from __future__ import annotations

import contextlib
import os
import platform
from typing import Any


def processor() -> str:
    """Returns the name of the processor; what Python knows without /proc."""
    with contextlib.suppress(OSError), open('/proc/cpuinfo', encoding='utf-8') as file:
        for line in file:
            if line.startswith('model name'):
                return line.partition(':')[2].strip()
    return platform.processor() or platform.machine()


def facts() -> dict[str, Any]:
    """Returns what describes the machine in a file of figures, as JSON values."""
    return {'processor': processor(), 'cores': os.cpu_count(), 'python': platform.python_version()}
