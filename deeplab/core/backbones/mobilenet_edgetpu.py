"""MobileNet-EdgeTPU: inverted residuals for accelerators on which dense convolutions are faster than depthwise ones.

The early blocks are fused, every activation is ReLU, and there is no squeeze-and-excite.

Source: arXiv:2003.02838, section 3.1 (fused inverted bottlenecks); the rows of the published network.
"""

from __future__ import annotations

import functools

from deeplab.core import activations
from deeplab.core.backbones import _inverted_residual as inverted_residual
from deeplab.core.backbones._inverted_residual import Block
from deeplab.registry import Backbone, register

_fused = functools.partial(Block, fused=True)

NETWORK = inverted_residual.Network(
    scope='MobilenetEdgeTPU',
    first_filters=32,
    # Expansion, filters, stride, kernel size.
    blocks=(
        _fused(1, 16),
        _fused(8, 32, 2),
        *[_fused(4, 32)] * 3,
        _fused(8, 48, 2),
        *[_fused(4, 48)] * 3,
        Block(8, 96, 2),
        *[Block(4, 96)] * 3,
        Block(8, 96, residual=False),
        *[Block(4, 96)] * 3,
        Block(8, 160, 2, 5),
        *[Block(4, 160, 1, 5)] * 3,
        Block(8, 192),
    ),
    last_filters=1280,
    activation=activations.relu,
)


register(
    Backbone(
        name='mobilenet_edgetpu',
        summary='MobileNet-EdgeTPU.',
        build=functools.partial(inverted_residual.build, network=NETWORK),
        scope=NETWORK.scope,
        output_strides=(4, 8, 16, 32),
        reads=('depth_multiplier',),
        source='arXiv:2003.02838, section 3.1',
    )
)
