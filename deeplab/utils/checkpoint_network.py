"""Which network a checkpoint belongs to, told from the names and shapes of its variables.

Backbones are compared with what their own code makes, so one that is registered later is found as well. What leaves no
trace in names and shapes (output stride, which shows for nas_* networks alone, atrous rates, how far the image-level
feature pools) cannot be told.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from deeplab import common, model
from deeplab.core import checkpoints, cost, feature_extractor, inflation, loss_scaling
from deeplab.core.backbones import registry
from deeplab.core.heads import dense_prediction_cell
from deeplab.errors import NetworkMismatchError, OptionError
from deeplab.options import AsppOptions, DecoderOptions, ModelOptions, NasOptions

Shapes = Mapping[str, tuple[int, ...]]

OPTIMIZER_POWERS = ('beta1_power', 'beta2_power')
_MULTIPLIERS = (0.25, 0.35, 0.5, 0.75, 1.0, 1.25, 1.3, 1.4, 1.5, 2.0)
_MOST_WIDTHS = 4
_SIDE = 65  # of the image that networks are outlined for, in pixels; small, as only variables matter

# Stand for rates that nobody can see: as many as there are branches.
_SOME_RATES = (6, 12, 18)


class Fit(NamedTuple):
    """How a checkpoint's variables compare with a network's, by names.

    Attributes:
      equal: in both, with one shape.
      different: in both, with two shapes.
      missing: in the network alone.
      unused: in the checkpoint alone.
    """

    equal: tuple[str, ...]
    different: tuple[str, ...]
    missing: tuple[str, ...]
    unused: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether the checkpoint holds all that the network needs."""
        return not self.different and not self.missing


def compare(held: Shapes, wanted: Shapes) -> Fit:
    """Compares the variables that a checkpoint holds with those that a network wants."""
    both = [name for name in wanted if name in held]
    return Fit(
        tuple(name for name in both if held[name] == wanted[name]),
        tuple(name for name in both if held[name] != wanted[name]),
        tuple(name for name in wanted if name not in held),
        tuple(name for name in held if name not in wanted),
    )


def slots(names: Sequence[str]) -> set[str]:
    """Those names that are the state of a training: VARIABLE/SLOT, Adam's powers, the step, the loss scale's."""
    known = set(names)
    found = {name for name in known if name.rpartition('/')[0] in known}
    return found | known & {*OPTIMIZER_POWERS, checkpoints.GLOBAL_STEP, *loss_scaling.NAMES}


