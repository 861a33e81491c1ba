"""Abstract graphs of networks, and the cost of a network: parameters, and multiply-adds for one image.

Cost is counted from static shapes, so the graph must be built for a crop size. A multiply-add is one multiplication
and one addition in a convolution or matrix product. As in the papers, element-wise operations are excluded: batch norms
(which inference folds into the convolutions), activations, resizing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from deeplab.errors import OptionError


class Cost(NamedTuple):
    """Cost of a network.

    Attributes:
      parameters: number of trained values.
      stored: number of values in a checkpoint of the network, which include the moving statistics of batch norms.
      multiply_adds: number of multiply-adds of all convolutions and matrix products.
    """

    parameters: int
    stored: int
    multiply_adds: int


def _shape(tensor: tf.Tensor) -> list[int]:
    """Returns the static shape of `tensor`; raises OptionError if a side is unknown."""
    shape = tensor.shape
    if not shape.is_fully_defined():
        raise OptionError(
            f"The cost of '{tensor.op.name}' cannot be counted: its shape {shape} is not fully known. Build the "
            'network for one image of a fixed size.'
        )
    sides: list[int] = shape.as_list()
    return sides


def _useful_output(operation: tf.Operation) -> tf.Tensor:
    """Returns the output of a convolution; for an atrous convolution the output of its batch-to-space operation."""
    output = operation.outputs[0]
    consumers = output.consumers()
    if len(consumers) == 1 and consumers[0].type == 'BatchToSpaceND':
        return consumers[0].outputs[0]
    return output


def _convolution(operation: tf.Operation) -> int:
    """Each value of the output reads a window of all input channels, of a depthwise convolution of one."""
    height, width, channels, _ = _shape(operation.inputs[1])  # [kh, kw, in / groups, out or multiplier]
    read = channels if operation.type == 'Conv2D' else 1
    return math.prod(_shape(_useful_output(operation))) * height * width * read


def _matrix_product(operation: tf.Operation) -> int:
    """Each value of the output is a product of a row and a column."""
    left = _shape(operation.inputs[0])
    transposed = 'transpose_a' if operation.type == 'MatMul' else 'adj_x'
    return math.prod(_shape(operation.outputs[0])) * (left[-2] if operation.get_attr(transposed) else left[-1])


_COUNTED: dict[str, Callable[[tf.Operation], int]] = {
    'Conv2D': _convolution,
    'DepthwiseConv2dNative': _convolution,
    'MatMul': _matrix_product,
    'BatchMatMul': _matrix_product,
    'BatchMatMulV2': _matrix_product,
}


def multiply_adds(graph: tf.Graph) -> int:
    """Counts the multiply-adds of all convolutions and matrix products in `graph`.

    An atrous convolution counts the same in either form, native or between space-to-batch and batch-to-space.

    Raises:
      OptionError: a shape is not known before the graph runs.
    """
    return sum(_COUNTED[op.type](op) for op in graph.get_operations() if op.type in _COUNTED)


@dataclasses.dataclass(frozen=True)
class AbstractGraph:
    """A network as operations and shapes, without variables.

    Attributes:
      graph: operations of the network, with placeholders in place of variables.
      placeholders: placeholders by the names of the variables, in the order of creation.
      trained: names of the variables that are trained.
    """

    graph: tf.Graph
    placeholders: dict[str, tf.Tensor] = dataclasses.field(default_factory=dict)
    trained: set[str] = dataclasses.field(default_factory=set)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the variables by name."""
        return {name: tuple(placeholder.shape.as_list()) for name, placeholder in self.placeholders.items()}

    @property
    def parameters(self) -> int:
        """Number of trained values."""
        return sum(math.prod(shape) for name, shape in self.shapes.items() if name in self.trained)

    def cost(self) -> Cost:
        """Returns the cost of the network, which must be the inference network for one image.

        Raises:
          OptionError: a shape is not known before the graph runs.
        """
        return Cost(self.parameters, sum(map(math.prod, self.shapes.values())), multiply_adds(self.graph))


@contextlib.contextmanager
def abstract_graph() -> Iterator[AbstractGraph]:
    """Builds a network in a graph of its own, with placeholders in place of variables.

    Most of the time that it takes to build a network goes into its variables and their initial values. Neither its cost
    nor the names and shapes of a checkpoint depend on them.
    """
    with tf.Graph().as_default() as graph:
        network = AbstractGraph(graph)

        def getter(
            name: str, *, shape: Any = None, dtype: Any = tf.float32, trainable: bool = True, **others: Any
        ) -> Any:
            del others
            if name not in network.placeholders:
                # The slash makes this the whole name, whatever the current scope is.
                network.placeholders[name] = tf.compat.v1.placeholder(dtype, shape, name=f'{name}/')
                if trainable:
                    network.trained.add(name)
            return network.placeholders[name]

        with tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), custom_getter=getter):
            yield network
