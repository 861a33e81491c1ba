"""The backbones that exist, and what the rest of the toolkit needs to know of one.

A family is a file in this folder that ends in `register(Backbone(...))`: no list names it. A backbone from outside
the package is registered the same way, before it is asked for.
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

# (normalised images [n, h, w, input_channels], options)
#   -> (features [n, h / output_stride, w / output_stride, c], end points)
Build = Callable[[tf.Tensor, ModelOptions], tuple[tf.Tensor, dict[str, tf.Tensor]]]


@dataclasses.dataclass(frozen=True)
class Normalization:
    """What happens to pixels of 0 to 255 before the first convolution: `x * scale - offset`, by channel.

    Attributes:
      scale: factor.
      offset: what is subtracted from red, green and blue after scaling.
    """

    scale: float
    offset: tuple[float, float, float]

    @property
    def mean_pixel(self) -> tuple[float, float, float]:
        """The pixel that becomes zero, hence the value to pad images with."""
        return tuple(value / self.scale for value in self.offset)  # type: ignore[return-value]

    def offset_of(self, channels: int) -> tuple[float, ...]:
        """What is subtracted from each of so many channels after scaling.

        Three are red, green and blue, and so are the first three of more. The others, and all where there are fewer,
        get the mean of the three.
        """
        mean = sum(self.offset) / 3.0
        return (*self.offset, *[mean] * (channels - 3)) if channels >= 3 else (mean,) * channels

    def mean_pixel_of(self, channels: int) -> tuple[float, ...]:
        """The pixel of so many channels that becomes zero."""
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
      name: what --model_variant says.
      build: makes the network.
      scope: first part of its variables' names.
      normalization: what it expects of its input.
      decoder_end_points: for each stride at which a decoder may take a skip, the end point's name.
      output_strides: strides that the network can be made dense for.
      uses_multi_grid: whether --multi_grid means anything to it.
      uses_depth_multiplier: whether --depth_multiplier means anything to it.
      uses_divisible_by: whether --divisible_by means anything to it.
      uses_nas_options: whether the flags of searched networks mean anything to it.
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
    """Makes `backbone` known under its name.

    Raises:
      ValueError: another backbone has that name.
    """
    if _backbones.setdefault(backbone.name, backbone) is not backbone:
        raise ValueError(f"A backbone '{backbone.name}' is registered already; names must differ.")
    return backbone


def _load_families() -> None:
    """Imports every file of this package, each of which registers what it holds."""
    package = importlib.import_module(__package__)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f'{__package__}.{module.name}')


def names() -> tuple[str, ...]:
    """Names of all backbones, sorted."""
    _load_families()
    return tuple(sorted(_backbones))


def get(name: str) -> Backbone:
    """The backbone called `name`.

    Raises:
      OptionError: there is none; the message lists those that exist.
    """
    if name not in names():
        raise OptionError(f'--model_variant={name} is not known. Known variants: {", ".join(names())}.')
    return _backbones[name]


def check(options: ModelOptions) -> Backbone:
    """The backbone that `options` ask for, after checking that it can do what they ask.

    Raises:
      OptionError: unknown variant, impossible output stride, or a decoder stride without a skip.
    """
    backbone = get(options.model_variant)
    if options.output_stride not in backbone.output_strides:
        raise OptionError(
            f'--output_stride={options.output_stride} is not possible with {backbone.name}; '
            f'it can be {_shown(backbone.output_strides)}.'
        )
    for stride in options.decoder.output_strides:
        if stride not in backbone.decoder_end_points:
            raise OptionError(
                f'--decoder_output_stride={stride} is not possible with {backbone.name}: it has skips at strides '
                f'{_shown(backbone.decoder_end_points)}.'
            )
    return backbone


def activation(options: ModelOptions) -> layers.Activation:
    """The rectifier of networks, heads and decoder: relu, or relu6 where activations shall be bounded."""
    return tf.nn.relu6 if options.use_bounded_activation else tf.nn.relu
