"""Batch norm folding: batch norms of a frozen graph become part of the convolutions before them."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

_DEPTHWISE = 'DepthwiseConv2dNative'
_CONVOLUTIONS = ('Conv2D', _DEPTHWISE)
_MOVES = ('BatchToSpaceND', 'Identity')  # they move values, so a factor for each channel may come before or after
_BATCH_NORM = 'FusedBatchNormV3'
_DEFAULT_EPSILON = 1e-4  # of TensorFlow's operation, which a graph may omit


def fold_batch_norms(graph_def: tf.compat.v1.GraphDef, values: dict[str, np.ndarray]) -> None:
    """Makes the factors of batch norms part of the kernels of the convolutions before them.

    A batch norm with constant statistics is a factor and an offset for each channel. The factor becomes part of the
    kernel, and the batch norm a BiasAdd of the same name. TensorFlow itself multiplies and adds whole feature maps
    where the convolution is depthwise.

    A batch norm stays as it is where something else reads the convolution's result.

    Args:
      graph_def: with placeholders for its weights; changed.
      values: of the weights, by the names of their placeholders. Folded kernels and offsets are added, each with a
        placeholder; what is no longer read stays in the graph, without its value.

    Source: arXiv:1712.05877, section 3.2.
    """
    graph = _Graph(graph_def, values)
    for node in graph.nodes.values():
        if node.op == _BATCH_NORM and 'is_training' in node.attr and not node.attr['is_training'].b:
            _fold(graph, node)


class _Graph:
    """A graph whose nodes are found by name, and the values of its weights."""

    def __init__(self, graph_def: tf.compat.v1.GraphDef, values: dict[str, np.ndarray]) -> None:
        self._graph_def = graph_def
        self._values = values
        self._added: dict[tuple[str, ...], str] = {}  # names of folded values, by what they are made of
        self.nodes = {node.name: node for node in graph_def.node}
        self.uses = collections.Counter(producer(name) for node in graph_def.node for name in node.input)

    def value(self, name: str) -> np.ndarray | None:
        """Returns the value of the weights behind an input; None if it is something else."""
        return self._values.get(producer(name))

    def add(self, made_of: Sequence[str], value: Callable[[], np.ndarray]) -> str:
        """Adds a value, unless there is one made of the same weights, and returns its name."""
        key = tuple(made_of)
        if key not in self._added:
            name = f'{key[0]}/folded_{len(self._added)}'
            self._added[key] = name
            self._values[name] = value().astype(np.float32)
            self._graph_def.node.add(name=name, op='Placeholder')
        return self._added[key]

    def release(self, name: str) -> None:
        """Drops the value of weights that no other operation reads."""
        self.uses[producer(name)] -= 1
        if not self.uses[producer(name)]:
            del self._values[producer(name)]


def producer(name: str) -> str:
    """Returns the name of the node that makes an input such as 'node:1' or '^node'."""
    return name.lstrip('^').partition(':')[0]


def _fold(graph: _Graph, batch_norm: tf.compat.v1.NodeDef) -> None:
    """Folds one batch norm, where that changes nothing else."""
    convolution = _convolution_before(graph, batch_norm)
    if convolution is None or len(batch_norm.input) != 5:
        return
    names = [producer(name) for name in (convolution.input[1], *batch_norm.input[1:])]
    values = [graph.value(name) for name in names]
    if any(value is None or value.dtype != np.float32 for value in values):
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
    """Returns the convolution whose result `node` alone reads, directly or through operations that move values."""
    while True:
        node = graph.nodes[producer(node.input[0])]
        if graph.uses[node.name] != 1 or node.op not in (*_CONVOLUTIONS, *_MOVES):
            return None
        if node.op in _CONVOLUTIONS:
            return node
