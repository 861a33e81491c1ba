"""Inspection of a checkpoint: its variables, its network, what a given network would restore (`deeplab checkpoint`)."""

from __future__ import annotations

if __name__ == '__main__':  # `python -m deeplab.checkpoint`; first, so that help does not wait for TensorFlow
    from deeplab import start

    start.run_program('checkpoint')

import collections
import dataclasses
import json
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

from deeplab import common, names
from deeplab.checks import checkpoint_network
from deeplab.checks.checkpoint_network import Deduced, Shapes
from deeplab.core import checkpoints, loss_scaling, moving_average, scopes
from deeplab.core.checkpoint_fit import can_inflate
from deeplab.core.checkpoint_fit import compare as compare_shapes
from deeplab.errors import CheckpointError
from deeplab.options import CheckpointOptions, ModelOptions
from deeplab.registry import TASKS
from deeplab.wording import option

MOST_NAMES = 12  # that are listed if a network does not match


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What a network would restore from a checkpoint.

    Attributes:
      flags: the network, as flags.
      num_classes: number of classes of the network.
      restored: names of variables that would be restored.
      inflated: names of restored variables with weights for three channels, which would be distributed over the
        network's channels.
      skipped: a line for each variable with another shape.
      missing: names that the checkpoint lacks.
      left_out: names that are excluded by the restore options.
      unused: names that the network does not have.
    """

    flags: tuple[str, ...]
    num_classes: int
    restored: tuple[str, ...]
    inflated: tuple[str, ...]
    skipped: tuple[str, ...]
    missing: tuple[str, ...]
    left_out: tuple[str, ...]
    unused: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether eval, vis and export_model can use the checkpoint with this network."""
        return not (self.skipped or self.missing or self.inflated)


@dataclasses.dataclass(frozen=True)
class CheckpointReport:
    """Contents of a checkpoint, and the network that they fit.

    Attributes:
      path: path of the checkpoint.
      step: global step; -1 if it is damaged and the path does not contain it.
      variables: shapes of the network's variables by name.
      slots: shapes of everything else by name: optimizer slots, moving averages, the loss scale.
      deduced: the network; None if no known backbone is similar.
      presets: names of published checkpoints with the same variables.
      comparison: comparison with the given network; None for none.
      report: all this for the user, or as JSON.
      unreadable: why a value cannot be read, by the names of damaged variables and slots.
    """

    path: str
    step: int
    variables: Shapes
    slots: Shapes
    deduced: Deduced | None
    presets: tuple[str, ...]
    comparison: Comparison | None
    report: str = ''
    unreadable: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def status(self) -> int:
        """Exit status: 1 for a damaged checkpoint."""
        return 1 if self.unreadable else 0


def run(options: CheckpointOptions) -> CheckpointReport:
    """Reads a checkpoint, verifies all checksums, and compares names and shapes with networks.

    Raises:
      CheckpointError: there is no checkpoint, or it cannot be read.
      OptionError: the network to compare with does not exist or lacks a given scope, or the rename map cannot be read.
    """
    _refuse_frozen_graph(options.file)
    path = checkpoints.find(options.file)
    variables, slots = checkpoint_network.shapes_of(path)
    unreadable = checkpoints.unreadable(path)
    for reason in unreadable.values():
        if checkpoints.is_access_failure(reason):
            raise CheckpointError(f"The checkpoint '{path}' cannot be read ({reason})")
    here: Shapes = variables
    if options.restore.rename_map:
        renamed = scopes.rename(variables, scopes.read_rename_map(options.restore.rename_map), path)
        here = {new: variables[old] for new, old in renamed.items()}
    deduced = checkpoint_network.deduce(here)
    result = CheckpointReport(
        path,
        checkpoints.step_in_name(path) if checkpoints.GLOBAL_STEP in unreadable else checkpoints.step_of(path),
        variables,
        slots,
        deduced,
        _fitting_presets(deduced, options),
        compare(here, deduced, options),
        unreadable=unreadable,
    )
    if options.json:
        return dataclasses.replace(result, report=json.dumps(as_json(result), indent=1))
    return dataclasses.replace(result, report='\n'.join(_report(result, options)))


