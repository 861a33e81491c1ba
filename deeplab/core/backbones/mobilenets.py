"""MobileNets: networks of inverted residual blocks (MBConv).

MobileNetV2 has all blocks; its last 1x1 convolution belongs to the classifier. MobileNetV3, large and small, ends with
the 1x1 convolution after the last stage; the paper's segmentation variants (`_seg`) have half the channels in the last
stage. MobileNet-EdgeTPU is for accelerators on which dense convolutions are faster than depthwise ones: its early
blocks are fused, every activation is ReLU, and there is no squeeze-and-excite.

Source: arXiv:1801.04381, section 3.3, table 2 and figure 4(d) (V2); arXiv:1905.02244, tables 1 and 2 (the rows),
section 6.4 (the halved last stage), figure 4 (squeeze-and-excite) and figure 5 (the classifier); arXiv:2003.02838,
section 3.1 (fused inverted bottlenecks), and the rows of the published network.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from deeplab.core import activations
from deeplab.core.channels import round_channels, scaled_channels
from deeplab.core.densify import densify
from deeplab.core.lazy import initializers, layers, shapes, tf
from deeplab.options import ModelOptions
from deeplab.registry import Backbone, Classifier, register

BATCH_NORM_DECAY = 0.997
BATCH_NORM_EPSILON = 1e-3
SQUEEZE_FACTOR = 4


class Block(NamedTuple):
    """One inverted residual, for a multiplier of 1.

    Attributes:
      expansion: ratio of the channels between the two 1x1 convolutions to the channels of the input.
      filters: channels of the result.
      stride: stride in the classification network.
      kernel_size: side of the kernel.
      activation: activation after the expansion and after the depthwise convolution.
      squeeze_excite: whether the expanded channels are gated.
      fused: whether one dense convolution replaces the 1x1 expansion and the depthwise convolution.
      residual: whether input and result are added if their shapes agree.
    """

    expansion: float
    filters: int
    stride: int = 1
    kernel_size: int = 3
    activation: layers.Activation = activations.relu
    squeeze_excite: bool = False
    fused: bool = False
    residual: bool = True


class Network(NamedTuple):
    """A 3x3 convolution of stride 2, inverted residuals, and optionally a 1x1 convolution.

    Attributes:
      scope: variable scope.
      first_filters: channels of the first convolution.
      blocks: the inverted residuals.
      last_filters: channels of the last convolution; None for none.
      activation: activation after the first and the last convolution.
      classifier_filters: channels of one more 1x1 convolution, of the classifier: before the global mean, or after it
        if there is a last convolution; None for none.
    """

    scope: str
    first_filters: int
    blocks: tuple[Block, ...]
    last_filters: int | None
    activation: layers.Activation
    classifier_filters: int | None = None


def _squeeze_excite(inputs: tf.Tensor) -> tf.Tensor:
    """Applies squeeze-and-excite: gates each channel by a function of all channels' means: [n, h, w, c].

    Source: arXiv:1709.01507, section 3; a quarter of the channels: arXiv:1905.02244, section 5.3.
    """
    channels = int(inputs.shape[-1])
    squeezed = round_channels(channels / SQUEEZE_FACTOR)
    with tf.compat.v1.variable_scope('squeeze_excite'):
        gate = shapes.spatial_mean(inputs)  # [n, 1, 1, c]
        gate = layers.conv2d(gate, squeezed, 1, normalize=False, activation=tf.nn.relu, scope='Conv')
        gate = layers.conv2d(gate, channels, 1, normalize=False, activation=activations.hard_sigmoid, scope='Conv_1')
        return layers.gated(inputs, gate)


def _expand(inputs: tf.Tensor, block: Block, stride: int, rate: int) -> tf.Tensor:
    """Expands the channels: [n, h, w, expanded]; a fused block also applies its stride here."""
    if block.expansion == 1:
        return inputs
    expanded = round_channels(int(inputs.shape[-1]) * block.expansion)
    kernel_size, stride, rate = (block.kernel_size, stride, rate) if block.fused else (1, 1, 1)
    return layers.conv2d(
        inputs, expanded, kernel_size, stride=stride, rate=rate, activation=block.activation, scope='expand'
    )


def _inverted_residual(
    inputs: tf.Tensor, block: Block, filters: int, stride: int, rate: int
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Builds one block; returns its output and the output of its depthwise convolution (None if it is fused)."""
    depthwise = None
    net = _expand(inputs, block, stride, rate)  # [n, h, w, expanded]
    if not block.fused:
        depthwise = net = layers.depthwise_conv2d(
            net, block.kernel_size, stride=stride, rate=rate, activation=block.activation, scope='depthwise'
        )  # [n, h/s, w/s, expanded]
    if block.squeeze_excite:
        net = _squeeze_excite(net)
    net = layers.conv2d(net, filters, 1, activation=None, scope='project')  # [n, h/s, w/s, filters]
    # A block whose stride was removed for the output stride has a shortcut too, as published checkpoints were trained.
    if block.residual and stride == 1 and int(inputs.shape[-1]) == filters:
        net = layers.fake_quantized(tf.add(net, inputs, name='add'))
    return net, depthwise


