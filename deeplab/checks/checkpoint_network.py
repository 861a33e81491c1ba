"""Identifies the network of a checkpoint by the names and shapes of its variables.

The checkpoint is compared with the variables of all registered backbones, plugins included. Options that do not affect
names and shapes cannot be identified: output stride (except for nas_* networks), atrous rates, the pooling size of the
image-level feature.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from deeplab import common, model
from deeplab.core import checkpoints, cost, feature_extractor, loss_scaling, quantization
from deeplab.core.checkpoint_fit import ClassesMismatchError, Fit, can_inflate, compare
from deeplab.core.heads import dense_prediction_cell
from deeplab.errors import NetworkMismatchError, OptionError
from deeplab.names import counted
from deeplab.options import AsppOptions, DecoderOptions, ModelOptions, NasOptions
from deeplab.registry import BACKBONES, HEADS, TASKS
from deeplab.registry.tasks import SEMANTIC
from deeplab.wording import flag_names, is_set_by_flag, option

Shapes = Mapping[str, tuple[int, ...]]

OPTIMIZER_POWERS = ('beta1_power', 'beta2_power')
_MULTIPLIERS = (0.25, 0.35, 0.5, 0.75, 1.0, 1.25, 1.3, 1.4, 1.5, 2.0)
_MOST_WIDTHS = 4
# Side of the image for which networks are outlined, in pixels. Only variables matter, so that its size costs nothing;
# in a smaller one, there would be warnings of atrous rates that exceed its feature map.
_SIDE = 1025

_OWN_CONVOLUTION = '_features_pointwise'  # end of the name of the convolution before a last layer (`Output.filters`)

# Examples of atrous rates, of which only the number can be identified.
_SOME_RATES = (6, 12, 18)


def slots(names: Sequence[str]) -> set[str]:
    """Returns the names of training state: VARIABLE/SLOT, Adam's powers, steps, the loss scale, averaging of ranges."""
    variables = set(names)
    added = {name for name in variables if name.rpartition('/')[0] in variables or quantization.is_averaging(name)}
    steps = {checkpoints.GLOBAL_STEP, quantization.STEP_OF_ORIGINAL}
    return added | variables & {*OPTIMIZER_POWERS, *steps, *loss_scaling.NAMES}


def shapes_of(path: str) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """Returns the shapes of the variables in a checkpoint by name, and the shapes of everything else (see `slots`)."""
    held = {name: entry.shape for name, entry in checkpoints.entries(path).items()}
    aside = slots(list(held))
    variables = {name: shape for name, shape in held.items() if name not in aside}
    return variables, {name: shape for name, shape in held.items() if name in aside}


def network_shapes(options: ModelOptions) -> dict[str, tuple[int, ...]]:
    """Returns the names and shapes of all variables of a network.

    Raises:
      OptionError: there is no such network.
    """
    crop_size = options.image_pooling_crop_size or (_SIDE, _SIDE)
    if options.is_per_image and options.crop_size:  # on which the shapes may depend
        crop_size = options.crop_size
    options = dataclasses.replace(options, crop_size=crop_size)
    with cost.abstract_graph() as outlined:
        model.multi_scale_logits(tf.zeros([1, *crop_size, options.input_channels]), options)
    return outlined.shapes


# --- The backbone ----------------------------------------------------------------------------------------------------


class _Backbone(NamedTuple):
    """A backbone built with some options: its variables, and the channels of the skip connections by stride."""

    options: ModelOptions
    shapes: dict[str, tuple[int, ...]]
    skips: dict[int, int]


def _backbone(options: ModelOptions) -> _Backbone:
    with cost.abstract_graph() as outlined:
        images = tf.zeros([1, _SIDE, _SIDE, options.input_channels])
        _, end_points = feature_extractor.extract_features(images, options)
    names = BACKBONES.get(options.model_variant).decoder_end_points
    skips = {stride: int(end_points[name].shape[-1]) for stride, name in names.items() if name in end_points}
    return _Backbone(options, outlined.shapes, skips)


