"""Options: what the flags say, as frozen dataclasses that check themselves.

`cli.py` turns flags into these; libraries take the smallest part they need. One class is one concern. `None` means
"not set": there are no code words such as 0.0 or 'None'. This module loads no TensorFlow.

Every class checks its own fields when it is made and raises `OptionError`, which names the flag, the value, what is
allowed and what to do. What needs more than the options to be judged (does the variant exist, is there such a split)
is checked where that knowledge is.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from deeplab import common
from deeplab.errors import OptionError

MERGE_METHODS = ('max', 'avg')
LEARNING_POLICIES = ('poly', 'step', 'cosine', 'exponential', 'polynomial')
SLOW_START_BURNIN_TYPES = ('none', 'linear')
OPTIMIZERS = ('momentum', 'adam', 'adamw', 'rmsprop', 'lars', 'lamb')
DECOUPLED_OPTIMIZERS = ('adamw', 'lars', 'lamb')  # these decay weights in the update, not in the loss
PIXEL_LOSSES = ('softmax', 'focal')  # these have a loss for each pixel,
REGION_LOSSES = ('dice', 'jaccard', 'lovasz', 'tversky')  # and these for each class
COLORMAP_TYPES = ('pascal', 'cityscapes', 'ade20k')
IMAGE_FORMATS = ('jpg', 'jpeg', 'png', 'npy')
IMAGE_BITS = (8, 16)
LABEL_FORMATS = ('png',)
OUTPUT_STRIDES = (4, 8, 16, 32)
JOBS = ('ps', 'worker')
PRECISIONS = ('float32', 'bfloat16', 'float16')
ON_NAN = ('stop', 'skip')
EXPORT_FORMATS = ('frozen_graph', 'saved_model')


def _require(condition: bool, flag: str, value: Any, allowed: str) -> None:
    """Raises `OptionError` for `flag` unless `condition` holds."""
    if not condition:
        raise OptionError(f'--{flag}={_shown(value)} is not allowed: {allowed}.')


def _shown(value: Any) -> str:
    """`value` as a user would write it on a command line."""
    if isinstance(value, (tuple, list)):
        return ','.join(str(v) for v in value)
    return str(value)


def _require_choice(flag: str, value: str, choices: Sequence[str]) -> None:
    _require(value in choices, flag, value, f'it must be one of {", ".join(choices)}')


def _require_positive(flag: str, value: float) -> None:
    _require(value > 0, flag, value, 'it must be greater than 0')


def _require_not_negative(flag: str, value: float) -> None:
    _require(value >= 0, flag, value, 'it must be 0 or more')


def _require_share(flag: str, value: float) -> None:
    _require(0.0 < value <= 1.0, flag, value, 'it must be greater than 0 and at most 1')


def _require_seed(seed: int, least: int = -(2**63)) -> None:
    """Raises `OptionError` unless `seed` is an integer of 64 bits, `least` or more."""
    _require(least <= seed < 2**63, 'seed', seed, f'it must be an integer from {least} to {2**63 - 1}')


def check_size(flag: str, size: Sequence[int] | None) -> None:
    """Raises `OptionError` unless `size` is None or two positive integers, height and width."""
    if size is None:
        return
    good = len(size) == 2 and all(isinstance(side, int) and side > 0 for side in size)
    _require(good, flag, size, 'a size is two positive integers, height and width, such as 513,513')


@dataclasses.dataclass(frozen=True)
class AsppOptions:
    """Atrous spatial pyramid pooling (arXiv:1706.05587, section 3.3).

    Attributes:
      rates: atrous rates of the 3x3 branches; empty for none.
      filters: channels of each branch and of the projection.
      image_level_feature: whether to add the image-pooling branch.
      with_batch_norm: whether there is an ASPP at all; without it the logits read the features, one set of logits
        for each rate.
      with_concat_projection: whether a 1x1 convolution and dropout follow the concatenation.
      with_separable_conv: whether the atrous branches are depthwise separable.
      with_squeeze_and_excitation: whether the image-level feature gates the sum instead of joining it.
      image_se_uses_qsigmoid: whether that gate is the piecewise-linear sigmoid.
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
        _require(
            all(rate > 0 for rate in self.rates),
            'atrous_rates',
            self.rates,
            'each rate must be 1 or more; leave the flag away for no atrous branch',
        )
        _require_positive('aspp_convs_filters', self.filters)


@dataclasses.dataclass(frozen=True)
class DecoderOptions:
    """The decoder (arXiv:1802.02611, section 3.1).

    Attributes:
      output_strides: strides of the skips, descending; empty for no decoder.
      filters: channels of its convolutions.
      use_separable_conv: whether those are depthwise separable.
      use_sum_merge: whether skip and features are added instead of concatenated.
      output_is_logits: whether the decoder's output is taken as the logits.
    """

    output_strides: tuple[int, ...] = ()
    filters: int = 256
    use_separable_conv: bool = True
    use_sum_merge: bool = False
    output_is_logits: bool = False

    def __post_init__(self) -> None:
        strides = self.output_strides
        flag = 'decoder_output_stride'
        _require(all(s > 0 for s in strides), flag, strides, 'strides are positive integers, such as 4 or 8,4')
        _require(
            all(a > b for a, b in zip(strides, strides[1:], strict=False)),
            flag,
            strides,
            'several strides must descend, such as 8,4',
        )
        _require_positive('decoder_filters', self.filters)
        _require(
            not (self.output_is_logits and not strides),
            'decoder_output_is_logits',
            True,
            'it needs a decoder; set --decoder_output_stride too',
        )