def network_shapes(options: ModelOptions) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all variables of a network.

    Raises:
      OptionError: there is no such network.
    """
    crop_size = options.image_pooling_crop_size or (_SIDE, _SIDE)
    options = dataclasses.replace(options, crop_size=crop_size)
    with cost.outline() as outlined:
        model.multi_scale_logits(tf.zeros([1, *crop_size, options.input_channels]), options)
    return {name: variable.shape for name, variable in outlined.variables.items()}


# --- The backbone ----------------------------------------------------------------------------------------------------


class _Backbone(NamedTuple):
    """A backbone as some options make it: its variables, and the channels of the skips by stride."""

    options: ModelOptions
    shapes: dict[str, tuple[int, ...]]
    skips: dict[int, int]


def _backbone(options: ModelOptions) -> _Backbone:
    """Builds a backbone alone."""
    with cost.outline() as outlined:
        images = tf.zeros([1, _SIDE, _SIDE, options.input_channels])
        _, end_points = feature_extractor.extract_features(images, options)
    shapes = {name: variable.shape for name, variable in outlined.variables.items()}
    names = registry.get(options.model_variant).decoder_end_points
    skips = {stride: int(end_points[name].shape[-1]) for stride, name in names.items() if name in end_points}
    return _Backbone(options, shapes, skips)


def _candidates(held: Shapes) -> Iterator[_Backbone]:
    """Backbones whose scope occurs, as their default options make them, at each stride that changes their variables."""
    scopes = {name.partition('/')[0] for name in held}
    for name in registry.names():
        backbone = registry.get(name)
        if backbone.scope in scopes:
            strides = sorted(backbone.output_strides, key=lambda stride: abs(stride - 16))
            for stride in strides if backbone.uses_nas_options else strides[:1]:
                options = ModelOptions({common.OUTPUT_TYPE: 2}, model_variant=name, output_stride=stride)
                yield _backbone(options)


def _widths(candidate: _Backbone, held: Shapes) -> Iterator[ModelOptions]:
    """Options that make `candidate` as wide as the checkpoint is, the likeliest first."""
    shared = [name for name in candidate.shapes if name.endswith('/weights') and name in held]
    wide = sum(held[name][-1] for name in shared) / max(sum(candidate.shapes[name][-1] for name in shared), 1)
    options, backbone = candidate.options, registry.get(candidate.options.model_variant)
    if backbone.uses_nas_options:
        # The stem's own convolutions have a fixed width: what differs tells the factor, which is the same everywhere.
        factors = [held[name][-1] / candidate.shapes[name][-1] for name in shared]
        factor = statistics.mode([factor for factor in factors if factor != 1.0] or [1.0])
        filters = round(NasOptions().stem_output_filters * factor)
        yield dataclasses.replace(options, nas=NasOptions(stem_output_filters=max(filters, 1)))
    if backbone.uses_depth_multiplier:
        likely = sorted(_MULTIPLIERS, key=lambda multiplier: abs(multiplier - wide))[:_MOST_WIDTHS]
        for multiplier in [*likely, round(wide, 2)]:
            yield dataclasses.replace(options, depth_multiplier=multiplier)
            if multiplier != 1.0:
                yield dataclasses.replace(options, depth_multiplier=multiplier, divisible_by=8)


def find_backbone(held: Shapes) -> _Backbone | None:
    """The backbone whose variables `held` are; None where none comes near."""

    def problems(candidate: _Backbone) -> tuple[int, int, int]:
        fit = compare(held, candidate.shapes)
        scope = registry.get(candidate.options.model_variant).scope
        unused = sum(name.startswith(f'{scope}/') for name in fit.unused)
        return len(fit.missing), unused, len(fit.different)

    candidates = sorted(_candidates(held), key=problems)
    if not candidates or 2 * problems(candidates[0])[0] > len(candidates[0].shapes):
        return None
    best = candidates[0]
    # Another width changes nearly all shapes; a few are something else.
    if 4 * problems(best)[2] < len(best.shapes):
        return _for_channels(best, held)
    for options in _widths(best, held):
        other = _for_channels(_backbone(options), held)
        if not problems(other)[2]:
            return other
        best = min(best, other, key=problems)
    return best


def _for_channels(backbone: _Backbone, held: Shapes) -> _Backbone:
    """The backbone for images of as many channels as the checkpoint's first convolution reads."""
    for name, shape in backbone.shapes.items():
        channels = held[name][2] if len(held.get(name, ())) == 4 else 0
        if channels and inflation.can_inflate(held[name], shape, channels):
            return _backbone(dataclasses.replace(backbone.options, input_channels=channels))
    return backbone


# --- What stands behind it -------------------------------------------------------------------------------------------


def _count(held: Shapes, pattern: str) -> int:
    """How many different texts the pattern's group has among the names."""
    return len({match.group(1) for name in held if (match := re.match(pattern, name))})


def _last(held: Shapes, name: str, default: int) -> int:
    """The channels that a convolution gives."""
    return held[name][-1] if name in held else default


def aspp_of(held: Shapes) -> AsppOptions:
    """Atrous spatial pyramid pooling, as far as it shows."""
    has_head = f'{common.ASPP_SCOPE}0/weights' in held
    separable = _count(held, rf'{common.ASPP_SCOPE}(\d+)_depthwise/')
    plain = max(_count(held, rf'{common.ASPP_SCOPE}(\d+)/') - 1, 0)
    kernels = _count(held, rf'{common.LOGITS_SCOPE}/{common.OUTPUT_TYPE}(_\d+|)/')
    branches = max(separable, plain) if has_head else max(kernels - 1, 0) and kernels
    return AsppOptions(
        rates=tuple(_SOME_RATES[i] if i < len(_SOME_RATES) else 6 * (i + 1) for i in range(branches)),
        filters=_last(held, f'{common.ASPP_SCOPE}0/weights', AsppOptions().filters),
        image_level_feature=f'{common.IMAGE_POOLING_SCOPE}/weights' in held or not has_head,
        with_batch_norm=has_head or _is_cell(held),
        with_concat_projection=f'{common.CONCAT_PROJECTION_SCOPE}/weights' in held or not has_head,
        with_separable_conv=not plain,
        with_squeeze_and_excitation=f'{common.IMAGE_POOLING_SCOPE}/biases' in held,
    )