def _candidates(held: Shapes) -> Iterator[_Backbone]:
    """Yields the backbones with variables in the checkpoint, with default options, at each stride that matters."""
    scopes = {name.partition('/')[0] for name in held}
    for name in BACKBONES.names():
        backbone = BACKBONES.get(name)
        if backbone.scope in scopes:
            strides = sorted(backbone.output_strides, key=lambda stride: abs(stride - 16))
            for stride in strides if 'nas' in backbone.reads else strides[:1]:
                options = ModelOptions({common.OUTPUT_TYPE: 2}, model_variant=name, output_stride=stride)
                yield _backbone(options)


def _widths(candidate: _Backbone, held: Shapes) -> Iterator[ModelOptions]:
    """Yields options that give `candidate` the checkpoint's numbers of channels, the likeliest first."""
    shared = [name for name in candidate.shapes if name.endswith('/weights') and name in held]
    wide = sum(held[name][-1] for name in shared) / max(sum(candidate.shapes[name][-1] for name in shared), 1)
    options, backbone = candidate.options, BACKBONES.get(candidate.options.model_variant)
    if 'nas' in backbone.reads:
        # The stem's own convolutions have a fixed width; all others differ by the same factor.
        factors = [held[name][-1] / candidate.shapes[name][-1] for name in shared]
        factor = statistics.mode([factor for factor in factors if factor != 1.0] or [1.0])
        filters = round(NasOptions().stem_output_filters * factor)
        yield dataclasses.replace(options, nas=NasOptions(stem_output_filters=max(filters, 1)))
    if 'depth_multiplier' in backbone.reads:
        likely = sorted(_MULTIPLIERS, key=lambda multiplier: abs(multiplier - wide))[:_MOST_WIDTHS]
        for multiplier in [*likely, round(wide, 2)]:
            yield dataclasses.replace(options, depth_multiplier=multiplier)
            if multiplier != 1.0:
                yield dataclasses.replace(options, depth_multiplier=multiplier, divisible_by=8)


def find_backbone(held: Shapes) -> _Backbone | None:
    """Returns the backbone with the variables `held`; None if none is similar."""

    def problems(candidate: _Backbone) -> tuple[int, int, int]:
        fit = compare(held, candidate.shapes)
        scope = BACKBONES.get(candidate.options.model_variant).scope
        unused = sum(name.startswith(f'{scope}/') for name in fit.unused)
        return len(fit.missing), unused, len(fit.different)

    candidates = sorted(_candidates(held), key=problems)
    if not candidates or 2 * problems(candidates[0])[0] > len(candidates[0].shapes):
        return None
    best = _for_channels(candidates[0], held)
    # Another width changes nearly all shapes; a few different shapes have another cause.
    if 4 * problems(best)[2] < len(best.shapes):
        return best
    for options in _widths(best, held):
        other = _for_channels(_backbone(options), held)
        if not problems(other)[2]:
            return other
        best = min(best, other, key=problems)
    return best


def _for_channels(backbone: _Backbone, held: Shapes) -> _Backbone:
    """Returns the backbone for images of as many channels as the checkpoint's first convolution has."""
    for name, shape in backbone.shapes.items():
        channels = held[name][2] if len(held.get(name, ())) == 4 else 0
        if channels and can_inflate(held[name], shape, channels):
            return _backbone(dataclasses.replace(backbone.options, input_channels=channels))
    return backbone


# --- Head, decoder and logits ----------------------------------------------------------------------------------------


def _count(held: Shapes, pattern: str) -> int:
    """Counts the different matches of the pattern's group among the names."""
    return len({match.group(1) for name in held if (match := re.match(pattern, name))})


def aspp_of(held: Shapes) -> AsppOptions:
    """Identifies the atrous spatial pyramid pooling (ASPP)."""
    has_head = f'{common.ASPP_SCOPE}0/weights' in held
    separable = _count(held, rf'{common.ASPP_SCOPE}(\d+)_depthwise/')
    plain = max(_count(held, rf'{common.ASPP_SCOPE}(\d+)/') - 1, 0)
    kernels = _count(held, rf'{common.LOGITS_SCOPE}/{common.OUTPUT_TYPE}(_\d+|)/')
    branches = max(separable, plain) if has_head else max(kernels - 1, 0) and kernels
    return AsppOptions(
        rates=tuple(_SOME_RATES[i] if i < len(_SOME_RATES) else 6 * (i + 1) for i in range(branches)),
        filters=held.get(f'{common.ASPP_SCOPE}0/weights', (AsppOptions().filters,))[-1],
        image_level_feature=f'{common.IMAGE_POOLING_SCOPE}/weights' in held or not has_head,
        with_batch_norm=has_head or _is_cell(held),
        with_concat_projection=f'{common.CONCAT_PROJECTION_SCOPE}/weights' in held or not has_head,
        with_separable_conv=not plain,
        with_squeeze_and_excitation=f'{common.IMAGE_POOLING_SCOPE}/biases' in held,
    )