@dataclasses.dataclass(frozen=True)
class NasOptions:
    """What the searched networks alone know.

    Attributes:
      stem_output_filters: filters of an operation at stride 4; they double with every halving of the features.
      remove_os32_stride: whether the cells at stride 32 keep stride 16.
      use_classification_head: whether the head for classification follows.
      drop_path_keep_prob: share of the paths that the last cell keeps at the end of training.
      total_training_steps: steps over which paths come to be dropped; None for at full strength from the start.
    """

    stem_output_filters: int = 20
    remove_os32_stride: bool = False
    use_classification_head: bool = False
    drop_path_keep_prob: float = 1.0
    total_training_steps: int | None = None

    def __post_init__(self) -> None:
        _require_positive('nas_stem_output_num_conv_filters', self.stem_output_filters)
        _require_share('drop_path_keep_prob', self.drop_path_keep_prob)
        if self.total_training_steps is not None:
            _require_positive('training_number_of_steps', self.total_training_steps)


@dataclasses.dataclass(frozen=True)
class ModelOptions:
    """One network: backbone, head, decoder and logits.

    Attributes:
      outputs_to_num_classes: number of classes for each output (`{'semantic': 21}`).
      crop_size: height and width that the network sees, in pixels; None where the size is known at run time alone.
      model_variant: name of the backbone.
      output_stride: input pixels for each step of the backbone's last feature map.
      depth_multiplier: factor on the channels of a MobileNet.
      divisible_by: number that a MobileNet's channels are rounded to a multiple of; None for the network's own.
      multi_grid: factors on the atrous rates of a ResNet's or an Xception's last block; None for the network's own.
      image_pooling_crop_size: size over which the image-level feature pools; None for the crop.
      image_pooling_stride: stride of that pooling.
      image_pyramid: scales at which the network sees its input; None or (1.0,) for one.
      merge_method: 'max' or 'avg', how the logits of several scales are merged.
      prediction_with_upsampled_logits: whether logits are resized before (else after) argmax.
      logits_kernel_size: kernel size of the logits' convolution (1, unless aspp.with_batch_norm is off).
      use_bounded_activation: whether relu6 takes relu's place (for quantisation).
      dense_prediction_cell_json: path of a searched head's description; None for ASPP.
      batch_norm_decay: decay of every batch norm's moving average; None for each part's own.
      quantize_delay_step: step at which 8-bit training starts; None for never.
      input_channels: channels of the images that it sees.
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
    input_channels: int = 3
    aspp: AsppOptions = AsppOptions()
    decoder: DecoderOptions = DecoderOptions()
    nas: NasOptions = NasOptions()

    def __post_init__(self) -> None:
        for output, classes in self.outputs_to_num_classes.items():
            _require(classes > 0, 'num_classes', classes, f"output '{output}' needs at least one class")
        _require_positive('image_channels', self.input_channels)
        check_size('crop_size', self.crop_size)
        check_size('image_pooling_crop_size', self.image_pooling_crop_size)
        check_size('image_pooling_stride', self.image_pooling_stride)
        _require(
            self.output_stride in OUTPUT_STRIDES,
            'output_stride',
            self.output_stride,
            f'it must be one of {_shown(OUTPUT_STRIDES)}',
        )
        _require_positive('depth_multiplier', self.depth_multiplier)
        if self.divisible_by is not None:
            _require_positive('divisible_by', self.divisible_by)
        _require(
            all(scale > 0 for scale in self.image_pyramid or ()),
            'image_pyramid',
            self.image_pyramid,
            'scales must be greater than 0',
        )
        _require_choice('merge_method', self.merge_method, MERGE_METHODS)
        _require_positive('logits_kernel_size', self.logits_kernel_size)
        _require(
            self.logits_kernel_size == 1 or not self.aspp.with_batch_norm,
            'logits_kernel_size',
            self.logits_kernel_size,
            'it must be 1 while --aspp_with_batch_norm is true',
        )
        if self.batch_norm_decay is not None:
            _require(
                0.0 <= self.batch_norm_decay < 1.0,
                'batch_norm_decay',
                self.batch_norm_decay,
                'it must be 0 or more and less than 1',
            )

    @property
    def num_classes(self) -> int:
        """Number of classes of the semantic output."""
        return self.outputs_to_num_classes[common.OUTPUT_TYPE]


@dataclasses.dataclass(frozen=True)
class DatasetOptions:
    """Which records to read.

    Attributes:
      split: name of the split; its shards are DIRECTORY/SPLIT-*.
      directory: folder of the shards.
      name: a known data set's name, a dotted module, or the path of a JSON or YAML file.
      skip_corrupt_records: whether to leave out (and count) records that cannot be read, instead of stopping.
    """

    split: str
    directory: str
    name: str = 'pascal_voc_seg'
    skip_corrupt_records: bool = False


@dataclasses.dataclass(frozen=True)
class ResizeOptions:
    """Resize each image so that its sides lie in a range; both None for no resizing.

    Attributes:
      min_value: wanted length of the shorter side, in pixels.
      max_value: bound on the longer side, in pixels.
      factor: each side becomes a multiple of it plus one.
    """

    min_value: int | None = None
    max_value: int | None = None
    factor: int | None = None

    def __post_init__(self) -> None:
        for flag, value in (
            ('min_resize_value', self.min_value),
            ('max_resize_value', self.max_value),
            ('resize_factor', self.factor),
        ):
            if value is not None:
                _require_positive(flag, value)
        if self.min_value is not None and self.max_value is not None:
            _require(
                self.min_value <= self.max_value,
                'min_resize_value',
                self.min_value,
                f'it must be at most --max_resize_value={self.max_value}',
            )


_MOST_OF_AUGMENTATION = {
    'jitter_brightness': 1,
    'jitter_contrast': 1,
    'jitter_saturation': 1,
    'jitter_hue': 0.5,
    'rotation_degrees': 180,
    'blur_sigma': 20,
    'cutout_size': 4096,
    'rare_class_sampling': 1,
}


@dataclasses.dataclass(frozen=True)
class AugmentOptions:
    """Random changes to training images.

    Attributes:
      min_scale_factor: smallest factor on the image's size.
      max_scale_factor: largest factor.
      scale_factor_step_size: distance of the possible factors; 0 draws from the whole range.
      flip_probability: share of images that are mirrored left to right.
      jitter_brightness: factors on every value are drawn from 1 minus this to 1 plus this; 0 for none.
      jitter_contrast: likewise, on the distance from the image's mean brightness.
      jitter_saturation: likewise, on the distance from grey.
      jitter_hue: colours turn by up to this share of a full turn, either way.
      rotation_degrees: images turn by up to this angle, either way.
      blur_sigma: largest standard deviation of the blur, in pixels; 0 for none.
      blur_probability: share of images that are blurred.
      cutout_size: side of the squares that are hidden, in pixels; 0 for none.
      cutout_count: number of these squares.
      rare_class_sampling: share of crops that are placed at a pixel of a class, rare ones more often.
    """

    min_scale_factor: float = 0.5
    max_scale_factor: float = 2.0
    scale_factor_step_size: float = 0.25
    flip_probability: float = 0.5
    jitter_brightness: float = 0.0
    jitter_contrast: float = 0.0
    jitter_saturation: float = 0.0
    jitter_hue: float = 0.0
    rotation_degrees: float = 0.0
    blur_sigma: float = 0.0
    blur_probability: float = 0.5
    cutout_size: int = 0
    cutout_count: int = 1
    rare_class_sampling: float = 0.0

    def __post_init__(self) -> None:
        _require_positive('min_scale_factor', self.min_scale_factor)
        _require(
            self.min_scale_factor <= self.max_scale_factor,
            'min_scale_factor',
            self.min_scale_factor,
            f'it must be at most --max_scale_factor={self.max_scale_factor}',
        )
        _require_not_negative('scale_factor_step_size', self.scale_factor_step_size)
        for flag, most in _MOST_OF_AUGMENTATION.items():
            value = getattr(self, flag)
            _require(0 <= value <= most, flag, value, f'it must be from 0 (off) to {most}')
        _require_share('blur_probability', self.blur_probability)
        _require_positive('cutout_count', self.cutout_count)

    @property
    def changes_colors(self) -> bool:
        """Whether colours change at all."""
        return any((self.jitter_brightness, self.jitter_contrast, self.jitter_saturation, self.jitter_hue))


@dataclasses.dataclass(frozen=True)
class LearningRateOptions:
    """How the learning rate follows the step (contract, section 5).

    Attributes:
      policy: one of `LEARNING_POLICIES`; 'polynomial' is another word for 'poly'.
      base: learning rate at the start.
      decay_steps: steps of the policies poly and cosine; None for all that remain after the slow start.
      end: learning rate at the end of poly and cosine.
      power: exponent of the poly policy.
      decay_factor: factor of the policies step and exponential.
      decay_step: steps over which the rate changes by that factor.
      slow_start_steps: steps of slow start before the policy begins.
      slow_start_rate: learning rate of the slow start.
      slow_start_burnin_type: 'none' for a slow start at one rate, 'linear' for one that climbs to `base`.
    """

    policy: str = 'poly'
    base: float = 1e-4
    decay_steps: float | None = None
    end: float = 0.0
    power: float = 0.9
    decay_factor: float = 0.1
    decay_step: int = 2000
    slow_start_steps: int = 0
    slow_start_rate: float = 1e-4
    slow_start_burnin_type: str = 'none'

    def __post_init__(self) -> None:
        _require_choice('learning_policy', self.policy, LEARNING_POLICIES)
        _require_choice('slow_start_burnin_type', self.slow_start_burnin_type, SLOW_START_BURNIN_TYPES)
        if self.policy == 'exponential':  # no power of a negative number is a rate
            _require_positive('learning_rate_decay_factor', self.decay_factor)
        _require_not_negative('learning_rate_decay_factor', self.decay_factor)
        _require_not_negative('base_learning_rate', self.base)
        _require_not_negative('end_learning_rate', self.end)
        _require_positive('learning_rate_decay_step', self.decay_step)
        _require_not_negative('learning_power', self.power)
        _require_not_negative('slow_start_step', self.slow_start_steps)
        _require_not_negative('slow_start_learning_rate', self.slow_start_rate)
        if self.decay_steps is not None:
            _require_positive('decay_steps', self.decay_steps)


@dataclasses.dataclass(frozen=True)
class OptimizerOptions:
    """Optimiser, its rate, and what it multiplies gradients by.

    Attributes:
      name: one of `OPTIMIZERS`.
      learning_rate: schedule of all optimisers but 'adam'.
      momentum: of 'momentum' (without Nesterov), 'rmsprop' and 'lars'.
      adam_learning_rate: constant rate of 'adam'.
      adam_epsilon: epsilon of 'adam', 'adamw' and 'lamb'.
      rmsprop_decay: share of the mean square gradient that stays in a step of 'rmsprop'.
      rmsprop_epsilon: what 'rmsprop' adds to that mean.
      weight_decay: factor on sum(w ** 2) / 2 of the convolution weights; or on the weights in the update (see
        `decouples_weight_decay`).
      clip_gradient_norm: largest L2 norm of all gradients together, behind every factor; None for any.
      last_layer_gradient_multiplier: factor on the gradients of the last layers.
      last_layers_contain_logits_only: whether the logits alone count as last layers.
      trainable_scopes: variables that train begin with one of these; empty for all. Weight decay and the statistics
        of batch norms follow.
    """

    name: str = 'momentum'
    learning_rate: LearningRateOptions = LearningRateOptions()
    momentum: float = 0.9
    adam_learning_rate: float = 1e-3
    adam_epsilon: float = 1e-8
    rmsprop_decay: float = 0.9
    rmsprop_epsilon: float = 1e-10
    weight_decay: float = 4e-5
    clip_gradient_norm: float | None = None
    last_layer_gradient_multiplier: float = 1.0
    last_layers_contain_logits_only: bool = False
    trainable_scopes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _require_choice('optimizer', self.name, OPTIMIZERS)
        _require_not_negative('adam_learning_rate', self.adam_learning_rate)
        _require_not_negative('weight_decay', self.weight_decay)
        _require_not_negative('last_layer_gradient_multiplier', self.last_layer_gradient_multiplier)
        _require_positive('adam_epsilon', self.adam_epsilon)
        for flag in ('momentum', 'rmsprop_decay'):
            value = getattr(self, flag)
            _require(0.0 <= value < 1.0, flag, value, 'it must be 0 or more and less than 1')
        _require_positive('rmsprop_epsilon', self.rmsprop_epsilon)
        norm = self.clip_gradient_norm
        _require(
            norm is None or 0.0 < norm < math.inf,
            'clip_gradient_norm',
            norm,
            'it must be greater than 0, such as 1; leave the flag away to clip nothing',
        )

    @property
    def decouples_weight_decay(self) -> bool:
        """Whether weights decay in the update; else decay is a term of the loss."""
        return self.name in DECOUPLED_OPTIMIZERS

    @property
    def last_layer_scopes(self) -> tuple[str, ...]:
        """Scopes whose gradients are multiplied, and which are left out when the last layers start anew."""
        return (common.LOGITS_SCOPE,) if self.last_layers_contain_logits_only else common.LAST_LAYER_SCOPES


@dataclasses.dataclass(frozen=True)
class LossTerm:
    """One term of a loss: a name of `PIXEL_LOSSES` or `REGION_LOSSES`, and its factor in the sum, above 0."""

    name: str
    weight: float = 1.0


def parse_loss(formula: str) -> tuple[LossTerm, ...]:
    """The terms of a formula such as 'softmax' or '0.7*focal+lovasz', in its order.

    Raises:
      OptionError: if a term is unknown or named twice, or its weight is no number above 0.
    """
    terms: list[LossTerm] = []
    for part in formula.split('+'):
        weight_text, star, name = (text.strip() for text in part.rpartition('*'))
        known = (*PIXEL_LOSSES, *REGION_LOSSES)
        _require(
            name in known or weight_text not in known,
            'loss',
            formula,
            f"'{part.strip()}' has its weight at the end; write it first, such as 0.5*{weight_text}",
        )
        _require(
            name in known,
            'loss',
            formula,
            f"there is no loss '{name}'. Those that exist are {', '.join(known)}, alone or in a sum such as "
            'softmax+0.5*dice',
        )
        try:
            weight = float(weight_text) if star else 1.0
        except ValueError:
            weight = math.nan
        _require(
            0.0 < weight < math.inf,
            'loss',
            formula,
            f"'{weight_text}' is no weight for {name}; a weight is a number greater than 0, such as 0.5*{name}",
        )
        _require(
            name not in (term.name for term in terms), 'loss', formula, f'{name} stands there twice; add up its weights'
        )
        terms.append(LossTerm(name, weight))
    return tuple(terms)


@dataclasses.dataclass(frozen=True)
class LossOptions:
    """The loss of one scale (contract, section 5).

    Attributes:
      upsample_logits: whether logits grow to the labels' size (else labels shrink to the logits').
      label_weights: one weight for each class; None for 1. A single weight counts for every class.
      top_k_percent_pixels: share of pixels, the hardest ones, that count in the end; 1 for all.
      hard_example_mining_step: step until which that share falls from 1; 0 for at once.
      formula: what is measured: a name of `PIXEL_LOSSES` or `REGION_LOSSES`, or a sum such as 'softmax+0.5*dice'.
      auto_label_weights: whether label weights follow from the records' label histogram.
      label_smoothing: share of a pixel's truth that all classes split evenly; 0 for none.
      focal_gamma: how fast the focal loss fades where the network is right; 0 is softmax.
      tversky_alpha: what a false alarm costs in the Tversky loss.
      tversky_beta: what a miss costs in it.
    """

    upsample_logits: bool = True
    label_weights: tuple[float, ...] | None = None
    top_k_percent_pixels: float = 1.0
    hard_example_mining_step: int = 0
    formula: str = 'softmax'
    auto_label_weights: bool = False
    label_smoothing: float = 0.0
    focal_gamma: float = 2.0
    tversky_alpha: float = 0.3
    tversky_beta: float = 0.7

    def __post_init__(self) -> None:
        _require_share('top_k_percent_pixels', self.top_k_percent_pixels)
        _require_not_negative('hard_example_mining_step', self.hard_example_mining_step)
        _require(
            all(weight >= 0 for weight in self.label_weights or ()) and any(self.label_weights or (1.0,)),
            'label_weights',
            self.label_weights,
            'weights must be 0 or more, and one of them at least greater than 0',
        )
        _require(
            not (self.auto_label_weights and self.label_weights),
            'label_weights',
            self.label_weights,
            'give either auto or numbers',
        )
        _require(
            0.0 <= self.label_smoothing < 1.0,
            'label_smoothing',
            self.label_smoothing,
            'it must be 0 or more and less than 1',
        )
        _require_not_negative('focal_gamma', self.focal_gamma)
        _require_not_negative('tversky_alpha', self.tversky_alpha)
        _require_positive('tversky_beta', self.tversky_beta)
        self._require_terms()

    def _require_terms(self) -> None:
        """Raises `OptionError` for a formula that means nothing, and for a setting that none of its terms reads."""
        names = {term.name for term in self.terms}
        default = {field.name: field.default for field in dataclasses.fields(self)}
        for flag, readers in (
            ('top_k_percent_pixels', PIXEL_LOSSES),
            ('label_smoothing', PIXEL_LOSSES),
            ('focal_gamma', ('focal',)),
            ('tversky_alpha', ('tversky',)),
            ('tversky_beta', ('tversky',)),
        ):
            value = getattr(self, flag)
            _require(
                value == default[flag] or not names.isdisjoint(readers),
                flag,
                value,
                f'it acts on {" and ".join(readers)} alone, and --loss={self.formula} has none of that. Leave it away, '
                f'or put {" or ".join(readers)} into --loss',
            )

    @property
    def terms(self) -> tuple[LossTerm, ...]:
        """What the formula adds up."""
        return parse_loss(self.formula)


@dataclasses.dataclass(frozen=True)
class RestoreOptions:
    """What a new run takes from its initial checkpoint.

    Attributes:
      exclude_scopes: variables that begin with one of these start anew.
      ignore_missing_vars: whether variables that the checkpoint lacks start anew, too, instead of ending the run; None
        for "unless names are mapped".
      rename_map: `old_prefix=new_prefix,...` from the checkpoint's names to the network's, or the path of a JSON or
        YAML file that says so; None where names are the same. It is read when a run starts that needs it.
    """

    exclude_scopes: tuple[str, ...] = ()
    ignore_missing_vars: bool | None = None
    rename_map: str | None = None

    @property
    def ignores_missing(self) -> bool:
        """Whether variables may stay without a value of the checkpoint."""
        return self.rename_map is None if self.ignore_missing_vars is None else self.ignore_missing_vars


@dataclasses.dataclass(frozen=True)
class CloneOptions:
    """Copies of the network that share its variables, and the machines they run on.

    Attributes:
      num_clones: copies in this process, which share a batch.
      clone_on_cpu: whether they compute on CPUs although there are GPUs.
      task: number of this machine among those that compute, from 0; number 0 leads.
      num_replicas: machines that compute.
      num_ps_tasks: parameter servers, which hold the variables; 0 for none.
      master: address of this machine's TensorFlow server; empty for this process.
      startup_delay_steps: machine k begins at this many times k steps.
    """

    num_clones: int = 1
    clone_on_cpu: bool = False
    task: int = 0
    num_replicas: int = 1
    num_ps_tasks: int = 0
    master: str = ''
    startup_delay_steps: int = 15

    def __post_init__(self) -> None:
        _require_positive('num_clones', self.num_clones)
        _require_positive('num_replicas', self.num_replicas)
        _require_not_negative('num_ps_tasks', self.num_ps_tasks)
        _require_not_negative('startup_delay_steps', self.startup_delay_steps)
        last = self.num_replicas - 1
        allowed = (
            f'--num_replicas={self.num_replicas} machines have the numbers 0 to {last}'
            if last
            else ('it is 0 unless --num_replicas says that there are several machines')
        )
        _require(0 <= self.task <= last, 'task', self.task, allowed)
        _require(
            not self.master or self.master.startswith('grpc://'),
            'master',
            self.master,
            'it must be the address of a running server, grpc://HOST:PORT',
        )
        _require(
            self.num_replicas == 1 or self.num_ps_tasks > 0,
            'num_replicas',
            self.num_replicas,
            'machines that train together need parameter servers to share the weights; set --num_ps_tasks',
        )
        _require(
            self.num_ps_tasks == 0 or bool(self.master),
            'num_ps_tasks',
            self.num_ps_tasks,
            'parameter servers are reached through --master=grpc://HOST:PORT, the server of this machine',
        )

    @property
    def is_chief(self) -> bool:
        """Whether this machine leads: initialises, restores, and writes checkpoints and summaries."""
        return self.task == 0


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """One server of a cluster.

    Attributes:
      job_name: 'ps' for a parameter server, 'worker' for one that computes.
      task: its number in its job, from 0.
      worker_hosts: HOST:PORT of all workers, in order.
      ps_hosts: HOST:PORT of all parameter servers, in order.
    """

    job_name: str
    task: int
    worker_hosts: tuple[str, ...]
    ps_hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _require_choice('job_name', self.job_name, JOBS)
        hosts = self.ps_hosts if self.job_name == 'ps' else self.worker_hosts
        flag = f'{self.job_name}_hosts'
        if not hosts:
            raise OptionError(f'--{flag} is empty: give HOST:PORT of each {self.job_name}.')
        _require(0 <= self.task < len(hosts), 'task', self.task, f'--{flag} has the servers 0 to {len(hosts) - 1}')
        for flag, addresses in (('worker_hosts', self.worker_hosts), ('ps_hosts', self.ps_hosts)):
            good = all(':' in address and '/' not in address for address in addresses)
            _require(good, flag, addresses, 'write HOST:PORT, with commas between several')

    @property
    def address(self) -> str:
        """Where it listens."""
        return (self.ps_hosts if self.job_name == 'ps' else self.worker_hosts)[self.task]


@dataclasses.dataclass(frozen=True)
class ValidationOptions:
    """Validation while training.

    Attributes:
      split: split to measure on; None for no validation.
      every: steps between two validations; None for no validation.
      crop_size: height and width that the network sees then; None for the smallest good crop that holds every image.
      early_stop: validations in a row without a better mIoU after which training ends; None for never.
    """

    split: str | None = None
    every: int | None = None
    crop_size: tuple[int, int] | None = None
    early_stop: int | None = None

    def __post_init__(self) -> None:
        if (self.split is None) != (self.every is None):
            given = f'--eval_split={self.split}' if self.every is None else f'--eval_every={self.every}'
            missing = '--eval_every=N, the steps between two validations,' if self.every is None else '--eval_split'
            raise OptionError(f'{given} alone does nothing: set {missing} too, or leave both away.')
        if self.every is not None:
            _require_positive('eval_every', self.every)
        check_size('eval_crop_size', self.crop_size)
        needs = 'it says something about validation while training; set --eval_split and --eval_every too'
        _require(self.is_on or self.crop_size is None, 'eval_crop_size', self.crop_size, needs)
        _require(self.is_on or self.early_stop is None, 'early_stop_evals', self.early_stop, needs)
        if self.early_stop is not None:
            _require_positive('early_stop_evals', self.early_stop)

    @property
    def is_on(self) -> bool:
        """Whether there are validations."""
        return self.split is not None


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """All that `deeplab train` needs to know.

    Attributes (those that do not explain themselves):
      precision: type in which convolutions and activations compute; variables are float32 whatever it is.
      xla: whether XLA compiles what it can of the graph.
      accumulation_steps: micro-batches in which each clone takes its images of a step, one after the other.
      on_nan: 'stop' or 'skip', what follows a loss or gradient that is not finite.
      save_interval_secs: seconds between two checkpoints; 0 for one at each step, None for the first and the last.
      save_summaries_secs: seconds between two summaries; 0 for one at each step, None for none.
    """

    model: ModelOptions
    dataset: DatasetOptions
    train_logdir: str
    resize: ResizeOptions = ResizeOptions()
    augment: AugmentOptions = AugmentOptions()
    optimizer: OptimizerOptions = OptimizerOptions()
    loss: LossOptions = LossOptions()
    clones: CloneOptions = CloneOptions()
    validation: ValidationOptions = ValidationOptions()
    batch_size: int = 8
    number_of_steps: int = 30000
    fine_tune_batch_norm: bool = True
    initial_checkpoint: str | None = None
    initialize_last_layer: bool = True
    restore: RestoreOptions = RestoreOptions()
    log_steps: int = 10
    save_interval_secs: float | None = 1200
    save_summaries_secs: float | None = 600
    save_summaries_images: bool = False
    profile_logdir: str | None = None
    seed: int = 0
    precision: str = 'float32'
    xla: bool = False
    moving_average_decay: float | None = None
    accumulation_steps: int = 1
    on_nan: str = 'stop'
    # What the receipt says of where all this comes from; no step depends on it.
    command: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    repeats: str | None = None

    def __post_init__(self) -> None:
        _require_choice('precision', self.precision, PRECISIONS)
        _require_positive('train_batch_size', self.batch_size)
        _require_positive('training_number_of_steps', self.number_of_steps)
        _require_positive('log_steps', self.log_steps)
        _require_not_negative('save_interval_secs', self.save_interval_secs or 0)
        _require_not_negative('save_summaries_secs', self.save_summaries_secs or 0)
        _require_seed(self.seed)
        decay = self.moving_average_decay
        _require(
            decay is None or 0.0 < decay < 1.0,
            'moving_average_decay',
            decay,
            'it must be greater than 0 and less than 1, such as 0.99; leave the flag away for no averages',
        )
        _require_choice('on_nan', self.on_nan, ON_NAN)
        clones = self.clones.num_clones
        _require(
            self.batch_size % clones == 0,
            'train_batch_size',
            self.batch_size,
            f'the {clones} clones of --num_clones must share it evenly; set it to a multiple of {clones}',
        )
        self._require_micro_batches()
        for flag, value in (
            ('checkpoint_exclude_scopes', self.restore.exclude_scopes),
            ('checkpoint_rename_map', self.restore.rename_map),
        ):
            _require(
                not value or self.initial_checkpoint is not None,
                flag,
                value,
                'it is about the initial checkpoint, and there is none; set --tf_initial_checkpoint or leave it away',
            )
        if self.model.crop_size is not None:
            _require(
                self.augment.cutout_size < min(self.model.crop_size),
                'cutout_size',
                self.augment.cutout_size,
                f'it must be less than both sides of --train_crop_size={_shown(self.model.crop_size)}',
            )

    def _require_micro_batches(self) -> None:
        """Raises `OptionError` unless the images of a step fall into equal micro-batches, on one machine."""
        steps, clones = self.accumulation_steps, self.clones.num_clones
        _require_positive('accumulation_steps', steps)
        # Another machine would change the weights between two micro-batches, and add to the same sums; and what is fed
        # to a server is a whole step.
        _require(
            steps == 1 or not self.clones.master,
            'accumulation_steps',
            steps,
            'a step has several micro-batches in this process alone. Leave it away, or --master',
        )
        images = self.batch_size // clones
        good = ', '.join(str(number) for number in range(1, images + 1) if images % number == 0)
        shared = f' over --num_clones={clones}' if clones > 1 else ''
        _require(
            images % steps == 0,
            'accumulation_steps',
            steps,
            f'the micro-batches of a step must be of one size, and --train_batch_size={self.batch_size}{shared} falls '
            f'evenly into {good} of them alone. Set one of these, or --train_batch_size to a multiple of '
            f'{clones * steps}',
        )

    @property
    def clone_batch_size(self) -> int:
        """Images that each clone sees at a time: its part of a step, or of a step's micro-batch."""
        return self.batch_size // (self.clones.num_clones * self.accumulation_steps)