def _refuse_frozen_graph(path: str) -> None:
    """Raises `CheckpointError` for an exported graph; the message names a checkpoint in the same folder, if any."""
    if path.endswith('.pb') and os.path.isfile(path):
        beside = checkpoints.newest(os.path.dirname(path) or '.')
        fix = f'pass the checkpoint next to it, {beside}' if beside else 'pass the checkpoint that was exported'
        raise CheckpointError(f"'{path}' is an exported graph, not a checkpoint: {fix}")


def _fitting_presets(deduced: Deduced | None, options: CheckpointOptions) -> tuple[str, ...]:
    if deduced is None or deduced.is_backbone or not deduced.fit.is_complete:
        return ()
    seen = checkpoint_network.visible(deduced.options)
    return tuple(name for name, other in options.presets.items() if checkpoint_network.visible(other) == seen)


def compare(variables: Shapes, deduced: Deduced | None, options: CheckpointOptions) -> Comparison | None:
    """Returns what the network in `options.against` would restore from `variables`; None without such a network.

    Args:
      variables: shapes by the names that they have in the network.
      deduced: the network that they belong to.
      options: the network to compare with, and what training would exclude.

    Raises:
      OptionError: a scope to exclude is not in the network.
    """
    network = options.against
    if network is None:
        return None
    if options.takes_classes and deduced is not None and deduced.num_classes is not None:
        decoder = network.decoder
        if decoder.output_is_logits:
            decoder = dataclasses.replace(decoder, filters=deduced.outputs.get(common.OUTPUT_TYPE, decoder.filters))
        network = dataclasses.replace(
            network, outputs_to_num_classes=deduced.options.outputs_to_num_classes, decoder=decoder
        )
    wanted = checkpoint_network.network_shapes(network)
    scopes.require_all_known(options.restore.exclude_scopes, wanted, 'RestoreOptions.exclude_scopes')
    aside = options.restore.exclude_scopes + (() if options.initialize_last_layer else options.last_layer_scopes)
    left_out = tuple(name for name in wanted if name.startswith(aside)) if aside else ()
    fit = compare_shapes(variables, {name: shape for name, shape in wanted.items() if name not in left_out})
    channels = network.input_channels
    inflated = tuple(name for name in fit.different if can_inflate(wanted[name], variables[name], channels))
    restored = {*fit.equal, *inflated}
    return Comparison(
        tuple(checkpoint_network.flags_of(network)),
        network.num_classes,
        tuple(name for name in wanted if name in restored),
        inflated,
        tuple(
            f'{name}: {list(wanted[name])} in the network, {list(variables[name])} in the checkpoint'
            for name in fit.different
            if name not in inflated
        ),
        fit.missing,
        left_out,
        tuple(name for name in fit.unused if name not in wanted),
    )


# --- JSON ------------------------------------------------------------------------------------------------------------


def as_json(result: CheckpointReport) -> dict[str, Any]:
    """Returns the result as JSON values."""
    deduced, comparison = result.deduced, result.comparison
    network = None
    if deduced is not None:
        network = {
            'model_variant': deduced.options.model_variant,
            'depth_multiplier': deduced.options.depth_multiplier,
            'task': None if deduced.is_backbone else deduced.options.task,
            'num_classes': deduced.num_classes,
            'outputs': deduced.outputs,
            'head': head_in_words(deduced),
            'atrous_branches': deduced.branches,
            'decoder': decoder_in_words(deduced.options),
            'decoder_output_strides': deduced.options.decoder.output_strides,
            'backbone_only': deduced.is_backbone,
            'flags': checkpoint_network.flags_of(deduced.options),
            'fits': deduced.fit.is_complete and not result.unreadable,
            **{key: getattr(deduced.fit, key) for key in ('different', 'missing', 'unused')},
        }
    return {
        'checkpoint': result.path,
        'global_step': result.step if result.step >= 0 else None,
        'parameters': _values(result.variables),
        'scopes': {
            scope: {'variables': len(shapes), 'values': _values(shapes)}
            for scope, shapes in _by_scope(result.variables).items()
        },
        'variables': result.variables,
        'slots': result.slots,
        'network': network,
        'presets': result.presets,
        'damaged': dict(result.unreadable),
        'against': comparison
        and {**dataclasses.asdict(comparison), 'fits': comparison.is_complete and not result.unreadable},
    }