def _is_cell(held: Shapes) -> bool:
    return any(name.startswith(f'{common.META_ARCHITECTURE_SCOPE}/') for name in held)


def decoder_of(held: Shapes, skips: Mapping[int, int]) -> DecoderOptions:
    """Identifies the decoder, whose strides follow from the channels of the backbone's skip connections by stride."""
    scope = common.DECODER_SCOPE
    strides: list[int] = []
    for stage in range(_count(held, rf'{scope}/feature_projection0(_\d+|)/')):
        channels = held.get(f'{scope}/feature_projection0{f"_{stage}" if stage else ""}/weights', (1, 1, 0, 0))[2]
        below = min(strides, default=1 << 30)  # each stage has a smaller stride than the stage before it
        if fitting := [stride for stride in skips if skips[stride] == channels and stride < below]:
            strides.append(max(fitting))
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
    """Returns the number of channels of each output; empty for a checkpoint without logits."""
    pattern = rf'{common.LOGITS_SCOPE}/([^/]+)/weights$'
    logits = {match.group(1): held[name][-1] for name in held if (match := re.match(pattern, name))}
    # Without a head there are several logits, OUTPUT, OUTPUT_1 and so on, which are summed; and an output may have a
    # convolution of its own.
    beside = {name for name in logits if name.rpartition('_')[0] in logits or name.endswith(_OWN_CONVOLUTION)}
    outputs = {name: classes for name, classes in logits.items() if name not in beside}
    skip_channels = held.get(f'{common.DECODER_SCOPE}/feature_projection0/weights', (1, 1, 0, 0))[2]
    decoder = decoder_of(held, {4: skip_channels})
    return outputs or ({common.OUTPUT_TYPE: decoder.filters} if decoder.output_is_logits else {})


def _outputs_of_classifier(held: Shapes, network: ModelOptions) -> dict[str, int]:
    """Returns the number of classes of a classifier on the backbone of `network`, by its output; empty without one."""
    for task in TASKS.names():
        for scope in dataclasses.replace(network, task=task).classifier_scopes:
            if (shape := held.get(f'{scope}/weights')) is not None:
                return dict.fromkeys(_names(task, network), shape[-1])
    return {}


def _of_one_branch(held: Shapes) -> Shapes:
    """Returns the variables of the network's own head and decoder, or of the first branch if it has none."""
    scopes = [scope for scope in TASKS.branch_scopes() if any(name.startswith(f'{scope}/') for name in held)]
    if not scopes or any(name.startswith((common.ASPP_SCOPE, f'{common.IMAGE_POOLING_SCOPE}/')) for name in held):
        return held
    return {name.removeprefix(f'{scopes[0]}/'): shape for name, shape in held.items()}


def tasks_of(held: Shapes, outputs: Mapping[str, int], network: ModelOptions) -> dict[str, Any]:
    """Identifies the tasks, and the number of classes, of a network with the variables `held`.

    Args:
      held: names and shapes.
      outputs: number of channels by output; empty for a backbone alone.
      network: the network so far.

    Returns:
      `task` and `outputs_to_num_classes` of its options: of the fewest tasks with these outputs and branches. If no
      output has a channel for each class, the number of classes is 2.
    """
    scopes = {scope for scope in TASKS.branch_scopes() if any(name.startswith(f'{scope}/') for name in held)}
    classes = [outputs[common.OUTPUT_TYPE]] if common.OUTPUT_TYPE in outputs else [2, *outputs.values()]
    # The order of the tasks is not in the variables; classes are in the first one.
    names = sorted(TASKS.names(), key=lambda name: (name != SEMANTIC, common.OUTPUT_TYPE not in _names(name, network)))
    for number in range(1, len(outputs) + 1):
        for tasks in itertools.combinations(names, number):
            for num_classes in dict.fromkeys(classes):
                chosen: dict[str, Any] = {
                    'task': '+'.join(tasks),
                    'outputs_to_num_classes': {common.OUTPUT_TYPE: num_classes},
                }
                if _fits(dataclasses.replace(network, **chosen), outputs, scopes):
                    return chosen
    return {'outputs_to_num_classes': outputs or {common.OUTPUT_TYPE: 2}}