@dataclasses.dataclass(frozen=True)
class PreviewOptions:
    """All that `deeplab preview` needs to know.

    Attributes:
      train: the training whose input is drawn; only what its data and its changes to images need is looked at.
      path: file of the sheet, a PNG.
      images: records that are shown with what each change does to them.
      samples: complete training samples that are shown.
    """

    train: TrainOptions
    path: str
    images: int = 4
    samples: int = 8

    def __post_init__(self) -> None:
        _require(
            self.path.lower().endswith('.png'),
            'preview_path',
            self.path,
            'the sheet is a PNG; give a folder, or a name that ends in .png',
        )
        for flag in ('images', 'samples'):
            value = getattr(self, flag)
            _require(1 <= value <= 64, f'preview_{flag}', value, 'it must be from 1 to 64')


@dataclasses.dataclass(frozen=True)
class PredictionOptions:
    """Scales and flips that are averaged when labels are predicted.

    Attributes:
      scales: factors on the images' size.
      add_flipped_images: whether each scale sees the mirrored images too.
      flag: what the program at hand calls the scales, for messages.
    """

    scales: tuple[float, ...] = (1.0,)
    add_flipped_images: bool = False
    flag: str = dataclasses.field(default='eval_scales', compare=False, repr=False)

    def __post_init__(self) -> None:
        good = bool(self.scales) and all(0 < scale < float('inf') for scale in self.scales)
        _require(good, self.flag, self.scales, 'give at least one scale, each greater than 0')

    @property
    def is_single_scale(self) -> bool:
        """Whether the network sees each image once; flipping then does nothing (contract, section 6)."""
        return tuple(self.scales) == (1.0,)


