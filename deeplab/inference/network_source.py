"""A trained network at a path: a checkpoint, a folder with checkpoints, or an export in the place of one.

Programs that take any of them ask `at(path)` for a `NetworkSource`, and do not ask which one it is.
"""

from __future__ import annotations

import dataclasses
import os
import types
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from absl import logging

from deeplab import names
from deeplab.core import checkpoints
from deeplab.errors import CheckpointError, OptionError
from deeplab.files import run_manifests
from deeplab.inference import conversion_cache, export_metadata, exports, model_source, task_calibration, task_decoding
from deeplab.inference.network import InferenceNetwork
from deeplab.inference.opening import Weights
from deeplab.inference.runners import CheckpointRunner, ExportRunner, Runner
from deeplab.options import (
    EngineOptions,
    EvalOptions,
    ModelOptions,
    PredictionOptions,
    ResizeOptions,
    VisOptions,
    WindowOptions,
)
from deeplab.registry.tasks import SEMANTIC, TASKS
from deeplab.wording import option

EvaluationOptions = TypeVar('EvaluationOptions', EvalOptions, VisOptions)


class NetworkSource:
    """A checkpoint, or a folder with the checkpoints of a training.

    Attributes:
      path: where it is.
      label: name in the settings of figures; None for a checkpoint, which its step names.
      has_probabilities: whether probabilities can always be asked for.
      own_engine: what runs it in place of the engine of the options, but with their threads; None for that engine.
      own_windows: windows for images that the options predict whole; None to predict them whole.
    """

    label: str | None = None
    has_probabilities = True
    own_engine: EngineOptions | None = None
    own_windows: WindowOptions | None = None

    def __init__(self, path: str) -> None:
        """Creates the object; see `at`."""
        self.path = path

    def step(self) -> int | None:
        """Returns the step of the training; 0 if a checkpoint does not state it, None if an export does not."""
        return checkpoints.step_of(self.path)

    def digest(self) -> str:
        """Returns a digest of its weights, or of its files."""
        return conversion_cache.digest_of_checkpoint(self.path)

    def exists(self) -> bool:
        """Returns whether there is a network; otherwise a training has not saved its first checkpoint."""
        path = checkpoints.as_unpacked(self.path)
        return os.path.isfile(f'{path}.index') or checkpoints.newest(path) is not None

    def is_single(self) -> bool:
        """Returns whether it is one network rather than a folder to which a training adds checkpoints.

        Raises:
          CheckpointError: It is one of a checkpoint's files, or a checkpoint's name without a checkpoint.
        """
        if os.path.isfile(self.path) or (checkpoints.is_own_name(self.path) and not os.path.isdir(self.path)):
            checkpoints.check_path(self.path)
        return os.path.isfile(f'{self.path}.index')

    def best(self) -> str:
        """Returns the path of one network: of a folder, the best checkpoint of the training, or the newest.

        Raises:
          CheckpointError: There is none.
        """
        if os.path.isfile(f'{self.path}.index'):
            return self.path
        best = os.path.join(self.path, run_manifests.BEST_FOLDER)
        newest = checkpoints.newest(best) or checkpoints.newest(self.path)
        if newest is None:
            raise CheckpointError(
                f"There is no checkpoint in '{self.path}'. Pass the log folder of a training run, or a checkpoint"
            )
        return newest

    def check_among_several(self) -> None:
        """Raises `OptionError` if eval cannot evaluate it together with others."""

    def applied(self, options: EvaluationOptions) -> EvaluationOptions:
        """Returns the options of eval or vis as they apply to it.

        Raises:
          CheckpointError: It is an export that cannot be opened, or has other classes.
          OptionError: An option asks for what the export determines itself.
        """
        return options

    def reported(self, options: EvalOptions) -> tuple[EvalOptions, list[str]]:
        """Returns the options of a report as they apply to it, and a sentence about those that do not.

        Raises:
          CheckpointError: See `applied`.
        """
        return options, []

    def identified(self, model: ModelOptions, changes: model_source.Changes) -> ModelOptions:
        """Returns its network with the crop size of `model`; see `model_source.find`."""
        return dataclasses.replace(model_source.find(self.path, changes).options, crop_size=model.crop_size)

    def require_weights(self, network: InferenceNetwork, use_moving_average: bool) -> None:
        """Raises `CheckpointError` if it does not have the weights of its network."""
        network.require_weights(self.path, use_moving_average)

    def runner(
        self, network: InferenceNetwork, use_moving_average: bool, engine: EngineOptions, cache_dirs: Sequence[str]
    ) -> Runner:
        """Returns what runs it on images of any size; the caller closes it.

        Args:
          network: network of the checkpoint.
          use_moving_average: whether the moving averages (EMA) of its weights are used.
          engine: the engine, and how it computes.
          cache_dirs: see `CheckpointRunner`.
        """
        return CheckpointRunner(network, Weights(self.path, use_moving_average), engine, cache_dirs)

    def timed_weights(self, weights: Weights) -> Weights:
        """Returns the weights with which engines are timed, of those that are used."""
        return weights

    def calibration(self) -> dict[str, Any]:
        """Returns what its tasks have chosen on a split for validation, by name of the task."""
        return task_calibration.load(self.path)

    def keep_calibration(self, calibration: Mapping[str, Any]) -> None:
        """Writes what its tasks have chosen beside it, if it can be chosen anew."""
        task_calibration.save(self.path, calibration)

    def settings(self, options: EvalOptions) -> list[tuple[str, str]]:
        """Returns how it predicts images in a report, as pairs of a label and a text."""
        prediction, resize = options.prediction, options.resize
        is_flipped = prediction.add_flipped_images and not (options.model.is_semantic and prediction.is_single_scale)
        sides = {'shorter side': resize.min_value, 'longer side at most': resize.max_value, 'factor': resize.factor}
        return [
            ('Scales', ', '.join(f'{scale:g}' for scale in prediction.scales)),
            ('Flipped images', 'averaged' if is_flipped else 'no'),
            ('Resized', ', '.join(f'{name} {value}' for name, value in sides.items() if value is not None) or 'no'),
            ('Weights', 'moving averages' if options.use_moving_average else 'as trained'),
        ]


