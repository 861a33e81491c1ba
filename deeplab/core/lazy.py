"""TensorFlow, and modules that need it when they are imported, for modules that register records.

    from deeplab.core.lazy import layers, tf

Such a module is imported for the help and for the check of a command line, too, so TensorFlow is imported, which takes
seconds, when one of these is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorflow as tf

    from deeplab.core import dropout, initializers, layers, shapes
else:

    class _Lazy:
        """A module that is imported when an attribute of it is read."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module(self._name), name)

    tf = _Lazy('tensorflow')
    dropout = _Lazy('deeplab.core.dropout')
    initializers = _Lazy('deeplab.core.initializers')
    layers = _Lazy('deeplab.core.layers')
    shapes = _Lazy('deeplab.core.shapes')

__all__ = ['dropout', 'initializers', 'layers', 'shapes', 'tf']