@dataclasses.dataclass(frozen=True)
class WaitOptions:
    """How eval and vis wait for checkpoints.

    Attributes:
      interval_secs: least time between the starts of two rounds, in seconds.
      max_rounds: rounds after which the program ends; None for never.
      timeout_secs: how long to wait for a (new) checkpoint before giving up, in seconds; None for ever.
    """

    interval_secs: float = 300
    max_rounds: int | None = None
    timeout_secs: float | None = None

    def __post_init__(self) -> None:
        _require_not_negative('eval_interval_secs', self.interval_secs)
        _require_not_negative('timeout_secs', self.timeout_secs or 0)


@dataclasses.dataclass(frozen=True)
class EvalOptions:
    """All that `deeplab eval` needs to know."""

    model: ModelOptions
    dataset: DatasetOptions
    checkpoint_dir: str
    eval_logdir: str
    resize: ResizeOptions = ResizeOptions()
    prediction: PredictionOptions = PredictionOptions()
    wait: WaitOptions = WaitOptions()
    batch_size: int = 1
    master: str = ''
    use_moving_average: bool = False

    def __post_init__(self) -> None:
        _require_positive('eval_batch_size', self.batch_size)


@dataclasses.dataclass(frozen=True)
class VisOptions:
    """All that `deeplab vis` needs to know."""

    model: ModelOptions
    dataset: DatasetOptions
    checkpoint_dir: str
    vis_logdir: str
    resize: ResizeOptions = ResizeOptions()
    prediction: PredictionOptions = PredictionOptions()
    wait: WaitOptions = WaitOptions()
    batch_size: int = 1
    colormap_type: str | None = None
    also_save_raw_predictions: bool = False
    master: str = ''
    use_moving_average: bool = False

    def __post_init__(self) -> None:
        _require_positive('vis_batch_size', self.batch_size)
        if self.colormap_type is not None:
            _require_choice('colormap_type', self.colormap_type, COLORMAP_TYPES)


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """All that `deeplab export_model` needs to know.

    Attributes:
      model: the network; its crop size is the largest image that the export takes.
      checkpoint_path: a checkpoint, or a folder whose newest whole one is taken.
      export_path: file of the frozen graph, or folder of the SavedModel.
      resize: how an image is resized before the network sees it; predictions come at its own size.
      prediction: scales and flips that are averaged.
      export_format: 'frozen_graph' or 'saved_model'.
      save_inference_graph: whether the graph with variables is written too, as text.
      use_moving_average: whether the weights' moving averages take their place.
      image_bits: 8 for images of uint8, 16 for uint16, as the data set of training has them.
    """

    model: ModelOptions
    checkpoint_path: str
    export_path: str
    resize: ResizeOptions = ResizeOptions()
    prediction: PredictionOptions = PredictionOptions(flag='inference_scales')
    export_format: str = 'frozen_graph'
    save_inference_graph: bool = False
    use_moving_average: bool = False
    image_bits: int = 8

    def __post_init__(self) -> None:
        _require_choice('export_format', self.export_format, EXPORT_FORMATS)
        _require(self.image_bits in IMAGE_BITS, 'image_bits', self.image_bits, 'it must be 8 or 16')
        _require(self.model.crop_size is not None, 'crop_size', '', 'an export needs height and width, such as 513,513')


