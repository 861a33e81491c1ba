"""Ensembles: the mean of what the networks of several checkpoints predict."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from deeplab import names
from deeplab.datasets import descriptor
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.errors import OptionError
from deeplab.files import cross_validation
from deeplab.inference import model_source, network_source
from deeplab.inference.model_source import NetworkDescription
from deeplab.inference.network import InferenceNetwork
from deeplab.inference.opening import Weights
from deeplab.inference.runners import CheckpointRunner, Runner
from deeplab.options import EngineOptions, EvalOptions, WindowOptions
from deeplab.registry import TASKS, Outputs
from deeplab.wording import option

_SEPARATOR = ' + '


class EnsembleRunner(Runner):
    """Runs several networks on the same images, and averages their probabilities, or the maps of all their outputs.

    The labels are the classes of the largest mean probabilities. Each network pads images as it does alone.

    Attributes:
      members: runs one network each.

    Source: B. Lakshminarayanan et al., arXiv:1612.01474, section 2.4.
    """

    pads = False

    def __init__(self, members: Sequence[Runner]) -> None:
        """Creates the runner, which closes `members`; all have equal classes, channels and fixed sizes."""
        first = members[0]
        self.members = tuple(members)
        self.network = _SEPARATOR.join(dict.fromkeys(member.network for member in members))
        self.channels, self.mean_pixel, self.fixed_size = first.channels, first.mean_pixel, first.fixed_size
        self.num_classes, self.num_channels = first.num_classes, first.num_channels
        self.alignment = math.lcm(*(member.alignment for member in members))
        heights, widths = zip(*(member.smallest_window for member in members), strict=True)
        self.smallest_window = (max(heights), max(widths))

    def _run(self, images: np.ndarray, with_probabilities: bool) -> Outputs:
        mean = np.zeros((), np.float32)
        for member in self.members:  # one after the other: each uses all cores, and the sum is all that is kept
            probabilities = member.run(images, True).probabilities
            mean = mean + probabilities / np.float32(len(self.members))  # [n, h, w, channels]
        labels = mean[..., : self.num_classes].argmax(axis=3).astype(np.int32)
        return Outputs(labels, mean if with_probabilities else None)

    def close(self) -> None:
        """See `Runner.close`."""
        for member in self.members:
            member.close()


class EnsembleSource(network_source.NetworkSource):
    """Several checkpoints in the place of one, for eval."""

    own_windows = WindowOptions()  # images have their own sizes, because each network pads them with its mean pixel

    def __init__(self, networks: Sequence[NetworkDescription], averages: Sequence[bool]) -> None:
        """Creates it.

        Args:
          networks: from `find`.
          averages: whether the moving averages (EMA) of the weights are used, for each.
        """
        super().__init__(path_of(networks))
        self._networks = tuple(networks)
        self._weights = [Weights(each.checkpoint, use) for each, use in zip(networks, averages, strict=True)]

    def step(self) -> int | None:
        """Returns the largest step of its checkpoints."""
        return max(network_source.at(each.checkpoint).step() or 0 for each in self._networks)

    def applied(self, options: EvalOptions) -> EvalOptions:  # type: ignore[override]
        """Returns the options of eval with the first network, and for images in their own sizes."""
        model = dataclasses.replace(self._networks[0].options, crop_size=options.model.crop_size)
        return dataclasses.replace(options, model=model, windows=options.windows or self.own_windows)

    def runner(
        self, network: InferenceNetwork, use_moving_average: bool, engine: EngineOptions, cache_dirs: Sequence[str]
    ) -> Runner:
        """See `NetworkSource.runner`; crop size, scales and flips are those of `network`."""
        del use_moving_average  # each network has its own choice
        runners = []
        for described, weights in zip(self._networks, self._weights, strict=True):
            options = dataclasses.replace(described.options, crop_size=network.crop_size)
            member = InferenceNetwork(options, network.prediction, resize=network.resize)
            runners.append(CheckpointRunner(member, weights, engine, cache_dirs))
        return EnsembleRunner(runners)

    def timed_weights(self, weights: Weights) -> Weights:
        """Returns the weights of the first network: the engine that is fastest for it runs all."""
        return self._weights[0]

    def calibration(self) -> dict[str, Any]:
        """Returns nothing: what the tasks have chosen for one checkpoint does not suit the mean of several."""
        return {}

    def keep_calibration(self, calibration: Mapping[str, Any]) -> None:
        """Does nothing: it has no file of its own."""


def path_of(networks: Sequence[NetworkDescription]) -> str:
    """Returns the paths of the checkpoints as one text."""
    return _SEPARATOR.join(each.checkpoint for each in networks)


def expanded(paths: Sequence[str]) -> list[str]:
    """Returns paths of checkpoints and their folders, with the checkpoint of each fold for a cross-validation.

    Raises:
      DataError: a cross-validation is not finished.
    """
    members: list[str] = []
    for path in paths:
        is_folder = os.path.isdir(path) and cross_validation.is_in(path)
        members += [fold.checkpoint for fold in cross_validation.read(path).folds] if is_folder else [path]
    return members


def find(
    paths: Sequence[str], changes: model_source.Changes, dataset: str | None = None
) -> tuple[NetworkDescription, ...]:
    """Finds checkpoints and their networks, whose architectures may differ.

    Args:
      paths: checkpoints, folders with checkpoints, or folders of finished cross-validations, which mean all their
        folds.
      changes: options that take precedence in all networks.
      dataset: see `model_source.find`.

    Raises:
      CheckpointError: see `model_source.find`.
      OptionError: there is only one, one is there twice, or they predict different things; the message names them.
    """
    networks = [model_source.find(path, changes, dataset, model_source.of_run(path)) for path in expanded(paths)]
    given = [each.checkpoint for each in networks]
    twice = next((path for path in given if given.count(path) > 1), None)
    if twice is not None or len(given) < 2:
        reason = f"'{twice}' is given twice" if twice else f"'{given[0]}' is the only one"
        raise OptionError(
            f'An ensemble has several different checkpoints, but {reason}. Pass each once, or the folder of a '
            'cross-validation, which means all of its folds.'
        )
    _require_equal(networks)
    return tuple(networks)


def _require_equal(networks: Sequence[NetworkDescription]) -> None:
    """Raises `OptionError` unless networks have the same tasks and classes, for images of the same kind."""
    omit = 'Omit one of them'
    _require_one('tasks', networks, lambda each: option('ModelOptions.task', each.options.task), omit)
    first = networks[0].options
    if first.is_per_image:
        raise OptionError(
            f'An ensemble is not possible for {option("ModelOptions.task", first.task)}: its networks may need '
            'different image sizes. Predict with one checkpoint at a time.'
        )
    _require_one('classes', networks, lambda each: f'{each.options.num_classes} classes', omit)
    named = [each for each in networks if has_names(each.classes)]
    for number in range(first.num_classes):
        _require_one('classes', named, functools.partial(_class_of, number), omit)
    _require_one('images', networks, lambda each: names.counted(each.options.input_channels, 'channel'), omit)
    for parameter in (parameter for task in TASKS.chosen(first) for parameter in task.parameters):
        fix = f'Set {option(f"ModelOptions.{parameter.name}")} for all, if their outputs mean the same'
        _require_one('settings', networks, functools.partial(_setting, parameter.name), fix)


def has_names(classes: DatasetDescriptor | None) -> bool:
    """Returns whether the classes of a network have names."""
    return classes is not None and classes.names != descriptor.numbered(classes.num_classes).names


def _class_of(number: int, network: NetworkDescription) -> str:
    """Returns the name of a class, for a message."""
    assert network.classes is not None
    return f"'{network.classes.names[number]}' as class {number}"


def _setting(name: str, network: NetworkDescription) -> str:
    """Returns the value of a parameter of a task, for a message."""
    return option(f'ModelOptions.{name}', getattr(network.options, name))


def require_equal_resizing(networks: Sequence[NetworkDescription]) -> None:
    """Raises `OptionError` unless the trainings of networks resized images alike."""

    def sides(network: NetworkDescription) -> str:
        return ' '.join(option(f'ResizeOptions.{name}', value) for name, value in vars(network.resize).items())

    fix = f'Set {option("ResizeOptions.min_value")} and {option("ResizeOptions.max_value")} for all'
    _require_one('sizes of images', networks, sides, fix)


def _require_one(
    what: str, networks: Sequence[NetworkDescription], shown: Callable[[NetworkDescription], str], fix: str
) -> None:
    """Raises `OptionError` unless a text about each network is the same."""
    for other in networks[1:]:
        texts = shown(networks[0]), shown(other)
        if texts[0] != texts[1]:
            raise OptionError(
                f"The checkpoints of an ensemble must have equal {what}: '{networks[0].checkpoint}' has {texts[0]}, "
                f"'{other.checkpoint}' has {texts[1]}. {fix}."
            )
