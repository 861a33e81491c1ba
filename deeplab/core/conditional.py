"""Conditional execution of a part of the graph, for updates that happen completely or not at all."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf


def choose(is_on: tf.Tensor, if_on: Callable[[], tf.Tensor], if_off: Callable[[], tf.Tensor]) -> tf.Tensor:
    """Runs one of two branches, as `tf.cond` does, and returns its result.

    `tf.cond` turns each branch into a function, with an argument for every tensor and variable that it uses. Building
    the conditional update of a MobileNetV2 that way takes 2.4 s; as plain operations, it takes 1.3 s
    (benchmarks/NOTES.md, "Start-up").

    The choice has no gradient. Tensors that a branch takes from outside are computed whichever branch runs.

    Args:
      is_on: condition, scalar bool.
      if_on: builds the operations to run if `is_on` holds, and returns their result.
      if_off: builds the operations to run otherwise; the result has the same type.

    Returns:
      the result of the branch that ran.
    """
    # Switch passes its input to one of its two outputs. The other output is dead, and so is every operation that
    # depends on it: TensorFlow skips it. Merge returns the one of its inputs that is not dead.
    off, on = tf.raw_ops.Switch(data=is_on, pred=is_on)
    results = []
    for output, build in ((off, if_off), (on, if_on)):
        with tf.control_dependencies([tf.identity(output)]):
            results.append(tf.identity(build()))
    return tf.raw_ops.Merge(inputs=results).output
