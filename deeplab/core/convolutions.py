"""Convolutions as operations of inputs and weights, with faster gradients of 1x1 and of depthwise ones."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from deeplab.core import batch_statistics, tf_compat

_POINTWISE_GRADIENT = 'DeepLabPointwiseConv2D'
_DEPTHWISE_GRADIENT = 'DeepLabDepthwise'
_WINDOW = 3  # columns of a filter whose gradient oneDNN computes fast


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
    (benchmarks/NOTES.md). In bfloat16, products take half the time of the gradients of wide convolutions. Forward, it
    remains a convolution, which TensorFlow merges with bias and activation.

    Args:
      inputs: inputs of the convolutions. On a GPU, and for types other than float32 and bfloat16, the gradients are
        TensorFlow's own.
    """
    return _on_cpu({'Conv2D': _POINTWISE_GRADIENT}, inputs, tf.float32, tf.bfloat16)


def depthwise_gradients(inputs: tf.Tensor, kernel_size: int, stride: int) -> contextlib.AbstractContextManager[None]:
    """Computes the gradients of the depthwise convolutions that are built within by faster operations.

    oneDNN takes twice as long for the gradient of a filter of 5x5 as for the gradients of two parts of 5x3, and
    TensorFlow's gradient of the inputs of a strided convolution takes 10 to 100 times as long in bfloat16 as in float32
    (benchmarks/NOTES.md).

    Args:
      inputs: inputs of the convolutions. On a GPU, and for types other than float32 and bfloat16, the gradients are
        TensorFlow's own.
      kernel_size: height and width of the filters.
      stride: stride of the convolutions.
    """
    if kernel_size > _WINDOW:
        types = [tf.float32, tf.bfloat16]
    else:
        types = [tf.bfloat16] if stride > 1 else []
    return _on_cpu({'DepthwiseConv2dNative': _DEPTHWISE_GRADIENT}, inputs, *types)


def _on_cpu(gradients: dict[str, str], inputs: tf.Tensor, *types: tf.DType) -> contextlib.AbstractContextManager[None]:
    """Registers gradients of the operations that are built within, if their inputs have one of the types, on a CPU."""
    if inputs.dtype not in types or tf.config.list_physical_devices('GPU'):
        return contextlib.nullcontext()
    override: contextlib.AbstractContextManager[None] = tf.compat.v1.get_default_graph().gradient_override_map(
        gradients
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


def _depthwise_gradients(convolution: tf.Operation, gradient: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the gradients of the inputs [n, h, w, c] and of the weights [kernel size, kernel size, c, 1]."""
    inputs, weights = convolution.inputs
    settings = {name: convolution.get_attr(name) for name in ('strides', 'padding')}
    is_strided = max(settings['strides']) > 1
    computed = tf.float32 if is_strided else inputs.dtype
    input_gradient = tf.raw_ops.DepthwiseConv2dNativeBackpropInput(
        input_sizes=tf.shape(inputs),
        filter=tf.cast(weights, computed),
        out_backprop=tf.cast(gradient, computed),
        **settings,
    )
    return tf.cast(input_gradient, inputs.dtype), _depthwise_weight_gradient(inputs, weights.shape, gradient, settings)


def _depthwise_weight_gradient(
    inputs: tf.Tensor, shape: tf.TensorShape, gradient: tf.Tensor, settings: dict[str, Any]
) -> tf.Tensor:
    """Returns the gradient of depthwise weights [h, w, c, 1], computed for a few columns of the weights at a time."""
    rows, columns, channels, _ = map(int, shape)
    sizes = [(inputs.shape[axis], gradient.shape[axis], kernel) for axis, kernel in ((1, rows), (2, columns))]
    is_static = all(value is not None for size in sizes for value in size)
    if columns <= _WINDOW or not is_static or inputs.shape[2] < columns or not tf_compat.has_one_dnn():
        return tf.raw_ops.DepthwiseConv2dNativeBackpropFilter(
            input=inputs, filter_sizes=shape, out_backprop=gradient, **settings
        )
    stride = int(settings['strides'][1])
    (above, below), (left, _) = (
        _padding(*size, stride) if settings['padding'] == b'SAME' else (0, 0) for size in sizes
    )
    width, out_width, _ = sizes[1]
    parts = []
    for first in range(0, columns, _WINDOW):
        window = min(_WINDOW, columns - first)
        before = left - first  # columns of zeros before the window's first position; negative: of the image
        after = (out_width - 1) * stride + window - width - before
        parts.append(
            tf.raw_ops.DepthwiseConv2dNativeBackpropFilter(
                input=inputs[:, :, max(-before, 0) : width + min(after, 0)],
                filter_sizes=[rows, window, channels, 1],
                out_backprop=gradient,
                strides=settings['strides'],
                padding='EXPLICIT',
                explicit_paddings=[0, 0, above, below, max(before, 0), max(after, 0), 0, 0],
            )
        )
    return tf.concat(parts, axis=1)


def _padding(size: int, out_size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Returns the zeros before and after an axis of which SAME makes `out_size` places."""
    total = max((out_size - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


tf.RegisterGradient(_DEPTHWISE_GRADIENT)(_depthwise_gradients)
