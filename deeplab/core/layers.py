"""Layers: convolutions and batch norms, all of which are created here.

What a layer computes also depends on the scopes that are open around it, as in tf-slim: an argument that a call omits
has the value of the innermost `arg_scope` that sets it. Three functions open such scopes:

- `mode_scope`, opened by `model.multi_scale_logits` for all layers, sets `weight_decay`, `native_dilation` and
  `fake_quantization` of convolutions, `is_training` and `forced_decay` of batch norms, `is_training` of dropout, and
  the `compute_type` of the images.
- `training_scope`, opened by a training around the network, sets `trained_scopes` of batch norms and dropout.
- `family_scope`, opened by each backbone, head and decoder, sets `decay` and `epsilon` of batch norms, and `activation`
  and initializers of convolutions.

Names of variables are the checkpoint contract: `SCOPE/weights`, `SCOPE/biases`, `SCOPE/depthwise_weights`,
`SCOPE/BatchNorm/{gamma,beta,moving_mean,moving_variance}`.

A layer computes in the type of its input, which `mode_scope` sets where images enter the network. Variables, batch norm
statistics and their gradients are always float32.

Layers differ from a plain library in two ways. A batch norm in training mode updates nothing: it registers updates
(`moving_updates`), which the train step applies with the gradients or not at all. And randomness is stateless: an
initial value follows from the graph's seed and the variable's name, a dropout mask from seed, name and step.

With fake quantization, batch norms are folded into the convolutions before them, and weights and outputs are rounded to
8 bits (`quantization`). A network only marks what no convolution computes, such as a sum, with `fake_quantized`.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
import tf_slim as slim

from deeplab.core import (
    batch_statistics,
    collectives,
    compute_types,
    convolutions,
    dropout,
    fused_batch_norm,
    initializers,
    moving_updates,
    quantization,
    tf_compat,
    weight_decays,
)
from deeplab.errors import OptionError
from deeplab.options import ModelOptions
from deeplab.wording import option

BATCH_NORM_SCOPE = 'BatchNorm'
HEAD_BATCH_NORM_DECAY = 0.9997
HEAD_BATCH_NORM_EPSILON = 1e-5
Activation = Callable[[tf.Tensor], tf.Tensor]

HEAD_DEPTHWISE_INITIALIZER = initializers.truncated_normal(0.33)
HEAD_POINTWISE_INITIALIZER = initializers.truncated_normal(0.06)


def _variable(
    name: str,
    shape: list[int],
    initializer: initializers.Initializer,
    weight_decay: float = 0.0,
    trainable: bool = True,
) -> tf.Variable:
    """Creates (or, under reuse, finds) the model variable `name` of the current variable scope."""
    scope_name = tf.compat.v1.get_variable_scope().name
    seed = initializers.seed_of(f'{scope_name}/{name}' if scope_name else name)

    def first_value(shape: Any, dtype: tf.DType = tf.float32, partition_info: Any = None) -> tf.Tensor:
        del partition_info
        return tf.cast(initializer([int(side) for side in shape], seed), dtype)

    variable = slim.model_variable(name, shape=shape, initializer=first_value, trainable=trainable)
    if weight_decay:
        weight_decays.add(variable, weight_decay)
    return variable


@tf_compat.add_arg_scope
def _finish(
    convolution: convolutions.Convolution,
    normalize: bool,
    activation: Activation | None,
    bias: float | None = 0.0,
    fake_quantization: quantization.FakeQuantization | None = None,
) -> tf.Tensor:
    """Applies a convolution, whose variable scope is open, then batch norm, biases or neither, then the activation.

    `bias` is the first value of biases, None for none. For the other arguments see `conv2d`, and `mode_scope` for
    `fake_quantization`.
    """
    if fake_quantization is not None:
        return _finish_fake_quantized(convolution, normalize, activation, bias, fake_quantization)
    outputs = convolution.apply(convolution.weights)
    if normalize:
        with convolution.norm_scope():
            scope = convolution.norm_beside or BATCH_NORM_SCOPE
            outputs = batch_norm(outputs, scope=scope, expansion=convolution.expansion)
    elif bias is not None:
        outputs = _add_biases(outputs, bias)
    return outputs if activation is None else activation(outputs)


def _finish_fake_quantized(
    convolution: convolutions.Convolution,
    normalize: bool,
    activation: Activation | None,
    bias: float | None,
    fake_quantization: quantization.FakeQuantization,
) -> tf.Tensor:
    """Computes what an integer convolution will compute, in float32; arguments as in `_finish`.

    In order: fold the batch norm into the weights, round the weights, convolve, add shift or biases, round, activate,
    round. The first rounding of the result is omitted if an integer convolution includes the activation.
    """
    weights, fold = convolution.weights, None
    if normalize:
        fold = _batch_norm_fold(convolution)
        # [filters] fits to [h, w, c, filters]; the filters of a depthwise kernel are its axis c.
        weights = weights * (tf.reshape(fold.factor, weights.shape[2:]) if convolution.is_depthwise else fold.factor)
    prefix = convolution.prefix
    weights = quantization.fake_quantize_weights(
        weights, convolution.is_depthwise, fake_quantization, prefix + quantization.WEIGHTS
    )
    outputs = convolution.apply(weights)
    if fold is not None:
        # The weights hold the factor of the moving statistics, the result shall have the factor of the batch's.
        outputs = outputs if fold.rescale is None else outputs * fold.rescale
        outputs = tf.nn.bias_add(outputs, fold.shift)
    elif bias is not None:
        outputs = _add_biases(outputs, bias)
    if activation is not None:
        if not quantization.is_computed_by_convolution(activation):
            name = prefix + quantization.BEFORE_ACTIVATION
            outputs = quantization.fake_quantize_activations(outputs, fake_quantization, name)
        outputs = activation(outputs)
    return quantization.fake_quantize_activations(outputs, fake_quantization, prefix + quantization.ACTIVATION)


def _add_biases(values: tf.Tensor, first: float) -> tf.Tensor:
    biases = _variable('biases', [int(values.shape[-1])], initializers.constant(first))
    return tf.nn.bias_add(values, compute_types.as_type(biases, values.dtype))


@tf_compat.add_arg_scope
def fake_quantized(
    values: tf.Tensor,
    name: str = quantization.ADDITION,
    *,
    fake_quantization: quantization.FakeQuantization | None = None,
) -> tf.Tensor:
    """Rounds what no convolution computes, such as a sum, with fake quantization; otherwise returns it unchanged.

    Args:
      values: any shape, float32.
      name: name of its range in the current variable scope.
      fake_quantization: as in `mode_scope`.
    """
    if fake_quantization is None:
        return values
    return quantization.fake_quantize_activations(values, fake_quantization, name)


def gated(features: tf.Tensor, gates: tf.Tensor) -> tf.Tensor:
    """Multiplies features [n, h, w, c] by gates [n, h or 1, w or 1, c]; the product is `fake_quantized`."""
    return fake_quantized(features * gates, quantization.PRODUCT)


@tf_compat.add_arg_scope
def conv2d(
    inputs: tf.Tensor,
    filters: int,
    kernel_size: int,
    *,
    scope: str,
    stride: int = 1,
    rate: int = 1,
    fixed_padding: bool = False,
    normalize: bool = True,
    activation: Activation | None = tf.nn.relu,
    initializer: initializers.Initializer = initializers.xavier_uniform,
    weight_decay: float = 0.0,
    bias: bool = True,
    weights_name: str = 'weights',
    norm_beside: str | None = None,
    native_dilation: bool = False,
) -> tf.Tensor:
    """Applies a convolution with batch norm (or biases) and an activation.

    Args:
      inputs: [n, h, w, c] float.
      filters: channels of the result.
      kernel_size: side of the square kernel.
      scope: variable scope.
      stride: step between two outputs.
      rate: atrous rate; 1 for a dense kernel.
      fixed_padding: whether a strided convolution pads both sides alike instead of TensorFlow's SAME.
      normalize: whether a batch norm follows; else biases.
      activation: last operation; None for none.
      initializer: first value of the weights.
      weight_decay: factor on half the sum of the squared weights in the regularization losses.
      bias: whether biases follow where no batch norm does (a family may make its batch norms itself).
      weights_name: name of the weights in their scope.
      norm_beside: scope of a batch norm that lies beside `scope`; None for `BatchNorm` in it.
      native_dilation: whether an atrous convolution may use the kernel that knows dilations (faster, but without a
        gradient on a CPU) instead of space-to-batch.

    Returns:
      [n, ceil(h / stride), ceil(w / stride), filters], of the type of `inputs`.

    Source: atrous convolution: arXiv:1706.05587, section 3.1.
    """
    outer_scope = tf.compat.v1.get_variable_scope()
    with tf.compat.v1.variable_scope(scope, values=[inputs]):
        shape = [kernel_size, kernel_size, int(inputs.shape[-1]), filters]
        weights = compute_types.as_type(_variable(weights_name, shape, initializer, weight_decay), inputs.dtype)
        expansion = None
        if batch_statistics.is_cheaper_from_input(inputs, filters, kernel_size, stride):
            expansion = batch_statistics.Expansion(inputs, weights)
        padding = 'SAME'
        if fixed_padding and stride > 1 and kernel_size > 1:
            inputs, padding = convolutions.pad_for_stride(inputs, kernel_size, rate), 'VALID'
        # A 1x1 kernel has nothing to spread, so a rate would only cost time.
        dilations = rate if kernel_size > 1 else 1
        convolve = functools.partial(convolutions.convolve, inputs, stride, dilations, padding, native_dilation)
        prefix = weights_name.removesuffix('weights')
        convolution = convolutions.Convolution(weights, convolve, outer_scope, prefix, False, expansion, norm_beside)
        return _finish(convolution, normalize, activation, 0.0 if bias else None)


@tf_compat.add_arg_scope
def depthwise_conv2d(
    inputs: tf.Tensor,
    kernel_size: int,
    *,
    scope: str,
    stride: int = 1,
    rate: int | tuple[int, int] = 1,
    fixed_padding: bool = False,
    normalize: bool = True,
    activation: Activation | None = tf.nn.relu,
    initializer: initializers.Initializer = initializers.xavier_uniform,
    weight_decay: float = 0.0,
    native_dilation: bool = False,
    bias: bool = True,
) -> tf.Tensor:
    """Applies a depthwise convolution (one filter for each channel) with batch norm (or biases) and an activation.

    Arguments are as in `conv2d`, with two differences: `rate` may also be one number for rows and one for columns, and
    `stride` is 1 where it is greater than 1. By contract there is no `weight_decay` but in the searched networks.
    Native dilation has no gradient and does not survive export.

    Returns:
      [n, ceil(h / stride), ceil(w / stride), c], of the type of `inputs`.

    Source: arXiv:1802.02611, section 3.1 (atrous separable convolution).
    """
    outer_scope = tf.compat.v1.get_variable_scope()
    with tf.compat.v1.variable_scope(scope, values=[inputs]):
        shape = [kernel_size, kernel_size, int(inputs.shape[-1]), 1]
        weights = compute_types.as_type(_variable('depthwise_weights', shape, initializer, weight_decay), inputs.dtype)
        padding = 'SAME'
        rates = (rate, rate) if isinstance(rate, int) else rate
        if fixed_padding and stride > 1:
            inputs, padding = convolutions.pad_for_stride(inputs, kernel_size, rates[0]), 'VALID'

        def convolve(weights: tf.Tensor) -> tf.Tensor:
            is_native = native_dilation and inputs.dtype != tf.float64  # which oneDNN does not compute
            if is_native and max(rates) > 1 and tf_compat.has_one_dnn():
                return tf.raw_ops.DepthwiseConv2dNative(
                    input=inputs, filter=weights, strides=[1, 1, 1, 1], padding=padding, dilations=[1, *rates, 1]
                )
            strides = [1, stride, stride, 1]
            is_trained = not native_dilation
            gradients = convolutions.depthwise_gradients(inputs, kernel_size, stride)
            with gradients if is_trained else contextlib.nullcontext():
                return tf.nn.depthwise_conv2d(inputs, weights, strides, padding, dilations=rates, name='depthwise')

        convolution = convolutions.Convolution(weights, convolve, outer_scope, is_depthwise=True)
        return _finish(convolution, normalize, activation, 0.0 if bias else None)


@tf_compat.add_arg_scope
def separable_conv2d(
    inputs: tf.Tensor,
    filters: int,
    kernel_size: int,
    *,
    scope: str,
    stride: int = 1,
    rate: int | tuple[int, int] = 1,
    fixed_padding: bool = False,
    normalize: bool = True,
    activation: Activation | None = tf.nn.relu,
    depthwise_activation: bool = True,
    depthwise_initializer: initializers.Initializer = HEAD_DEPTHWISE_INITIALIZER,
    pointwise_initializer: initializers.Initializer = HEAD_POINTWISE_INITIALIZER,
) -> tf.Tensor:
    """Applies a depthwise convolution `SCOPE_depthwise` and a 1x1 convolution `SCOPE_pointwise`, each with batch norm.

    Arguments are as in `depthwise_conv2d` and `conv2d`. The activation follows the second part, and the first one if
    `depthwise_activation`.

    Returns:
      [n, ceil(h / stride), ceil(w / stride), filters], of the type of `inputs`.

    Source: arXiv:1802.02611, section 3.2 (batch norm and ReLU after each 3x3 depthwise convolution).
    """
    outputs = depthwise_conv2d(
        inputs,
        kernel_size,
        scope=f'{scope}_depthwise',
        stride=stride,
        rate=rate,
        fixed_padding=fixed_padding,
        normalize=normalize,
        activation=activation if depthwise_activation else None,
        initializer=depthwise_initializer,
    )
    return conv2d(
        outputs,
        filters,
        1,
        scope=f'{scope}_pointwise',
        normalize=normalize,
        activation=activation,
        initializer=pointwise_initializer,
    )


@tf_compat.add_arg_scope
def fully_connected(
    inputs: tf.Tensor,
    filters: int,
    *,
    scope: str,
    activation: Activation | None = tf.nn.relu,
    initializer: initializers.Initializer = initializers.xavier_uniform,
    bias: float = 0.0,
    weight_decay: float = 0.0,
) -> tf.Tensor:
    """Applies a layer whose every output depends on every input value of the image, with biases and an activation.

    Args:
      inputs: [n, h, w, c] float, of a static size.
      filters: channels of the result.
      scope: variable scope. The weights are a matrix [h * w * c, filters].
      activation: last operation; None for none.
      initializer: first value of the weights.
      bias: first value of the biases.
      weight_decay: as in `conv2d`.

    Returns:
      [n, 1, 1, filters], of the type of `inputs`.

    Raises:
      OptionError: the size of the inputs is not known before the graph runs.
    """
    if None in inputs.shape[1:].as_list():
        raise OptionError(
            f'{scope} depends on the size of the images, which is not set. Set {option("ModelOptions.crop_size")}.'
        )
    outer_scope = tf.compat.v1.get_variable_scope()
    with tf.compat.v1.variable_scope(scope, values=[inputs]):
        size = math.prod(inputs.shape[1:].as_list())
        matrix = compute_types.as_type(_variable('weights', [size, filters], initializer, weight_decay), inputs.dtype)
        # As a 1x1 convolution of one pixel.
        pixel = tf.reshape(inputs, [-1, 1, 1, size])
        convolve = functools.partial(convolutions.convolve, pixel, 1, 1, 'SAME', False)
        convolution = convolutions.Convolution(tf.reshape(matrix, [1, 1, size, filters]), convolve, outer_scope)
        return _finish(convolution, False, activation, bias)


@tf_compat.add_arg_scope
def batch_norm(
    inputs: tf.Tensor,
    *,
    decay: float = HEAD_BATCH_NORM_DECAY,
    forced_decay: float | None = None,
    epsilon: float = HEAD_BATCH_NORM_EPSILON,
    is_training: bool = False,
    trained_scopes: tuple[str, ...] = (),
    scope: str = BATCH_NORM_SCOPE,
    group: collectives.Participant | None = None,
    expansion: batch_statistics.Expansion | None = None,
    fake_quantization: quantization.FakeQuantization | None = None,
) -> tf.Tensor:
    """Applies batch normalization.

    In training mode it normalizes with the batch's statistics and registers two updates (see
    `moving_updates`); it changes no variable itself. Otherwise it normalizes with the moving statistics, and gamma
    and beta still have gradients.

    Args:
      inputs: [n, h, w, c] float.
      decay: fraction of a moving statistic that stays in an update; the network family sets it.
      forced_decay: decay that replaces `decay`; None for `decay`.
      epsilon: constant that is added to the variance.
      is_training: whether to use the batch's statistics.
      trained_scopes: see `training_scope`.
      scope: variable scope.
      group: see `training_scope`.
      expansion: convolution that computes `inputs`, if batch statistics are cheaper to compute from its input.
      fake_quantization: as in `mode_scope`; for a batch norm without a convolution before it.

    Returns:
      [n, h, w, c], of the type of `inputs`.

    Source: arXiv:1502.03167, algorithms 1 and 2 (the stored variance is the unbiased one).
    """
    with tf.compat.v1.variable_scope(scope, values=[inputs]):
        gamma, beta, moving_mean, moving_variance, _ = norm = _statistics(int(inputs.shape[-1]), epsilon)
        if not _uses_batch(is_training, trained_scopes):
            moving = moving_mean, moving_variance
            outputs = fused_batch_norm.apply(inputs, gamma, beta, epsilon, moving).outputs
            return fake_quantized(outputs, quantization.ACTIVATION, fake_quantization=fake_quantization)
        if expansion is None and group is None:
            outputs, mean, variance = fused_batch_norm.apply(inputs, gamma, beta, epsilon)
        else:
            moments = batch_statistics.of_batch(inputs, expansion, moving_mean, group)
            factor, shift = batch_statistics.fold(moments, gamma, beta, epsilon)
            mean, variance = moments.mean, moments.unbiased
            if expansion is None:
                outputs = compute_types.as_type(factor, inputs.dtype) * inputs
            else:
                with convolutions.pointwise_gradients(expansion.inputs):
                    outputs = tf.nn.conv2d(expansion.inputs, expansion.weights * factor, 1, 'SAME')
            outputs = tf.nn.bias_add(outputs, compute_types.as_type(shift, inputs.dtype))
        _register(norm, mean, variance, decay if forced_decay is None else forced_decay)
        return fake_quantized(outputs, quantization.ACTIVATION, fake_quantization=fake_quantization)


def _statistics(channels: int, epsilon: float) -> quantization.Statistics:
    """Creates the variables of a batch norm in the current variable scope."""
    return quantization.Statistics(
        _variable('gamma', [channels], initializers.ones),
        _variable('beta', [channels], initializers.zeros),
        _variable('moving_mean', [channels], initializers.zeros, trainable=False),
        _variable('moving_variance', [channels], initializers.ones, trainable=False),
        epsilon,
    )


def _uses_batch(is_training: bool, trained_scopes: tuple[str, ...]) -> bool:
    """Returns whether the batch norm of the current variable scope normalizes with the statistics of the batch."""
    return is_training and not dropout.is_frozen(tf.compat.v1.get_variable_scope().name, trained_scopes)


def _register(norm: quantization.Statistics, mean: tf.Tensor, variance: tf.Tensor, decay: float) -> None:
    """Registers the updates of the moving statistics by the mean and the unbiased variance of a batch."""
    moving_updates.register(norm.moving_mean, mean, decay)
    moving_updates.register(norm.moving_variance, variance, decay)


@tf_compat.add_arg_scope
def _batch_norm_fold(
    convolution: convolutions.Convolution,
    *,
    decay: float = HEAD_BATCH_NORM_DECAY,
    forced_decay: float | None = None,
    epsilon: float = HEAD_BATCH_NORM_EPSILON,
    is_training: bool = False,
    trained_scopes: tuple[str, ...] = (),
) -> quantization.Fold:
    """Folds a batch norm into the convolution before it; its arguments, variables and updates are as in `batch_norm`.

    In training mode the convolution is also computed, to measure the batch's statistics.
    """
    with convolution.norm_scope(), tf.compat.v1.variable_scope(convolution.norm_beside or BATCH_NORM_SCOPE):
        norm = _statistics(int(convolution.weights.shape[2 if convolution.is_depthwise else 3]), epsilon)
        if not _uses_batch(is_training, trained_scopes):
            return quantization.fold(norm, None)
        if convolution.expansion is None:
            moments = batch_statistics.moments(convolution.apply(convolution.weights))
        else:
            moments = batch_statistics.moments_of(convolution.expansion)
        _register(norm, moments.mean, moments.unbiased, decay if forced_decay is None else forced_decay)
        return quantization.fold(norm, (moments.mean, moments.variance))


_CONVOLUTIONS = [conv2d, depthwise_conv2d, separable_conv2d]
_BATCH_NORMS = [batch_norm, _batch_norm_fold]


@contextlib.contextmanager
def mode_scope(
    *,
    is_training: bool,
    fine_tune_batch_norm: bool,
    weight_decay: float = 0.0,
    batch_norm_decay: float | None = None,
    native_dilation: bool | None = None,
    compute_type: tf.DType = tf.float32,
    fake_quantization: quantization.FakeQuantization | None = None,
) -> Iterator[None]:
    """Sets the mode of all layers within: training or inference, weight decay, compute type, fake quantization.

    Args:
      is_training: whether dropout drops.
      fine_tune_batch_norm: whether batch norms use the batch's statistics, and drop path drops, while training.
      weight_decay: weight decay of convolutions and fully connected layers (biases, gamma and beta have none, nor have
        depthwise weights, unless their family asks for it).
      batch_norm_decay: decay of every batch norm; None for each family's own.
      native_dilation: whether atrous depthwise convolutions may use the kernel that knows dilations; None for
        "while predicting, where a `depthwise_conv2d` scope does not say otherwise".
      compute_type: type of convolutions and activations: float32, bfloat16 or float16.
      fake_quantization: settings of the fake quantization, which needs float32; None for none.
    """
    native = (not is_training) if native_dilation is None else native_dilation
    uses_batch = is_training and fine_tune_batch_norm
    with (
        slim.arg_scope([conv2d, fully_connected], weight_decay=weight_decay),
        slim.arg_scope([conv2d], native_dilation=not is_training),
        slim.arg_scope([depthwise_conv2d], native_dilation=native),
        slim.arg_scope(_BATCH_NORMS, is_training=uses_batch, forced_decay=batch_norm_decay),
        slim.arg_scope([dropout.dropout], is_training=is_training),
        # With frozen batch norms the original builds networks with paths for inference, but keeps dropout.
        slim.arg_scope([dropout.drop_path], is_training=uses_batch),
        slim.arg_scope([compute_types.as_compute_type], compute_type=compute_type),
        slim.arg_scope([_finish, batch_norm, fake_quantized], fake_quantization=fake_quantization),
    ):
        yield


@contextlib.contextmanager
def training_scope(trained_scopes: tuple[str, ...], group: collectives.Participant | None = None) -> Iterator[None]:
    """Freezes layers outside `trained_scopes` in every mode; empty scopes freeze nothing.

    With a `group`, batch norms normalize with the statistics of the batches of all its clones together.

    A frozen layer computes as in prediction: its batch norms normalize with moving statistics and do not update them,
    and its dropout and drop path drop nothing.
    """
    functions = [*_BATCH_NORMS, dropout.dropout, dropout.drop_path]
    with (
        slim.arg_scope(functions, trained_scopes=tuple(trained_scopes)),
        slim.arg_scope([batch_norm], group=group),
    ):
        yield


@contextlib.contextmanager
def family_scope(
    *,
    batch_norm_decay: float,
    batch_norm_epsilon: float,
    activation: Activation | None,
    initializer: initializers.Initializer = initializers.xavier_uniform,
    depthwise_initializer: initializers.Initializer = HEAD_DEPTHWISE_INITIALIZER,
    pointwise_initializer: initializers.Initializer = HEAD_POINTWISE_INITIALIZER,
    decays_depthwise: bool = False,
) -> Iterator[None]:
    """Sets the properties of a family of networks: batch norm constants, activation and initializers.

    `decays_depthwise` extends the weight decay of `mode_scope` to depthwise weights.
    """
    decay_of_depthwise = {}
    if decays_depthwise:
        of_convolutions = slim.current_arg_scope().get(slim.arg_scope_func_key(conv2d), {})
        decay_of_depthwise['weight_decay'] = of_convolutions.get('weight_decay', 0.0)
    separable = {'depthwise_initializer': depthwise_initializer, 'pointwise_initializer': pointwise_initializer}
    with (
        slim.arg_scope(_BATCH_NORMS, decay=batch_norm_decay, epsilon=batch_norm_epsilon),
        slim.arg_scope(_CONVOLUTIONS, activation=activation),
        slim.arg_scope([conv2d], initializer=initializer),
        slim.arg_scope([depthwise_conv2d], initializer=depthwise_initializer, **decay_of_depthwise),
        slim.arg_scope([separable_conv2d], **separable),
    ):
        yield


def network_activation(options: ModelOptions) -> Activation:
    """Returns the activation of networks, heads and decoder: relu, or relu6 for bounded activations."""
    activation: Activation = tf.nn.relu6 if options.use_bounded_activation else tf.nn.relu
    return activation


def head_scope(options: ModelOptions) -> contextlib.AbstractContextManager[None]:
    """Returns the arg_scope of the layers of heads and decoder."""
    return family_scope(
        batch_norm_decay=HEAD_BATCH_NORM_DECAY,
        batch_norm_epsilon=HEAD_BATCH_NORM_EPSILON,
        activation=network_activation(options),
    )


def convolution_scope(**arguments: Any) -> contextlib.AbstractContextManager[Any]:
    """Sets `arguments` of every kind of convolution, such as `normalize=False`."""
    scope: contextlib.AbstractContextManager[Any] = slim.arg_scope(_CONVOLUTIONS, **arguments)
    return scope
