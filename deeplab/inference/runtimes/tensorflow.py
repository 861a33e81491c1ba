"""TensorFlow: runs the frozen graph as it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from deeplab.core.lazy import tf
from deeplab.registry import Engine, Execution, FrozenGraph, Outputs, Predict, register


@contextlib.contextmanager
def opened(graph: FrozenGraph, execution: Execution) -> Iterator[Predict]:
    """Opens a session on the graph, see `Engine.open`."""
    from deeplab.core import sessions

    with tf.Graph().as_default() as own, sessions.open_session(own) as running:
        tf.graph_util.import_graph_def(graph.graph_def, name='')
        run = running.make_callable(list(graph.outputs), [graph.image])

        def predict(images: np.ndarray) -> Outputs:
            return Outputs(*run(images))

        yield predict


register(Engine(name='tensorflow', summary='TensorFlow itself, without conversion.', open=opened))
