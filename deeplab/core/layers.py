"""Layers: convolutions and batch norms, all of which are created here.

Every function takes tf-slim's `arg_scope`, which is how a family sets its decay, epsilon, initializers and
activation, and how the training mode reaches each layer without passing through the network's code. Names of
variables are the checkpoint contract: `SCOPE/weights`, `SCOPE/biases`, `SCOPE/depthwise_weights`,
`SCOPE/BatchNorm/{gamma,beta,moving_mean,moving_variance}`.

A layer computes in the type of its input, which `mode_scope` chooses once, where images enter: variables, the
statistics of batch norms and their gradients are float32 whatever that type is.

Two things differ from a plain layer library. A batch norm in training mode updates nothing: it registers
updates (`moving_updates`), which the train step applies with the gradients or not at all. And nothing is random by
order: an initial value follows from the graph's seed and the variable's name, a dropout mask from the seed, the place
and the step, so clones, scales and the order of building change neither.

While 8 bits are imitated (`mode_scope`), batch norms become part of the convolutions before them, and weights and
outputs are rounded (`quantization`). A network states only what no convolution computes, such as a sum, with `rounded`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
import tf_slim as slim

from deeplab.core import (
    batch_statistics,
    compute_types,
    dropout,
    initializers,
    moving_updates,
    pointwise,
    quantization,
    tf_compat,
    weight_decays,
)
from deeplab.core.convolution import Convolution
from deeplab.options import ModelOptions

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


def _channels(inputs: tf.Tensor) -> int:
    """Returns the number of channels of an NHWC tensor."""
    return int(inputs.shape[-1])


def _pad_for_stride(inputs: tf.Tensor, kernel_size: int, rate: int) -> tf.Tensor:
    """Pads [n, h, w, c] so that a strided VALID convolution is centered for even and odd sizes."""
    total = (kernel_size - 1) * rate
    before = total // 2
    sides = [before, total - before]
    return tf.pad(inputs, [[0, 0], sides, sides, [0, 0]])


@slim.add_arg_scope
def _finish(
    convolution: Convolution,
    normalize: bool,
    activation: Activation | None,
    bias: bool = True,
    beside: str | None = None,
    imitation: quantization.Imitation | None = None,
) -> tf.Tensor:
    """Applies the convolution, then batch norm, bias or neither, then the activation.

    Args:
      convolution: in whose variable scope this is called.
      normalize: whether a batch norm follows.
      activation: what comes last; None for nothing.
      bias: whether biases follow where no batch norm does.
      beside: scope of a batch norm that lies beside that of the convolution; None for `BatchNorm` within.
      imitation: how 8 bits are imitated; None for not at all.
    """
    norm = beside or BATCH_NORM_SCOPE
    if imitation is not None:
        fold = None
        if normalize:
            with convolution.norm_scope(beside):
                fold = batch_norm_fold(convolution, scope=norm)
        return _finish_in_8_bits(convolution, fold, activation, bias, imitation)
    outputs = convolution.apply(convolution.weights)
    if normalize:
        with convolution.norm_scope(beside):
            outputs = batch_norm(outputs, scope=norm, expansion=convolution.expansion)
    elif bias:
        outputs = _with_biases(outputs)
    return outputs if activation is None else activation(outputs)


def _finish_in_8_bits(
    convolution: Convolution,
    fold: quantization.Fold | None,
    activation: Activation | None,
    bias: bool,
    imitation: quantization.Imitation,
) -> tf.Tensor:
    """Applies the convolution with rounded weights, then its folded batch norm or its bias, then the activation."""
    weights, prefix = convolution.weights, convolution.prefix
    if fold is not None:
        weights = weights * (tf.reshape(fold.factor, weights.shape[2:]) if convolution.is_depthwise else fold.factor)
    name = prefix + quantization.WEIGHTS
    outputs = convolution.apply(quantization.rounded_weights(weights, convolution.is_depthwise, imitation, name))
    if fold is not None:
        outputs = outputs if fold.rescale is None else outputs * fold.rescale
        outputs = tf.nn.bias_add(outputs, fold.shift)
    elif bias:
        outputs = _with_biases(outputs)
    if activation is not None:
        if not quantization.is_computed_by_convolution(activation):
            name = prefix + quantization.BEFORE_ACTIVATION
            outputs = quantization.rounded_activations(outputs, imitation, name)
        outputs = activation(outputs)
    return quantization.rounded_activations(outputs, imitation, prefix + quantization.ACTIVATION)


def _with_biases(values: tf.Tensor) -> tf.Tensor:
    """Adds the biases of the current variable scope."""
    biases = _variable('biases', [_channels(values)], initializers.zeros)
    return tf.nn.bias_add(values, compute_types.as_type(biases, values.dtype))


@slim.add_arg_scope
def rounded(
    values: tf.Tensor, name: str = quantization.ADDITION, *, imitation: quantization.Imitation | None = None
) -> tf.Tensor:
    """Rounds what no convolution computes, such as a sum, while 8 bits are imitated; otherwise returns it as it is.

    Args:
      values: any shape, float32.
      name: of its range in the current variable scope.
      imitation: as in `mode_scope`.
    """
    return values if imitation is None else quantization.rounded_activations(values, imitation, name)


def gated(features: tf.Tensor, gates: tf.Tensor) -> tf.Tensor:
    """Multiplies features [n, h, w, c] by gates [n, h or 1, w or 1, c]; the product is `rounded`."""
    return rounded(features * gates, quantization.PRODUCT)


@slim.add_arg_scope
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
      activation: what comes last; None for nothing.
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
    around = tf.compat.v1.get_variable_scope()
    with tf.compat.v1.variable_scope(scope, values=[inputs]):
        shape = [kernel_size, kernel_size, _channels(inputs), filters]
        weights = compute_types.as_type(_variable(weights_name, shape, initializer, weight_decay), inputs.dtype)
        expansion = None
        if batch_statistics.pays(inputs, filters, kernel_size, stride):
            expansion = batch_statistics.Expansion(inputs, weights)
        padding = 'SAME'
        if fixed_padding and stride > 1 and kernel_size > 1:
            inputs, padding = _pad_for_stride(inputs, kernel_size, rate), 'VALID'
        # A 1x1 kernel has nothing to spread, so a rate would only cost time.
        dilations = rate if kernel_size > 1 else 1
        convolve = functools.partial(_convolve, inputs, stride, dilations, padding, native_dilation)
        prefix = weights_name.removesuffix('weights')
        convolution = Convolution(weights, convolve, around, prefix, expansion=expansion)
        return _finish(convolution, normalize, activation, bias, norm_beside)


def _convolve(
    inputs: tf.Tensor, stride: int, dilations: int, padding: str, native_dilation: bool, weights: tf.Tensor
) -> tf.Tensor:
    """Computes a convolution with weights [kernel size, kernel size, c, filters]; see `conv2d`."""
    if dilations > 1 and stride == 1 and not native_dilation:
        return tf.nn.atrous_conv2d(inputs, weights, dilations, padding, name='Conv2D')
    # A network that predicts, whose atrous convolutions are native ones, has no gradients.
    is_product = int(weights.shape[0]) == 1 and stride == 1 and not native_dilation
    with pointwise.gradients_as_products(inputs) if is_product else contextlib.nullcontext():
        return tf.nn.conv2d(inputs, weights, stride, padding, dilations=dilations, name='Conv2D')


@slim.add_arg_scope
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

    Args:
      inputs: [n, h, w, c] float.
      kernel_size: side of the square kernel.
      scope: variable scope.
      stride: step between two outputs; 1 where `rate` is greater than 1.
      rate: atrous rate, one number or one for rows and one for columns.
      fixed_padding: as in `conv2d`.
      normalize: as in `conv2d`.
      activation: as in `conv2d`.
      initializer: first value of the depthwise weights.
      weight_decay: as in `conv2d`; 0 by contract for all but the searched networks.
      native_dilation: whether an atrous convolution may use the kernel that knows dilations (faster on a CPU, has no
        gradient, does not survive export) instead of space-to-batch.
      bias: as in `conv2d`.

    Returns:
      [n, ceil(h / stride), ceil(w / stride), c], of the type of `inputs`.

    Source: arXiv:1802.02611, section 3.1 (atrous separable convolution).
    """
    around = tf.compat.v1.get_variable_scope()
    with tf.compat.v1.variable_scope(scope, values=[inputs]):
        shape = [kernel_size, kernel_size, _channels(inputs), 1]
        weights = compute_types.as_type(_variable('depthwise_weights', shape, initializer, weight_decay), inputs.dtype)
        padding = 'SAME'
        rates = (rate, rate) if isinstance(rate, int) else rate
        if fixed_padding and stride > 1:
            inputs, padding = _pad_for_stride(inputs, kernel_size, rates[0]), 'VALID'  # a stride's rate is 1

        def convolve(weights: tf.Tensor) -> tf.Tensor:
            is_native = native_dilation and inputs.dtype != tf.float64  # which oneDNN does not compute
            if is_native and max(rates) > 1 and tf_compat.has_native_dilated_depthwise():
                return tf.raw_ops.DepthwiseConv2dNative(
                    input=inputs, filter=weights, strides=[1, 1, 1, 1], padding=padding, dilations=[1, *rates, 1]
                )
            strides = [1, stride, stride, 1]
            return tf.nn.depthwise_conv2d(inputs, weights, strides, padding, dilations=rates, name='depthwise')

        convolution = Convolution(weights, convolve, around, is_depthwise=True)
        return _finish(convolution, normalize, activation, bias)