def _names(task: str, network: ModelOptions) -> list[str]:
    """Returns the names of the outputs of a task."""
    return [output.name for output in TASKS.get(task).outputs(network)]


def _fits(network: ModelOptions, outputs: Mapping[str, int], scopes: set[str]) -> bool:
    """Returns whether the tasks of a network have these outputs, in branches of these scopes."""
    try:
        described = TASKS.outputs(network)
    except OptionError:
        return False
    branches = {output.branch.scope for output in described if output.branch is not None}
    return {output.name: output.channels for output in described} == outputs and branches == scopes


@dataclasses.dataclass(frozen=True)
class Deduced:
    """A network that was identified by names and shapes.

    Attributes:
      options: the network; rates are examples, as many as there are branches.
      outputs: number of channels by output; empty for a backbone alone.
      fit: comparison of the checkpoint with this network.
    """

    options: ModelOptions
    outputs: dict[str, int]
    fit: Fit

    @property
    def branches(self) -> int:
        """Number of atrous branches."""
        return len(self.options.aspp.rates)

    @property
    def num_classes(self) -> int | None:
        """Number of classes; None if no output has a channel for each class."""
        semantic = self.outputs.get(common.OUTPUT_TYPE)
        if semantic is not None or not self.outputs or self.options.is_semantic:
            return semantic
        of_other = dataclasses.replace(
            self.options, outputs_to_num_classes={common.OUTPUT_TYPE: self.options.num_classes + 1}
        )
        depends = TASKS.channels(of_other) != TASKS.channels(self.options)
        return self.options.num_classes if depends else None

    @property
    def is_backbone(self) -> bool:
        """Whether the checkpoint has only a backbone."""
        return not self.outputs


def deduce(held: Shapes) -> Deduced | None:
    """Identifies the network with the variables `held` (without training state); None if no backbone is similar."""
    everything, held = held, {name: shape for name, shape in held.items() if not quantization.is_range(name)}
    backbone = find_backbone(held)
    if backbone is None:
        return None
    outputs, aspp = outputs_of(held), aspp_of(_of_one_branch(held))
    if not outputs and (outputs := _outputs_of_classifier(held, backbone.options)):
        aspp = AsppOptions()  # it has no effect
    kernel = held.get(f'{common.LOGITS_SCOPE}/{common.OUTPUT_TYPE}/weights', (1,))[0]
    changes: dict[str, Any] = tasks_of(held, outputs, backbone.options)
    changes |= {'aspp': aspp, 'decoder': decoder_of(held, backbone.skips)}
    changes |= {} if aspp.with_batch_norm else {'logits_kernel_size': kernel}
    changes |= {'dense_prediction_cell_json': dense_prediction_cell.PUBLISHED_CELL} if _is_cell(held) else {}
    if ranges := [shape for name, shape in everything.items() if quantization.is_range(name)]:  # of 8-bit training
        changes |= {'quantize_delay_step': 0, 'quantize_per_channel': any(ranges)}
    options = dataclasses.replace(backbone.options, **changes)
    of_backbone = compare(held, backbone.shapes)
    if not outputs:
        return Deduced(backbone.options, {}, of_backbone)
    try:
        fit = compare(everything, network_shapes(options))
    except OptionError:  # the identified options are invalid together
        fit = of_backbone
    if options.is_per_image and not fit.is_complete:  # a part of the last layer is left
        return Deduced(backbone.options, {}, of_backbone)
    return Deduced(options, outputs, fit)


