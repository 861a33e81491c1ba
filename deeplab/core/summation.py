"""Repeatable sums of several tensors, in a fixed order.

TensorFlow's AddN begins with an input that it can overwrite at that moment: with three inputs or more, two runs of
one graph on one batch can differ in their last bits. The sum of two numbers does not depend on their order, so tensors
are added in pairs here. A session must not merge these pairs either (see `sessions.config`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import tensorflow as tf

# For tf.gradients: gradients of one tensor from several operations are added in pairs.
GRADIENT_AGGREGATION = tf.AggregationMethod.EXPERIMENTAL_TREE


def in_order(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns the sum of tensors of one shape and type, from the first to the last; a single one unchanged."""
    return functools.reduce(tf.add, tensors)