# --- Text ------------------------------------------------------------------------------------------------------------


def _values(shapes: Shapes) -> int:
    return sum(math.prod(shape) for shape in shapes.values())


def _by_scope(variables: Shapes) -> dict[str, dict[str, tuple[int, ...]]]:
    """Returns shapes by the first part of a variable's name, then by its name."""
    shapes: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, shape in variables.items():
        shapes.setdefault(name.partition('/')[0], {})[name] = shape
    return shapes


def _report(result: CheckpointReport, options: CheckpointOptions) -> Iterator[str]:
    """Yields the lines of the report: the summary first, the list of variables last."""
    yield f'{result.path}, step {result.step}' if result.step >= 0 else result.path
    if result.unreadable:
        held = len(result.variables) + len(result.slots)
        reason = next(iter(result.unreadable.values()))
        yield f'It is damaged: {len(result.unreadable)} of {held} values cannot be read ({reason}).'
        yield 'Use another checkpoint, or copy this one again.'
        yield from _some('damaged', tuple(result.unreadable))
    yield ''
    by_scope = _by_scope(result.variables)
    rows = [(scope, str(len(shapes)), f'{_values(shapes):,}') for scope, shapes in by_scope.items()]
    total = ('all', str(len(result.variables)), f'{_values(result.variables):,}')
    yield from names.aligned([('scope', 'variables', 'values'), *rows, total])
    averages = [name for name in result.slots if moving_average.is_average(name)]
    if averages:
        use = f'{option("EvalOptions.use_moving_average", True)}, if no run.json of the training run is beside it'
        yield f'and moving averages of {len(averages)} variables ({use})'
    others = sorted(set(result.slots) - {*averages, *loss_scaling.NAMES})
    if counts := collections.Counter(name.rpartition('/')[2] for name in others if '/' in name):
        slots = ', '.join(f'{slot} of {count} variables' for slot, count in counts.items())
        yield f'and of the optimizer: {slots}'
    if any(name in result.slots for name in loss_scaling.NAMES):
        yield 'and the loss scale of a training run in float16'
    yield ''
    yield from _network_lines(result)
    if result.comparison is not None:
        yield ''
        yield from _comparison_lines(result.comparison, result)
    if options.list_variables:
        yield ''
        for scope, shapes in by_scope.items():
            yield f'{scope}:'
            for name, shape in shapes.items():
                yield f'  {name.removeprefix(f"{scope}/")}  {"x".join(map(str, shape)) or "one value"}'


def head_in_words(deduced: Deduced) -> str:
    """Describes what is between backbone and decoder."""
    aspp = deduced.options.aspp
    if deduced.is_backbone:
        return 'none: only a backbone, to train from'
    if deduced.options.is_per_image:
        return 'the last layer of a classifier'
    if deduced.options.dense_prediction_cell_json:
        return 'a dense prediction cell'
    if not aspp.with_batch_norm:
        return f'none; {max(deduced.branches, 1)} logits of kernel {deduced.options.logits_kernel_size}, summed'
    kind = 'separable ' if aspp.with_separable_conv and deduced.branches else ''
    parts = [f'ASPP of {aspp.filters} channels', f'{deduced.branches or "no"} {kind}atrous branches']
    pooling = 'gates (squeeze-and-excite)' if aspp.with_squeeze_and_excitation else 'with image pooling'
    parts.append(pooling if aspp.image_level_feature else 'without image pooling')
    return ', '.join([*parts, 'projected' if aspp.with_concat_projection else 'without projection'])


def decoder_in_words(options: ModelOptions) -> str:
    """Describes the decoder."""
    decoder = options.decoder
    if not decoder.output_strides:
        return 'none'
    kind = 'separable' if decoder.use_separable_conv else 'plain'
    text = f'stride {", ".join(str(stride) for stride in decoder.output_strides)}, {decoder.filters} channels'
    if decoder.output_is_logits:
        return f'{text}, its sum is the logits'
    return f'{text}, {kind} convolutions, {"sum" if decoder.use_sum_merge else "concatenation"}'