@slim.add_arg_scope
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

    Args:
      inputs: [n, h, w, c] float.
      filters: channels of the result.
      kernel_size: side of the depthwise kernel.
      scope: beginning of the two variable scopes.
      stride: step between two outputs.
      rate: atrous rate of the depthwise part, as in `depthwise_conv2d`.
      fixed_padding: as in `conv2d`.
      normalize: as in `conv2d`, for both parts.
      activation: what follows the second part, and the first too if `depthwise_activation`.
      depthwise_activation: whether the activation also stands between the two parts.
      depthwise_initializer: first value of the depthwise weights.
      pointwise_initializer: first value of the 1x1 weights.

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


@slim.add_arg_scope
def batch_norm(
    inputs: tf.Tensor,
    *,
    decay: float = HEAD_BATCH_NORM_DECAY,
    forced_decay: float | None = None,
    epsilon: float = HEAD_BATCH_NORM_EPSILON,
    is_training: bool = False,
    trained_scopes: tuple[str, ...] = (),
    scope: str = BATCH_NORM_SCOPE,
    expansion: batch_statistics.Expansion | None = None,
    imitation: quantization.Imitation | None = None,
) -> tf.Tensor:
    """Applies batch normalization.

    In training mode it normalizes with the batch's statistics and registers two updates (see
    `moving_updates`); it changes no variable itself. Otherwise it normalizes with the moving statistics, and gamma
    and beta still have gradients.

    Args:
      inputs: [n, h, w, c] float.
      decay: share of a moving statistic that stays in an update, as the family has it.
      forced_decay: replaces `decay` wherever it is set.
      epsilon: added to the variance.
      is_training: whether to use the batch's statistics.
      trained_scopes: see `training_scope`.
      scope: variable scope.
      expansion: the convolution that made `inputs`, where its input is the cheaper way to the batch's statistics.
      imitation: as in `mode_scope`; for a batch norm that is not that of a convolution.

    Returns:
      [n, h, w, c], of the type of `inputs`.

    Source: arXiv:1502.03167, algorithms 1 and 2 (the stored variance is the unbiased one).
    """
    with tf.compat.v1.variable_scope(scope, values=[inputs]):
        gamma, beta, moving_mean, moving_variance, _ = norm = _statistics(_channels(inputs), epsilon)
        if not _uses_batch(is_training, trained_scopes):
            outputs = tf.compat.v1.nn.fused_batch_norm(
                inputs, gamma, beta, moving_mean, moving_variance, epsilon, is_training=False
            )[0]
            return rounded(outputs, quantization.ACTIVATION, imitation=imitation)
        if expansion is None:
            outputs, mean, variance = tf.compat.v1.nn.fused_batch_norm(inputs, gamma, beta, epsilon=epsilon)
        else:
            scale, shift, mean, variance = batch_statistics.fold(expansion, gamma, beta, epsilon)
            with pointwise.gradients_as_products(expansion.inputs):
                outputs = tf.nn.conv2d(expansion.inputs, expansion.weights * scale, 1, 'SAME')
            outputs = tf.nn.bias_add(outputs, shift)
        _register(norm, mean, variance, decay if forced_decay is None else forced_decay)
        return rounded(outputs, quantization.ACTIVATION, imitation=imitation)


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


