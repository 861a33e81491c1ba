"""MobileNetV3, large and small, in the segmentation variants of the paper.

Both are the classification networks up to and including the 1x1 convolution after the last stage, with half the
channels in the last stage, and without pooling and classifier.

Source: arXiv:1905.02244, tables 1 and 2 (the rows) and section 6.4 (the halved last stage).
"""

from __future__ import annotations

import functools

from deeplab.core import activations
from deeplab.core.backbones import _inverted_residual as inverted_residual
from deeplab.core.backbones._inverted_residual import Block
from deeplab.registry import Backbone, register

SCOPE = 'MobilenetV3'
FIRST_FILTERS = 16

_relu = functools.partial(Block, activation=activations.relu)
_swish = functools.partial(Block, activation=activations.hard_swish)

# Rows: expansion, filters, stride, kernel size. The tables give the expanded channels; the expansion is their ratio to
# the row's input, which holds for every depth multiplier.
LARGE = inverted_residual.Network(
    scope=SCOPE,
    first_filters=FIRST_FILTERS,
    blocks=(
        _relu(1, 16),
        _relu(4, 24, 2),
        _relu(3, 24),
        _relu(3, 40, 2, 5, squeeze_excite=True),
        _relu(3, 40, 1, 5, squeeze_excite=True),
        _relu(3, 40, 1, 5, squeeze_excite=True),
        _swish(6, 80, 2),
        _swish(200 / 80, 80),
        _swish(184 / 80, 80),
        _swish(184 / 80, 80),
        _swish(6, 112, squeeze_excite=True),
        _swish(6, 112, squeeze_excite=True),
        # Halved from here on.
        _swish(3, 80, 2, 5, squeeze_excite=True),
        _swish(6, 80, 1, 5, squeeze_excite=True),
        _swish(6, 80, 1, 5, squeeze_excite=True),
    ),
    last_filters=480,
    activation=activations.hard_swish,
)
SMALL = inverted_residual.Network(
    scope=SCOPE,
    first_filters=FIRST_FILTERS,
    blocks=(
        _relu(1, 16, 2, squeeze_excite=True),
        _relu(72 / 16, 24, 2),
        _relu(88 / 24, 24),
        _swish(4, 40, 2, 5, squeeze_excite=True),
        _swish(6, 40, 1, 5, squeeze_excite=True),
        _swish(6, 40, 1, 5, squeeze_excite=True),
        _swish(3, 48, 1, 5, squeeze_excite=True),
        _swish(3, 48, 1, 5, squeeze_excite=True),
        # Halved from here on.
        _swish(3, 48, 2, 5, squeeze_excite=True),
        _swish(6, 48, 1, 5, squeeze_excite=True),
        _swish(6, 48, 1, 5, squeeze_excite=True),
    ),
    last_filters=288,
    activation=activations.hard_swish,
)


def _register(size: str, network: inverted_residual.Network, skip_layers: tuple[int, int, int]) -> None:
    """Registers one size, with the layers that a decoder may use as skips at strides 4, 8 and 16."""
    register(
        Backbone(
            name=f'mobilenet_v3_{size}_seg',
            summary=f'MobileNetV3 {size}, with half the channels in the last stage.',
            build=functools.partial(inverted_residual.build, network=network),
            scope=SCOPE,
            decoder_end_points={
                stride: f'layer_{layer}/depthwise_output' for stride, layer in zip((4, 8, 16), skip_layers, strict=True)
            },
            output_strides=(4, 8, 16, 32),
            reads=('depth_multiplier',),
            source='arXiv:1905.02244, tables 1 and 2, section 6.4',
        )
    )


_register('large', LARGE, (4, 7, 13))
_register('small', SMALL, (2, 4, 9))
