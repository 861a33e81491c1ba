"""Options of the network: backbone, ASPP, decoder, NAS networks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from deeplab import common
from deeplab.options.parameters import Settings, with_parameters
from deeplab.options.rules import check_size, require, require_choice, require_positive, require_share
from deeplab.registry.networks import BACKBONES, HEADS
from deeplab.wording import option

MERGE_METHODS = ('max', 'avg')
OUTPUT_STRIDES = (4, 8, 16, 32)


@dataclasses.dataclass(frozen=True)
class AsppOptions:
    """Atrous spatial pyramid pooling (arXiv:1706.05587, section 3.3).

    Attributes:
      rates: atrous rates of the 3x3 branches; empty for none.
      filters: number of channels of each branch and of the projection.
      image_level_feature: whether there is an image pooling branch.
      with_batch_norm: whether there is an ASPP at all; without it, logits are computed from the features of the
        backbone, once for each rate, and added.
      with_concat_projection: whether a 1x1 convolution and dropout follow the concatenation.
      with_separable_conv: whether the atrous branches are depthwise separable.
      with_squeeze_and_excitation: whether the image-level feature is multiplied with the other branches instead of
        concatenated.
      image_se_uses_qsigmoid: whether squeeze and excitation uses the piecewise linear sigmoid.
    """

    rates: tuple[int, ...] = ()
    filters: int = 256
    image_level_feature: bool = True
    with_batch_norm: bool = True
    with_concat_projection: bool = True
    with_separable_conv: bool = True
    with_squeeze_and_excitation: bool = False
    image_se_uses_qsigmoid: bool = False

    def __post_init__(self) -> None:
        require(
            all(rate > 0 for rate in self.rates),
            'AsppOptions.rates',
            self.rates,
            f'each rate must be 1 or more; omit {option("AsppOptions.rates")} for no atrous branches',
        )
        require_positive('AsppOptions.filters', self.filters)


@dataclasses.dataclass(frozen=True)
class DecoderOptions:
    """The decoder (arXiv:1802.02611, section 3.1).

    Attributes:
      output_strides: output strides of the skip connections, descending; empty for no decoder.
      filters: number of channels of the convolutions.
      use_separable_conv: whether the convolutions are depthwise separable.
      use_sum_merge: whether low-level features are added instead of concatenated.
      output_is_logits: whether the output of the decoder is used as logits.
    """

    output_strides: tuple[int, ...] = ()
    filters: int = 256
    use_separable_conv: bool = True
    use_sum_merge: bool = False
    output_is_logits: bool = False

    def __post_init__(self) -> None:
        strides = self.output_strides
        field = 'DecoderOptions.output_strides'
        require(all(s > 0 for s in strides), field, strides, 'strides must be positive integers, such as 4 or 8,4')
        require(
            all(a > b for a, b in zip(strides, strides[1:], strict=False)),
            field,
            strides,
            'several strides must descend, such as 8,4',
        )
        require_positive('DecoderOptions.filters', self.filters)
        require(
            not (self.output_is_logits and not strides),
            'DecoderOptions.output_is_logits',
            True,
            f'it needs a decoder; also set {option(field)}',
        )


@dataclasses.dataclass(frozen=True)
class NasOptions:
    """Options of the networks found by neural architecture search (NAS).

    Attributes:
      stem_output_filters: number of filters of an operation at stride 4; it doubles with each doubling of the stride.
      remove_os32_stride: whether the cells at stride 32 use stride 16.
      use_classification_head: whether there is a classification head. Not implemented.
      drop_path_keep_prob: probability that the last cell keeps a path at the end of training.
      total_training_steps: steps over which the drop probability rises linearly; None for the full one from the start.
    """

    stem_output_filters: int = 20
    remove_os32_stride: bool = False
    use_classification_head: bool = False
    drop_path_keep_prob: float = 1.0
    total_training_steps: int | None = None

    def __post_init__(self) -> None:
        require_positive('NasOptions.stem_output_filters', self.stem_output_filters)
        require_share('NasOptions.drop_path_keep_prob', self.drop_path_keep_prob)
        if self.total_training_steps is not None:
            require_positive('NasOptions.total_training_steps', self.total_training_steps)


@with_parameters(BACKBONES, HEADS)
@dataclasses.dataclass(frozen=True)
class ModelOptions:
    """One network: backbone, head, decoder and logits.

    The parameters of all backbones and heads are keywords and attributes as well.

    Attributes:
      outputs_to_num_classes: number of classes of each output (`{'semantic': 21}`).
      crop_size: height and width of the input, in pixels; None if they are only known at run time.
      model_variant: name of the backbone.
      output_stride: ratio of input resolution to that of the last feature map of the backbone.
      depth_multiplier: multiplier of the numbers of channels of a MobileNet.
      divisible_by: a MobileNet's numbers of channels are rounded to multiples of it; None for the network's own rule.
      multi_grid: multipliers of the atrous rates in the last block of a ResNet or an Xception; None for the network's
        own.
      image_pooling_crop_size: size, in input pixels, over which image pooling averages; None for the crop size.
      image_pooling_stride: stride of image pooling.
      image_pyramid: scales of the input that the network processes; None or (1.0,) for one.
      merge_method: 'max' or 'avg', how the logits of several scales are merged.
      prediction_with_upsampled_logits: whether logits are upsampled before argmax; otherwise labels are, after it.
      logits_kernel_size: kernel size of the last convolution (1, unless aspp.with_batch_norm is off).
      use_bounded_activation: whether relu6 is used instead of relu (for quantization).
      dense_prediction_cell_json: path of the description of a dense prediction cell; None for ASPP.
      batch_norm_decay: decay of the moving averages of every batch norm; None for each part's own.
      quantize_delay_step: step from which training imitates 8-bit arithmetic; None for never. For prediction, any step
        means a network that imitates it.
      quantize_per_channel: whether the 8-bit weights have one range for each channel instead of one for all.
      input_channels: number of channels of the input.
      settings: parameters of backbones and heads that differ from their defaults.
    """

    outputs_to_num_classes: Mapping[str, int]
    crop_size: tuple[int, int] | None = None
    model_variant: str = 'mobilenet_v2'
    output_stride: int = 16
    depth_multiplier: float = 1.0
    divisible_by: int | None = None
    multi_grid: tuple[int, ...] | None = None
    image_pooling_crop_size: tuple[int, int] | None = None
    image_pooling_stride: tuple[int, int] = (1, 1)
    image_pyramid: tuple[float, ...] | None = None
    merge_method: str = 'max'
    prediction_with_upsampled_logits: bool = True
    logits_kernel_size: int = 1
    use_bounded_activation: bool = False
    dense_prediction_cell_json: str | None = None
    batch_norm_decay: float | None = None
    quantize_delay_step: int | None = None
    quantize_per_channel: bool = False
    input_channels: int = 3
    aspp: AsppOptions = AsppOptions()
    decoder: DecoderOptions = DecoderOptions()
    nas: NasOptions = NasOptions()
    settings: Settings = ()

    def __post_init__(self) -> None:
        for output, classes in self.outputs_to_num_classes.items():
            require(
                classes > 0,
                'ModelOptions.outputs_to_num_classes',
                classes,
                f"output '{output}' needs at least one class",
            )
        require_positive('ModelOptions.input_channels', self.input_channels)
        check_size('ModelOptions.crop_size', self.crop_size)
        check_size('ModelOptions.image_pooling_crop_size', self.image_pooling_crop_size)
        check_size('ModelOptions.image_pooling_stride', self.image_pooling_stride)
        require(
            self.output_stride in OUTPUT_STRIDES,
            'ModelOptions.output_stride',
            self.output_stride,
            f'it must be one of {", ".join(str(stride) for stride in OUTPUT_STRIDES)}',
        )
        require_positive('ModelOptions.depth_multiplier', self.depth_multiplier)
        if self.divisible_by is not None:
            require_positive('ModelOptions.divisible_by', self.divisible_by)
        require(
            all(scale > 0 for scale in self.image_pyramid or ()),
            'ModelOptions.image_pyramid',
            self.image_pyramid,
            'scales must be greater than 0',
        )
        require_choice('ModelOptions.merge_method', self.merge_method, MERGE_METHODS)
        require_positive('ModelOptions.logits_kernel_size', self.logits_kernel_size)
        require(
            self.logits_kernel_size == 1 or not self.aspp.with_batch_norm,
            'ModelOptions.logits_kernel_size',
            self.logits_kernel_size,
            f'it must be 1 with {option("AsppOptions.with_batch_norm", True)}',
        )
        require(
            not self.quantize_per_channel or self.quantize_delay_step is not None,
            'ModelOptions.quantize_per_channel',
            True,
            f'it is about 8-bit weights; also set {option("ModelOptions.quantize_delay_step", 0)}, or omit it',
        )
        if self.batch_norm_decay is not None:
            require(
                0.0 <= self.batch_norm_decay < 1.0,
                'ModelOptions.batch_norm_decay',
                self.batch_norm_decay,
                'it must be 0 or more and less than 1',
            )

    @property
    def num_classes(self) -> int:
        """Number of classes of the semantic output."""
        return self.outputs_to_num_classes[common.OUTPUT_TYPE]
