"""The network of a checkpoint: from the run.json beside it, from a preset, or identified by its variables."""

from __future__ import annotations

import dataclasses
import glob
import os
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from absl import logging

from deeplab import common
from deeplab.checks import checkpoint_network
from deeplab.core import checkpoints
from deeplab.datasets import descriptor
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.errors import CheckpointError, OptionError
from deeplab.files import cross_validation, run_manifests
from deeplab.inference import exports
from deeplab.names import listed
from deeplab.options import AsppOptions, DecoderOptions, ModelOptions, ResizeOptions
from deeplab.options.fields import Declaration, declarations
from deeplab.options.network import rates_at, rates_note
from deeplab.options.parameters import parameters_of
from deeplab.registry import BACKBONES
from deeplab.wording import is_set_by_flag, option
from deeplab.zoo import catalog

T = TypeVar('T')
Changes = Mapping[str, Any]  # values by 'Class.field'

_STRIDE, RATES = 'ModelOptions.output_stride', 'AsppOptions.rates'
_PARTS = {'AsppOptions': 'aspp', 'DecoderOptions': 'decoder', 'NasOptions': 'nas'}
_PRESET_KINDS = (ModelOptions, AsppOptions, DecoderOptions, ResizeOptions)  # what presets set


class NetworkDescription(NamedTuple):
    """The network of a checkpoint.

    Attributes:
      options: the network; from `find` for images of any size.
      dataset: data set that describes its classes; None if unknown.
      resize: how images are resized.
      classes: its classes; before `find`, None if they are not stored.
      checkpoint: path of the checkpoint, from `find`.
    """

    options: ModelOptions
    dataset: str | None
    resize: ResizeOptions = ResizeOptions()
    classes: DatasetDescriptor | None = None
    checkpoint: str = ''


def find(
    path: str, changes: Changes, dataset: str | None = None, description: NetworkDescription | None = None
) -> NetworkDescription:
    """Finds a checkpoint and its network, whose description is then complete.

    Args:
      path: a checkpoint, or a folder, whose newest complete checkpoint is used.
      changes: options of the network that take precedence.
      dataset: data set with the names and colors of the classes; None for the data set of the training, if any.
      description: the network, from `of_run` or `of_preset`; None to identify it by the variables.

    Raises:
      CheckpointError: There is no checkpoint, or its network cannot be identified.
      OptionError: The network does not exist, or `dataset` does not exist or has other classes.
    """
    checkpoint = checkpoint_at(path)
    description = description or _identified(checkpoint, changes)
    options = dataclasses.replace(changed(description.options, changes), crop_size=None)
    trained = description.options
    note = rates_note(trained.aspp.rates, trained.output_stride, options.output_stride)
    if note and options.aspp.rates == trained.aspp.rates and RATES not in changes:
        logging.warning('%s', note)
    described = dataset or description.dataset
    classes = descriptor.classes_of(described, options.num_classes, bool(dataset), description.classes)
    return description._replace(options=options, dataset=described, classes=classes, checkpoint=checkpoint)


def changed(options: ModelOptions, changes: Changes) -> ModelOptions:
    """Returns options of a network with some changed; see `Changes`."""
    by_kind: dict[str, dict[str, Any]] = {}
    for field, value in changes.items():
        kind, _, name = field.partition('.')
        by_kind.setdefault(kind, {})[name] = value
    parts = {
        part: dataclasses.replace(getattr(options, part), **by_kind[kind])
        for kind, part in _PARTS.items()
        if kind in by_kind
    }
    return options.changed(**parts, **by_kind.get('ModelOptions', {}))


def of_preset(name: str, changes: Changes = types.MappingProxyType({})) -> NetworkDescription:
    """Returns the network of a published checkpoint.

    Args:
      name: the preset.
      changes: options of the network that take precedence. Atrous rates and resizing follow their output stride.

    Raises:
      OptionError: There is no such preset, it is a backbone without logits, or it has no rates for the output stride.
    """
    preset = catalog.get(name)
    fields = {
        f'{kind.__name__}.{declaration.name}': declaration
        for kind in _PRESET_KINDS
        for declaration in declarations(kind).values()
    }
    given = {str(fields[field].flag): value for field, value in changes.items() if field in fields}
    flags = catalog.settings(preset, 'predict', given)
    of_flags = {
        field: _value(declaration, flags[declaration.flag])
        for field, declaration in fields.items()
        if declaration.flag in flags
    }
    resize = {field.partition('.')[2]: of_flags.pop(field) for field in list(of_flags) if field.startswith('Resize')}
    assert preset.num_classes is not None
    options = changed(changed(ModelOptions({common.OUTPUT_TYPE: preset.num_classes}), of_flags), changes)
    return NetworkDescription(options, preset.dataset, ResizeOptions(**resize))


