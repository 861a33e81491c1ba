"""Repeatable sums of several tensors, in a fixed order.

TensorFlow's AddN adds in the memory of whichever of its inputs nobody else holds at that moment, and begins with that
one: with three inputs or more, two runs of one graph on one batch can differ in their last bits. Two numbers add up to
the same in either order, so here everything is added in pairs. A session must leave those pairs alone, too (see
`sessions.config`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import tensorflow as tf

# For tf.gradients: what flows back to one tensor from several sides is added in pairs.
GRADIENT_AGGREGATION = tf.AggregationMethod.EXPERIMENTAL_TREE


def in_order(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns the sum of tensors of one shape and type, from the first to the last; a single one is returned as it is.

    Args:
      tensors: one or more, of any shape.

    Returns:
      a tensor of that shape and type.
    """
    return functools.reduce(tf.add, tensors)
