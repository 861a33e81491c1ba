"""MobileNetV2 as a DeepLab backbone: all blocks, without the last 1x1 convolution.

Source: arXiv:1801.04381, table 2 and figure 4(d).
"""

from __future__ import annotations

import functools

from deeplab.core import activations
from deeplab.core.backbones import _inverted_residual as inverted_residual
from deeplab.core.backbones._inverted_residual import Block
from deeplab.options import ModelOptions
from deeplab.registry import Backbone, register

# Rows of the paper's table 2: expansion, filters, repetitions, stride of the first.
_ROWS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

NETWORK = inverted_residual.Network(
    scope='MobilenetV2',
    first_filters=32,
    blocks=tuple(
        Block(expansion, filters, 1 if i else stride, activation=activations.relu6)
        for expansion, filters, repetitions, stride in _ROWS
        for i in range(repetitions)
    ),
    last_filters=None,
    activation=activations.relu6,
)


def scaled_channels(channels: int, options: ModelOptions) -> int:
    """Returns `channels` of the paper's table scaled by the depth multiplier.

    The full network keeps multiples of 8; a scaled one rounds to the nearest integer, as the published checkpoints
    with half the channels do (12 channels, not 16, in the second row).
    """
    full = options.depth_multiplier == 1.0
    divisor = options.divisible_by or (8 if full else 1)
    return inverted_residual.round_channels(channels * options.depth_multiplier, divisor, 8 if full else 1)


register(
    Backbone(
        name='mobilenet_v2',
        summary='MobileNetV2.',
        build=functools.partial(inverted_residual.build, network=NETWORK, scaled=scaled_channels),
        scope=NETWORK.scope,
        decoder_end_points={
            4: 'layer_4/depthwise_output',
            8: 'layer_7/depthwise_output',
            16: 'layer_14/depthwise_output',
        },
        output_strides=(4, 8, 16, 32),
        reads=('depth_multiplier', 'divisible_by'),
        source='arXiv:1801.04381, table 2',
    )
)
