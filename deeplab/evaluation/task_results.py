"""Results of the tasks of a network, decoded from the maps of its outputs, and their metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from deeplab import common
from deeplab.datasets import task_data
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.datasets.planes import without_padding
from deeplab.inference import task_decoding
from deeplab.options import ModelOptions
from deeplab.registry import TASKS, TaskContext

Handler = Callable[[Mapping[str, np.ndarray], Mapping[str, Mapping[str, Any]]], None]
"""Takes the sample of an image without padding, and the result of each task."""


def has_classes(options: ModelOptions) -> bool:
    """Returns whether a network predicts a class for each pixel, of images that have class ids."""
    return task_decoding.has_classes(options) and task_data.needs_labels(options)


def accumulators_of(names: Iterable[str], context: TaskContext) -> dict[str, Any]:
    """Returns new accumulators of the tasks that have a metric, by name of the task."""
    return {task.name: task.metric(context) for task in map(TASKS.get, names) if task.metric is not None}


class TaskScores:
    """The metrics of the tasks of a network.

    Attributes:
      context: what the metrics of the tasks know.
      accumulators: the accumulators by name of the task; see `registry.Task.metric`.
      keys: what batches must have, by the names in `common` and the keys of planes.
      has_classes: whether the network predicts a class for each pixel, and the images have class ids.
    """

    def __init__(
        self,
        descriptor: DatasetDescriptor,
        options: ModelOptions,
        calibration: Mapping[str, Any] | None = None,
        handle: Handler = lambda sample, results: None,
    ) -> None:
        """Creates empty accumulators.

        Args:
          descriptor: the data set.
          options: the network.
          handle: called with each image.

        Raises:
          OptionError: the description of the data set lacks what a task requires.
        """
        context = task_data.context_of(descriptor, options, calibration)
        self._decoder = task_decoding.TaskDecoder(options, context)
        self._handle = handle
        self.context = context
        self.accumulators = accumulators_of([task.name for task in TASKS.chosen(options)], context)
        planes = task_data.planes_of(descriptor, options)
        self._lists = {plane.key: plane for plane in planes if plane.is_list}
        labels = [common.LABEL] if task_data.needs_labels(options) else []
        self.keys = (*labels, *(plane.key for plane in planes), common.HEIGHT, common.WIDTH)
        self.has_classes = has_classes(options)

    def update(self, batch: Mapping[str, np.ndarray], maps: np.ndarray) -> None:
        """Adds a batch: samples of the keys of `common` and of planes, and the maps of all outputs."""
        for i, image_maps in enumerate(maps):
            height, width = int(batch[common.HEIGHT][i]), int(batch[common.WIDTH][i])
            sample = {
                key: without_padding(self._lists[key], values[i]) if key in self._lists else values[i, :height, :width]
                for key, values in batch.items()
                if key in self._lists or values.ndim == 4
            }
            results = self._decoder(image_maps[:height, :width]).results
            for name, accumulator in self.accumulators.items():
                accumulator.update(sample, results[name])
            self._handle(sample, results)
