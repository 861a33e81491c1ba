"""Settings of a validation during training: figures of other settings are not compared with its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deeplab.evaluation import runner
from deeplab.options import TrainOptions
from deeplab.training import resume_changes
from deeplab.wording import option

_FIELDS = {
    'split': 'ValidationOptions.split',
    'crop_size': 'ValidationOptions.crop_size',
    'min_resize_value': 'ResizeOptions.min_value',
    'max_resize_value': 'ResizeOptions.max_value',
    'resize_factor': 'ResizeOptions.factor',
}
_NAMES = {'moving_average': 'moving averages', 'records': 'validation records'}


def of(options: TrainOptions, split: runner.Split | None = None) -> dict[str, Any]:
    """Returns the settings as metrics-STEP.json has them.

    Args:
      options: of the training, with validation.
      split: the validation split; None before it is read, for the settings that are known without it.
    """
    crop_size = options.validation.crop_size if split is None else split.crop_size
    found: dict[str, Any] = {
        'split': options.validation.split,
        'moving_average': options.moving_average_decay is not None,
        'min_resize_value': options.resize.min_value,
        'max_resize_value': options.resize.max_value,
        'resize_factor': options.resize.factor,
    }
    if crop_size is not None:
        found['crop_size'] = list(crop_size)
    if split is not None:
        found['records'] = split.reader.index.facts()['digest']
    return found


def differences(content: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Returns how the settings of earlier figures differ, as `NAME: THEN -> NOW`; none if they are the same.

    Args:
      content: of a metrics-STEP.json. Settings that it lacks were not written then and are not compared.
      settings: those now.
    """
    found = []
    for key, now in settings.items():
        then = content.get(key, False if key == 'moving_average' else now)
        if then != now:
            name = option(_FIELDS[key]) if key in _FIELDS else _NAMES[key]
            found.append(f'{name}: {resume_changes.shown(then)} -> {resume_changes.shown(now)}')
    return found
