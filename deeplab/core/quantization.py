"""Imitation of 8-bit arithmetic in training and prediction: which values are rounded, and within which ranges.

Weights and activations are rounded to 256 values between the ends of a range (weights to 255, so that the range may be
symmetric), as integer arithmetic will do, but computed in float32. Ranges are variables, `SCOPE/NAME/{min,max}`.
In training, the range of weights is the extent of their present values, that of an activation is a moving average of
the extents in each batch. `layers` calls this module while `mode_scope` imitates 8 bits, and no network knows.

Source: arXiv:1712.05877, sections 2.1 and 3; arXiv:1806.08342, sections 3.1 and 3.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import tensorflow as tf
import tf_slim as slim
from absl import logging

from deeplab.core import batch_statistics, checkpoints, moving_updates

BITS = 8
DECAY = 0.999  # of the moving averages of ranges
# Names of ranges, as checkpoints have them.
WEIGHTS = 'weights_quant'
ACTIVATION = 'act_quant'  # the output of a layer
BEFORE_ACTIVATION = 'conv_quant'  # what enters an activation that a convolution cannot compute by itself
ADDITION = 'post_activation_bypass_quant'  # the sum of a block and its shortcut
PRODUCT = 'mul_quant'  # features times their gates
_SUFFIX = '_quant'
STEP_OF_ORIGINAL = 'fake_quantization_step'  # a counter in checkpoints of the original
_AVERAGING = ('local_step', 'biased')  # of the average of a range, `biased` in those only
# Ranges before the first step.
_FIRST_OF_WEIGHTS = (-6.0, 6.0)
_FIRST_OF_ACTIVATIONS = (0.0, 6.0)
# Names of the activations that integer convolutions compute themselves, by clipping; TensorFlow's functions and those
# of `activations`, which this module cannot import, have them.
_PART_OF_CONVOLUTIONS = ('relu', 'relu6')


class Imitation(NamedTuple):
    """How layers imitate 8 bits.

    Attributes:
      is_training: whether ranges are measured; otherwise variables hold them.
      delay_step: in training, values are rounded from this step on; before it, ranges are only measured.
      per_channel: whether weights have one range, symmetric to 0, for each channel of the result.
      is_exact: whether rounded values agree with the original's to the last bit (see `_as_original`).
    """

    is_training: bool
    delay_step: int = 0
    per_channel: bool = False
    is_exact: bool = False


class Fold(NamedTuple):
    """A batch norm as a part of the convolution before it; each value is [filters] float32.

    Attributes:
      factor: of the weights.
      rescale: factor of the convolution's result, from the moving statistics to those of the batch; None for none.
      shift: added to the result.
    """

    factor: tf.Tensor
    rescale: tf.Tensor | None
    shift: tf.Tensor


class Statistics(NamedTuple):
    """Variables of a batch norm, [filters] float32 each, and what is added to the variance."""

    gamma: tf.Variable
    beta: tf.Variable
    moving_mean: tf.Variable
    moving_variance: tf.Variable
    epsilon: float


def fold(norm: Statistics, batch: tuple[tf.Tensor, tf.Tensor] | None) -> Fold:
    """Makes a batch norm part of the convolution before it.

    The weights always take the factor of the moving statistics, which prediction will use, because the statistics of a
    batch would make the rounded weights change from step to step. In training, the result is then rescaled to the
    statistics of the batch.

    Args:
      norm: the batch norm.
      batch: mean and variance of the convolution's result in the batch, [filters] each; None to use moving statistics.

    Source: arXiv:1806.08342, section 3.2.2.
    """
    epsilon = max(norm.epsilon, batch_statistics.SMALLEST_EPSILON)
    reciprocal = tf.math.rsqrt(norm.moving_variance + epsilon)
    factor = norm.gamma * reciprocal
    if batch is None:
        return Fold(factor, None, norm.beta - norm.moving_mean * factor)
    mean, variance = batch
    of_batch = tf.math.rsqrt(variance + epsilon)
    return Fold(factor, of_batch / reciprocal, norm.beta - mean * (norm.gamma * of_batch))


def is_computed_by_convolution(activation: Callable[[tf.Tensor], tf.Tensor]) -> bool:
    """Returns whether an integer convolution computes the activation itself: its input then needs no range."""
    return getattr(activation, '__name__', '') in _PART_OF_CONVOLUTIONS


def rounded_weights(weights: tf.Tensor, is_depthwise: bool, imitation: Imitation, name: str = WEIGHTS) -> tf.Tensor:
    """Rounds weights, with the range `name` of the current variable scope.

    Args:
      weights: [h, w, c, filters] float32; of a depthwise convolution [h, w, c, 1].
      is_depthwise: whether each channel has its own filter.
      imitation: how.
      name: of the range.
    """
    shape = weights.shape
    # One filter a row: the last axis is that of the result's channels.
    values = tf.reshape(weights, shape[:-1]) if is_depthwise and imitation.per_channel else weights
    with tf.compat.v1.variable_scope(name):
        low, high = _range(values.shape[-1:] if imitation.per_channel else [], _FIRST_OF_WEIGHTS)
        if imitation.is_training:
            measured = _extent_of_channels(values) if imitation.per_channel else _extent(values)
            for variable, value in zip((low, high), measured, strict=True):
                moving_updates.register(variable, value, 0.0)
            low, high = measured
        rounded = _rounded(values, (low, high), True, imitation)
    return tf.reshape(rounded, shape) if rounded.shape.rank != shape.rank else rounded


def rounded_activations(values: tf.Tensor, imitation: Imitation, name: str = ACTIVATION) -> tf.Tensor:
    """Rounds activations of any shape, float32, with the range `name` of the current variable scope."""
    with tf.compat.v1.variable_scope(name) as scope:
        low, high = _range([], _FIRST_OF_ACTIVATIONS)
        ends: list[tf.Tensor] = [low, high]
        if imitation.is_training:
            decay = _decay(scope.name)
            for i, (variable, value) in enumerate(zip((low, high), _extent(values), strict=True)):
                moving_updates.register(variable, value, decay)
                ends[i] = variable - (variable - value) * (1.0 - decay)
        return _rounded(values, (ends[0], ends[1]), False, imitation)


def is_range(name: str) -> bool:
    """Returns whether `name` is that of a variable of a range, or of its averaging."""
    return any(part.endswith(_SUFFIX) for part in name.split('/')[:-1])


def is_averaging(name: str) -> bool:
    """Returns whether `name` is that of a variable by which training averages a range, and prediction needs not."""
    return is_range(name) and name.endswith(_AVERAGING)


def restorable(variables: Iterable[tf.Variable], path: str) -> list[tf.Variable]:
    """Returns `variables`; without ranges if the checkpoint at `path` has none, which is logged.

    Raises:
      CheckpointError: the checkpoint cannot be read.
    """
    variables = list(variables)
    names = [variable.op.name for variable in variables]
    if not any(map(is_range, names)):
        return variables
    kept = set(without_ranges_to_measure(names, checkpoints.entries(path)))
    if len(kept) < len(names):
        logging.info('%s contains no ranges of 8-bit training: they are measured from here on.', path)
    return [variable for variable in variables if variable.op.name in kept]


def without_ranges_to_measure(names: Iterable[str], held: Iterable[str]) -> list[str]:
    """Returns names of variables; without those of ranges if a checkpoint with the names `held` has none."""
    has_ranges = any(map(is_range, held))
    return [name for name in names if has_ranges or not is_range(name)]


def _range(shape: list[int] | tf.TensorShape, first: tuple[float, float]) -> tuple[tf.Variable, tf.Variable]:
    """Creates (or finds) the two ends of a range in the current variable scope."""
    low, high = (
        slim.model_variable(name, shape=shape, initializer=tf.compat.v1.constant_initializer(value), trainable=False)
        for name, value in zip(('min', 'max'), first, strict=True)
    )
    return low, high


def _decay(scope: str) -> tf.Tensor:
    """Returns the share of the old range that stays in this step: 0 in the first one, later almost `DECAY`.

    An average that starts from a given value is biased towards it for thousands of steps. Weighted so, the average
    after n batches is that of these n alone, the last one with weight 1, the one before with `DECAY` and so on.

    Source: arXiv:1412.6980, section 3 (bias correction).
    """
    # The name that published checkpoints have for it.
    with tf.compat.v1.variable_scope(f'{scope}/min'):
        counter = tf.compat.v1.get_variable(
            _AVERAGING[0], [], tf.float32, tf.compat.v1.zeros_initializer(), trainable=False
        )
    count = tf.convert_to_tensor(counter) + 1.0
    moving_updates.register(counter, count, 0.0)
    return 1.0 + (1.0 - DECAY) / tf.math.expm1(count * math.log(DECAY))


def _extent(values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the smallest and the largest value, scalars; the range includes 0, which padding must hit exactly."""
    return (
        tf.minimum(tf.stop_gradient(tf.reduce_min(values)), 0.0),
        tf.maximum(tf.stop_gradient(tf.reduce_max(values)), 0.0),
    )


