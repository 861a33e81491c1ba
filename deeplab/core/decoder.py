"""The DeepLabv3+ decoder: upsampled features refined with skip connections from the backbone.

Source: arXiv:1802.02611, section 3.1 and figure 2; the sum merge: arXiv:1905.02244, section 6.3.4.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from deeplab import common
from deeplab.core import layers, shapes
from deeplab.options import ModelOptions
from deeplab.registry import BACKBONES

SKIP_FILTERS = 48


def _is_separable(options: ModelOptions) -> bool:
    """Returns whether convolutions are depthwise separable; those whose output is the logits never are."""
    return options.decoder.use_separable_conv and not options.decoder.output_is_logits


def _concat_merge(features: tf.Tensor, skip: tf.Tensor, options: ModelOptions, suffix: str) -> tf.Tensor:
    """Concatenates features and skip and applies two 3x3 convolutions: [n, h, w, filters]."""
    filters = options.decoder.filters
    net = tf.concat([features, skip], axis=3)  # [n, h, w, features + skip]
    if _is_separable(options):
        net = layers.separable_conv2d(net, filters, 3, scope=f'decoder_conv0{suffix}')
        return layers.separable_conv2d(net, filters, 3, scope=f'decoder_conv1{suffix}')
    with tf.compat.v1.variable_scope(f'decoder_conv0{suffix}'):
        net = layers.conv2d(net, filters, 3, scope=f'decoder_conv0{suffix}_1')
        return layers.conv2d(net, filters, 3, scope=f'decoder_conv0{suffix}_2')


def _sum_merge(features: tf.Tensor, skip: tf.Tensor, options: ModelOptions, suffix: str) -> tf.Tensor:
    """Applies one convolution to the features (1x1 if its output is the logits), adds the skip: [n, h, w, filters]."""
    filters = options.decoder.filters
    if _is_separable(options):
        features = layers.separable_conv2d(features, filters, 3, scope=f'decoder_split_sep_conv0{suffix}')
    else:
        kernel_size = 1 if options.decoder.output_is_logits else 3
        features = layers.conv2d(features, filters, kernel_size, scope=f'decoder_conv0{suffix}')
    return layers.rounded(features + skip, f'merge{suffix}_quant')


def _stage_size(
    skip: tf.Tensor, image_size: tuple[shapes.Side, shapes.Side], stride: int, options: ModelOptions
) -> tuple[shapes.Side, shapes.Side]:
    """Returns height and width at a decoder stride: those of the skip, unless the backbone's stride is smaller."""
    if stride <= options.output_stride:
        return shapes.spatial_size(skip)
    height, width = image_size
    return shapes.scaled_size(height, 1.0 / stride), shapes.scaled_size(width, 1.0 / stride)


def build(
    features: tf.Tensor,
    end_points: Mapping[str, tf.Tensor],
    options: ModelOptions,
    *,
    image_size: tuple[shapes.Side, shapes.Side],
) -> tf.Tensor:
    """Refines features with skips of the backbone, one stage for each of the decoder's strides.

    Args:
      features: [n, h, w, c] float, the head's output.
      end_points: the backbone's.
      options: the network; mainly `options.decoder` is read.
      image_size: height and width of the network's input.

    Returns:
      [n, H, W, filters] of their type at the last (smallest) stride; `features` themselves if there is no stage.

    Raises:
      OptionError: the backbone has no skip at one of the strides.
    """
    names = BACKBONES.chosen(options).decoder_end_points
    decoder = options.decoder
    skip_filters = decoder.filters if decoder.use_sum_merge else SKIP_FILTERS
    merge = _sum_merge if decoder.use_sum_merge else _concat_merge
    # Logits have neither batch norm nor activation.
    linear = {'normalize': False, 'activation': None} if decoder.output_is_logits else {}
    with layers.head_scope(options), layers.convolution_scope(**linear):
        with tf.compat.v1.variable_scope(common.DECODER_SCOPE):
            for stage, stride in enumerate(decoder.output_strides):
                suffix = f'_{stage}' if stage else ''
                skip = end_points[names[stride]]  # [n, H, W, channels of the skip]
                skip = layers.conv2d(skip, skip_filters, 1, scope=f'feature_projection0{suffix}')
                size = _stage_size(skip, image_size, stride, options)
                skip = shapes.resize_bilinear(skip, size)  # [n, H, W, skip_filters]
                features = shapes.resize_bilinear(features, size)  # [n, H, W, c]
                features = merge(features, skip, options, suffix)  # [n, H, W, filters]
    return features
