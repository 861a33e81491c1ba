"""Convolutions as operations of inputs and weights; 1x1 convolutions have faster gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from deeplab.core import batch_statistics

_POINTWISE_GRADIENT = 'DeepLabPointwiseConv2D'


class Convolution(NamedTuple):
    """A convolution of given inputs. Its weights may still be changed, for example to fold a batch norm into them.

    Attributes:
      weights: weights of the layer: [h, w, c, filters]; [h, w, c, 1] for a depthwise convolution.
      apply: function that computes the convolution with any weights of this shape: [n, h, w, filters].
      outer_scope: variable scope around the scope of the convolution.
      prefix: prefix of the names of its ranges, for two convolutions that share a scope.
      is_depthwise: whether each channel has its own filter.
      expansion: the same convolution, if batch statistics are cheaper to compute from its input; else None.
      norm_beside: scope of a batch norm in `outer_scope`; None for a batch norm in the convolution's own scope.
    """

    weights: tf.Tensor
    apply: Callable[[tf.Tensor], tf.Tensor]
    outer_scope: tf.compat.v1.VariableScope
    prefix: str = ''
    is_depthwise: bool = False
    expansion: batch_statistics.Expansion | None = None
    norm_beside: str | None = None

    def norm_scope(self) -> contextlib.AbstractContextManager[Any]:
        """Opens the variable scope in which the batch norm is created."""
        stack = contextlib.ExitStack()
        if self.norm_beside is not None:
            stack.enter_context(tf.compat.v1.variable_scope(self.outer_scope, auxiliary_name_scope=False))
            stack.enter_context(tf.name_scope(self.outer_scope.original_name_scope))
        return stack


def pad_for_stride(inputs: tf.Tensor, kernel_size: int, rate: int) -> tf.Tensor:
    """Pads [n, h, w, c] so that a strided VALID convolution is centered for even and odd sizes."""
    total = (kernel_size - 1) * rate
    before = total // 2
    sides = [before, total - before]
    return tf.pad(inputs, [[0, 0], sides, sides, [0, 0]])


def convolve(
    inputs: tf.Tensor, stride: int, dilations: int, padding: str, native_dilation: bool, weights: tf.Tensor
) -> tf.Tensor:
    """Computes a convolution with weights [kernel size, kernel size, c, filters]; see `layers.conv2d`."""
    if dilations > 1 and stride == 1 and not native_dilation:
        return tf.nn.atrous_conv2d(inputs, weights, dilations, padding, name='Conv2D')
    # Native dilation is for prediction, which has no gradients.
    is_pointwise = int(weights.shape[0]) == 1 and stride == 1 and not native_dilation
    with pointwise_gradients(inputs) if is_pointwise else contextlib.nullcontext():
        return tf.nn.conv2d(inputs, weights, stride, padding, dilations=dilations, name='Conv2D')


def pointwise_gradients(inputs: tf.Tensor) -> contextlib.AbstractContextManager[None]:
    """Computes the gradients of the 1x1 convolutions that are built within as matrix products.

    With the pixels as rows, a 1x1 convolution with stride 1 is the product Y = X W, so dX = dY W' and dW = X' dY.
    On a CPU these take about half the time of TensorFlow's gradients if a bias is added (oneDNN merges the gradients of
    filter and bias to one slow operation): a training step of MobileNetV2 takes 0.88 to 0.92 of the time
    (benchmarks/NOTES.md). Forward, it remains a convolution, which TensorFlow merges with bias and activation.

    Args:
      inputs: inputs of the convolutions. On a GPU, and for types other than float32, TensorFlow's gradients are used.
    """
    if inputs.dtype != tf.float32 or tf.config.list_physical_devices('GPU'):
        return contextlib.nullcontext()
    override: contextlib.AbstractContextManager[None] = tf.compat.v1.get_default_graph().gradient_override_map(
        {'Conv2D': _POINTWISE_GRADIENT}
    )
    return override


def _pointwise_gradients(convolution: tf.Operation, gradient: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the gradients of the inputs [n, h, w, c] and of the weights [1, 1, c, filters]."""
    inputs, weights = convolution.inputs
    channels, filters = (int(size) for size in weights.shape[2:])
    pixels = tf.reshape(inputs, [-1, channels])  # [pixels, channels]
    output_gradient = tf.reshape(gradient, [-1, filters])  # [pixels, filters]
    pixel_gradient = tf.matmul(output_gradient, tf.reshape(weights, [channels, filters]), transpose_b=True)
    weight_gradient = tf.matmul(pixels, output_gradient, transpose_a=True)  # [channels, filters]
    return tf.reshape(pixel_gradient, tf.shape(inputs)), tf.reshape(weight_gradient, weights.shape)


tf.RegisterGradient(_POINTWISE_GRADIENT)(_pointwise_gradients)
