"""A choice between two branches that are part of the graph itself."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf


def choose(is_on: tf.Tensor, if_on: Callable[[], tf.Tensor], if_off: Callable[[], tf.Tensor]) -> tf.Tensor:
    """Runs one of two branches, as `tf.cond` does, and returns its result.

    `tf.cond` turns each branch into a function, with an argument for every tensor and variable that it uses. For a
    branch that uses all weights of a network, that takes seconds, when the graph is built and again when it first runs.
    Here, the operations of a branch depend on one output of a switch, and do not run if the switch takes the other.

    The choice has no gradient, and what a branch takes from outside is computed whichever branch runs.

    Args:
      is_on: scalar bool.
      if_on: builds the operations to run if `is_on`, and returns the result.
      if_off: builds those of the other case; its result has the same type.

    Returns:
      the result of the branch that ran.
    """
    off, on = tf.raw_ops.Switch(data=is_on, pred=is_on)
    results = []
    for side, build in ((off, if_off), (on, if_on)):
        with tf.control_dependencies([tf.identity(side)]):
            results.append(tf.identity(build()))
    return tf.raw_ops.Merge(inputs=results).output