def _is_cell(held: Shapes) -> bool:
    return any(name.startswith(f'{common.META_ARCHITECTURE_SCOPE}/') for name in held)


def _stride_of_skip(channels: int, skips: Mapping[int, int], below: int) -> int | None:
    """The largest stride less than `below` whose skip has that many channels."""
    return max((stride for stride, found in skips.items() if found == channels and stride < below), default=None)


def decoder_of(held: Shapes, skips: Mapping[int, int]) -> DecoderOptions:
    """The decoder, as far as it shows.

    Args:
      held: the checkpoint's shapes.
      skips: channels of the backbone's skips by stride; a decoder's stride is told by them.
    """
    scope = common.DECODER_SCOPE
    strides: list[int] = []
    for stage in range(_count(held, rf'{scope}/feature_projection0(_\d+|)/')):
        weights = held.get(f'{scope}/feature_projection0{f"_{stage}" if stage else ""}/weights', (1, 1, 0, 0))
        stride = _stride_of_skip(weights[2], skips, strides[-1] if strides else 1 << 30)
        if stride is not None:
            strides.append(stride)
    if not strides:
        return DecoderOptions()
    kinds = {
        'decoder_conv0_pointwise': {},
        'decoder_conv0/decoder_conv0_1': {'use_separable_conv': False},
        'decoder_split_sep_conv0_pointwise': {'use_sum_merge': True},
        'decoder_conv0': {'use_sum_merge': True, 'use_separable_conv': False},
    }
    for layer, facts in kinds.items():
        if f'{scope}/{layer}/weights' in held:
            is_logits = f'{scope}/{layer}/biases' in held
            if is_logits:
                facts = {**facts, 'use_separable_conv': True, 'output_is_logits': True}
            return DecoderOptions(tuple(strides), filters=held[f'{scope}/{layer}/weights'][-1], **facts)
    return DecoderOptions(tuple(strides))


def outputs_of(held: Shapes) -> dict[str, int]:
    """Number of classes of each output; empty where the checkpoint ends before the logits."""
    pattern = rf'{common.LOGITS_SCOPE}/([^/]+)/weights$'
    found = {match.group(1): held[name][-1] for name in held if (match := re.match(pattern, name))}
    # Logits without a head are several, OUTPUT, OUTPUT_1 and so on, of which the sum counts.
    outputs = {name: classes for name, classes in found.items() if name.rpartition('_')[0] not in found}
    decoder = decoder_of(held, {4: _last_but_one(held)})
    return outputs or ({common.OUTPUT_TYPE: decoder.filters} if decoder.output_is_logits else {})


def _last_but_one(held: Shapes) -> int:
    return held.get(f'{common.DECODER_SCOPE}/feature_projection0/weights', (1, 1, 0, 0))[2]


@dataclasses.dataclass(frozen=True)
class Deduced:
    """What names and shapes tell of a network.

    Attributes:
      options: the network; rates are examples, as many as there are branches.
      outputs: number of classes by output; empty for a backbone alone.
      branches: number of atrous branches.
      fit: how the checkpoint compares with all of that network.
      is_backbone: whether there is nothing but a backbone.
    """

    options: ModelOptions
    outputs: dict[str, int]
    branches: int
    fit: Fit
    is_backbone: bool


def deduce(held: Shapes) -> Deduced | None:
    """Tells which network `held` (names and shapes, optimiser's aside) belong to; None where no backbone comes near."""
    backbone = find_backbone(held)
    if backbone is None:
        return None
    outputs, aspp = outputs_of(held), aspp_of(held)
    kernel = held.get(f'{common.LOGITS_SCOPE}/{common.OUTPUT_TYPE}/weights', (1,))[0]
    changes: dict[str, object] = {'outputs_to_num_classes': outputs or {common.OUTPUT_TYPE: 2}}
    changes |= {'aspp': aspp, 'decoder': decoder_of(held, backbone.skips)}
    changes |= {} if aspp.with_batch_norm else {'logits_kernel_size': kernel}
    changes |= {'dense_prediction_cell_json': dense_prediction_cell.PUBLISHED_CELL} if _is_cell(held) else {}
    options = dataclasses.replace(backbone.options, **changes)
    if not outputs:
        return Deduced(backbone.options, {}, 0, compare(held, backbone.shapes), True)
    try:
        fit = compare(held, network_shapes(options))
    except OptionError:  # what looks like a network cannot be built as one
        fit = compare(held, backbone.shapes)
    return Deduced(options, outputs, len(aspp.rates), fit, False)


