"""Activations: ReLU, ReLU6, hard sigmoid and hard swish."""

from __future__ import annotations

from deeplab.core.lazy import tf

# One sixth, as published checkpoints were trained with it: with five digits in gates, in float32 in hard swish.
GATE_SLOPE = 0.16667
SWISH_SLOPE = 1.0 / 6.0


def relu(values: tf.Tensor) -> tf.Tensor:
    """Returns max(0, x). For tables of layers, which are read before TensorFlow is imported."""
    return tf.nn.relu(values)


def relu6(values: tf.Tensor) -> tf.Tensor:
    """Returns x clipped to 0 to 6. For tables of layers, which are read before TensorFlow is imported."""
    return tf.nn.relu6(values)


def hard_sigmoid(values: tf.Tensor) -> tf.Tensor:
    """Returns the piecewise-linear sigmoid relu6(x + 3) / 6: 0 up to -3, 1 from 3 on.

    Args:
      values: any shape, float.

    Source: arXiv:1905.02244, section 5.2 and figure 6.
    """
    return tf.nn.relu6(values + 3.0) * GATE_SLOPE


def hard_swish(values: tf.Tensor) -> tf.Tensor:
    """Returns the swish x * relu6(x + 3) / 6: nearly x * sigmoid(x), without an exponential.

    Args:
      values: any shape, float.

    Source: arXiv:1905.02244, section 5.2.
    """
    with tf.name_scope('hard_swish'):
        return values * tf.nn.relu6(values + 3.0) * SWISH_SLOPE
