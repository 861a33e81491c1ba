"""Decoding of the maps of all outputs of a network into the results of its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from deeplab.options import ModelOptions
from deeplab.registry import TASKS, TaskContext


def by_output(maps: np.ndarray, options: ModelOptions) -> dict[str, np.ndarray]:
    """Returns the maps of all outputs, [..., channels], as views by the name of the output."""
    outputs = TASKS.outputs(options)
    ends = np.cumsum([output.channels for output in outputs])[:-1]
    return {output.name: part for output, part in zip(outputs, np.split(maps, ends, axis=-1), strict=True)}


def channels_of(options: ModelOptions) -> dict[str, int]:
    """Returns the channels of the outputs of a network of other tasks than `semantic`, by name; empty for others."""
    return {} if options.is_semantic else {output.name: output.channels for output in TASKS.outputs(options)}


def differences(maps: np.ndarray, expected: np.ndarray, channels: Mapping[str, int]) -> dict[str, tuple[float, float]]:
    """Compares the maps of all outputs with others.

    Args:
      maps: [..., channels] float32.
      expected: the same.
      channels: channels of each output by name, in order.

    Returns:
      For each output the largest absolute difference, and this relative to the largest value of `expected` if it is
      larger than 1, as that of offsets in pixels is.
    """
    compared = {}
    end = 0
    for name, number in channels.items():
        part = (..., slice(end, end := end + number))
        most = float(np.max(np.abs(maps[part] - expected[part])))
        compared[name] = most, most / max(1.0, float(np.max(np.abs(expected[part]))))
    return compared


def decoded(maps: np.ndarray, options: ModelOptions, context: TaskContext) -> dict[str, Mapping[str, Any]]:
    """Returns the result of each task that has one, by the name of the task.

    Args:
      maps: the maps of all outputs of an image, [h, w, channels] float32.
      options: the network.
      context: what the tasks know of the data set.
    """
    named = by_output(maps, options)
    results = {}
    for task in TASKS.chosen(options):
        if task.decode is not None:
            of_task = {output.name: named[output.name] for output in task.outputs(options)}
            results[task.name] = task.decode(of_task, context)
    return results
