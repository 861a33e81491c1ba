"""Freezing of graphs: the weights become constants."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from deeplab.core import folding

_LARGE = 1 << 14  # bytes


def frozen(
    graph_def: tf.compat.v1.GraphDef, outputs: Iterable[str], values: dict[str, np.ndarray]
) -> tf.compat.v1.GraphDef:
    """Returns the part of a graph that computes `outputs`, with weights as constants and batch norms folded.

    No session runs, and no weight is held more often than needed: as an array, or as a constant.

    Args:
      graph_def: with placeholders for its weights (`cost.outline`); changed, not to be used any more.
      outputs: names of operations.
      values: of the weights, by the names of their placeholders; emptied.
    """
    folding.fold_batch_norms(graph_def, values)
    smaller = tf.compat.v1.GraphDef(versions=graph_def.versions, library=graph_def.library)
    needed = _needed(graph_def, outputs)
    for name in values.keys() - needed:
        del values[name]
    for node in graph_def.node:
        if node.name in values:
            smaller.node.append(constant(node.name, values.pop(node.name)))
        elif node.name in needed:
            smaller.node.append(node)
    return smaller


def thawed(graph_def: tf.compat.v1.GraphDef) -> dict[str, np.ndarray]:
    """Makes placeholders of the large constants of a graph, and returns their values by name.

    TensorFlow copies constants several times until a graph runs, and what is fed once.
    """
    values = {}
    for node in graph_def.node:
        if node.op == 'Const' and len(node.attr['value'].tensor.tensor_content) >= _LARGE:
            name, tensor = node.name, node.attr['value'].tensor
            kind, shape = tensor.dtype, tensor.tensor_shape
            values[name] = tf.make_ndarray(tensor)
            placeholder = tf.compat.v1.NodeDef(name=name, op='Placeholder')
            placeholder.attr['dtype'].type = kind
            placeholder.attr['shape'].shape.CopyFrom(shape)
            node.CopyFrom(placeholder)
    return values


def constant(name: str, value: np.ndarray) -> tf.compat.v1.NodeDef:
    """Returns an operation that gives a value."""
    node = tf.compat.v1.NodeDef(name=name, op='Const')
    node.attr['dtype'].type = tf.as_dtype(value.dtype).as_datatype_enum
    node.attr['value'].tensor.CopyFrom(tf.make_tensor_proto(value))
    return node


def _needed(graph_def: tf.compat.v1.GraphDef, outputs: Iterable[str]) -> set[str]:
    """Returns the names of all operations that run to compute `outputs`."""
    nodes = {node.name: node for node in graph_def.node}
    needed: set[str] = set()
    waiting = list(outputs)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(folding.producer(read) for read in nodes[name].input)
    return needed
