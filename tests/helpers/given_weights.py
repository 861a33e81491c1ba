"""Networks whose variables are placeholders: built in a quarter of the time, and run with weights that tests choose.

Most of the time of building a network goes into its variables and their initial values. Tests of shapes, operations,
values and gradients need neither; tests of training, checkpoints and initial values build real variables.
"""

import contextlib
import dataclasses
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf


@dataclasses.dataclass
class Network:
    """A graph in which layers find placeholders where their variables would be.

    Attributes:
      graph: holds the network.
      weights: the placeholders, by the names of the variables.
      trained: names of the trainable ones.
      initializers: functions from the shape to the first value, by name.
      dtype: of all weights; None for their own.
    """

    graph: tf.Graph
    weights: dict[str, tf.Tensor] = dataclasses.field(default_factory=dict)
    trained: set[str] = dataclasses.field(default_factory=set)
    initializers: dict[str, Callable[[list[int]], tf.Tensor]] = dataclasses.field(default_factory=dict)
    dtype: tf.DType | None = None

    @property
    def shapes(self) -> dict[str, list[int]]:
        """Shape of each weight, by name."""
        return {name: tensor.shape.as_list() for name, tensor in self.weights.items()}

    def _getter(self, getter: Any, name: str, *, shape: Any, dtype: Any = tf.float32, **arguments: Any) -> tf.Tensor:
        """Replaces `tf.compat.v1.get_variable`."""
        del getter
        if name not in self.weights:
            with tf.name_scope(''), tf.init_scope():
                weights = tf.compat.v1.placeholder(self.dtype or dtype, [int(side) for side in shape], name)
            assert weights.op.name == name
            self.weights[name] = weights
            self.initializers[name] = arguments['initializer']
            if arguments.get('trainable', True):
                self.trained.add(name)
        return self.weights[name]

    def run(self, tensors: Any, feed: Any = None, values: Callable[[str, list[int]], np.ndarray] | None = None) -> Any:
        """Runs tensors of the network.

        Args:
          tensors: what to fetch.
          feed: values of other placeholders.
          values: from the name and the shape of a weight to its value; None for random ones.
        """
        config = tf.compat.v1.ConfigProto()
        config.graph_options.rewrite_options.disable_meta_optimizer = True  # takes longer than one run
        given = {self.weights[name]: (values or some_value)(name, shape) for name, shape in self.shapes.items()}
        with tf.compat.v1.Session(graph=self.graph, config=config) as session:
            return session.run(tensors, {**given, **(feed or {})})


@contextlib.contextmanager
def network(dtype: tf.DType | None = None) -> Iterator[Network]:
    """Makes a graph the default one, in which variables are placeholders, of `dtype` if it is given."""
    with tf.Graph().as_default() as graph:
        made = Network(graph, dtype=dtype)
        scope = tf.compat.v1.get_variable_scope()
        with tf.compat.v1.variable_scope(scope, custom_getter=made._getter, reuse=tf.compat.v1.AUTO_REUSE):
            yield made


def some_value(name: str, shape: list[int], gain: float = 1.5) -> np.ndarray:
    """A random value, a function of name and shape, that keeps the scale of what flows through a network."""
    noise = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape, np.float32)
    last = name.split('/')[-1]
    if last == 'moving_variance':
        return np.exp(0.3 * noise)
    if last == 'gamma':
        return 1 + 0.1 * noise
    if last in ('moving_mean', 'beta', 'biases'):
        return 0.1 * noise
    fan = shape[0] * shape[1] if last == 'depthwise_weights' else np.prod(shape[:-1])
    return noise * np.float32(np.sqrt(gain / fan))