def _extent_of_channels(values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the extents of the last axis, [channels] each, symmetric to 0."""
    largest = tf.stop_gradient(tf.reduce_max(tf.abs(values), axis=list(range(values.shape.rank - 1))))
    return -largest, largest


def _rounded(
    values: tf.Tensor, ends: tuple[tf.Tensor, tf.Tensor], narrow_range: bool, imitation: Imitation
) -> tf.Tensor:
    """Rounds `values` within a range; in training from the delay step on."""
    # Predictions have no gradients, and their graphs are converted.
    low, high = (tf.stop_gradient(end) for end in ends) if imitation.is_training else ends
    is_scalar = low.shape.rank == 0
    operation = (
        tf.quantization.fake_quant_with_min_max_vars
        if is_scalar
        else tf.quantization.fake_quant_with_min_max_vars_per_channel
    )

    def rounding(inputs: tf.Tensor) -> tf.Tensor:
        # The operation's own name, as in graphs that converters know.
        name = 'FakeQuantWithMinMaxVars' if is_scalar else 'FakeQuantWithMinMaxVarsPerChannel'
        return operation(inputs, low, high, num_bits=BITS, narrow_range=narrow_range, name=name)

    if imitation.is_exact:
        return _as_original(rounding(values), low, high, narrow_range)
    if not imitation.is_training or imitation.delay_step <= 0:
        return rounding(values)
    is_on = tf.compat.v1.train.get_or_create_global_step() >= imitation.delay_step
    derivative = (
        tf.raw_ops.FakeQuantWithMinMaxVarsGradient
        if is_scalar
        else tf.raw_ops.FakeQuantWithMinMaxVarsPerChannelGradient
    )

    # Both cases are computed: with a switch in the graph, a step before the delay took twice as long as with this.
    @tf.custom_gradient
    def chosen(inputs: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def gradient(of_result: tf.Tensor) -> tf.Tensor:
            of_inputs, *_ = derivative(
                gradients=of_result, inputs=inputs, min=low, max=high, num_bits=BITS, narrow_range=narrow_range
            )
            return tf.raw_ops.Select(condition=is_on, x=of_inputs, y=of_result)

        return tf.raw_ops.Select(condition=is_on, x=rounding(inputs), y=inputs), gradient

    result: tf.Tensor = chosen(values)
    return result


def _as_original(rounded: tf.Tensor, low: tf.Tensor, high: tf.Tensor, narrow_range: bool) -> tf.Tensor:
    """Computes rounded values again, from their numbers, in the order of operations of TensorFlow 1.

    TensorFlow now multiplies the distance to 0, where it once added the range's low end, itself rounded, to the
    distance from there. The values of a tensor then all differ by a little in the same direction, and the sums over
    many of them fall on the other side of a rounding often enough to move logits by 3 % of their deviation.
    """
    smallest = 1.0 if narrow_range else 0.0
    scale = (high - low) / (2.0**BITS - 1.0 - smallest)
    scale = tf.where(scale > 0.0, scale, tf.ones_like(scale))  # a range that is empty
    lowest = (smallest - tf.floor(smallest - low / scale + 0.5)) * scale
    return tf.floor((rounded - lowest) / scale + 0.5) * scale + lowest