class _Export(NetworkSource):
    """An export: it determines network, weights and sizes itself, predicts images in windows, and does not change."""

    has_probabilities = False
    own_engine = EngineOptions()
    own_windows = WindowOptions()

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.label = os.path.basename(os.path.normpath(path))

    def step(self) -> int | None:
        with exports.opened(self.path) as exported:
            return int(exported.metadata.get('global_step') or 0) or None

    def digest(self) -> str:
        return conversion_cache.digest_of(conversion_cache.digests(self.path))

    def exists(self) -> bool:
        return True

    def is_single(self) -> bool:
        return True

    def best(self) -> str:
        return self.path

    def check_among_several(self) -> None:
        raise OptionError(
            f"'{self.path}' is an export, which eval evaluates alone. Pass one "
            f'{option("EvalOptions.checkpoint_dir")} at a time, or compare both with deeplab compare'
        )

    def applied(self, options: EvaluationOptions) -> EvaluationOptions:
        unused = [*unused_values(options.prediction, options.engine)]
        unused += [f'{type(options).__name__}.use_moving_average'] if options.use_moving_average else []
        if unused:
            shown = ', '.join(map(option, unused))
            raise OptionError(
                f"'{self.path}' is an export, which has its own network and weights: {shown} cannot be set. Omit it"
            )
        one: dict[str, Any] = {'all_checkpoints': False} if isinstance(options, EvalOptions) else {}
        return self._with_network(options, windows=options.windows or self.own_windows, **one)

    def reported(self, options: EvalOptions) -> tuple[EvalOptions, list[str]]:
        values = unused_values(options.prediction, options.resize, options.engine)
        if options.model.crop_size is not None:
            values['ModelOptions.crop_size'] = options.model.crop_size
        if options.use_moving_average:
            values['EvalOptions.use_moving_average'] = True
        options = self._with_network(options, resize=ResizeOptions(), prediction=PredictionOptions())
        notes = []
        if values:
            unused = ', '.join(option(field, value) for field, value in values.items())
            notes.append(f'An export has its own network and sizes and does not use {unused}.')
            logging.warning('%s: %s', self.path, notes[0])
        return options, notes

    def _with_network(self, options: EvaluationOptions, **changes: Any) -> EvaluationOptions:
        """Returns options with the tasks of the export, without crop size and moving averages, and with `changes`."""
        model = options.model
        with exports.opened(self.path) as exported:
            if exported.num_classes not in (None, model.num_classes):
                raise CheckpointError(
                    f"The export '{names.shown(self.path)}' has {exported.num_classes} classes, but the data set has "
                    f'{model.num_classes}. Pass the data set on which it was trained'
                )
            model = with_tasks(model, exported.metadata, self.path, options.network)
            model = dataclasses.replace(model, crop_size=None)
        return dataclasses.replace(options, model=model, use_moving_average=False, **changes)

    def identified(self, model: ModelOptions, changes: model_source.Changes) -> ModelOptions:
        return model

    def require_weights(self, network: InferenceNetwork, use_moving_average: bool) -> None:
        """Does nothing: the weights are part of the export."""

    def runner(
        self, network: InferenceNetwork, use_moving_average: bool, engine: EngineOptions, cache_dirs: Sequence[str]
    ) -> Runner:
        return ExportRunner(self.path, engine.threads)

    def calibration(self) -> dict[str, Any]:
        with exports.opened(self.path) as exported:
            return dict(exported.metadata.get('task', {}).get('calibration', {}))

    def keep_calibration(self, calibration: Mapping[str, Any]) -> None:
        """Does nothing: the choices are part of the export."""

    def settings(self, options: EvalOptions) -> list[tuple[str, str]]:
        return [('Weights', 'of the export')]


