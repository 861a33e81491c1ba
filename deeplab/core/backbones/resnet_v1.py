"""ResNet v1 with 18, 50 and 101 layers, each with the 7x7 root or the root of three 3x3 convolutions ("beta").

The stride of a block is in its *last* unit. The root has stride 4, blocks 1 to 3 have stride 2 each, and block 4 has
stride 1 and the multi-grid rates.

Source: arXiv:1512.03385, table 1 and figure 5; multi-grid: arXiv:1706.05587, section 3.2.1; beta root: arXiv:1612.01105
(the network behind its section 5.1).
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from deeplab.core.channels import scaled_channels
from deeplab.core.densify import densify, multi_grid_factors
from deeplab.core.lazy import initializers, layers, tf
from deeplab.options import ModelOptions
from deeplab.registry import SCALE_TO_PLUS_MINUS_ONE, SUBTRACT_RGB_MEAN, Backbone, Classifier, register

BATCH_NORM_DECAY = 0.95
CLASSIFIER_BATCH_NORM_DECAY = 0.997  # of TF-Slim's classifiers
BATCH_NORM_EPSILON = 1e-5

ROOT_FILTERS = 64
BLOCK_FILTERS = (64, 128, 256, 512)  # filters of the 3x3 convolutions
BLOCK_STRIDES = (2, 2, 2, 1)
BOTTLENECK_EXPANSION = 4


class Network(NamedTuple):
    """One depth with one root.

    Attributes:
      scope: variable scope, which the two roots of a depth share.
      units: number of units of each block.
      bottleneck: whether units are bottlenecks (else two 3x3 convolutions).
      beta_filters: channels of the root's three 3x3 convolutions; None for the single 7x7 convolution.
    """

    scope: str
    units: tuple[int, int, int, int]
    bottleneck: bool
    beta_filters: tuple[int, int, int] | None


class Unit(NamedTuple):
    """One residual unit: its scope, channels of its 3x3 convolutions, stride and atrous rate."""

    scope: str
    filters: int
    stride: int
    rate: int


def _units(network: Network, options: ModelOptions) -> list[Unit]:
    """Returns all units in order, with strides and atrous rates for the output stride."""
    designed = [
        (f'block{block + 1}/unit_{unit + 1}', filters, stride if unit == count - 1 else 1)
        for block, (count, filters, stride) in enumerate(zip(network.units, BLOCK_FILTERS, BLOCK_STRIDES, strict=True))
        for unit in range(count)
    ]
    # The root always has stride 4.
    strides = densify([4, *(stride for _, _, stride in designed)], options.output_stride)[1:]
    factors = (1,) * (len(designed) - network.units[-1]) + multi_grid_factors(options, network.units[-1], 'units')
    return [
        Unit(scope, scaled_channels(filters, options), stride, rate * factor)
        for (scope, filters, _), (stride, rate), factor in zip(designed, strides, factors, strict=True)
    ]


def _root(images: tf.Tensor, network: Network, options: ModelOptions) -> tf.Tensor:
    """Builds the root: [n, h, w, input_channels] to [n, h / 4, w / 4, c]."""
    conv = functools.partial(layers.conv2d, fixed_padding=True)
    if network.beta_filters is None:
        net = conv(images, scaled_channels(ROOT_FILTERS, options), 7, stride=2, scope='conv1')  # [n, h/2, w/2, 64]
    else:
        net = images
        for i, filters in enumerate(network.beta_filters):
            filters = scaled_channels(filters, options)
            net = conv(net, filters, 3, stride=1 if i else 2, scope=f'conv1_{i + 1}')  # [n, h/2, w/2, filters]
    return tf.nn.max_pool2d(net, 3, 2, 'SAME', name='pool1')  # [n, h/4, w/4, .]


def _shortcut(inputs: tf.Tensor, filters: int, stride: int) -> tf.Tensor:
    """Builds the shortcut: the input, projected or subsampled only if the unit's output differs in shape."""
    if int(inputs.shape[-1]) != filters:
        return layers.conv2d(inputs, filters, 1, stride=stride, activation=None, scope='shortcut')
    # Max pooling with a 1x1 window subsamples by the stride.
    return inputs if stride == 1 else tf.nn.max_pool2d(inputs, 1, stride, 'SAME', name='shortcut')


