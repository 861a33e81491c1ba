"""Layers: convolutions and batch norms, all of which are created here.

Every function takes tf-slim's `arg_scope`, which is how a family sets its decay, epsilon, initializers and
activation, and how the training mode reaches each layer without passing through the network's code. Names of
variables are the checkpoint contract: `SCOPE/weights`, `SCOPE/biases`, `SCOPE/depthwise_weights`,
`SCOPE/BatchNorm/{gamma,beta,moving_mean,moving_variance}`.

A layer computes in the type of its input, which `mode_scope` chooses once, where images enter: variables, the
statistics of batch norms and their gradients are float32 whatever that type is.

Two things differ from a plain layer library. A batch norm in training mode updates nothing: it registers a
`MovingUpdate`, which the train step applies with the gradients or not at all. And nothing is random by order:
an initial value follows from the graph's seed and the variable's name, a dropout mask from the seed, the place and
the step, so clones, scales and the order of building change neither.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tf_slim as slim

from deeplab.core import batch_statistics, compute_types, dropout, initializers, pointwise, tf_compat
from deeplab.options import ModelOptions

MOVING_UPDATES = 'moving_updates'  # graph collection of MovingUpdate
WEIGHT_DECAYS = 'weight_decays'  # graph collection of WeightDecay
HEAD_BATCH_NORM_DECAY = 0.9997
HEAD_BATCH_NORM_EPSILON = 1e-5
Activation = Callable[[tf.Tensor], tf.Tensor]


class MovingUpdate(NamedTuple):
    """The update of one moving statistic by one batch.

    Attributes:
      variable: the moving mean or the moving variance, [channels].
      batch_value: the batch's mean or unbiased variance, [channels].
      decay: share of the old value that stays.
    """

    variable: tf.Variable
    batch_value: tf.Tensor
    decay: float


class WeightDecay(NamedTuple):
    """Weight decay of one variable.

    Attributes:
      name: of the variable.
      factor: on half the sum of its squares in the loss, or on itself in an update.
    """

    name: str
    factor: float


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

    # The regularizer runs when the variable is made, hence once however many clones and scales share it.
    def decay(weights: tf.Variable) -> tf.Tensor:
        tf.compat.v1.add_to_collection(WEIGHT_DECAYS, WeightDecay(weights.op.name, weight_decay))
        return tf.nn.l2_loss(weights) * weight_decay

    regularizer = decay if weight_decay else None
    return slim.model_variable(name, shape=shape, initializer=first_value, regularizer=regularizer, trainable=trainable)


def _channels(inputs: tf.Tensor) -> int:
    """Returns the number of channels of an NHWC tensor."""
    return int(inputs.shape[-1])


def _pad_for_stride(inputs: tf.Tensor, kernel_size: int, rate: int) -> tf.Tensor:
    """Pads [n, h, w, c] so that a strided VALID convolution is centered for even and odd sizes."""
    total = (kernel_size - 1) * rate
    before = total // 2
    sides = [before, total - before]
    return tf.pad(inputs, [[0, 0], sides, sides, [0, 0]])


def _finish(
    outputs: tf.Tensor,
    normalize: bool,
    activation: Activation | None,
    bias: bool = True,
    expansion: batch_statistics.Expansion | None = None,
) -> tf.Tensor:
    """Applies batch norm, bias or neither, then the activation."""
    if normalize:
        outputs = batch_norm(outputs, expansion=expansion)
    elif bias:
        biases = _variable('biases', [_channels(outputs)], initializers.zeros)
        outputs = tf.nn.bias_add(outputs, compute_types.as_type(biases, outputs.dtype))
    return outputs if activation is None else activation(outputs)


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
      weight_decay: factor on half the sum of the squared weights in the regularisation losses.
      bias: whether biases follow where no batch norm does (a family may make its batch norms itself).
      weights_name: name of the weights in their scope.
      native_dilation: whether an atrous convolution may use the kernel that knows dilations (faster, but without a
        gradient on a CPU) instead of space-to-batch.

    Returns:
      [n, ceil(h / stride), ceil(w / stride), filters], of the type of `inputs`.

    Source: atrous convolution: arXiv:1706.05587, section 3.1.
    """
    with tf.compat.v1.variable_scope(scope, values=[inputs]):
        shape = [kernel_size, kernel_size, _channels(inputs), filters]
        weights = compute_types.as_type(_variable(weights_name, shape, initializer, weight_decay), inputs.dtype)
        padding = 'SAME'
        if fixed_padding and stride > 1 and kernel_size > 1:
            inputs, padding = _pad_for_stride(inputs, kernel_size, rate), 'VALID'
        # A 1x1 kernel has nothing to spread, so a rate would only cost time.
        dilations = rate if kernel_size > 1 else 1
        if dilations > 1 and stride == 1 and not native_dilation:
            outputs = tf.nn.atrous_conv2d(inputs, weights, dilations, padding, name='Conv2D')
        else:
            # A network that predicts, whose atrous convolutions are native ones, has no gradients.
            is_product = kernel_size == 1 and stride == 1 and not native_dilation
            with pointwise.gradients_as_products(inputs) if is_product else contextlib.nullcontext():
                outputs = tf.nn.conv2d(inputs, weights, stride, padding, dilations=dilations, name='Conv2D')
        expansion = None
        if batch_statistics.pays(inputs, filters, kernel_size, stride):
            expansion = batch_statistics.Expansion(inputs, weights)
        return _finish(outputs, normalize, activation, bias, expansion)


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
    with tf.compat.v1.variable_scope(scope, values=[inputs]):
        shape = [kernel_size, kernel_size, _channels(inputs), 1]
        weights = compute_types.as_type(_variable('depthwise_weights', shape, initializer, weight_decay), inputs.dtype)
        padding = 'SAME'
        rates = (rate, rate) if isinstance(rate, int) else rate
        if fixed_padding and stride > 1:
            inputs, padding = _pad_for_stride(inputs, kernel_size, rates[0]), 'VALID'  # a stride's rate is 1
        if native_dilation and max(rates) > 1 and tf_compat.has_native_dilated_depthwise():
            outputs = tf.raw_ops.DepthwiseConv2dNative(
                input=inputs, filter=weights, strides=[1, 1, 1, 1], padding=padding, dilations=[1, *rates, 1]
            )
        else:
            outputs = tf.nn.depthwise_conv2d(
                inputs, weights, [1, stride, stride, 1], padding, dilations=rates, name='depthwise'
            )
        return _finish(outputs, normalize, activation, bias)


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
    scope: str = 'BatchNorm',
    expansion: batch_statistics.Expansion | None = None,
) -> tf.Tensor:
    """Applies batch normalization.

    In training mode it normalizes with the batch's statistics and registers two `MovingUpdate`s (see
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

    Returns:
      [n, h, w, c], of the type of `inputs`.

    Source: arXiv:1502.03167, algorithms 1 and 2 (the stored variance is the unbiased one).
    """
    with tf.compat.v1.variable_scope(scope, values=[inputs]):
        shape = [_channels(inputs)]
        gamma = _variable('gamma', shape, initializers.ones)
        beta = _variable('beta', shape, initializers.zeros)
        moving_mean = _variable('moving_mean', shape, initializers.zeros, trainable=False)
        moving_variance = _variable('moving_variance', shape, initializers.ones, trainable=False)
        if not is_training or dropout.is_frozen(tf.compat.v1.get_variable_scope().name, trained_scopes):
            return tf.compat.v1.nn.fused_batch_norm(
                inputs, gamma, beta, moving_mean, moving_variance, epsilon, is_training=False
            )[0]
        if expansion is None:
            outputs, mean, variance = tf.compat.v1.nn.fused_batch_norm(inputs, gamma, beta, epsilon=epsilon)
        else:
            scale, shift, mean, variance = batch_statistics.fold(expansion, gamma, beta, epsilon)
            with pointwise.gradients_as_products(expansion.inputs):
                outputs = tf.nn.conv2d(expansion.inputs, expansion.weights * scale, 1, 'SAME')
            outputs = tf.nn.bias_add(outputs, shift)
        decay = decay if forced_decay is None else forced_decay
        for variable, value in ((moving_mean, mean), (moving_variance, variance)):
            tf.compat.v1.add_to_collection(MOVING_UPDATES, MovingUpdate(variable, value, decay))
        return outputs


