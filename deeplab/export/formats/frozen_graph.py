"""Frozen graph: one file with graph and weights, as the original exports it."""

from __future__ import annotations

import numpy as np

from deeplab.core.lazy import tf
from deeplab.export.tensor_names import IMAGE, PREDICTIONS, PROBABILITIES
from deeplab.registry import ExportFormat, FrozenNetwork, register

_NAMES = {IMAGE, PREDICTIONS}  # that all frozen graphs of DeepLab have


def write(network: FrozenNetwork, path: str) -> None:
    """Writes the graph as one binary file."""
    with open(path, 'wb') as file:
        file.write(network.graph_def.SerializeToString(deterministic=True))


def run(path: str, image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Loads a frozen graph and runs it, see `ExportFormat.run`."""
    from deeplab.core import sessions  # imports TensorFlow

    with tf.Graph().as_default() as graph, sessions.open_session(graph, runs_once=True) as running:
        with open(path, 'rb') as file:
            tf.graph_util.import_graph_def(tf.compat.v1.GraphDef.FromString(file.read()), name='')
        fetches = [f'{PREDICTIONS}:0', f'{PROBABILITIES}:0']
        labels, probabilities = running.run(fetches, {f'{IMAGE}:0': image[np.newaxis]})
    return labels[0], probabilities[0]


def is_own(path: str) -> bool:
    """Returns whether a file is a graph with the names that all exports of DeepLab have."""
    from google.protobuf import message

    with open(path, 'rb') as file:
        content = file.read()
    try:
        graph_def = tf.compat.v1.GraphDef.FromString(content)
    except message.DecodeError:
        return False
    return _NAMES <= {node.name for node in graph_def.node}


_EXAMPLE = """\
import numpy as np
import tensorflow as tf

with tf.Graph().as_default() as graph, open({path!r}, 'rb') as file:
    tf.graph_util.import_graph_def(tf.compat.v1.GraphDef.FromString(file.read()), name='')
image = {image}
with tf.compat.v1.Session(graph=graph) as session:
    labels = session.run('SemanticPredictions:0', {{'ImageTensor:0': image[np.newaxis]}})[0]"""

register(
    ExportFormat(
        name='frozen_graph',
        summary='One file with graph and weights.',
        noun='a frozen graph',
        write=write,
        run=run,
        is_own=is_own,
        example_path='frozen_inference_graph.pb',
        tensors=(f'{IMAGE}:0', f'{PREDICTIONS}:0', f'{PROBABILITIES}:0'),
        example=_EXAMPLE,
    )
)
