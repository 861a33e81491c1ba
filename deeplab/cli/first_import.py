"""The first import of TensorFlow, without the parts that programs do not use."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator, Sequence
from typing import Any

# What TensorFlow and tf-slim import if it is there, and do without.
_DISPENSABLE = ('sklearn', 'scipy', 'h5py')


class _NotNow:
    """An import finder that refuses the modules of Keras, and packages that TensorFlow and tf-slim do without."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> None:
        """Raises `ModuleNotFoundError` for what is refused; leaves all others to the finders that follow."""
        if name.startswith('keras.') or name in _DISPENSABLE:
            raise ModuleNotFoundError(f'{name} is imported later', name=name)


@contextlib.contextmanager
def shortened() -> Iterator[None]:
    """Makes an import of TensorFlow inside take about two thirds of its time; does nothing if it is imported already.

    TensorFlow imports Keras, and Keras imports scikit-learn if it is installed. TensorFlow continues without Keras if
    it cannot be imported, and imports it when `tf.keras` is first used, which no program of this package does. tf-slim
    imports scikit-learn for one loss, which no program uses either, and continues without. TensorFlow's old copy of
    Keras does so without SciPy and h5py.

    Python's garbage collector is paused, and then disregards what has been imported: it finds nothing there, and would
    look through all of it again and again while the graph is built.
    """
    if 'tensorflow' in sys.modules or 'keras' in sys.modules:
        yield
        return
    finder = _NotNow()
    was_enabled = gc.isenabled()
    sys.meta_path.insert(0, finder)
    gc.disable()
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        if 'tensorflow' in sys.modules:
            gc.freeze()
        if was_enabled:
            gc.enable()
