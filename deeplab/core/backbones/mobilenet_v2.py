"""MobileNetV2, as the backbone of DeepLab uses it: all blocks, without the last 1x1 convolution.

Source: arXiv:1801.04381, table 2 and figure 4(d).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import tensorflow as tf

from deeplab.core import layers
from deeplab.core.backbones import densify, registry
from deeplab.options import ModelOptions

SCOPE = 'MobilenetV2'
BATCH_NORM_DECAY = 0.997
BATCH_NORM_EPSILON = 1e-3
FIRST_FILTERS = 32


class Block(NamedTuple):
    """An inverted residual: expansion of the channels, channels of the result, stride."""

    expansion: int
    filters: int
    stride: int


# Rows of the paper's table 2: expansion, filters, repetitions, stride of the first.
_ROWS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def _blocks() -> Iterator[Block]:
    for expansion, filters, repetitions, stride in _ROWS:
        for i in range(repetitions):
            yield Block(expansion, filters, stride if i == 0 else 1)


def round_channels(channels: float, divisor: int, smallest: int) -> int:
    """The multiple of `divisor` nearest to `channels`, at least `smallest`, and not below 90 % of `channels`."""
    rounded = max(smallest, int(channels + divisor / 2) // divisor * divisor)
    return rounded if rounded >= 0.9 * channels else rounded + divisor


def scaled_channels(channels: int, options: ModelOptions) -> int:
    """`channels` of the paper's table under the depth multiplier.

    The full network keeps multiples of 8; a multiplied one takes the nearest integer, which is what the published
    checkpoints with half the channels hold (12 channels, not 16, in the second row).
    """
    full = options.depth_multiplier == 1.0
    divisor = options.divisible_by or (8 if full else 1)
    return round_channels(channels * options.depth_multiplier, divisor, 8 if full else 1)


def _inverted_residual(
    inputs: tf.Tensor, block: Block, filters: int, stride: int, rate: int, scope: str
) -> tuple[tf.Tensor, tf.Tensor]:
    """One block; gives its output and the output of its depthwise convolution."""
    channels = int(inputs.shape[-1])
    with tf.compat.v1.variable_scope(scope):
        net = inputs
        if block.expansion > 1:
            expanded = round_channels(channels * block.expansion, 8, 8)
            net = layers.conv2d(net, expanded, 1, scope='expand')  # [n, h, w, expanded]
        depthwise = layers.depthwise_conv2d(net, 3, stride=stride, rate=rate, scope='depthwise')  # [n, h/s, w/s, .]
        net = layers.conv2d(depthwise, filters, 1, activation=None, scope='project')  # [n, h/s, w/s, filters]
        if stride == 1 and channels == filters:
            net = tf.add(net, inputs, name='add')
        return net, depthwise


def build(images: tf.Tensor, options: ModelOptions) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Makes the network.

    Args:
      images: [n, h, w, 3] float32, normalised.
      options: output_stride, depth_multiplier and divisible_by matter.

    Returns:
      Features [n, h / output_stride, w / output_stride, 320 * depth_multiplier], and end points: `layer_1` (the first
      convolution) to `layer_18`, and `layer_N/depthwise_output` for each block.
    """
    blocks = list(_blocks())
    units = densify.densify([2, *(block.stride for block in blocks)], options.output_stride)
    end_points = {}
    family = layers.family_scope(
        batch_norm_decay=BATCH_NORM_DECAY,
        batch_norm_epsilon=BATCH_NORM_EPSILON,
        activation=tf.nn.relu6,
        initializer=layers.truncated_normal(0.09),
        depthwise_initializer=layers.truncated_normal(0.09),
    )
    with family, tf.compat.v1.variable_scope(SCOPE):
        # The name that converters look for: MobilenetV2/MobilenetV2/input.
        net = tf.identity(images, name=f'{SCOPE}/input')
        first = scaled_channels(FIRST_FILTERS, options)
        net = layers.conv2d(net, first, 3, stride=units[0][0], rate=units[0][1], scope='Conv')  # [n, h/2, w/2, first]
        end_points['layer_1'] = net
        for i, (block, (stride, rate)) in enumerate(zip(blocks, units[1:], strict=True)):
            scope = f'expanded_conv_{i}' if i else 'expanded_conv'
            filters = scaled_channels(block.filters, options)
            net, depthwise = _inverted_residual(net, block, filters, stride, rate, scope)
            end_points[f'layer_{i + 2}'] = net
            end_points[f'layer_{i + 2}/depthwise_output'] = depthwise
    return net, end_points


registry.register(
    registry.Backbone(
        name='mobilenet_v2',
        build=build,
        scope=SCOPE,
        decoder_end_points={
            4: 'layer_4/depthwise_output',
            8: 'layer_7/depthwise_output',
            16: 'layer_14/depthwise_output',
        },
        output_strides=(4, 8, 16, 32),
        uses_depth_multiplier=True,
    )
)
