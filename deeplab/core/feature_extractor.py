"""Looks up a backbone and runs it on images."""

from __future__ import annotations

import tensorflow as tf

from deeplab.core import compute_types
from deeplab.core.backbones import registry
from deeplab.options import ModelOptions


def mean_pixel(model_variant: str, channels: int = 3) -> tuple[float, ...]:
    """The pixel (0 to 255) with which images for `model_variant` are padded: what normalises to zero.

    Raises:
      OptionError: no backbone has that name.
    """
    return registry.get(model_variant).normalization.mean_pixel_of(channels)


def input_name(model_variant: str) -> str:
    """Name of the operation that holds the normalised images, such as MobilenetV2/MobilenetV2/input.

    Raises:
      OptionError: no backbone has that name.
    """
    scope = registry.get(model_variant).scope
    return f'{scope}/{scope}/input'


def extract_features(images: tf.Tensor, options: ModelOptions) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Normalises images and runs the backbone on them.

    How layers behave (training or not, weight decay, type) is the caller's `layers.mode_scope`.

    Args:
      images: [n, h, w, input_channels] float32, 0 to 255.
      options: the network.

    Returns:
      Features [n, ceil(h / output_stride), ceil(w / output_stride), c] of the compute type, and the end points by name.

    Raises:
      OptionError: unknown variant, or an output stride that it cannot have.
    """
    backbone = registry.check(options)
    normalized = backbone.normalization.apply(tf.cast(images, tf.float32))
    # Converters of exported graphs take this name for the network's beginning.
    normalized = tf.identity(normalized, name=input_name(options.model_variant))
    return backbone.build(compute_types.as_compute_type(normalized), options)
