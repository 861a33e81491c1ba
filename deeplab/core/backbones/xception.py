"""The aligned Xception of DeepLabv3+, with 41, 65 or 71 layers.

Source: arXiv:1802.02611, section 3.2 and figure 4 (after arXiv:1610.02357). The networks differ only in the length of
the entry flow and of the middle flow.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from deeplab.core.channels import scaled_channels
from deeplab.core.densify import densify, multi_grid_factors
from deeplab.core.lazy import initializers, layers, tf
from deeplab.options import ModelOptions
from deeplab.registry import Backbone, Classifier, register

BATCH_NORM_DECAY = 0.9997
BATCH_NORM_EPSILON = 1e-3
BOUND = 6.0  # limit of bounded activations
STEM_FILTERS = (32, 64)
CONVOLUTIONS = 3  # separable convolutions in a module


class Block(NamedTuple):
    """A sequence of identical Xception modules.

    Attributes:
      scope: variable scope below the network's.
      filters: channels after each of a module's three separable convolutions.
      stride: stride of the last convolution of the last module.
      shortcut: 'conv' (a 1x1 convolution), 'sum' (the input itself) or 'none'.
      units: number of modules.
      inner_activation: whether the activation follows both parts of each separable convolution, instead of preceding
        the convolution. In the other blocks, bounded activations clip both parts to +-6.
      multi_grid: whether `ModelOptions.multi_grid` multiplies the rates of its three convolutions.
    """

    scope: str
    filters: tuple[int, int, int]
    stride: int = 1
    shortcut: str = 'conv'
    units: int = 1
    inner_activation: bool = False
    multi_grid: bool = False


def _blocks(entry: Sequence[tuple[int, int]], middle_units: int) -> tuple[Block, ...]:
    """Returns all blocks of a network whose entry flow has the given (filters, stride)."""
    entry_blocks = [
        Block(f'entry_flow/block{i}', (filters, filters, filters), stride)
        for i, (filters, stride) in enumerate(entry, start=1)
    ]
    return (
        *entry_blocks,
        Block('middle_flow/block1', (728, 728, 728), shortcut='sum', units=middle_units),
        Block('exit_flow/block1', (728, 1024, 1024), stride=2),
        Block('exit_flow/block2', (1536, 1536, 2048), shortcut='none', inner_activation=True, multi_grid=True),
    )


_SHORT_ENTRY = ((128, 2), (256, 2), (728, 2))
_LONG_ENTRY = ((128, 2), (256, 1), (256, 2), (728, 1), (728, 2))
_NETWORKS = {
    'xception_41': _blocks(_SHORT_ENTRY, 8),
    'xception_65': _blocks(_SHORT_ENTRY, 16),
    'xception_71': _blocks(_LONG_ENTRY, 16),
}


def _bounded(values: tf.Tensor) -> tf.Tensor:
    return tf.clip_by_value(values, -BOUND, BOUND)


def _residual(
    inputs: tf.Tensor, block: Block, stride: int, rates: Sequence[int], options: ModelOptions
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Builds three separable convolutions, the last one strided; returns their end points too, by scope.

    With bounded activations, strided convolutions use SAME padding, as published checkpoints were trained.
    """
    activation = layers.network_activation(options)
    inner = activation if block.inner_activation else _bounded if options.use_bounded_activation else None
    net = inputs
    end_points = {}
    for i, (filters, rate) in enumerate(zip(block.filters, rates, strict=True), start=1):
        if not block.inner_activation:
            net = activation(net)
        net = layers.separable_conv2d(
            net,
            scaled_channels(filters, options),
            3,
            stride=stride if i == CONVOLUTIONS else 1,
            rate=rate,
            fixed_padding=not options.use_bounded_activation,
            activation=inner,
            scope=f'separable_conv{i}',
        )  # [n, h, w, filters]; the last [n, h / stride, w / stride, filters]
        end_points[f'separable_conv{i}_pointwise'] = net
    return net, end_points