@contextlib.contextmanager
def explained(path: str, options: ModelOptions) -> Iterator[None]:
    """Begins an error that the checkpoint does not match `options` with the options of the checkpoint's network."""
    try:
        yield
    except NetworkMismatchError as error:
        held = shapes_of(path)[0]
        if cause := classifier_mismatch(options, held):
            raise NetworkMismatchError(
                f"The checkpoint '{path}' {cause}. Pass a classifier of the same classes, another "
                f'{option("DatasetOptions.name")}, or {option("ModelOptions.labels_offset")} if one of the two omits '
                'the first class',
                error.details,
            ) from error
        deduced = deduce(held)
        if deduced is None or not deduced.fit.is_complete or visible(deduced.options) == visible(options):
            raise
        channels, here = deduced.options.input_channels, options.input_channels
        if visible(dataclasses.replace(deduced.options, input_channels=here)) == visible(options):
            raise NetworkMismatchError(
                f"The checkpoint '{path}' expects images with {counted(channels, 'channel')}, but this network "
                f'expects {here}. Set image_channels of the data set to {channels}, or pass another checkpoint',
                error.details,
            ) from error
        takes_number = isinstance(error, ClassesMismatchError)
        raise NetworkMismatchError(_mismatch(path, deduced, options, takes_number), error.details) from error


def classifier_mismatch(options: ModelOptions, held: Shapes) -> str:
    """Returns why a checkpoint lacks the last layer of a classifier, to follow its name; '' if it does not.

    Args:
      options: the network; nothing is said about a network of maps.
      held: shapes of the checkpoint's variables by name.
    """
    for scope in options.classifier_scopes:
        if (weights := f'{scope}/weights') not in held:
            is_of_maps = any(name.startswith(HEADS.last_layer_scopes()) for name in held)
            kind = 'of a segmentation network' if is_of_maps else 'of another network, or no classifier'
            return f'is {kind}: it lacks {weights}'
        if (classes := held[weights][-1]) != options.num_classes:
            return f'has {classes} classes, the network here {options.num_classes}'
    return ''


def _mismatch(path: str, deduced: Deduced, options: ModelOptions, takes_number: bool) -> str:
    """Returns cause and fix of an error that the checkpoint at `path`, of network `deduced`, does not match `options`.

    The number of classes is an option if `takes_number`; otherwise the data set gives it.
    """
    named = ' '.join(settings_of(deduced.options))
    if deduced.is_backbone:
        return (
            f"The checkpoint '{path}' contains only a backbone ({named}), which can initialize training but cannot "
            'predict. Pass a checkpoint of a trained network'
        )
    if set(deduced.options.task.split('+')) != set(options.task.split('+')):
        return _mismatch_of_tasks(path, deduced, options)
    expected = options.num_classes
    held = expected if deduced.num_classes is None else deduced.num_classes
    of_same_classes = dataclasses.replace(deduced.options, outputs_to_num_classes=options.outputs_to_num_classes)
    is_other = visible(of_same_classes) != visible(options)
    fixes = ['exactly these options of the network'] if is_other else []
    cause = f'has {held} classes, the network here {expected}' if held != expected else ''
    if is_other:
        cause = f'is of another network{f", with {held} classes instead of {expected}" if cause else ""}: {named}'
    if held != expected:
        number = option('ModelOptions.outputs_to_num_classes', held)
        fixes.append(number if takes_number else f'{option("DatasetOptions.name")} to a data set with {held} classes')
    return f"The checkpoint '{path}' {cause}. Set {' and '.join(fixes)}, or pass another checkpoint"


def _mismatch_of_tasks(path: str, deduced: Deduced, options: ModelOptions) -> str:
    """Returns cause and fix of an error that the checkpoint, of network `deduced`, has other tasks than `options`."""
    of_same_task = dataclasses.replace(options, task=deduced.options.task)
    same = dataclasses.replace(deduced.options, outputs_to_num_classes=options.outputs_to_num_classes)
    fix = option('ModelOptions.task', deduced.options.task)
    if visible(same) != visible(of_same_task):
        fix += f' and exactly these options of the network: {" ".join(settings_of(deduced.options))}'
    return (
        f"The checkpoint '{path}' is of the task {deduced.options.task}, with the outputs "
        f'{outputs_in_words(deduced.options)}; the network here is of the task {options.task}, with '
        f'{outputs_in_words(options)}. Set {fix}, or pass another checkpoint'
    )


def outputs_in_words(options: ModelOptions) -> str:
    """Returns the outputs with their numbers of channels, such as 'semantic (19), center (1), offset (2)'."""
    return ', '.join(f'{output.name} ({output.channels})' for output in TASKS.outputs(options))


