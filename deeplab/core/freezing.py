"""Freezing of graphs: weights become constants, and batch norms part of the convolutions before them."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tensorflow as tf

_LARGE = 1 << 14  # bytes
_DEPTHWISE = 'DepthwiseConv2dNative'
_CONVOLUTIONS = ('Conv2D', _DEPTHWISE)
# They only move values, so that a factor for each channel may be applied before or after them.
_MOVES = ('BatchToSpaceND', 'Identity')
_BATCH_NORM = 'FusedBatchNormV3'
_DEFAULT_EPSILON = 1e-4  # of a batch norm operation without this attribute


def frozen(
    graph_def: tf.compat.v1.GraphDef, outputs: Iterable[str], values: dict[str, np.ndarray]
) -> tf.compat.v1.GraphDef:
    """Returns the part of a graph that computes `outputs`, with weights as constants and batch norms folded.

    No session runs, and each weight is in memory once, as an array or as a constant.

    Args:
      graph_def: abstract graph (`cost.abstract_graph`); changed, not to be used any more.
      outputs: names of operations.
      values: weights by the names of their placeholders; emptied.
    """
    graph = _Graph(graph_def, values)
    for node in graph.nodes.values():
        if node.op == _BATCH_NORM and 'is_training' in node.attr and not node.attr['is_training'].b:
            _fold(graph, node)
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
    """Replaces the large constants of a graph by placeholders, and returns their values by name.

    TensorFlow copies constants several times before a graph runs, but a value that is fed only once.
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
    """Returns a constant as an operation of a graph."""
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
            waiting.extend(_producer(read) for read in nodes[name].input)
    return needed


class _Graph:
    """The nodes of a graph by name, and the values of its weights by the names of their placeholders."""

    def __init__(self, graph_def: tf.compat.v1.GraphDef, values: dict[str, np.ndarray]) -> None:
        self._graph_def = graph_def
        self._values = values
        self._added: dict[tuple[str, ...], str] = {}  # names of folded values by the names of the weights in them
        self.nodes = {node.name: node for node in graph_def.node}
        self.uses = collections.Counter(_producer(name) for node in graph_def.node for name in node.input)

    def value(self, name: str) -> np.ndarray | None:
        """Returns the weights that an input reads; None if it reads no weights."""
        return self._values.get(_producer(name))

    def add(self, sources: Sequence[str], value: Callable[[], np.ndarray]) -> str:
        """Adds the value computed from the weights `sources`, unless it was added before, and returns its name."""
        key = tuple(sources)
        if key not in self._added:
            name = f'{key[0]}/folded_{len(self._added)}'
            self._added[key] = name
            self._values[name] = value().astype(np.float32)
            self._graph_def.node.add(name=name, op='Placeholder')
        return self._added[key]

    def release(self, name: str) -> None:
        """Removes the value of weights that no other operation reads."""
        self.uses[_producer(name)] -= 1
        if not self.uses[_producer(name)]:
            del self._values[_producer(name)]


def _producer(name: str) -> str:
    """Returns the name of the node that an input such as 'node:1' or '^node' refers to."""
    return name.lstrip('^').partition(':')[0]


def _fold(graph: _Graph, batch_norm: tf.compat.v1.NodeDef) -> None:
    """Folds one batch norm into the convolution before it, if no other operation reads that convolution.

    A batch norm with constant statistics is a factor and an offset for each channel:

      factor = gamma / sqrt(variance + epsilon),  offset = beta - mean * factor

    The factor becomes part of the kernel, and the batch norm a BiasAdd of the same name. TensorFlow itself multiplies
    and adds whole feature maps if the convolution is depthwise. Placeholders that are no longer read stay in the graph,
    without a value.

    Source: arXiv:1712.05877, section 3.2.
    """
    convolution = _convolution_before(graph, batch_norm)
    if convolution is None or len(batch_norm.input) != 5:
        return
    names = [_producer(name) for name in (convolution.input[1], *batch_norm.input[1:])]
    values = [value for value in map(graph.value, names) if value is not None and value.dtype == np.float32]
    if len(values) < len(names):
        return
    kernel = values[0]
    gamma, beta, mean, variance = (value.astype(np.float64) for value in values[1:])  # [c] each
    epsilon = batch_norm.attr['epsilon'].f if 'epsilon' in batch_norm.attr else _DEFAULT_EPSILON
    factor = gamma / np.sqrt(variance + epsilon)
    # A depthwise kernel is [h, w, inputs, results of each], any other [h, w, inputs, c].
    per_result = factor.reshape(kernel.shape[2:]) if convolution.op == _DEPTHWISE else factor
    # Scales and flips share their kernels and statistics, also when they are folded.
    offset = graph.add(names[1:], lambda: beta - mean * factor)
    convolution.input[1] = graph.add(names, lambda: kernel * per_result)
    for name in names:
        graph.release(name)
    name, data = batch_norm.name, batch_norm.input[0]
    layout = batch_norm.attr['data_format'].s if 'data_format' in batch_norm.attr else b''
    batch_norm.Clear()
    batch_norm.name, batch_norm.op = name, 'BiasAdd'
    batch_norm.input.extend([data, offset])
    batch_norm.attr['T'].type = tf.float32.as_datatype_enum
    if layout:
        batch_norm.attr['data_format'].s = layout


def _convolution_before(graph: _Graph, node: tf.compat.v1.NodeDef) -> tf.compat.v1.NodeDef | None:
    """Returns the convolution that only `node` reads, directly or through `_MOVES`; None if there is none."""
    while True:
        node = graph.nodes[_producer(node.input[0])]
        if graph.uses[node.name] != 1 or node.op not in (*_CONVOLUTIONS, *_MOVES):
            return None
        if node.op in _CONVOLUTIONS:
            return node