def _unit(inputs: tf.Tensor, unit: Unit, bottleneck: bool) -> tuple[tf.Tensor, tf.Tensor]:
    """Builds a bottleneck (1x1, 3x3 and 1x1), or else two 3x3 convolutions; returns its output and its residual."""
    filters = unit.filters * (BOTTLENECK_EXPANSION if bottleneck else 1)
    shortcut = _shortcut(inputs, filters, unit.stride)  # [n, h/s, w/s, filters]
    net = layers.conv2d(inputs, unit.filters, 1 if bottleneck else 3, rate=unit.rate, scope='conv1')
    net = layers.conv2d(
        net,
        unit.filters,
        3,
        stride=unit.stride,
        rate=unit.rate,
        fixed_padding=True,
        activation=tf.nn.relu if bottleneck else None,
        scope='conv2',
    )  # [n, h/s, w/s, unit.filters]
    if bottleneck:
        net = layers.conv2d(net, filters, 1, activation=None, scope='conv3')  # [n, h/s, w/s, filters]
    return layers.fake_quantized(tf.nn.relu(shortcut + net)), net


def build(images: tf.Tensor, options: ModelOptions, network: Network) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Builds the network.

    `use_bounded_activation` is ignored here and affects the head only.

    Args:
      images: [n, h, w, input_channels] float, normalized; the network computes in their type.
      options: output_stride, multi_grid and depth_multiplier are read.
      network: its depth and root.

    Returns:
      Features [n, ceil(h / output_stride), ceil(w / output_stride), c], where c is 512 or 2048 for a multiplier of 1,
      and end points: for each unit `blockI/unit_J`, its output, and `blockI/unit_J/KIND/convK`, the residual before the
      shortcut is added.

    Raises:
      OptionError: `multi_grid` does not have one factor for each unit of the last block.
    """
    kind, last = ('bottleneck_v1', 'conv3') if network.bottleneck else ('lite_bottleneck_v1', 'conv2')
    end_points = {}
    family = layers.family_scope(
        batch_norm_decay=CLASSIFIER_BATCH_NORM_DECAY if options.is_per_image else BATCH_NORM_DECAY,
        batch_norm_epsilon=BATCH_NORM_EPSILON,
        activation=tf.nn.relu,
        initializer=initializers.he_normal,
    )
    with family, tf.compat.v1.variable_scope(network.scope):
        net = _root(images, network, options)  # [n, h/4, w/4, .]
        for unit in _units(network, options):
            with tf.compat.v1.variable_scope(f'{unit.scope}/{kind}'):
                net, residual = _unit(net, unit, network.bottleneck)
            end_points[unit.scope] = net
            end_points[f'{unit.scope}/{kind}/{last}'] = residual
    return net, end_points


def _register(layer_count: int, units: tuple[int, int, int, int], skip_units: tuple[int, int, int]) -> None:
    """Registers one depth with both roots; the residuals of `skip_units` of blocks 1 to 3 are the decoder's skips."""
    scope, bottleneck = f'resnet_v1_{layer_count}', layer_count > 18
    residual = 'bottleneck_v1/conv3' if bottleneck else 'lite_bottleneck_v1/conv2'
    skips = {4 << i: f'block{i + 1}/unit_{unit}/{residual}' for i, unit in enumerate(skip_units)}
    # The beta root of ResNet-18 has a quarter of the channels.
    beta_filters = (64, 64, 128) if bottleneck else (16, 16, 32)
    for suffix, root, filters, normalization in (
        ('', '', None, SUBTRACT_RGB_MEAN),
        ('_beta', ' with three 3x3 convolutions first', beta_filters, SCALE_TO_PLUS_MINUS_ONE),
    ):
        register(
            Backbone(
                name=scope + suffix,
                summary=f'ResNet-{layer_count}{root}.',
                build=functools.partial(build, network=Network(scope, units, bottleneck, filters)),
                scope=scope,
                normalization=normalization,
                decoder_end_points=skips,
                output_strides=(4, 8, 16, 32),
                reads=('multi_grid', 'depth_multiplier'),
                classifier=Classifier(
                    initializer=lambda: initializers.he_normal, preprocessing='inception' if suffix else 'vgg'
                ),
                source='arXiv:1512.03385, table 1 and figure 5; multi-grid: arXiv:1706.05587, section 3.2.1',
            )
        )


_register(18, (2, 2, 2, 2), skip_units=(1, 1, 1))
_register(50, (3, 4, 6, 3), skip_units=(2, 3, 5))
_register(101, (3, 4, 23, 3), skip_units=(2, 3, 22))
