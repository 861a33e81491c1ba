"""Fake quantization: 8-bit arithmetic simulated in float32, for training and prediction.

Weights and activations are rounded to 256 values between the ends of a range (weights to 255, so that the range may be
symmetric), as integer arithmetic will do. Ranges are variables, `SCOPE/NAME/{min,max}`. In training, the range of
weights is the extent of their present values. The range of an activation is a moving average of its extents in each
batch. `layers` calls this module if `mode_scope` sets `fake_quantization`; networks do not know of it.

Source: arXiv:1712.05877, sections 2.1 and 3; arXiv:1806.08342, sections 3.1 and 3.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import tensorflow as tf
import tf_slim as slim

from deeplab.core import batch_statistics, moving_updates

BITS = 8
DECAY = 0.999  # of the moving averages of ranges
# Names of ranges, as checkpoints have them.
WEIGHTS = 'weights_quant'
ACTIVATION = 'act_quant'  # the output of a layer
BEFORE_ACTIVATION = 'conv_quant'  # the input of an activation that an integer convolution does not include
ADDITION = 'post_activation_bypass_quant'  # the sum of a block and its shortcut
PRODUCT = 'mul_quant'  # features times their gates
_SUFFIX = '_quant'
STEP_OF_ORIGINAL = 'fake_quantization_step'  # a counter in checkpoints of the original
_AVERAGING = ('local_step', 'biased')  # variables of the moving average of a range; `biased` in the original only
# Ranges before the first step.
_FIRST_OF_WEIGHTS = (-6.0, 6.0)
_FIRST_OF_ACTIVATIONS = (0.0, 6.0)
# Names of activation functions that integer convolutions include, by clipping. TensorFlow's functions and the lazy ones
# in `activations` have the same names.
_PART_OF_CONVOLUTIONS = ('relu', 'relu6')


class FakeQuantization(NamedTuple):
    """Settings of fake quantization.

    Attributes:
      is_training: whether ranges are measured in each batch; otherwise their variables are used.
      delay_step: step of training from which values are rounded; before it, ranges are only measured.
      per_channel: whether weights have one range, symmetric to 0, for each output channel.
      is_exact: whether rounded values agree with the original's to the last bit (see `_as_original`).
    """

    is_training: bool
    delay_step: int = 0
    per_channel: bool = False
    is_exact: bool = False


class Fold(NamedTuple):
    """A batch norm folded into the convolution before it; each value is [filters] float32.

    Attributes:
      factor: factor of the weights.
      rescale: factor of the convolution's output, from moving to batch statistics; None for none.
      shift: shift that is added to the output.
    """

    factor: tf.Tensor
    rescale: tf.Tensor | None
    shift: tf.Tensor


class Statistics(NamedTuple):
    """Variables of a batch norm, [filters] float32 each, and the constant that is added to the variance."""

    gamma: tf.Variable
    beta: tf.Variable
    moving_mean: tf.Variable
    moving_variance: tf.Variable
    epsilon: float


def fold(norm: Statistics, batch: tuple[tf.Tensor, tf.Tensor] | None) -> Fold:
    """Folds a batch norm into the convolution before it.

    With moving statistics m, v and batch statistics mb, vb of the convolution's output:

      factor = gamma / sqrt(v + epsilon)
      rescale = sqrt(v + epsilon) / sqrt(vb + epsilon)
      shift = beta - mb * gamma / sqrt(vb + epsilon)

    The weights take the factor of the moving statistics also in training: with the batch's, the rounded weights would
    change from step to step. Prediction uses m and v for the shift and does not rescale.

    Args:
      norm: variables of the batch norm.
      batch: mean and variance of the convolution's output in the batch, [filters] each; None for moving statistics.

    Source: arXiv:1806.08342, section 3.2.2.
    """
    epsilon = max(norm.epsilon, batch_statistics.SMALLEST_EPSILON)
    reciprocal = tf.math.rsqrt(norm.moving_variance + epsilon)
    factor = norm.gamma * reciprocal
    if batch is None:
        return Fold(factor, None, norm.beta - norm.moving_mean * factor)
    mean, variance = batch
    batch_reciprocal = tf.math.rsqrt(variance + epsilon)
    return Fold(factor, batch_reciprocal / reciprocal, norm.beta - mean * (norm.gamma * batch_reciprocal))


def is_computed_by_convolution(activation: Callable[[tf.Tensor], tf.Tensor]) -> bool:
    """Returns whether an integer convolution includes the activation, whose input then needs no range."""
    return getattr(activation, '__name__', '') in _PART_OF_CONVOLUTIONS


def fake_quantize_weights(
    weights: tf.Tensor, is_depthwise: bool, settings: FakeQuantization, name: str = WEIGHTS
) -> tf.Tensor:
    """Rounds weights, with the range `name` of the current variable scope.

    Args:
      weights: [h, w, c, filters] float32; [h, w, c, 1] for a depthwise convolution.
      is_depthwise: whether each channel has its own filter.
      settings: settings of the fake quantization.
      name: name of the range.
    """
    shape = weights.shape
    # The last axis of the values is the output channels.
    values = tf.reshape(weights, shape[:-1]) if is_depthwise and settings.per_channel else weights
    with tf.compat.v1.variable_scope(name):
        low, high = _range(values.shape[-1:] if settings.per_channel else [], _FIRST_OF_WEIGHTS)
        if settings.is_training:
            measured = _extent_of_channels(values) if settings.per_channel else _extent(values)
            for variable, value in zip((low, high), measured, strict=True):
                moving_updates.register(variable, value, 0.0)
            low, high = measured
        rounded = _fake_quantize(values, (low, high), True, settings)
    return tf.reshape(rounded, shape) if rounded.shape.rank != shape.rank else rounded


def fake_quantize_activations(values: tf.Tensor, settings: FakeQuantization, name: str = ACTIVATION) -> tf.Tensor:
    """Rounds activations of any shape, float32, with the range `name` of the current variable scope."""
    with tf.compat.v1.variable_scope(name) as scope:
        low, high = _range([], _FIRST_OF_ACTIVATIONS)
        ends: list[tf.Tensor] = [low, high]
        if settings.is_training:
            decay = _decay(scope.name)
            for i, (variable, value) in enumerate(zip((low, high), _extent(values), strict=True)):
                moving_updates.register(variable, value, decay)
                ends[i] = variable - (variable - value) * (1.0 - decay)
        return _fake_quantize(values, (ends[0], ends[1]), False, settings)


def is_range(name: str) -> bool:
    """Returns whether the variable `name` stores a quantization range or its moving average."""
    return any(part.endswith(_SUFFIX) for part in name.split('/')[:-1])


def is_averaging(name: str) -> bool:
    """Returns whether the variable `name` belongs to the moving average of a range, which prediction does not need."""
    return is_range(name) and name.endswith(_AVERAGING)


def are_measured(session: tf.compat.v1.Session) -> bool:
    """Returns whether ranges of activations were measured in any batch, by the counters of a network in training."""
    variables = session.graph.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES)
    counters = [each for each in variables if is_range(each.op.name) and each.op.name.endswith(_AVERAGING[0])]
    return any(session.run([session.graph.as_graph_element(counter) for counter in counters]))


def without_ranges_to_measure(names: Iterable[str], held: Iterable[str]) -> list[str]:
    """Returns names of variables, without the names of ranges if a checkpoint with the names `held` has no ranges."""
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
    """Returns the decay of a range's moving average in this step: 0 in the first step, later almost `DECAY`.

    An average that starts from a given value is biased towards it for thousands of steps. With the decay

      1 - (1 - DECAY) / (1 - DECAY ** n)

    the average after n batches depends on these n alone: the last one has the weight 1, the one before `DECAY`, and so
    on, divided by the sum of the weights.

    Source: arXiv:1412.6980, section 3 (bias correction).
    """
    # The name of the counter in published checkpoints.
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


def _fake_quantize(
    values: tf.Tensor, ends: tuple[tf.Tensor, tf.Tensor], narrow_range: bool, settings: FakeQuantization
) -> tf.Tensor:
    """Rounds `values` within a range; in training from the delay step on."""
    # Predictions have no gradients, and their graphs are converted.
    low, high = (tf.stop_gradient(end) for end in ends) if settings.is_training else ends
    # Operations are named by their type, as in graphs that converters know.
    kind = 'FakeQuantWithMinMaxVars' if low.shape.rank == 0 else 'FakeQuantWithMinMaxVarsPerChannel'
    arguments = {'min': low, 'max': high, 'num_bits': BITS, 'narrow_range': narrow_range}

    def rounding(inputs: tf.Tensor) -> tf.Tensor:
        return getattr(tf.raw_ops, kind)(inputs=inputs, name=kind, **arguments)

    if settings.is_exact:
        return _as_original(rounding(values), low, high, narrow_range)
    if not settings.is_training or settings.delay_step <= 0:
        return rounding(values)
    is_on = tf.compat.v1.train.get_or_create_global_step() >= settings.delay_step
    derivative = getattr(tf.raw_ops, f'{kind}Gradient')

    # Both cases are computed: with a switch in the graph, a step before the delay took twice as long as with this.
    def chosen(inputs: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def gradient(output_gradient: tf.Tensor) -> tf.Tensor:
            input_gradient, *_ = derivative(gradients=output_gradient, inputs=inputs, **arguments)
            return tf.raw_ops.Select(condition=is_on, x=input_gradient, y=output_gradient)

        return tf.raw_ops.Select(condition=is_on, x=rounding(inputs), y=inputs), gradient

    result: tf.Tensor = tf.custom_gradient(chosen)(values)
    return result


def _as_original(rounded: tf.Tensor, low: tf.Tensor, high: tf.Tensor, narrow_range: bool) -> tf.Tensor:
    """Computes rounded values again, in the order of operations of TensorFlow 1.

    With n the number of a value among the 256, and `scale` the distance between two values, TensorFlow 1 computed
    `n * scale + lowest`. TensorFlow 2 computes `(n - zero) * scale`, where zero is the number of the value 0. All
    values of a tensor then differ slightly in the same direction. Sums over many of them are rounded to another value
    often enough to move logits by 3 % of their standard deviation.
    """
    smallest = 1.0 if narrow_range else 0.0
    scale = (high - low) / (2.0**BITS - 1.0 - smallest)
    scale = tf.where(scale > 0.0, scale, tf.ones_like(scale))  # an empty range
    lowest = (smallest - tf.floor(smallest - low / scale + 0.5)) * scale
    return tf.floor((rounded - lowest) / scale + 0.5) * scale + lowest