def _value(declaration: Declaration, texts: Sequence[str]) -> Any:
    """Converts a flag's values to the value of its option."""
    if typing.get_origin(declaration.type) is tuple:
        return tuple(int(part) for text in texts for part in text.split(','))
    return texts[-1].lower() in ('true', '1') if declaration.type is bool else declaration.type(texts[-1])


def checkpoint_at(path: str) -> str:
    """Returns the checkpoint at `path`, or the newest complete one in a folder."""
    if exports.format_of(path) is not None:
        field = 'PredictOptions.export_path'
        instead = f'pass {option(field, path)}' if is_set_by_flag(field) else 'use Predictor.from_export'
        raise CheckpointError(f"'{path}' is an exported network, not a checkpoint: {instead}")
    cross_validation.require_other(path)
    if not os.path.isdir(path):
        if not glob.glob(f'{glob.escape(path)}*'):
            raise CheckpointError(
                f"There is no folder and no checkpoint '{path}'. Pass the log folder of a training run, or the path of "
                'a checkpoint, such as DIR/model.ckpt-30000'
            )
        return checkpoints.find(path)
    return checkpoints.find_checkpoint(path)


def of_run(path: str) -> NetworkDescription | None:
    """Returns the network that the run.json beside a checkpoint describes; None if there is none.

    Raises:
      OptionError: The network is not known, such as a network of a plugin.
    """
    beside = run_manifests.beside(path)
    if beside is None:
        return None
    file, run = beside
    stored = run.get('options') or {}
    try:
        options = _of_json(ModelOptions, stored['model'])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        logging.warning('The network in %s cannot be used (%s).', file, error)
        return None
    if options.model_variant not in BACKBONES.names():
        raise OptionError(
            f"{file}: the network '{options.model_variant}' is unknown. If a plugin has it, import the plugin "
            'first (--plugins=FILE on a command line)'
        )
    logging.info('The network is the one that %s describes.', file)
    resize = _resizing_of(run)
    classes = descriptor.of_json(run.get(run_manifests.CLASSES), options.num_classes)
    return NetworkDescription(options, descriptor.trusted_name_in_run(file, run), resize, classes)


def resizing_in_training(path: str) -> ResizeOptions:
    """Returns how the training of a checkpoint resized images; not at all if there is no run.json beside it."""
    beside = run_manifests.beside(path)
    return ResizeOptions() if beside is None else _resizing_of(beside[1])


def largest_side_in_training(path: str) -> int | None:
    """Returns the pixels of the longest side of the images that trained a checkpoint, before any resizing, or None."""
    beside = run_manifests.beside(path)
    records = beside[1].get('records') if beside is not None else None
    side = records.get(run_manifests.LARGEST_SIDE) if isinstance(records, Mapping) else None
    return side if isinstance(side, int) else None


def _resizing_of(run: run_manifests.Run) -> ResizeOptions:
    stored = run_manifests.option_of(run, 'resize')
    return _of_json(ResizeOptions, stored if isinstance(stored, Mapping) else {})


