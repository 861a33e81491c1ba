"""The machine on which something is measured."""

from __future__ import annotations

import platform
from typing import Any

from deeplab.utils import processors


def facts() -> dict[str, Any]:
    """Returns what describes the machine in a file of figures, as JSON values."""
    return {'processor': processors.name(), 'cores': processors.available_cores(), 'python': platform.python_version()}