@dataclasses.dataclass(frozen=True)
class PresetsOptions:
    """All that `deeplab presets` needs to know.

    Attributes:
      name: the preset to show; None for a list of all.
      json: whether to answer in JSON.
    """

    name: str | None = None
    json: bool = False


@dataclasses.dataclass(frozen=True)
class NetworksOptions:
    """All that `deeplab networks` needs to know.

    Attributes:
      model: head, decoder, classes and crop of the networks; the variant and the output stride as well where the next
        two are None.
      variants: backbones to show; None for all.
      output_strides: output strides to count at.
      prediction: scales and flips of each image.
      json: whether to answer in JSON.
    """

    model: ModelOptions
    variants: tuple[str, ...] | None = None
    output_strides: tuple[int, ...] = (16, 8)
    prediction: PredictionOptions = PredictionOptions()
    json: bool = False

    def __post_init__(self) -> None:
        _require(self.model.crop_size is not None, 'crop_size', '', 'costs are counted for a crop, such as 513,513')


@dataclasses.dataclass(frozen=True)
class CheckpointOptions:
    """All that `deeplab checkpoint` needs to know.

    Attributes:
      file: a checkpoint, one of its files, or a folder with checkpoints.
      against: the network to compare it with; None for none.
      takes_classes: whether that network has as many classes as the checkpoint, whatever `against` says.
      initialize_last_layer: whether training would take what is behind the backbone, too.
      last_layer_scopes: scopes of that.
      restore: what else training would leave out, and the checkpoint's names in the network.
      presets: networks of the published checkpoints, by name.
      list_variables: whether each variable is listed.
      json: whether to answer in JSON.
    """

    file: str
    against: ModelOptions | None = None
    takes_classes: bool = True
    initialize_last_layer: bool = True
    last_layer_scopes: tuple[str, ...] = common.LAST_LAYER_SCOPES
    restore: RestoreOptions = RestoreOptions()
    presets: Mapping[str, ModelOptions] = dataclasses.field(default_factory=dict)
    list_variables: bool = True
    json: bool = False


