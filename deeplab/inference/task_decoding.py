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
