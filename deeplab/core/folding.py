"""Batch norms of a frozen graph as part of the convolutions before them."""

from __future__ import annotations

import collections

import numpy as np
import tensorflow as tf

_DEPTHWISE = 'DepthwiseConv2dNative'
_CONVOLUTIONS = ('Conv2D', _DEPTHWISE)
_MOVES = ('BatchToSpaceND', 'Identity')  # they move values, so a factor for each channel may come before or after
_BATCH_NORM = 'FusedBatchNormV3'


def fold_batch_norms(graph_def: tf.compat.v1.GraphDef) -> tf.compat.v1.GraphDef:
    """Returns a graph with the factors of batch norms in the kernels of the convolutions before them.

    A batch norm with constant statistics is a factor and an offset for each channel. The factor becomes part of the
    kernel, and the batch norm a BiasAdd of the same name. TensorFlow itself multiplies and adds whole feature maps
    where the convolution is depthwise.

    A batch norm stays as it is where something else reads the convolution's result.

    Args:
      graph_def: without variables; changed, not to be used any more.

    Source: arXiv:1712.05877, section 3.2.
    """
    graph = _Graph(graph_def)
    used = graph.uses()
    for node in graph_def.node:
        if node.op == _BATCH_NORM and not node.attr['is_training'].b:
            _fold(graph, node, used)
    graph_def.node.extend(graph.added.values())
    while unused := used.keys() - graph.uses().keys():
        graph = _Graph(_without(graph.graph_def, unused))
        used = collections.Counter({name: count for name, count in used.items() if name not in unused})
    return graph.graph_def


class _Graph:
    """A graph whose nodes are found by name."""

    def __init__(self, graph_def: tf.compat.v1.GraphDef) -> None:
        self.graph_def = graph_def
        self.nodes = {node.name: node for node in graph_def.node}
        self.added: dict[tuple[str, ...], tf.compat.v1.NodeDef] = {}  # new constants, by what they are made of

    def uses(self) -> collections.Counter[str]:
        """Returns the number of inputs that each node feeds."""
        return collections.Counter(_producer(name) for node in self.graph_def.node for name in node.input)

    def constant(self, name: str) -> tuple[str, np.ndarray] | None:
        """Returns name and value of the constant behind an input; None if it is something else."""
        node = self.nodes[_producer(name)]
        while node.op == 'Identity':
            node = self.nodes[_producer(node.input[0])]
        return (node.name, tf.make_ndarray(node.attr['value'].tensor)) if node.op == 'Const' else None

    def add_constant(self, made_of: tuple[str, ...], value: np.ndarray) -> str:
        """Adds a float32 constant, unless there is one made of the same constants, and returns its name."""
        if made_of not in self.added:
            node = tf.compat.v1.NodeDef(name=f'{made_of[0]}/folded_{len(self.added)}', op='Const')
            node.attr['dtype'].type = tf.float32.as_datatype_enum
            node.attr['value'].tensor.CopyFrom(tf.make_tensor_proto(value, tf.float32))
            self.added[made_of] = node
        return self.added[made_of].name


def _producer(name: str) -> str:
    """Returns the name of the node that makes an input such as 'node:1' or '^node'."""
    return name.lstrip('^').partition(':')[0]


def _without(graph_def: tf.compat.v1.GraphDef, names: set[str]) -> tf.compat.v1.GraphDef:
    """Returns the graph without some of its nodes."""
    smaller = tf.compat.v1.GraphDef(versions=graph_def.versions, library=graph_def.library)
    smaller.node.extend(node for node in graph_def.node if node.name not in names)
    return smaller


def _fold(graph: _Graph, batch_norm: tf.compat.v1.NodeDef, used: collections.Counter[str]) -> None:
    """Folds one batch norm, where that changes nothing else."""
    convolution = _convolution_before(graph, batch_norm, used)
    if convolution is None or len(batch_norm.input) != 5:
        return
    constants = [graph.constant(name) for name in (convolution.input[1], *batch_norm.input[1:])]
    found = [constant for constant in constants if constant is not None]
    if len(found) != len(constants) or any(value.dtype != np.float32 for _, value in found):
        return
    (kernel_name, kernel), *statistics = found
    names = [name for name, _ in statistics]
    gamma, beta, mean, variance = (value.astype(np.float64) for _, value in statistics)  # [c] each
    factor = gamma / np.sqrt(variance + batch_norm.attr['epsilon'].f)
    # A depthwise kernel is [h, w, inputs, results of each], any other [h, w, inputs, c].
    per_result = factor.reshape(kernel.shape[2:]) if convolution.op == _DEPTHWISE else factor
    # Scales and flips share their kernels and statistics, also when they are folded.
    convolution.input[1] = graph.add_constant((kernel_name, *names), kernel * per_result)
    offset = graph.add_constant((names[1], *names), beta - mean * factor)
    name, data, layout = batch_norm.name, batch_norm.input[0], batch_norm.attr['data_format'].s
    batch_norm.Clear()
    batch_norm.name, batch_norm.op = name, 'BiasAdd'
    batch_norm.input.extend([data, offset])
    batch_norm.attr['T'].type = tf.float32.as_datatype_enum
    batch_norm.attr['data_format'].s = layout or b'NHWC'


def _convolution_before(
    graph: _Graph, node: tf.compat.v1.NodeDef, used: collections.Counter[str]
) -> tf.compat.v1.NodeDef | None:
    """Returns the convolution whose result `node` alone reads, directly or through operations that move values."""
    while True:
        node = graph.nodes[_producer(node.input[0])]
        if used[node.name] != 1 or node.op not in (*_CONVOLUTIONS, *_MOVES):
            return None
        if node.op in _CONVOLUTIONS:
            return node
