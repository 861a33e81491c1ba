"""Frozen graph: one file with graph and weights, as the original exports it."""

from __future__ import annotations

import functools
import os
import re
from typing import Any

import numpy as np

from deeplab.core.lazy import tf
from deeplab.export.formats import _sessions
from deeplab.export.tensor_names import IMAGE, METADATA, PREDICTIONS, PROBABILITIES
from deeplab.files import writing
from deeplab.inference import export_metadata
from deeplab.registry import ExportFormat, FrozenNetwork, register

_FIRST_NODE = re.compile(rb'\n[\x80-\xff]{0,4}[\x01-\x7f]\n[\x01-\x7f][\w.]')  # tag, length, tag and length of a name
_NAMES = {IMAGE, PREDICTIONS}  # that all frozen graphs of DeepLab have


def write(network: FrozenNetwork, path: str) -> None:
    """Writes the graph as one binary file."""
    graph_def = network.graph_def
    with open(path, 'wb') as file:
        # A graph is its nodes, one after the other, and the rest: the whole is never held as bytes.
        for node in graph_def.node:
            file.write(tf.compat.v1.GraphDef(node=[node]).SerializeToString(deterministic=True))
        if network.metadata:
            from deeplab.core import freezing

            text = np.array(export_metadata.dumped(network.metadata).encode())
            noted = tf.compat.v1.GraphDef(node=[freezing.constant(METADATA, text)])
            file.write(noted.SerializeToString(deterministic=True))
        rest = tf.compat.v1.GraphDef(library=graph_def.library, versions=graph_def.versions)
        file.write(rest.SerializeToString(deterministic=True))


def read(path: str) -> Any:
    """Returns the graph in a file, `tf.compat.v1.GraphDef`; raises `OSError` or `message.DecodeError`."""
    with open(path, 'rb') as file:
        return tf.compat.v1.GraphDef.FromString(file.read())


def run(path: str, image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Loads a frozen graph and runs it, see `ExportFormat.run`."""
    from deeplab.core import freezing, sessions

    graph_def = read(path)
    weights = freezing.thawed(graph_def)
    with tf.Graph().as_default() as graph, sessions.open_session(graph, runs_once=True) as running:
        tf.graph_util.import_graph_def(graph_def, name='')
        del graph_def
        fed = {f'{IMAGE}:0': image[np.newaxis]} | {f'{name}:0': value for name, value in weights.items()}
        labels, probabilities = running.run([f'{PREDICTIONS}:0', f'{PROBABILITIES}:0'], fed)
    return labels[0], probabilities[0]


def is_own(path: str) -> bool:
    """Returns whether a file is a graph with the names that all exports of DeepLab have."""
    from google.protobuf import message

    try:
        graph_def = read(path)
    except message.DecodeError:
        return False
    return _NAMES <= {node.name for node in graph_def.node}


def recognizes(path: str) -> bool:
    """Returns whether a file is a frozen graph: one named .pb, or one that begins as a graph does."""
    return not os.path.isdir(path) and (path.endswith('.pb') or writing.begins_as(path, _FIRST_NODE))


def metadata_of(graph_def: Any) -> bytes:
    """Returns the text of the metadata in a frozen graph; empty if it has none."""
    return next((node.attr['value'].tensor.string_val[0] for node in graph_def.node if node.name == METADATA), b'')


def _load(session: Any, path: str) -> tuple[_sessions.Find, bytes]:
    graph_def = read(path)
    tf.graph_util.import_graph_def(graph_def, name='')
    return functools.partial(_sessions.tensor, session.graph), metadata_of(graph_def)


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
        summary='One file with the graph and weights.',
        noun='a frozen graph',
        write=write,
        run=run,
        open=_sessions.opener(_load, (IMAGE, PREDICTIONS, PROBABILITIES)),
        recognizes=recognizes,
        is_own=is_own,
        example_path='frozen_inference_graph.pb',
        suffixes=('.pb',),
        tensors=(f'{IMAGE}:0', f'{PREDICTIONS}:0', f'{PROBABILITIES}:0'),
        example=_EXAMPLE,
    )
)
