"""Registries of the parts of networks: backbones with the normalization of their input, and heads."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from deeplab import common
from deeplab.errors import OptionError
from deeplab.registry.records import Record, Registry
from deeplab.registry.tasks import TASKS
from deeplab.wording import option

# Fields of ModelOptions that only some backbones read.
SHARED_OPTIONS = ('depth_multiplier', 'divisible_by', 'multi_grid', 'nas')


@dataclasses.dataclass(frozen=True)
class Normalization:
    """Normalization of pixels of 0 to 255 before the first convolution: `x * scale - offset`, by channel.

    Attributes:
      scale: factor.
      offset: values subtracted from red, green and blue after scaling.
    """

    scale: float
    offset: tuple[float, float, float]

    def offset_of(self, channels: int) -> tuple[float, ...]:
        """Returns the value that is subtracted from each of `channels` channels after scaling.

        Three channels, or the first three of more, are red, green and blue. Further channels, and all of fewer than
        three, use the mean of the three.
        """
        mean = sum(self.offset) / 3.0
        return (*self.offset, *[mean] * (channels - 3)) if channels >= 3 else (mean,) * channels

    def mean_pixel_of(self, channels: int) -> tuple[float, ...]:
        """Returns the pixel of `channels` channels that is normalized to zero, with which images are padded."""
        return tuple(value / self.scale for value in self.offset_of(channels))


SCALE_TO_PLUS_MINUS_ONE = Normalization(scale=2.0 / 255.0, offset=(1.0, 1.0, 1.0))
SUBTRACT_RGB_MEAN = Normalization(scale=1.0, offset=(123.15, 115.90, 103.06))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Classifier:
    """What an image classifier has after the features of its backbone: pooling, dropout and the last layer.

    Its variables are in the scope of the backbone.

    Attributes:
      pool: makes one vector of the features: `pool(features, end_points, options)` takes what `Backbone.build` returned
        and the ModelOptions, and returns [n, 1, 1, channels]; None for the mean over all positions.
      keep_probability: fraction of the values before the last layer that dropout keeps in training; 1.0 for no dropout.
      scope: variable scope of the last layer.
      initializer: returns the initializer of its weights, of `core/initializers.py`; None for Xavier's.
      bias: whether it has biases.
      is_matrix: whether its weights are a matrix [channels, classes] instead of a 1x1 kernel.
      decays: whether its weights have weight decay.
      preprocessing: name of the `Preprocessing` of its images, unless another one is chosen.
      image_size: height and width of its input, in pixels, unless another one is chosen.
    """

    pool: Callable[..., Any] | None = None
    keep_probability: float = 1.0
    scope: str = 'logits'
    initializer: Callable[..., Any] | None = None
    bias: bool = True
    is_matrix: bool = False
    decays: bool = True
    preprocessing: str = 'inception'
    image_size: int = 224


@dataclasses.dataclass(frozen=True, kw_only=True)
class Backbone(Record):
    """A network that turns images into features, a value of --model_variant.

    Attributes:
      build: builds the network; `build(images, options)` takes normalized images [n, h, w, input_channels] and the
        ModelOptions, which have the values of the parameters as attributes. It returns features
        [n, h / output_stride, w / output_stride, c] and a dictionary of end points.
      scope: variable scope of the network, the first part of the names of its variables.
      normalization: normalization of its input; images are padded with the pixel that it maps to zero.
      decoder_end_points: by stride, the end point that a decoder uses as low-level features.
      output_strides: supported output strides.
      reads: which of `SHARED_OPTIONS` it reads; the others have no effect, which is a warning.
      classifier: what image classification has after its features.
      has_batch_norm: whether it has batch norms.
      gains_from_bfloat16: whether a training step on a processor takes less time in bfloat16 than in float32.
    """

    build: Callable[..., Any]
    scope: str
    normalization: Normalization = SCALE_TO_PLUS_MINUS_ONE
    decoder_end_points: Mapping[int, str] = dataclasses.field(default_factory=dict)
    output_strides: tuple[int, ...] = (8, 16, 32)
    reads: tuple[str, ...] = ()
    classifier: Classifier = Classifier()
    has_batch_norm: bool = True
    gains_from_bfloat16: bool = True

    def __post_init__(self) -> None:
        unknown = [name for name in self.reads if name not in SHARED_OPTIONS]
        if unknown:
            allowed = ', '.join(SHARED_OPTIONS)
            raise ValueError(f"The backbone '{self.name}' reads '{unknown[0]}'; allowed: {allowed}.")


class Backbones(Registry[Backbone]):
    """The registry of backbones."""

    def chosen(self, options: Any) -> Backbone:
        """Returns the backbone that some ModelOptions name, after checking that it supports their strides.

        Raises:
          OptionError: there is none of that name; or it does not support the output stride, or has no end point for a
            stride of the decoder.
        """
        backbone = self.get(options.model_variant)
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


def _shown(values: Any) -> str:
    return ', '.join(str(value) for value in sorted(values)) or 'none'


@dataclasses.dataclass(frozen=True, kw_only=True)
class Head(Record):
    """The layers between the features of the backbone and the decoder or the logits.

    Heads are tried in ascending order of `order`; the first that applies is built. The heads of this package have the
    orders 100 (dense prediction cell), 200 (ASPP) and 300 (plain, which always applies).

    Attributes:
      applies: whether some ModelOptions select this head; they have the values of the parameters as attributes.
      build: builds the head; `build(features [n, h, w, c], options)` returns [n, h, w, channels].
      order: position among the heads; of equal ones, the first by name is tried first.
      scope: first part of the names of its variables, which belong to the last layers; empty if it is one of
        `common.LAST_LAYER_SCOPES`.
      check: raises OptionError if the head does not support the options.
      logits_rates: atrous rates of the following logits layers; their outputs are added.
    """

    applies: Callable[[Any], bool]
    build: Callable[..., Any]
    order: int = 0
    scope: str = ''
    check: Callable[[Any], None] = lambda options: None
    logits_rates: Callable[[Any], tuple[int, ...]] = lambda options: (1,)


class Heads(Registry[Head]):
    """The registry of heads; the options select one of them."""

    def records(self) -> tuple[Head, ...]:
        """Returns all heads in the order in which they are tried."""
        return tuple(sorted(super().records(), key=lambda head: head.order))

    def chosen(self, options: Any) -> Head:
        """Returns the head that some ModelOptions select, after checking that it supports them.

        Raises:
          OptionError: the head does not support the options.
        """
        head = next(head for head in self.records() if head.applies(options))
        head.check(options)
        return head

    def last_layer_scopes(self) -> tuple[str, ...]:
        """Returns the scopes of all layers after the backbone: heads, decoders, outputs of tasks."""
        of_heads = tuple(head.scope for head in self.records() if head.scope)
        return common.LAST_LAYER_SCOPES + of_heads + TASKS.branch_scopes()


BACKBONES = Backbones('backbone', 'ModelOptions.model_variant', 'deeplab.core.backbones')
HEADS = Heads('head', 'Head.name', 'deeplab.core.heads')
