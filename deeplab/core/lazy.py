"""TensorFlow and the modules that import it, loaded when they are first used; for modules that register records.

    from deeplab.core.lazy import layers, tf

A module that registers records is also imported to show the help and to check a command line. Importing TensorFlow
there would take seconds.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorflow as tf

    from deeplab.core import channels_first, dropout, initializers, layers, scale_losses, shapes
    from deeplab.core.optimizers import _decoupled as decoupled
else:

    class _Lazy:
        """A module that is imported when one of its attributes is read."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module(self._name), name)

    tf = _Lazy('tensorflow')
    channels_first = _Lazy('deeplab.core.channels_first')
    decoupled = _Lazy('deeplab.core.optimizers._decoupled')
    dropout = _Lazy('deeplab.core.dropout')
    initializers = _Lazy('deeplab.core.initializers')
    layers = _Lazy('deeplab.core.layers')
    scale_losses = _Lazy('deeplab.core.scale_losses')
    shapes = _Lazy('deeplab.core.shapes')

__all__ = ['channels_first', 'decoupled', 'dropout', 'initializers', 'layers', 'scale_losses', 'shapes', 'tf']