@slim.add_arg_scope
def batch_norm_fold(
    convolution: Convolution,
    *,
    decay: float = HEAD_BATCH_NORM_DECAY,
    forced_decay: float | None = None,
    epsilon: float = HEAD_BATCH_NORM_EPSILON,
    is_training: bool = False,
    trained_scopes: tuple[str, ...] = (),
    scope: str = BATCH_NORM_SCOPE,
) -> quantization.Fold:
    """Returns a batch norm as a part of the convolution before it; variables and updates are those of `batch_norm`.

    Args:
      convolution: in training mode, it is computed to measure the statistics of the batch.
      decay: as in `batch_norm`, and so are the others.
      forced_decay: replaces `decay` wherever it is set.
      epsilon: added to the variance.
      is_training: whether to use the batch's statistics.
      trained_scopes: see `training_scope`.
      scope: variable scope.
    """
    with tf.compat.v1.variable_scope(scope):
        norm = _statistics(int(convolution.weights.shape[2 if convolution.is_depthwise else 3]), epsilon)
        if not _uses_batch(is_training, trained_scopes):
            return quantization.fold(norm, None)
        if convolution.expansion is None:
            moments = batch_statistics.moments(convolution.apply(convolution.weights))
        else:
            moments = batch_statistics.moments_of(convolution.expansion)
        _register(norm, moments.mean, moments.unbiased, decay if forced_decay is None else forced_decay)
        return quantization.fold(norm, (moments.mean, moments.variance))