def _check_builder(options: BuildVocOptions | BuildCityscapesOptions | BuildAde20kOptions) -> None:
    """Checks what the options of all builders share."""
    _require_choice('image_format', options.image_format, IMAGE_FORMATS)
    _require_choice('label_format', options.label_format, LABEL_FORMATS)
    for flag in ('num_shards', 'num_workers', 'num_classes'):
        if (value := getattr(options, flag)) is not None:
            _require_positive(flag, value)
    _require(0 <= options.ignore_label <= 255, 'ignore_label', options.ignore_label, 'it must be from 0 to 255')


@dataclasses.dataclass(frozen=True)
class BuildVocOptions:
    """All that `deeplab build_voc2012_data` needs to know.

    Attributes:
      image_folder: folder of the images.
      semantic_segmentation_folder: folder of the masks.
      list_folder: folder of one SPLIT.txt for each split, a name without extension a line.
      image_format: extension of the images: jpg, jpeg, png or npy.
      label_format: extension of the masks.
      output_dir: folder that gets the shards.
      num_shards: shards of each split; None for 4.
      num_workers: threads that read and check files; None for one a core.
      num_classes: masks may hold the ids 0 to num_classes - 1 and ignore_label; None to allow every id.
      ignore_label: id of pixels that count nowhere.
      seed: builders all take one; the order here is the list's and needs none.
    """

    image_folder: str = './VOCdevkit/VOC2012/JPEGImages'
    semantic_segmentation_folder: str = './VOCdevkit/VOC2012/SegmentationClassRaw'
    list_folder: str = './VOCdevkit/VOC2012/ImageSets/Segmentation'
    image_format: str = 'png'
    label_format: str = 'png'
    output_dir: str = './tfrecord'
    num_shards: int | None = None
    num_workers: int | None = None
    num_classes: int | None = None
    ignore_label: int = 255
    seed: int = 0

    def __post_init__(self) -> None:
        _check_builder(self)


