"""TensorFlow for modules that register records: imported when it is first used, since that takes seconds.

    from deeplab.core.lazy import tf

Such a module is imported for the help and for the check of a command line, too.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorflow as tf
else:

    class _Lazy:
        """A module that is imported when an attribute of it is read."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module(self._name), name)

    tf = _Lazy('tensorflow')

__all__ = ['tf']