def _network_lines(result: CheckpointReport) -> Iterator[str]:
    deduced = result.deduced
    if deduced is None:
        yield 'It matches no known network (`deeplab networks` lists them).'
        return
    options = deduced.options
    yield f'backbone: {options.model_variant}, depth multiplier {options.depth_multiplier:g}'
    yield f'head: {head_in_words(deduced)}'
    if not deduced.is_backbone:
        yield from _task_lines(deduced)
    yield f'flags: {" ".join(checkpoint_network.flags_of(options))}'
    if options.aspp.rates and not (deduced.is_backbone or options.is_per_image):
        yield ('  (only the number of rates is known: 6, 12, 18 are usual at output stride 16, and twice as much at 8)')
    fit = deduced.fit
    if fit.is_complete and result.unreadable:
        yield f'It has the names and shapes of all {len(fit.equal)} variables of that network, but damaged values.'
    elif fit.is_complete:
        yield f'It has all {len(fit.equal)} variables of that network, in its shapes.'
    else:
        yield f'It differs from that network: {len(fit.missing)} variables are missing, {len(fit.different)} differ.'
        yield from _some('missing', fit.missing)
        yield from _some('different shape', fit.different)
    yield from _some('not in that network', fit.unused)
    if result.presets:
        yield f'Presets with the same variables: {", ".join(result.presets)}.'


def _task_lines(deduced: Deduced) -> Iterator[str]:
    """Yields lines about what follows the head: decoder, or decoders of branches, and outputs."""
    options, outputs = deduced.options, TASKS.outputs(deduced.options)
    branches = dict.fromkeys(output.branch for output in outputs)
    if None in branches and not options.is_per_image:
        yield f'decoder: {decoder_in_words(options)}'
    for branch in branches:
        if branch is not None:
            strides = ', '.join(str(stride) for stride, _ in branch.skip_filters)
            yield f'{branch.scope}: a head and a decoder of its own, stride {strides}, {branch.filters} channels'
    if options.is_semantic:
        yield f'classes: {", ".join(f"{classes} ({output})" for output, classes in deduced.outputs.items())}'
    else:
        yield f'task: {options.task}'
        yield f'outputs, with channels: {checkpoint_network.outputs_in_words(options)}'


def _some(title: str, variables: tuple[str, ...]) -> Iterator[str]:
    """Yields a heading and some names of variables."""
    if variables:
        yield f'{title} ({len(variables)}):'
        yield from (f'  {name}' for name in variables[:MOST_NAMES])
        if len(variables) > MOST_NAMES:
            yield f'  and {len(variables) - MOST_NAMES} more ({option("CheckpointOptions.json")} lists all)'


def _comparison_lines(comparison: Comparison, result: CheckpointReport) -> Iterator[str]:
    deduced = result.deduced
    yield f'Against {" ".join(comparison.flags)}, {comparison.num_classes} classes:'
    held = deduced.num_classes if deduced else None
    if held is not None and held != comparison.num_classes:
        yield f'The checkpoint has {held} classes, the network {comparison.num_classes}.'
    yield f'restored: {len(comparison.restored)} variables'
    yield from _some("of these, distributed from 3 channels over the network's", comparison.inflated)
    yield from _some('skipped because shapes differ', comparison.skipped)
    yield from _some('missing in the checkpoint', comparison.missing)
    yield from _some('excluded by the restore options', comparison.left_out)
    yield from _some('not used', comparison.unused)
    if result.unreadable:
        yield 'It is damaged: no program can use it.'
    elif comparison.is_complete and not comparison.left_out:
        yield 'It matches: eval, vis and export_model can use it, and training would restore all of it.'
    elif comparison.restored:
        yield 'Training would start from what is restored' + (
            '.' if comparison.is_complete else '; eval, vis and export_model would reject it.'
        )
    else:
        yield 'Nothing matches: no program can use it with this network.'