@dataclasses.dataclass(frozen=True)
class BuildCityscapesOptions:
    """All that `deeplab build_cityscapes_data` needs to know.

    Attributes:
      cityscapes_root: folder that holds leftImg8bit and gtFine.
      image_format: extension of the images: jpg, jpeg, png or npy.
      label_format: extension of the masks.
      output_dir: folder that gets the shards.
      num_shards: shards of each split; None for 10.
      num_workers: threads that read and check files; None for one a core.
      num_classes: masks may hold the ids 0 to num_classes - 1 and ignore_label; None to allow every id.
      ignore_label: id of pixels that count nowhere.
      seed: builders all take one; the order here is by name and needs none.
    """

    cityscapes_root: str = './cityscapes'
    image_format: str = 'png'
    label_format: str = 'png'
    output_dir: str = './tfrecord'
    num_shards: int | None = None
    num_workers: int | None = None
    num_classes: int | None = None
    ignore_label: int = 255
    seed: int = 0

    def __post_init__(self) -> None:
        _check_builder(self)


@dataclasses.dataclass(frozen=True)
class BuildAde20kOptions:
    """All that `deeplab build_ade20k_data` needs to know.

    Attributes:
      train_image_folder: folder of the training images.
      train_image_label_folder: folder of their masks.
      val_image_folder: folder of the validation images.
      val_image_label_folder: folder of their masks.
      image_format: extension of the images: jpg, jpeg, png or npy.
      label_format: extension of the masks.
      output_dir: folder that gets the shards.
      num_shards: shards of each split; None for 4.
      num_workers: threads that read and check files; None for one a core.
      num_classes: masks may hold the ids 0 to num_classes - 1 and ignore_label; None to allow every id.
      ignore_label: id of pixels that count nowhere.
      seed: where the shuffled order of the images starts from.
    """

    train_image_folder: str = './ADE20K/ADEChallengeData2016/images/training'
    train_image_label_folder: str = './ADE20K/ADEChallengeData2016/annotations/training'
    val_image_folder: str = './ADE20K/ADEChallengeData2016/images/validation'
    val_image_label_folder: str = './ADE20K/ADEChallengeData2016/annotations/validation'
    image_format: str = 'png'
    label_format: str = 'png'
    output_dir: str = './ADE20K/tfrecord'
    num_shards: int | None = None
    num_workers: int | None = None
    num_classes: int | None = None
    ignore_label: int = 255
    seed: int = 0

    def __post_init__(self) -> None:
        _check_builder(self)


@dataclasses.dataclass(frozen=True)
class RemoveColormapOptions:
    """All that `deeplab remove_gt_colormap` needs to know.

    Attributes:
      original_gt_folder: folder of palette PNGs.
      segmentation_format: their extension.
      output_dir: folder that gets single-channel PNGs of the same names, which hold the ids.
      num_workers: threads that convert files; None for one a core.
    """

    original_gt_folder: str = './VOCdevkit/VOC2012/SegmentationClass'
    segmentation_format: str = 'png'
    output_dir: str = './VOCdevkit/VOC2012/SegmentationClassRaw'
    num_workers: int | None = None

    def __post_init__(self) -> None:
        if self.num_workers is not None:
            _require_positive('num_workers', self.num_workers)


@dataclasses.dataclass(frozen=True)
class DemoOptions:
    """All that `deeplab demo` needs to know.

    Attributes:
      workdir: folder that gets everything that the demo makes.
      steps: training steps; None for the demo's own number.
      seed: where the scenes and the training start from.
    """

    workdir: str = './deeplab_demo'
    steps: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.steps is not None:
            _require_positive('steps', self.steps)
        _require_seed(self.seed, least=0)