def at(path: str) -> NetworkSource:
    """Returns the network at a path, which need not exist yet."""
    return NetworkSource(path) if exports.format_of(path) is None else _Export(path)


def with_tasks(
    model: ModelOptions,
    metadata: Mapping[str, Any],
    path: str,
    given: model_source.Changes = types.MappingProxyType({}),
) -> ModelOptions:
    """Returns a network with the tasks of an export, and with their settings as far as `model` does not set them.

    Args:
      model: the number of classes; its task, if it is another one than `semantic`, must be the task of the export.
      metadata: metadata of the export.
      path: path of the export, for messages.
      given: options that are set explicitly, as `model` does not have values that are defaults.

    Raises:
      CheckpointError: the export has other tasks, or the tasks have other outputs here.
      OptionError: a task is unknown, such as a task of a plugin that is not loaded.
    """
    stored = metadata.get('task', {})
    task = stored.get('name', SEMANTIC)
    if model.task not in (SEMANTIC, task):
        raise CheckpointError(
            f"The export '{names.shown(path)}' is not a network of {option('ModelOptions.task', model.task)}, but of "
            f'{task}. Omit the option'
        )
    if task == SEMANTIC:
        return model
    settings = {name: tuple(value) if isinstance(value, list) else value for name, value in stored['settings'].items()}
    explicit = {
        name: value for field, value in given.items() if (name := field.partition('.')[2]) in TASKS.parameters()
    }
    model = dataclasses.replace(model, task=task, settings=settings | dict(model.settings) | explicit)
    if task_decoding.channels_of(model) != export_metadata.maps_of(metadata):
        raise CheckpointError(
            f"The export '{names.shown(path)}' has the outputs {', '.join(export_metadata.maps_of(metadata))}, but "
            f"task '{task}' has {', '.join(task_decoding.channels_of(model))} with other channels. Export it again"
        )
    return model


def unused_values(*parts: Any) -> dict[str, Any]:
    """Returns the values of options objects that are set and do not apply to an export, by 'Class.field'."""
    return {
        f'{type(part).__name__}.{field.name}': value
        for part in parts
        for field in dataclasses.fields(part)
        if (value := getattr(part, field.name)) != field.default
        and (type(part), field.name) != (EngineOptions, 'threads')
    }