def visible(options: ModelOptions) -> tuple[object, ...]:
    """Returns what can be identified of a network by names and shapes; equal if a checkpoint matches both networks."""
    has_cell = options.dense_prediction_cell_json is not None
    aspp = dataclasses.replace(options.aspp, rates=(), image_se_uses_qsigmoid=False)
    decoder = options.decoder
    if decoder.output_is_logits or not decoder.output_strides:
        decoder = dataclasses.replace(decoder, use_separable_conv=True)
    backbone, outputs = BACKBONES.get(options.model_variant), TASKS.outputs(options)
    if all(output.branch is not None for output in outputs):
        decoder = DecoderOptions()
    is_whole = float(options.depth_multiplier).is_integer()
    return (
        options.model_variant,
        options.depth_multiplier if 'depth_multiplier' in backbone.reads else 1.0,
        # The full network, and whole multiples of it, have multiples of 8 by themselves.
        (options.divisible_by or (8 if is_whole else 1)) if 'divisible_by' in backbone.reads else None,
        (options.nas.stem_output_filters, options.output_stride) if 'nas' in backbone.reads else (),
        options.input_channels,
        {output.name: (output.channels, output.filters, output.branch) for output in outputs},
        has_cell or (aspp, len(options.aspp.rates)),
        has_cell,
        decoder,
        options.quantize_delay_step is not None,
        options.quantize_per_channel,
    )


# --- As options, or as flags of a command line -----------------------------------------------------------------------

_RATES = 'AsppOptions.rates'
# The flags of the options that can be identified: `deeplab checkpoint` reports a network as flags of a command line.
_FLAGS = {
    'ModelOptions.model_variant': 'model_variant',
    'ModelOptions.task': 'network_task',
    'ModelOptions.output_stride': 'output_stride',
    'ModelOptions.depth_multiplier': 'depth_multiplier',
    'ModelOptions.divisible_by': 'divisible_by',
    'NasOptions.stem_output_filters': 'nas_stem_output_num_conv_filters',
    'ModelOptions.dense_prediction_cell_json': 'dense_prediction_cell_json',
    'ModelOptions.quantize_delay_step': 'quantize_delay_step',
    'ModelOptions.quantize_per_channel': 'quantize_per_channel',
    'AsppOptions.with_batch_norm': 'aspp_with_batch_norm',
    'AsppOptions.image_level_feature': 'add_image_level_feature',
    'AsppOptions.filters': 'aspp_convs_filters',
    'AsppOptions.with_separable_conv': 'aspp_with_separable_conv',
    'AsppOptions.with_concat_projection': 'aspp_with_concat_projection',
    'AsppOptions.with_squeeze_and_excitation': 'aspp_with_squeeze_and_excitation',
    'DecoderOptions.filters': 'decoder_filters',
    'DecoderOptions.use_separable_conv': 'decoder_use_separable_conv',
    'DecoderOptions.use_sum_merge': 'decoder_use_sum_merge',
    'DecoderOptions.output_is_logits': 'decoder_output_is_logits',
    'ModelOptions.logits_kernel_size': 'logits_kernel_size',
    'ModelOptions.input_channels': 'image_channels',
    _RATES: 'atrous_rates',
    'DecoderOptions.output_strides': 'decoder_output_stride',
}


def _value_of(options: ModelOptions, field: str) -> object:
    """Returns the value of 'Class.field' in the options of a network."""
    kind, _, name = field.partition('.')
    parts = {'NasOptions': options.nas, 'AsppOptions': options.aspp, 'DecoderOptions': options.decoder}
    return getattr(parts.get(kind, options), name)


def settings_of(options: ModelOptions) -> list[str]:
    """Returns the options that can be identified and differ from their defaults, as messages name them."""
    default = ModelOptions(options.outputs_to_num_classes)
    shows_stride = 'nas' in BACKBONES.get(options.model_variant).reads  # their variables depend on the stride
    is_shown = {'ModelOptions.model_variant': True, 'ModelOptions.output_stride': shows_stride}
    settings = []
    for field in _FLAGS:
        value = _value_of(options, field)
        if not is_shown.get(field, value != _value_of(default, field)):
            continue
        if field == _RATES and is_set_by_flag(field):  # one flag per rate
            settings += [option(field, rate) for rate in options.aspp.rates]
        else:
            settings.append(option(field, value))
    return settings


def flags_of(options: ModelOptions) -> list[str]:
    """Returns the flags of the options that can be identified and differ from their defaults."""
    with flag_names(_FLAGS):
        return settings_of(options)