_BATCH_NORMS = [batch_norm, batch_norm_fold]


@contextlib.contextmanager
def mode_scope(
    *,
    is_training: bool,
    fine_tune_batch_norm: bool,
    weight_decay: float = 0.0,
    batch_norm_decay: float | None = None,
    native_dilation: bool | None = None,
    compute_type: tf.DType = tf.float32,
    imitation: quantization.Imitation | None = None,
) -> Iterator[None]:
    """Sets the mode of all layers within: training or inference, weight decay, compute type, imitation of 8 bits.

    Args:
      is_training: whether dropout and drop path drop.
      fine_tune_batch_norm: whether batch norms use the batch's statistics while training.
      weight_decay: weight decay of convolutions (biases, gamma and beta have none, nor have depthwise weights, unless
        their family asks for it).
      batch_norm_decay: decay of every batch norm; None for each family's own.
      native_dilation: whether atrous depthwise convolutions may use the kernel that knows dilations; None for
        "while predicting, where a `depthwise_conv2d` scope does not say otherwise".
      compute_type: type of convolutions and activations: float32, bfloat16 or float16.
      imitation: how 8 bits are imitated; None for not at all. They take float32.
    """
    native = (not is_training) if native_dilation is None else native_dilation
    with contextlib.ExitStack() as stack:
        stack.enter_context(slim.arg_scope([conv2d], weight_decay=weight_decay, native_dilation=not is_training))
        stack.enter_context(slim.arg_scope([depthwise_conv2d], native_dilation=native))
        stack.enter_context(
            slim.arg_scope(
                _BATCH_NORMS, is_training=is_training and fine_tune_batch_norm, forced_decay=batch_norm_decay
            )
        )
        stack.enter_context(slim.arg_scope([dropout.dropout, dropout.drop_path], is_training=is_training))
        stack.enter_context(slim.arg_scope([compute_types.as_compute_type], compute_type=compute_type))
        stack.enter_context(slim.arg_scope([_finish, batch_norm, rounded], imitation=imitation))
        yield


def training_scope(trained_scopes: tuple[str, ...]) -> contextlib.AbstractContextManager[Any]:
    """Freezes layers outside `trained_scopes` in every mode; empty scopes freeze nothing.

    A part of a network that does not train shall give what it gives in prediction: its batch norms normalize with
    their moving statistics and move none, and its dropout and drop path drop nothing.
    """
    return slim.arg_scope([*_BATCH_NORMS, dropout.dropout, dropout.drop_path], trained_scopes=tuple(trained_scopes))


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
    with contextlib.ExitStack() as stack:
        if decays_depthwise:
            convolution = slim.current_arg_scope().get(slim.arg_scope_func_key(conv2d), {})
            weight_decay = convolution.get('weight_decay', 0.0)
            stack.enter_context(slim.arg_scope([depthwise_conv2d], weight_decay=weight_decay))
        stack.enter_context(slim.arg_scope(_BATCH_NORMS, decay=batch_norm_decay, epsilon=batch_norm_epsilon))
        stack.enter_context(slim.arg_scope([conv2d, depthwise_conv2d, separable_conv2d], activation=activation))
        stack.enter_context(slim.arg_scope([conv2d], initializer=initializer))
        stack.enter_context(slim.arg_scope([depthwise_conv2d], initializer=depthwise_initializer))
        stack.enter_context(
            slim.arg_scope(
                [separable_conv2d],
                depthwise_initializer=depthwise_initializer,
                pointwise_initializer=pointwise_initializer,
            )
        )
        yield


def network_activation(options: ModelOptions) -> Activation:
    """Returns the activation of networks, heads and decoder: relu, or relu6 for bounded activations."""
    return tf.nn.relu6 if options.use_bounded_activation else tf.nn.relu


def head_scope(options: ModelOptions) -> contextlib.AbstractContextManager[None]:
    """Returns the arg_scope of the layers of heads and decoder."""
    return family_scope(
        batch_norm_decay=HEAD_BATCH_NORM_DECAY,
        batch_norm_epsilon=HEAD_BATCH_NORM_EPSILON,
        activation=network_activation(options),
    )


def convolution_scope(**arguments: Any) -> contextlib.AbstractContextManager[Any]:
    """Sets `arguments` of every kind of convolution, such as `normalize=False`."""
    return slim.arg_scope([conv2d, depthwise_conv2d, separable_conv2d], **arguments)
