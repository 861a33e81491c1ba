"""Feature extraction: normalization of images and the backbone."""

from __future__ import annotations

import tensorflow as tf

from deeplab.core import compute_types
from deeplab.options import ModelOptions
from deeplab.registry import BACKBONES, PREPROCESSINGS, Normalization


def mean_pixel(model_variant: str, channels: int = 3) -> tuple[float, ...]:
    """Returns the pixel (0 to 255) that `model_variant` normalizes to zero, with which images are padded.

    Raises:
      OptionError: no backbone has that name.
    """
    return BACKBONES.get(model_variant).normalization.mean_pixel_of(channels)


def input_name(model_variant: str) -> str:
    """Returns the name of the operation with the normalized images, such as MobilenetV2/MobilenetV2/input.

    Raises:
      OptionError: no backbone has that name.
    """
    scope = BACKBONES.get(model_variant).scope
    return f'{scope}/{scope}/input'


def normalize(images: tf.Tensor, normalization: Normalization | None) -> tf.Tensor:
    """Normalizes images [n, h, w, channels] float32, 0 to 255; with None each one to zero mean and unit variance."""
    if normalization is None:
        return tf.image.per_image_standardization(images)
    scaled = images if normalization.scale == 1.0 else images * normalization.scale
    offset = normalization.offset_of(int(images.shape[-1]))
    return scaled - (offset[0] if len(set(offset)) == 1 else tf.constant(offset))


def extract_features(images: tf.Tensor, options: ModelOptions) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Normalizes images and runs the backbone on them.

    The caller's `layers.mode_scope` sets the mode of the layers (training or not, weight decay, type).

    Args:
      images: [n, h, w, input_channels] float32, 0 to 255.
      options: the network.

    Returns:
      Features [n, ceil(h / output_stride), ceil(w / output_stride), c] of the compute type, and the end points by name.

    Raises:
      OptionError: unknown variant, or an output stride that it does not support.
    """
    backbone = BACKBONES.chosen(options)
    preprocessing = PREPROCESSINGS.of_network(options)
    normalization = backbone.normalization if preprocessing is None else preprocessing.normalization
    images = tf.cast(images, tf.float32)
    if options.is_per_image and options.use_grayscale and images.shape[-1] == 3:
        images = tf.image.rgb_to_grayscale(images)  # [n, h, w, 1]
    normalized = normalize(images, normalization)
    # Converters of exported graphs use this name as the input of the network.
    normalized = tf.identity(normalized, name=input_name(options.model_variant))
    built: tuple[tf.Tensor, dict[str, tf.Tensor]] = backbone.build(compute_types.as_compute_type(normalized), options)
    return built