def _family(network: Network) -> contextlib.AbstractContextManager[None]:
    return layers.family_scope(
        batch_norm_decay=BATCH_NORM_DECAY,
        batch_norm_epsilon=BATCH_NORM_EPSILON,
        activation=network.activation,
        initializer=initializers.truncated_normal(0.09),
        depthwise_initializer=initializers.truncated_normal(0.09),
    )


def build(
    images: tf.Tensor,
    options: ModelOptions,
    *,
    network: Network,
    scaled: Callable[[int, ModelOptions], int] = scaled_channels,
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Builds a network of inverted residuals.

    `use_bounded_activation` is ignored here and affects the heads only.

    Args:
      images: [n, h, w, input_channels] float, normalized; the network computes in their type.
      options: output_stride and depth_multiplier are read, and what `scaled` reads.
      network: its layers.
      scaled: function from the channels in `network` to the channels to build.

    Returns:
      Features [n, ceil(h / output_stride), ceil(w / output_stride), c], and end points: `layer_1` (the first
      convolution), `layer_2` and so on for blocks and the last convolution, and `layer_N/depthwise_output`.

    Raises:
      OptionError: the network cannot have that output stride.
    """
    units = densify([2, *(block.stride for block in network.blocks)], options.output_stride)
    (first_stride, first_rate), *block_units = units
    end_points = {}
    with _family(network), tf.compat.v1.variable_scope(network.scope):
        first = scaled(network.first_filters, options)
        net = layers.conv2d(images, first, 3, stride=first_stride, rate=first_rate, scope='Conv')  # [n, ., ., first]
        end_points['layer_1'] = net
        for i, (block, (stride, rate)) in enumerate(zip(network.blocks, block_units, strict=True)):
            with tf.compat.v1.variable_scope(f'expanded_conv_{i}' if i else 'expanded_conv'):
                net, depthwise = _inverted_residual(net, block, scaled(block.filters, options), stride, rate)
            end_points[f'layer_{i + 2}'] = net
            if depthwise is not None:
                end_points[f'layer_{i + 2}/depthwise_output'] = depthwise
        if network.last_filters is not None:
            net = layers.conv2d(net, scaled(network.last_filters, options), 1, scope='Conv_1')  # [n, ., ., last]
            end_points[f'layer_{len(network.blocks) + 2}'] = net
    return net, end_points


def _pool(
    features: tf.Tensor, end_points: dict[str, tf.Tensor], options: ModelOptions, *, network: Network
) -> tf.Tensor:
    """Builds the classifier's own convolution and the global mean: [n, h, w, c] to [n, 1, 1, channels]."""
    del end_points
    if network.classifier_filters is None:
        return shapes.spatial_mean(features)
    # Multipliers below 1 leave it wide, as in the published networks.
    filters = round_channels(network.classifier_filters * max(1.0, options.depth_multiplier))
    with _family(network):
        if network.last_filters is None:
            return shapes.spatial_mean(layers.conv2d(features, filters, 1, scope='Conv_1'))
        return layers.conv2d(shapes.spatial_mean(features), filters, 1, normalize=False, scope='Conv_2')


def v2_channels(channels: int, options: ModelOptions) -> int:
    """Returns channels of MobileNetV2's table scaled by the depth multiplier.

    The full network keeps multiples of 8; a scaled one rounds to the nearest integer, as the published checkpoints
    with half the channels do (12 channels, not 16, in the second row).
    """
    full = options.depth_multiplier == 1.0
    divisor = options.divisible_by or (8 if full else 1)
    return round_channels(channels * options.depth_multiplier, divisor, 8 if full else 1)


# Rows of the paper's table 2: expansion, filters, repetitions, stride of the first.
_ROWS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

V2 = Network(
    scope='MobilenetV2',
    first_filters=32,
    blocks=tuple(
        Block(expansion, filters, 1 if i else stride, activation=activations.relu6)
        for expansion, filters, repetitions, stride in _ROWS
        for i in range(repetitions)
    ),
    last_filters=None,
    activation=activations.relu6,
    classifier_filters=1280,
)

_relu = functools.partial(Block, activation=activations.relu)
_swish = functools.partial(Block, activation=activations.hard_swish)

# Rows: expansion, filters, stride, kernel size. The tables of MobileNetV3 give the expanded channels; the
# expansion is their ratio to the row's input, which holds for every depth multiplier.
V3_LARGE = Network(
    scope='MobilenetV3',
    first_filters=16,
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
        _swish(6, 160, 2, 5, squeeze_excite=True),
        _swish(6, 160, 1, 5, squeeze_excite=True),
        _swish(6, 160, 1, 5, squeeze_excite=True),
    ),
    last_filters=960,
    activation=activations.hard_swish,
    classifier_filters=1280,
)
V3_SMALL = Network(
    scope='MobilenetV3',
    first_filters=16,
    blocks=(
        _relu(1, 16, 2, squeeze_excite=True),
        _relu(72 / 16, 24, 2),
        _relu(88 / 24, 24),
        _swish(4, 40, 2, 5, squeeze_excite=True),
        _swish(6, 40, 1, 5, squeeze_excite=True),
        _swish(6, 40, 1, 5, squeeze_excite=True),
        _swish(3, 48, 1, 5, squeeze_excite=True),
        _swish(3, 48, 1, 5, squeeze_excite=True),
        _swish(6, 96, 2, 5, squeeze_excite=True),
        _swish(6, 96, 1, 5, squeeze_excite=True),
        _swish(6, 96, 1, 5, squeeze_excite=True),
    ),
    last_filters=576,
    activation=activations.hard_swish,
    classifier_filters=1024,
)