def _module(
    inputs: tf.Tensor, block: Block, stride: int, rates: Sequence[int], options: ModelOptions
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Builds one Xception module: the residual and its shortcut."""
    net, end_points = _residual(inputs, block, stride, rates, options)
    if block.shortcut == 'none':
        return net, end_points
    shortcut = inputs
    if block.shortcut == 'conv':
        filters = scaled_channels(block.filters[-1], options)
        shortcut = layers.conv2d(inputs, filters, 1, stride=stride, activation=None, scope='shortcut')
    if options.use_bounded_activation:
        return layers.fake_quantized(tf.nn.relu6(tf.add(_bounded(net), _bounded(shortcut), name='add'))), end_points
    return layers.fake_quantized(tf.add(net, shortcut, name='add')), end_points


def _stem(images: tf.Tensor, stride: int, options: ModelOptions) -> tf.Tensor:
    """Builds the two convolutions before the first module: [n, h / 2, w / 2, .]."""
    activation = layers.network_activation(options)
    first, second = (scaled_channels(filters, options) for filters in STEM_FILTERS)
    with tf.compat.v1.variable_scope('entry_flow'):
        net = layers.conv2d(
            images, first, 3, stride=stride, fixed_padding=True, activation=activation, scope='conv1_1'
        )  # [n, h / 2, w / 2, first]
        return layers.conv2d(net, second, 3, activation=activation, scope='conv1_2')  # [n, h / 2, w / 2, second]


def build(
    images: tf.Tensor, options: ModelOptions, *, scope: str, blocks: Sequence[Block]
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Builds the network.

    Args:
      images: [n, h, w, input_channels] float, normalized; the network computes in their type.
      options: output_stride, multi_grid, depth_multiplier and use_bounded_activation are read.
      scope: the network's variable scope.
      blocks: its blocks, in order.

    Returns:
      Features [n, h / output_stride, w / output_stride, c], where c is 2048 for a multiplier of 1, and end points
      `BLOCK/unit_N/xception_module/separable_convI_pointwise`.

    Raises:
      OptionError: `multi_grid` does not have one factor for each convolution of the last block, or one is below 1.
    """
    unit_strides = [stride for block in blocks for stride in [1] * (block.units - 1) + [block.stride]]
    units = iter(densify([2, *unit_strides], options.output_stride))
    end_points: dict[str, tf.Tensor] = {}
    initializer = initializers.truncated_normal(0.09)
    family = layers.family_scope(
        batch_norm_decay=BATCH_NORM_DECAY,
        batch_norm_epsilon=BATCH_NORM_EPSILON,
        activation=None,
        initializer=initializer,
        depthwise_initializer=initializer,
        pointwise_initializer=initializer,
    )
    with family, tf.compat.v1.variable_scope(scope):
        net = _stem(images, next(units)[0], options)
        for block in blocks:
            for unit in range(1, block.units + 1):
                stride, rate = next(units)
                factors = (1,) * CONVOLUTIONS
                if block.multi_grid:
                    factors = multi_grid_factors(options, CONVOLUTIONS, 'convolutions')
                place = f'{block.scope}/unit_{unit}/xception_module'
                with tf.compat.v1.variable_scope(place):
                    net, inner = _module(net, block, stride, [rate * factor for factor in factors], options)
                end_points |= {f'{place}/{name}': value for name, value in inner.items()}
                end_points[place] = net
    return net, end_points


def _skips(stride_4: str, stride_8: str) -> dict[int, str]:
    names = ('entry_flow/block1', f'entry_flow/{stride_4}', f'entry_flow/{stride_8}', 'exit_flow/block1')
    blocks = {2 << i: name for i, name in enumerate(names)}
    return {stride: f'{block}/unit_1/xception_module/separable_conv2_pointwise' for stride, block in blocks.items()}


for _name, _network in _NETWORKS.items():
    register(
        Backbone(
            name=_name,
            summary=f'Aligned Xception with {_name.rpartition("_")[2]} layers.',
            build=functools.partial(build, scope=_name, blocks=_network),
            scope=_name,
            decoder_end_points=_skips('block3', 'block5') if _name == 'xception_71' else _skips('block2', 'block3'),
            reads=('multi_grid', 'depth_multiplier'),
            classifier=Classifier(keep_probability=0.5, initializer=lambda: initializers.truncated_normal(0.09)),
            source='arXiv:1802.02611, section 3.2 and figure 4',
        )
    )
