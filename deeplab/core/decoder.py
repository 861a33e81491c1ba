"""The DeepLabv3+ decoder: upsampled features refined with skip connections from the backbone.

Source: arXiv:1802.02611, section 3.1 and figure 2; the sum merge: arXiv:1905.02244, section 6.3.4.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from deeplab import common
from deeplab.core import layers, shapes
from deeplab.options import ModelOptions
from deeplab.registry import BACKBONES, Branch

SKIP_FILTERS = 48
Size = tuple[shapes.Side, shapes.Side]  # height and width


def _concat_merge(features: tf.Tensor, skip: tf.Tensor, size: Size, options: ModelOptions, suffix: str) -> tf.Tensor:
    """Concatenates resized features and skip and applies two 3x3 convolutions: [n, h, w, filters]."""
    filters = options.decoder.filters
    net = tf.concat([shapes.resize_bilinear(features, size), skip], axis=3)  # [n, h, w, features + skip]
    if options.decoder.use_separable_conv and not options.decoder.output_is_logits:
        net = layers.separable_conv2d(net, filters, 3, scope=f'decoder_conv0{suffix}')
        return layers.separable_conv2d(net, filters, 3, scope=f'decoder_conv1{suffix}')
    with tf.compat.v1.variable_scope(f'decoder_conv0{suffix}'):
        net = layers.conv2d(net, filters, 3, scope=f'decoder_conv0{suffix}_1')
        return layers.conv2d(net, filters, 3, scope=f'decoder_conv0{suffix}_2')


def _sum_merge(features: tf.Tensor, skip: tf.Tensor, size: Size, options: ModelOptions, suffix: str) -> tf.Tensor:
    """Applies one convolution to the features (1x1 if its output is the logits), adds the skip: [n, h, w, filters]."""
    filters = options.decoder.filters
    if options.decoder.output_is_logits:
        # The original resizes first. A linear 1x1 convolution and resizing commute; it is faster on the smaller map.
        features = layers.conv2d(features, filters, 1, scope=f'decoder_conv0{suffix}')
        features = shapes.resize_bilinear(features, size)
    else:
        features = shapes.resize_bilinear(features, size)
        if options.decoder.use_separable_conv:
            features = layers.separable_conv2d(features, filters, 3, scope=f'decoder_split_sep_conv0{suffix}')
        else:
            features = layers.conv2d(features, filters, 3, scope=f'decoder_conv0{suffix}')
    return layers.fake_quantized(features + skip, f'merge{suffix}_quant')


def _stage_size(skip: tf.Tensor, image_size: Size, stride: int, options: ModelOptions) -> Size:
    """Returns height and width at a decoder stride: the skip's size, unless the backbone's stride is smaller."""
    if stride <= options.output_stride:
        return shapes.spatial_size(skip)
    height, width = image_size
    return shapes.scaled_size(height, 1.0 / stride), shapes.scaled_size(width, 1.0 / stride)


def build_branch(
    features: tf.Tensor, end_points: Mapping[str, tf.Tensor], options: ModelOptions, branch: Branch, image_size: Size
) -> tf.Tensor:
    """Refines features as the decoder of a branch.

    Args:
      features: [n, h, w, c] float, the output of the branch's head, or of the backbone if the branch builds its head.
      end_points: end points of the backbone by name.
      options: the network.
      branch: strides and channels.
      image_size: height and width of the network's input.

    Returns:
      [n, H, W, branch.filters] at the last stride; `features` themselves if there is no stride.

    Source: arXiv:1911.10194, section 3.1 and figure 2.
    """
    names = BACKBONES.chosen(options).decoder_end_points
    if branch.build is not None:
        with layers.head_scope(options):
            skips = {stride: end_points[names[stride]] for stride, _ in branch.skip_filters}
            own: tf.Tensor = branch.build(features, skips, options)  # [n, H, W, .]
            return own
    with layers.head_scope(options), tf.compat.v1.variable_scope(common.DECODER_SCOPE):
        for stage, (stride, skip_filters) in enumerate(branch.skip_filters):
            skip = layers.conv2d(end_points[names[stride]], skip_filters, 1, scope=f'feature_projection{stage}')
            size = _stage_size(skip, image_size, stride, options)
            parts = [shapes.resize_bilinear(part, size) for part in (features, skip)]
            net = tf.concat(parts, axis=3)  # [n, H, W, features + skip]
            features = layers.separable_conv2d(net, branch.filters, 5, scope=f'decoder_conv{stage}')
    return features  # [n, H, W, filters]


def build(
    features: tf.Tensor, end_points: Mapping[str, tf.Tensor], options: ModelOptions, *, image_size: Size
) -> tf.Tensor:
    """Refines features with skips of the backbone, one stage for each of the decoder's strides.

    Args:
      features: [n, h, w, c] float, the head's output.
      end_points: end points of the backbone by name.
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
                features = merge(features, skip, size, options, suffix)  # [n, H, W, filters]
    return features