@contextlib.contextmanager
def explained(path: str, options: ModelOptions) -> Iterator[None]:
    """Adds the flags of the network that the checkpoint at `path` fits to an error that it does not fit `options`."""
    try:
        yield
    except NetworkMismatchError as error:
        held = {name: entry.shape for name, entry in checkpoints.entries(path).items()}
        aside = slots(list(held))
        deduced = deduce({name: shape for name, shape in held.items() if name not in aside})
        if deduced is None or not deduced.fit.is_complete or visible(deduced.options) == visible(options):
            raise
        if '--num_classes=' in str(error) and flags_of(deduced.options) == flags_of(options):
            raise  # the message says which classes it is for
        if deduced.is_backbone:
            fitting = 'It holds a backbone alone, to train from'
        else:
            fitting = f'It fits this network, for {deduced.options.num_classes} classes'
        message = str(error).rstrip('.')
        flags = ' '.join(flags_of(deduced.options))
        raise NetworkMismatchError(f'{message}{chr(10) if chr(10) in message else ". "}{fitting}: {flags}') from error


def visible(options: ModelOptions) -> tuple[object, ...]:
    """What of a network shows in names and shapes: equal for two networks that one checkpoint can fit."""
    has_cell = options.dense_prediction_cell_json is not None
    aspp = dataclasses.replace(options.aspp, rates=(), image_se_uses_qsigmoid=False)
    decoder = options.decoder
    if decoder.output_is_logits or not decoder.output_strides:
        decoder = dataclasses.replace(decoder, use_separable_conv=True)
    backbone = registry.get(options.model_variant)
    return (
        options.model_variant,
        options.depth_multiplier if backbone.uses_depth_multiplier else 1.0,
        (options.nas.stem_output_filters, options.output_stride) if backbone.uses_nas_options else (),
        options.input_channels,
        dict(options.outputs_to_num_classes),
        has_cell or (aspp, len(options.aspp.rates)),
        has_cell,
        decoder,
    )


# --- In words of a command line --------------------------------------------------------------------------------------


def _flag_of_defaults() -> list[tuple[str, Callable[[ModelOptions], object]]]:
    return [
        ('depth_multiplier', lambda o: o.depth_multiplier),
        ('divisible_by', lambda o: o.divisible_by),
        ('nas_stem_output_num_conv_filters', lambda o: o.nas.stem_output_filters),
        ('dense_prediction_cell_json', lambda o: o.dense_prediction_cell_json),
        ('aspp_with_batch_norm', lambda o: o.aspp.with_batch_norm),
        ('add_image_level_feature', lambda o: o.aspp.image_level_feature),
        ('aspp_convs_filters', lambda o: o.aspp.filters),
        ('aspp_with_separable_conv', lambda o: o.aspp.with_separable_conv),
        ('aspp_with_concat_projection', lambda o: o.aspp.with_concat_projection),
        ('aspp_with_squeeze_and_excitation', lambda o: o.aspp.with_squeeze_and_excitation),
        ('decoder_filters', lambda o: o.decoder.filters),
        ('decoder_use_separable_conv', lambda o: o.decoder.use_separable_conv),
        ('decoder_use_sum_merge', lambda o: o.decoder.use_sum_merge),
        ('decoder_output_is_logits', lambda o: o.decoder.output_is_logits),
        ('logits_kernel_size', lambda o: o.logits_kernel_size),
        ('image_channels', lambda o: o.input_channels),
    ]


def flags_of(options: ModelOptions) -> list[str]:
    """The flags that `options` differ from the defaults by, as far as a checkpoint shows them."""
    default = ModelOptions(options.outputs_to_num_classes)
    words = [f'--model_variant={options.model_variant}']
    if registry.get(options.model_variant).uses_nas_options:  # their variables tell the stride
        words.append(f'--output_stride={options.output_stride}')
    for name, value in _flag_of_defaults():
        if value(options) != value(default):
            words.append(
                f'--{name}={str(value(options)).lower() if isinstance(value(options), bool) else value(options)}'
            )
    if options.aspp.rates:
        words += [f'--atrous_rates={rate}' for rate in options.aspp.rates]
    if options.decoder.output_strides:
        words.append(f'--decoder_output_stride={",".join(str(stride) for stride in options.decoder.output_strides)}')
    return words
