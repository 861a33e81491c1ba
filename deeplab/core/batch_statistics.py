"""Statistics of batch norms in training, computed from the input of a 1x1 convolution if that is cheaper.

A 1x1 convolution with stride 1 is a linear map of each pixel, y = W'x with weights W [channels, filters]. Mean and
variance of its output in a batch therefore follow from mean and covariance of its input:

  mean(y) = W' mean(x),  var(y)_j = w_j' cov(x) w_j  for each column w_j of W.

In a MobileNet, the input of an expanding convolution has a sixth of the channels. The batch norm is then a factor of
the weights and a bias, so that the wide output is written once, instead of being read and written nine times in a step.
A training step needs a tenth to a fifth less work (docs/adr/0003-statistics-from-the-narrow-side.md).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from deeplab.core import collectives, compute_types

# Registered gradients of the operations of `moments_of`, by type: TensorFlow's own also have parts for the gradient
# of a divisor, a summand and broadcasting, which are not needed here. Values are equal, and a MobileNet's training
# graph has about 400 operations less (benchmarks/NOTES.md, "Start-up").
_GRADIENTS = {
    'Mean': 'DeepLabRowMean',
    'Sum': 'DeepLabRowSum',
    'RealDiv': 'DeepLabByNumber',
    'AddV2': 'DeepLabPlusNumber',
}

SMALLEST_EPSILON = 1.001e-5  # of TensorFlow's fused batch norm


class Moments(NamedTuple):
    """Mean and variance of each channel, [filters] float32 each, over so many pixels; `unbiased`: unbiased variance."""

    mean: tf.Tensor
    variance: tf.Tensor
    unbiased: tf.Tensor
    pixels: tf.Tensor | np.float32


class Expansion(NamedTuple):
    """A 1x1 convolution with stride 1, of inputs [n, h, w, c] float32 with weights [1, 1, c, filters]."""

    inputs: tf.Tensor
    weights: tf.Tensor


def is_cheaper_from_input(inputs: tf.Tensor, filters: int, kernel_size: int, stride: int) -> bool:
    """Returns whether a convolution's statistics are cheaper to compute from its input (`fold`).

    They are for a 1x1 convolution that at least doubles the channels, on a CPU. A GPU normalizes the wide tensor as
    fast, and may multiply matrices with fewer bits. Moments need float32.
    """
    widens = kernel_size == 1 and stride == 1 and filters >= 2 * int(inputs.shape[-1]) and inputs.dtype == tf.float32
    return widens and not tf.config.list_physical_devices('GPU')


def fold(moments: Moments, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes a batch norm as a factor and a shift of each channel; gamma and beta are [filters] float32.

    Returns:
      factor and shift, [filters] float32 each: x (W * factor) + shift is the normalized output of the convolution, up
      to rounding.

    Source: arXiv:1502.03167, algorithm 1; the moments of a linear map.
    """
    with tf.compat.v1.get_default_graph().gradient_override_map(_GRADIENTS):
        raised = moments.variance + max(epsilon, SMALLEST_EPSILON)  # [filters]
    factor = gamma * tf.math.rsqrt(raised)  # [filters]
    return factor, beta - moments.mean * factor


def of_batch(
    values: tf.Tensor,
    expansion: Expansion | None,
    moving_mean: tf.Variable,
    group: collectives.Participant | None,
) -> Moments:
    """Computes the moments of `values`, from the input of `expansion` if it is given; of all clones of `group`."""
    if expansion is None:
        own = moments(compute_types.as_type(values, tf.float32))
    else:
        own = moments_of(expansion)
    return own if group is None else synchronized(own, tf.convert_to_tensor(moving_mean), group)


def moments_of(expansion: Expansion) -> Moments:
    """Computes the moments of a convolution's output from its input."""
    channels = int(expansion.inputs.shape[-1])
    pixels = tf.reshape(expansion.inputs, [-1, channels])  # [pixels, channels]
    count = _rows(pixels)
    weights = tf.reshape(expansion.weights, [channels, -1])  # [channels, filters]
    with tf.compat.v1.get_default_graph().gradient_override_map(_GRADIENTS):
        input_mean = tf.reduce_mean(pixels, axis=0, keepdims=True)  # [1, channels]
        centered = pixels - input_mean  # before squaring: no digits are lost to a large mean
        covariance = tf.matmul(centered, centered, transpose_a=True) / count  # [channels, channels]
        mean = tf.squeeze(tf.matmul(input_mean, weights), axis=0)  # [filters]
        variance = tf.reduce_sum(weights * tf.matmul(covariance, weights), axis=0)  # [filters]
    return Moments(mean, variance, _unbiased(variance, count), count)


def synchronized(moments: Moments, near: tf.Tensor, group: collectives.Participant) -> Moments:
    """Computes the moments of the batches of all clones together, which have equally many pixels each.

    Args:
      moments: the moments of this clone's batch.
      near: [filters] float32, equal for all clones and near the mean, such as the moving mean. Deviations from it are
        squared and added, so that a large mean costs no digits.
      group: the clone among all clones.
    """
    offset = moments.mean - tf.stop_gradient(near)
    own = tf.concat([offset, moments.variance + tf.square(offset)], axis=0)  # [filters * 2]
    mean_offset, mean_square = tf.split(group.sum(own) / group.size, 2)
    variance = tf.maximum(mean_square - tf.square(mean_offset), 0.0)
    pixels = moments.pixels * group.size
    return Moments(tf.stop_gradient(near) + mean_offset, variance, _unbiased(variance, pixels), pixels)


def _rows(values: tf.Tensor) -> tf.Tensor | np.float32:
    """Returns the number of rows of [rows, columns], float32; a NumPy number if it is static."""
    rows = values.shape[0]
    return tf.cast(tf.shape(values)[0], tf.float32) if rows is None else np.float32(rows)


def _gradient_of_row_sum(row_sum: tf.Operation, gradient: tf.Tensor) -> tuple[tf.Tensor, None]:
    """Returns the gradient of the sum of the rows of [rows, columns]."""
    values = row_sum.inputs[0]
    rows = tf.shape(values)[0] if values.shape[0] is None else values.shape[0]
    return tf.tile(tf.reshape(gradient, [1, values.shape[1]]), [rows, 1]), None


# Each gives the gradients of its two inputs; the second one is an axis, or a scalar that depends on no variable.
for _name, _gradient in (
    (_GRADIENTS['Sum'], _gradient_of_row_sum),
    (_GRADIENTS['Mean'], lambda mean, gradient: _gradient_of_row_sum(mean, gradient / _rows(mean.inputs[0]))),
    (_GRADIENTS['RealDiv'], lambda division, gradient: (gradient / division.inputs[1], None)),
    (_GRADIENTS['AddV2'], lambda addition, gradient: (gradient, None)),
):
    tf.RegisterGradient(_name)(_gradient)


def moments(values: tf.Tensor) -> Moments:
    """Computes the moments of the channels of [n, h, w, filters]."""
    mean, variance = tf.nn.moments(values, [0, 1, 2])
    count = tf.cast(tf.size(values) // values.shape[-1], tf.float32)
    return Moments(mean, variance, _unbiased(variance, count), count)


def _unbiased(variance: tf.Tensor, count: tf.Tensor | np.float32) -> tf.Tensor:
    others = np.maximum(count - 1, 1) if isinstance(count, np.float32) else tf.maximum(count - 1.0, 1.0)
    return variance * count / others