def weight_decays() -> dict[str, float]:
    """Returns the factor of each variable of the default graph that decays, by name."""
    return dict(tf.compat.v1.get_collection(WEIGHT_DECAYS))


def moving_updates(scope: str | None = None) -> list[MovingUpdate]:
    """Returns the updates that batch norms of the default graph have registered.

    Args:
      scope: name scope to which to keep, such as 'clone_0'; None or '' for all.
    """
    updates = tf.compat.v1.get_collection(MOVING_UPDATES)
    prefix = scope.rstrip('/') + '/' if scope else ''
    return [update for update in updates if update.batch_value.op.name.startswith(prefix)]


def apply_moving_updates(updates: Sequence[MovingUpdate]) -> list[tf.Operation]:
    """Returns the ops that move statistics towards their batch's values: variable -= (variable - value) * (1 - decay).

    A statistic with several updates (one for each scale of an image pyramid) takes them in their order, so that every
    run ends in the same value.

    Args:
      updates: of one clone, [channels] float32 each; see `moving_updates`.

    Source: arXiv:1502.03167, section 3.1 (moving averages of the statistics).
    """
    last: dict[str, tf.Operation] = {}
    for update in updates:
        name = update.variable.op.name
        with tf.control_dependencies([last[name]] if name in last else []):
            # In float32, as the original had it: 1 - 0.997 is 0.00300002 there, 7 millionths of itself above 0.003.
            share = np.float32(1) - np.float32(update.decay)
            step = (update.variable.read_value() - update.batch_value) * share
            last[name] = update.variable.assign_sub(step, read_value=False)
    return list(last.values())


