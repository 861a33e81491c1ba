"""Batch norm as one operation, with as many channels as a processor's kernel computes at full speed.

On a CPU, oneDNN's batch norm in bfloat16 takes 3 to 15 times as long, forward and backward, if the number of channels
is not a multiple of 16 (8 and 24 in MobileNetV2, 728 in Xception; benchmarks/NOTES.md). Channels of zeros are added to
the inputs then and removed from the result: a training step of xception_65 takes 0.80 of the time.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

LANES = 16  # channels that oneDNN computes together


class Result(NamedTuple):
    """Result of a batch norm.

    Attributes:
      outputs: [n, h, w, channels], of the type of the inputs.
      mean: [channels] float32, of the batch, or the given one.
      variance: [channels] float32, the same; of the batch, the unbiased one.
    """

    outputs: tf.Tensor
    mean: tf.Tensor
    variance: tf.Tensor


def apply(
    inputs: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    epsilon: float,
    moving: tuple[tf.Tensor, tf.Tensor] | None = None,
) -> Result:
    """Applies a batch norm.

    Args:
      inputs: [n, h, w, channels] float.
      gamma: [channels] float32, factor of the normalized values.
      beta: [channels] float32, added to them.
      epsilon: constant that is added to the variance.
      moving: mean and variance, [channels] float32 each, to normalize with; None for the statistics of the batch.
    """
    channels = int(inputs.shape[-1])
    added = -channels % LANES if _gains(inputs) else 0
    if added:
        inputs = tf.pad(inputs, [[0, 0], [0, 0], [0, 0], [0, added]])
        gamma, beta = (tf.pad(each, [[0, added]]) for each in (gamma, beta))
        moving = None if moving is None else (tf.pad(moving[0], [[0, added]]), tf.pad(moving[1], [[0, added]]))
    mean, variance = (None, None) if moving is None else moving
    result = Result(
        *tf.compat.v1.nn.fused_batch_norm(inputs, gamma, beta, mean, variance, epsilon, is_training=moving is None)
    )
    if not added:
        return result
    # tf.slice, not an index: the gradient of an index takes ten times as long on a CPU.
    outputs = tf.slice(result.outputs, [0, 0, 0, 0], [-1, -1, -1, channels])
    return Result(outputs, result.mean[:channels], result.variance[:channels])


def _gains(inputs: tf.Tensor) -> bool:
    """Returns whether added channels save time."""
    return inputs.dtype == tf.bfloat16 and not tf.config.list_physical_devices('GPU')
