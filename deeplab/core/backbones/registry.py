"""Registry of backbones.

A family is a file in this folder that ends in `register(Backbone(...))`; it is found without being listed anywhere. A
backbone from outside the package is registered the same way, before it is requested.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from deeplab.core import layers
from deeplab.errors import OptionError
from deeplab.options import ModelOptions
from deeplab.wording import option

# (normalised images [n, h, w, input_channels], options)
#   -> (features [n, h / output_stride, w / output_stride, c], end points)
Build = Callable[[tf.Tensor, ModelOptions], tuple[tf.Tensor, dict[str, tf.Tensor]]]


@dataclasses.dataclass(frozen=True)
class Normalization:
    """Normalisation of pixels of 0 to 255 before the first convolution: `x * scale - offset`, by channel.

    Attributes:
      scale: factor.
      offset: values subtracted from red, green and blue after scaling.
    """

    scale: float
    offset: tuple[float, float, float]

    @property
    def mean_pixel(self) -> tuple[float, float, float]:
        """The pixel that is normalised to zero, with which images are padded."""
        return tuple(value / self.scale for value in self.offset)  # type: ignore[return-value]

    def offset_of(self, channels: int) -> tuple[float, ...]:
        """Returns the value that is subtracted from each of `channels` channels after scaling.

        Three channels, or the first three of more, are red, green and blue. Further channels, and all of fewer than
        three, use the mean of the three.
        """
        mean = sum(self.offset) / 3.0
        return (*self.offset, *[mean] * (channels - 3)) if channels >= 3 else (mean,) * channels

    def mean_pixel_of(self, channels: int) -> tuple[float, ...]:
        """Returns the pixel of `channels` channels that is normalised to zero."""
        return tuple(value / self.scale for value in self.offset_of(channels))

    def apply(self, images: tf.Tensor) -> tf.Tensor:
        """Normalises `images`, [n, h, w, channels] float32 in 0 to 255."""
        scaled = images if self.scale == 1.0 else images * self.scale
        offset = self.offset_of(int(images.shape[-1]))
        return scaled - (offset[0] if len(set(offset)) == 1 else tf.constant(offset))


SCALE_TO_PLUS_MINUS_ONE = Normalization(scale=2.0 / 255.0, offset=(1.0, 1.0, 1.0))
SUBTRACT_RGB_MEAN = Normalization(scale=1.0, offset=(123.15, 115.90, 103.06))


@dataclasses.dataclass(frozen=True)
class Backbone:
    """One network that turns images into features.

    Attributes:
      name: value of `ModelOptions.model_variant`.
      build: builds the network.
      scope: variable scope.
      normalization: normalisation of its input.
      decoder_end_points: name of the end point for each stride at which a decoder may take a skip.
      output_strides: supported output strides.
      uses_multi_grid: whether it reads `ModelOptions.multi_grid`.
      uses_depth_multiplier: whether it reads `ModelOptions.depth_multiplier`.
      uses_divisible_by: whether it reads `ModelOptions.divisible_by`.
      uses_nas_options: whether it reads `NasOptions`.
    """

    name: str
    build: Build
    scope: str
    normalization: Normalization = SCALE_TO_PLUS_MINUS_ONE
    decoder_end_points: Mapping[int, str] = dataclasses.field(default_factory=dict)
    output_strides: tuple[int, ...] = (8, 16, 32)
    uses_multi_grid: bool = False
    uses_depth_multiplier: bool = False
    uses_divisible_by: bool = False
    uses_nas_options: bool = False


_backbones: dict[str, Backbone] = {}


def _shown(values: Any) -> str:
    return ', '.join(str(value) for value in sorted(values)) or 'none'


def register(backbone: Backbone) -> Backbone:
    """Registers `backbone` under its name.

    Raises:
      ValueError: another backbone has that name.
    """
    if _backbones.setdefault(backbone.name, backbone) is not backbone:
        raise ValueError(f"A backbone '{backbone.name}' is already registered; names must be unique.")
    return backbone


def _load_families() -> None:
    """Imports every module of this package, each of which registers its backbones."""
    package = importlib.import_module(__package__)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f'{__package__}.{module.name}')


def names() -> tuple[str, ...]:
    """Returns the names of all backbones, sorted."""
    _load_families()
    return tuple(sorted(_backbones))


def get(name: str) -> Backbone:
    """Returns the backbone called `name`.

    Raises:
      OptionError: there is none; the message lists the known names.
    """
    if name not in names():
        raise OptionError(
            f'{option("ModelOptions.model_variant", name)} is not known. Known variants: {", ".join(names())}.'
        )
    return _backbones[name]


def check(options: ModelOptions) -> Backbone:
    """Returns the backbone that `options` name, after checking that it supports them.

    Raises:
      OptionError: unknown variant, unsupported output stride, or a decoder stride without a skip.
    """
    backbone = get(options.model_variant)
    if options.output_stride not in backbone.output_strides:
        raise OptionError(
            f'{option("ModelOptions.output_stride", options.output_stride)} is not supported by {backbone.name}. '
            f'Supported: {_shown(backbone.output_strides)}.'
        )
    for stride in options.decoder.output_strides:
        if stride not in backbone.decoder_end_points:
            raise OptionError(
                f'{option("DecoderOptions.output_strides", options.decoder.output_strides)} is not supported by '
                f'{backbone.name}: it has no skip at stride {stride}. Strides with skips: '
                f'{_shown(backbone.decoder_end_points)}.'
            )
    return backbone


def activation(options: ModelOptions) -> layers.Activation:
    """Returns the activation of networks, heads and decoder: relu, or relu6 for bounded activations."""
    return tf.nn.relu6 if options.use_bounded_activation else tf.nn.relu