def require_one_description(
    paths: Sequence[str],
    advice: str,
    compared: Callable[[ModelOptions], ModelOptions] = lambda options: options,
    used: ModelOptions | None = None,
    given: Changes = types.MappingProxyType({}),
) -> None:
    """Raises `OptionError` if the run.json files beside checkpoints describe different networks or classes.

    Args:
      paths: the checkpoints, or their folders.
      advice: what to do then.
      compared: makes the network that is compared of the one in run.json.
      used: the network that stands for all of them if there is no run.json beside the first one; None for no such
        network. With it, a warning names the others without a run.json if there is one beside the first one.
      given: options that are set explicitly. There is no warning if they include the output stride and the rates.
    """
    hidden = {_STRIDE, RATES} if used is not None and used.aspp.rates else {_STRIDE}
    found = {path: of_run(path) for path in paths}
    described = [(path, description) for path, description in found.items() if description is not None]
    if used is not None and found[paths[0]] is None:
        described.insert(0, (paths[0], NetworkDescription(used, None)))
    elif used is not None and hidden - set(given) and (unknown := [path for path in paths if found[path] is None]):
        logging.warning(
            "There is no run.json beside %s: the network of '%s' is used. The variables of a checkpoint do not show "
            'whether its training had the same output stride and atrous rates.',
            listed([f"'{path}'" for path in unknown]),
            paths[0],
        )
    for path, other in described[1:]:
        first_path, first = described[0]
        one, another = compared(first.options), compared(other.options)
        fields = [field.name for field in dataclasses.fields(one)]
        differing = [name for name in fields if getattr(one, name) != getattr(another, name)]
        if first.classes is not None and other.classes is not None and first.classes.names != other.classes.names:
            differing.append('names of the classes')
        if differing:
            where = ' in their run.json' if found[first_path] is not None else ', and only the latter has a run.json'
            raise OptionError(
                f"The networks of '{first_path}' and '{path}' differ{where}: {', '.join(differing)}. {advice}"
            )


def _of_json(kind: type[T], values: Mapping[str, Any]) -> T:
    """Returns an options object of its fields as JSON values; unknown ones are ignored."""
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(kind)
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        if dataclasses.is_dataclass(hints.get(name)):
            arguments[name] = _of_json(hints[name], value)
        elif name in fields and name != 'settings':
            arguments[name] = tuple(value) if isinstance(value, list) else value
    if settings := {name: value for name, value in values.items() if name in parameters_of(kind)}:
        arguments['settings'] = settings
    return kind(**arguments)


def _identified(checkpoint: str, changes: Changes) -> NetworkDescription:
    """Identifies the network by the names and shapes of the variables."""
    held, _ = checkpoint_network.shapes_of(checkpoint)
    deduced = checkpoint_network.deduce(held)
    if deduced is not None and deduced.fit.is_complete and not deduced.is_backbone:
        options = deduced.options
        stride = changes.get(_STRIDE, options.output_stride)
        rates = changes.get(RATES, rates_at(options.aspp.rates, options.output_stride, stride))
        options = changed(options, {_STRIDE: stride, RATES: rates})
        assumed = _assumed(options, changes, deduced.branches > 0)
        logging.log(
            logging.WARNING if assumed else logging.INFO,
            "There is no run.json of a training run beside '%s'. Its variables belong to a network with %d classes and "
            '%s.%s',
            checkpoint,
            options.num_classes,
            ' '.join(checkpoint_network.settings_of(options)),
            assumed,
        )
        return NetworkDescription(options, None)
    outputs = checkpoint_network.outputs_of(held)
    if outputs and any(field == 'ModelOptions.model_variant' for field in changes):
        return NetworkDescription(ModelOptions(outputs), None)  # what does not match is reported when it is restored
    if deduced is not None and deduced.is_backbone:
        raise CheckpointError(
            f"'{checkpoint}' contains only a backbone, which can initialize training but cannot predict. Pass a "
            'checkpoint of a trained network'
        )
    raise CheckpointError(
        f"The network of '{checkpoint}' cannot be identified: no known network has its variables. Describe it "
        f'by {option("ModelOptions.model_variant")} and the other options of its training'
    )


def _assumed(options: ModelOptions, changes: Changes, has_rates: bool) -> str:
    """Returns a sentence about the values that are assumed, because neither variables nor changes give them."""
    shows_stride = 'nas' in BACKBONES.get(options.model_variant).reads  # their variables depend on it
    assumed = [] if shows_stride or _STRIDE in changes else [f'output stride {options.output_stride}']
    if has_rates and RATES not in changes:
        assumed.append(f'atrous rates {", ".join(map(str, options.aspp.rates))}')
    if not assumed:
        return ''
    values = ' and '.join(assumed)
    return f' They do not show these values, which are assumed: {values}. Set them if the training had others.'
