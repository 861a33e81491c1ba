"""Atrous spatial pyramid pooling with image-level features.

Source: arXiv:1706.05587, section 3.3 and figure 5; squeeze-and-excitation: arXiv:1905.02244, section 6.3.4 and
figure 10.
"""

from __future__ import annotations

from typing import Any

from deeplab import common
from deeplab.core import activations
from deeplab.core.lazy import dropout, layers, shapes, tf
from deeplab.errors import OptionError
from deeplab.options import ModelOptions
from deeplab.registry import Head, register
from deeplab.wording import option

KEEP_PROBABILITY = 0.9


def _check(options: ModelOptions) -> None:
    """Raises OptionError if squeeze-and-excitation lacks its image-level feature, or the channels do not match."""
    aspp = options.aspp
    if aspp.with_squeeze_and_excitation and not aspp.image_level_feature:
        raise OptionError(
            f'{option("AsppOptions.with_squeeze_and_excitation", True)} needs the image-level feature. '
            f'Also set {option("AsppOptions.image_level_feature", True)}.'
        )
    if aspp.with_squeeze_and_excitation and aspp.rates and not aspp.with_concat_projection:
        raise OptionError(
            f'{option("AsppOptions.with_squeeze_and_excitation", True)} gates {aspp.filters} channels, but with '
            f'{option("AsppOptions.rates", aspp.rates)} and without a projection there are '
            f'{aspp.filters * (1 + len(aspp.rates))}. Set {option("AsppOptions.with_concat_projection", True)}, or '
            f'omit {option("AsppOptions.rates")}.'
        )


def _pool(features: tf.Tensor, options: ModelOptions) -> tf.Tensor:
    """Pools the features: [n, 1, 1, c], or more positions if `image_pooling_crop_size` is smaller than the crop."""
    if options.crop_size is None or None in features.shape[1:3].as_list():
        return shapes.spatial_mean(features)  # [n, 1, 1, c]
    window = pooling_window(features, options)
    if window == features.shape[1:3].as_list():
        return shapes.spatial_mean(features)  # faster than the pooling, with the same result: [n, 1, 1, c]
    return tf.nn.avg_pool2d(features, window, options.image_pooling_stride, 'VALID')  # [n, ph, pw, c]


def pooling_window(features: tf.Tensor, options: ModelOptions, grid: tuple[int, int] = (1, 1)) -> list[int]:
    """Returns the rows and columns over which features are pooled: the crop, or one cell of a grid on it.

    Raises:
      OptionError: `image_pooling_crop_size` is larger than the crop.
    """
    assert options.crop_size is not None
    size = features.shape[1:3].as_list()
    crop = options.image_pooling_crop_size or options.crop_size
    window = [
        shapes.scaled_size(side, 1.0 / (options.output_stride * cells)) for side, cells in zip(crop, grid, strict=True)
    ]
    if options.image_pooling_crop_size is None:
        # A network that downsamples to stride 32 and upsamples again loses positions of a crop that is not 32 * k + 1.
        window = [min(side, most) for side, most in zip(window, size, strict=True)]
    if window[0] > size[0] or window[1] > size[1]:
        raise OptionError(
            f'{option("ModelOptions.image_pooling_crop_size")} is larger than the crop: {crop[0]},{crop[1]} and '
            f'{options.crop_size[0]},{options.crop_size[1]} at this scale of the images. Set the crop size to at least '
            f'{option("ModelOptions.image_pooling_crop_size")}, or train with a smaller one.'
        )
    return window


def image_pooling(features: tf.Tensor, options: ModelOptions) -> tf.Tensor:
    """Builds the image-level feature, repeated at every position: [n, h, w, filters]."""
    gate = options.aspp.with_squeeze_and_excitation
    extra: dict[str, Any] = {'activation': tf.nn.relu}  # never bounded, as in the original
    if gate:
        sigmoid = activations.hard_sigmoid if options.aspp.image_se_uses_qsigmoid else tf.nn.sigmoid
        extra = {'normalize': False, 'activation': sigmoid}
    pooled = _pool(features, options)  # [n, 1, 1, c]
    pooled = layers.conv2d(pooled, options.aspp.filters, 1, scope=common.IMAGE_POOLING_SCOPE, **extra)
    return shapes.resize_bilinear(pooled, shapes.spatial_size(features))  # [n, h, w, filters]


def build(features: tf.Tensor, options: ModelOptions) -> tf.Tensor:
    """Builds atrous spatial pyramid pooling (ASPP).

    Args:
      features: [n, h, w, c] float.
      options: the network; mainly `options.aspp` is read.

    Returns:
      [n, h, w, filters] of their type; without the projection, filters times the number of branches.
    """
    aspp = options.aspp
    with layers.head_scope(options):
        image_level = image_pooling(features, options) if aspp.image_level_feature else None
        branches = [layers.conv2d(features, aspp.filters, 1, scope=f'{common.ASPP_SCOPE}0')]  # [n, h, w, filters]
        convolve = layers.separable_conv2d if aspp.with_separable_conv else layers.conv2d
        for i, rate in enumerate(aspp.rates, start=1):
            # [n, h, w, filters]
            branches.append(convolve(features, aspp.filters, 3, rate=rate, scope=f'{common.ASPP_SCOPE}{i}'))
        if image_level is not None and not aspp.with_squeeze_and_excitation:
            branches.insert(0, image_level)
        merged = tf.concat(branches, axis=3) if len(branches) > 1 else branches[0]  # [n, h, w, filters * branches]
        if aspp.with_concat_projection:
            merged = layers.conv2d(merged, aspp.filters, 1, scope=common.CONCAT_PROJECTION_SCOPE)
            merged = dropout.dropout(merged, KEEP_PROBABILITY, scope=f'{common.CONCAT_PROJECTION_SCOPE}_dropout')
        if aspp.with_squeeze_and_excitation:
            merged = layers.gated(merged, image_level)  # [n, h, w, filters]
        return merged


register(
    Head(
        name='aspp',
        summary='Atrous spatial pyramid pooling.',
        order=200,
        applies=lambda options: options.aspp.with_batch_norm,
        build=build,
        check=_check,
        source='arXiv:1706.05587, section 3.3',
    )
)