@contextlib.contextmanager
def mode_scope(
    *,
    is_training: bool,
    fine_tune_batch_norm: bool,
    weight_decay: float = 0.0,
    batch_norm_decay: float | None = None,
    native_dilation: bool | None = None,
    compute_type: tf.DType = tf.float32,
) -> Iterator[None]:
    """Sets the mode of all layers within: training or inference, weight decay, compute type.

    Args:
      is_training: whether dropout and drop path drop.
      fine_tune_batch_norm: whether batch norms use the batch's statistics while training.
      weight_decay: weight decay of convolutions (biases, gamma and beta have none, nor have depthwise weights, unless
        their family asks for it).
      batch_norm_decay: decay of every batch norm; None for each family's own.
      native_dilation: whether atrous depthwise convolutions may use the kernel that knows dilations; None for
        "while predicting, where a `depthwise_conv2d` scope does not say otherwise".
      compute_type: type of convolutions and activations: float32, bfloat16 or float16.
    """
    native = (not is_training) if native_dilation is None else native_dilation
    with contextlib.ExitStack() as stack:
        stack.enter_context(slim.arg_scope([conv2d], weight_decay=weight_decay, native_dilation=not is_training))
        stack.enter_context(slim.arg_scope([depthwise_conv2d], native_dilation=native))
        stack.enter_context(
            slim.arg_scope(
                [batch_norm], is_training=is_training and fine_tune_batch_norm, forced_decay=batch_norm_decay
            )
        )
        stack.enter_context(slim.arg_scope([dropout.dropout, dropout.drop_path], is_training=is_training))
        stack.enter_context(slim.arg_scope([compute_types.as_compute_type], compute_type=compute_type))
        yield


def training_scope(trained_scopes: tuple[str, ...]) -> contextlib.AbstractContextManager[Any]:
    """Freezes layers outside `trained_scopes` in every mode; empty scopes freeze nothing.

    A part of a network that does not train shall give what it gives in prediction: its batch norms normalize with
    their moving statistics and move none, and its dropout and drop path drop nothing.
    """
    return slim.arg_scope([batch_norm, dropout.dropout, dropout.drop_path], trained_scopes=tuple(trained_scopes))


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
        stack.enter_context(slim.arg_scope([batch_norm], decay=batch_norm_decay, epsilon=batch_norm_epsilon))
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
