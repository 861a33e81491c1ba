"""Results of tasks on each image of a split: figures in memory, results in a temporary file."""

from __future__ import annotations

import contextlib
import math
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deeplab import common
from deeplab.datasets import task_data
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.evaluation.image_results import TemporaryContents
from deeplab.options import ModelOptions
from deeplab.pictures import drawing, plane_pictures
from deeplab.registry import TASKS, Task

Legend = Mapping[str, Sequence[int]]  # colors by their meaning
TRUTH, PREDICTION, COMPARED = 'truth', 'prediction', 'prediction compared with the truth'  # captions


class TaskImages(contextlib.AbstractContextManager['TaskImages']):
    """Results of the tasks of a network on each image, in the order of the records.

    Attributes:
      tasks: the tasks with a result other than class ids, by name.
      context: what they know of the data set.
      scores: for each task with a metric and each image, its main figure (`Task.headline`); None if nothing determines
        it.
    """

    def __init__(self, descriptor: DatasetDescriptor, options: ModelOptions, calibration: Mapping[str, Any]) -> None:
        """Creates results of no images; `calibration` is what the tasks have chosen for the checkpoint."""
        self.tasks: dict[str, Task] = {task.name: task for task in TASKS.chosen(options) if task.decode is not None}
        self.context = task_data.context_of(descriptor, options, calibration)
        self.scores: dict[str, list[float | None]] = {
            task.name: [] for task in self.tasks.values() if task.metric is not None
        }
        self._planes = task_data.planes_of(descriptor, options)
        self._palette = descriptor.palette
        self._results = TemporaryContents()

    def __exit__(self, *_: object) -> None:
        self._results.__exit__()

    def add(self, sample: Mapping[str, np.ndarray], results: Mapping[str, Mapping[str, Any]]) -> None:
        """Adds an image: its parts by key, without padding, and the result of each task."""
        for name, scores in self.scores.items():
            task = self.tasks[name]
            assert task.metric is not None
            of_image = task.metric(self.context)
            of_image.update(sample, results[name])
            figure = of_image.result().get(headline(task))
            scores.append(float(figure) if figure is not None and math.isfinite(figure) else None)
        drawn = {name: _drawn(self.tasks[name], result) for name, result in results.items()}
        self._results.add(pickle.dumps(drawn))

    def ranks(self, name: str) -> np.ndarray:
        """Returns a number for each image, larger where a task's main figure is better; NaN where there is none."""
        sign = -1 if self.tasks[name].headline.startswith('-') else 1
        return np.array([math.nan if score is None else sign * score for score in self.scores[name]])

    def of_truth(self, name: str, sample: Mapping[str, np.ndarray], pixels: np.ndarray) -> plane_pictures.Pictures:
        """Draws the planes that a task needs, or the mask of a task that needs nothing but class ids.

        Args:
          name: name of the task.
          sample: parts of the image by key.
          pixels: the image, [h, w, 3] uint8.

        Returns:
          Pictures, [h, w, 3] uint8, by their captions.
        """
        own = [plane.key for plane in self.tasks[name].planes]
        planes = [plane for plane in self._planes if plane.key in own]
        if not planes and common.LABEL in sample:
            ids = sample[common.LABEL][..., 0]
            return {TRUTH: drawing.mask_over(pixels, ids, self._palette, self.context.ignore_label)}
        drawn = [plane_pictures.of_plane(plane, sample[plane.key], pixels, self._palette) for plane in planes]
        return {f'{TRUTH}: {caption}': picture for each in drawn for caption, picture in each.items()}

    def of_result(
        self, name: str, image: int, sample: Mapping[str, np.ndarray], pixels: np.ndarray
    ) -> tuple[plane_pictures.Pictures, Legend]:
        """Draws the result of a task on an image: as an overlay, and compared with the truth.

        Args:
          name: name of the task.
          image: number of the image.
          sample: parts of the image by key.
          pixels: the image, [h, w, 3] uint8.

        Returns:
          Pictures, [h, w, 3] uint8, by their captions, as far as the task draws them; and the legend of the comparison.
        """
        task = self.tasks[name]
        result = pickle.loads(self._results.read(image))[name]
        pictures: plane_pictures.Pictures = {}
        legend: Legend = {}
        if task.overlay is not None:
            pictures[PREDICTION] = task.overlay(result, pixels, self.context)
        if task.comparison is not None:
            pictures[COMPARED], legend = task.comparison(sample, result, pixels, self.context)
        return pictures, legend


def _drawn(task: Task, result: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parts of a result that its pictures need."""
    return {name: part for name, part in result.items() if task.drawn_parts is None or name in task.drawn_parts}


def headline(task: Task) -> str:
    """Returns the name of the main figure of a task."""
    return task.headline.removeprefix('-')