def _for_segmentation(network: Network) -> Network:
    """Returns MobileNetV3 with half the channels in the last stage: three blocks and the last convolution."""
    *others, first, second, third = network.blocks
    first = first._replace(expansion=first.expansion / 2, filters=first.filters // 2)
    halved = (first, *(block._replace(filters=block.filters // 2) for block in (second, third)))
    return network._replace(blocks=(*others, *halved), last_filters=(network.last_filters or 0) // 2)


V3_LARGE_SEG = _for_segmentation(V3_LARGE)
V3_SMALL_SEG = _for_segmentation(V3_SMALL)

_fused = functools.partial(Block, fused=True)

EDGETPU = Network(
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


def _register(
    name: str,
    summary: str,
    source: str,
    network: Network,
    skip_layers: Mapping[int, int] = MappingProxyType({}),
    scaled: Callable[[int, ModelOptions], int] = scaled_channels,
    reads: tuple[str, ...] = ('depth_multiplier',),
) -> None:
    """Registers a network, with the layers that a decoder may use as skips, by stride."""
    register(
        Backbone(
            name=name,
            summary=summary,
            build=functools.partial(build, network=network, scaled=scaled),
            scope=network.scope,
            decoder_end_points={at: f'layer_{layer}/depthwise_output' for at, layer in skip_layers.items()},
            output_strides=(4, 8, 16, 32),
            reads=reads,
            gains_from_bfloat16=network.scope != V3_LARGE.scope,  # 1.03 to 1.11 times the time: benchmarks/NOTES.md
            classifier=Classifier(
                pool=functools.partial(_pool, network=network),
                keep_probability=0.8,
                scope='Logits/Conv2d_1c_1x1',
                initializer=lambda: initializers.truncated_normal(0.09),
            ),
            source=source,
        )
    )


_register(
    'mobilenet_v2',
    'MobileNetV2.',
    'arXiv:1801.04381, table 2',
    V2,
    {2: 2, 4: 4, 8: 7, 16: 14},
    v2_channels,
    ('depth_multiplier', 'divisible_by'),
)
_V3_SOURCE = 'arXiv:1905.02244, tables 1 and 2'
for _size, _full, _halved, _skip_layers in (
    ('large', V3_LARGE, V3_LARGE_SEG, {2: 2, 4: 4, 8: 7, 16: 13}),
    # Its first block is strided: nothing but the first convolution is at stride 2.
    ('small', V3_SMALL, V3_SMALL_SEG, {4: 2, 8: 4, 16: 9}),
):
    _register(f'mobilenet_v3_{_size}', f'MobileNetV3 {_size}.', _V3_SOURCE, _full, _skip_layers)
    _register(
        f'mobilenet_v3_{_size}_seg',
        f'MobileNetV3 {_size}, with half the channels in the last stage.',
        f'{_V3_SOURCE}, section 6.4',
        _halved,
        _skip_layers,
    )
_register('mobilenet_edgetpu', 'MobileNet-EdgeTPU.', 'arXiv:2003.02838, section 3.1', EDGETPU)
