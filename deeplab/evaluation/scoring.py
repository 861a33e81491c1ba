"""The metrics of a pass over a split: their accumulators, fed in a thread beside the network."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from absl import logging

from deeplab import common
from deeplab.core.metrics import Metrics, confusion_matrix
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.errors import OptionError
from deeplab.evaluation import runner, task_results
from deeplab.options import ModelOptions
from deeplab.registry import CONFUSION_MATRIX, METRICS, MetricContext
from deeplab.registry.metrics import CONFIDENCE, MATRICES, NAMES, SIZES

Parameters = Mapping[str, Mapping[str, Any]]  # values of the parameters of each metric, by its name and theirs
Figures = dict[str, float | None]

# What batches must have for an input of metrics, beside labels and predictions.
_KEYS = {SIZES: (common.HEIGHT, common.WIDTH), NAMES: (common.IMAGE_NAME,)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Results:
    """The results of all metrics.

    Attributes:
      metrics: metrics of the confusion matrix.
      further: figures of the further metrics, by names of metrics and figures.
      of_classes: their figures of each class, by names of metrics and figures: one value a class.
      documents: further results as text, by names of files.
      calibration: what tasks have chosen on these images, by name of the task; see `registry.Task.metric`.
    """

    metrics: Metrics
    further: Mapping[str, Figures] = dataclasses.field(default_factory=dict)
    of_classes: Mapping[str, Mapping[str, tuple[float | None, ...]]] = dataclasses.field(default_factory=dict)
    documents: Mapping[str, str] = dataclasses.field(default_factory=dict)
    calibration: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def available(descriptor: DatasetDescriptor, parameters: Parameters) -> dict[str, Mapping[str, Any]]:
    """Returns the metrics that can be computed for a data set; the log says why others cannot."""
    metrics = {}
    for name, values in parameters.items():
        try:
            METRICS.get(name).create(_context(descriptor), **values)
        except OptionError as error:
            logging.info('Without the metric %s: %s', name, error)
        else:
            metrics[name] = values
    return metrics


def _context(descriptor: DatasetDescriptor) -> MetricContext:
    """Returns the classes of a data set, for metrics."""
    names = tuple(descriptor.class_name(i) for i in range(descriptor.num_classes))
    categories = None if descriptor.categories is None else tuple(descriptor.categories)
    eval_ids = None if descriptor.eval_ids is None else tuple(descriptor.eval_ids)
    return MetricContext(descriptor.num_classes, descriptor.ignore_label, names, categories, eval_ids)


class Scores:
    """The accumulators of all metrics: the confusion matrix, and the further ones."""

    def __init__(
        self,
        descriptor: DatasetDescriptor,
        parameters: Parameters,
        network: ModelOptions | None = None,
        calibration: Mapping[str, Any] | None = None,
    ) -> None:
        """Creates empty accumulators.

        Args:
          descriptor: the data set.
          parameters: the further metrics.
          network: the network, for the metrics of its tasks; None for classes of pixels alone.
          calibration: what its tasks have chosen before for its checkpoint; None for nothing.

        Raises:
          OptionError: a metric cannot be computed for the data set.
        """
        context = _context(descriptor)
        self._context = context
        self._of_tasks = None
        if network is not None and not network.is_semantic:
            self._of_tasks = task_results.TaskScores(descriptor, network, calibration)
        self._metrics = {name: METRICS.get(name) for name in (CONFUSION_MATRIX, *parameters)}
        self._accumulators: dict[str, Any] = {
            name: metric.create(context, **parameters.get(name, {})) for name, metric in self._metrics.items()
        }

    @property
    def keys(self) -> tuple[str, ...]:
        """What batches must have, by the names in `common`."""
        if self._of_tasks is not None and not self._of_tasks.has_classes:
            return self._of_tasks.keys
        of_tasks = () if self._of_tasks is None else self._of_tasks.keys
        return (common.LABEL, *(key for name, keys in _KEYS.items() if name in self._inputs for key in keys), *of_tasks)

    @property
    def needs_confidence(self) -> bool:
        """Whether batches must have the probability of the predicted class."""
        return CONFIDENCE in self._inputs

    @property
    def _inputs(self) -> set[str]:
        return {name for metric in self._metrics.values() for name in metric.inputs}

    def update(self, batch: runner.Batch) -> None:
        """Adds a batch of `runner.run_batches`.

        Raises:
          DataError: a label or a prediction is no class id.
        """
        if self._of_tasks is not None:
            self._of_tasks.update(batch, batch[runner.MAPS])
            if not self._of_tasks.has_classes:
                return
        labels, predictions = batch[common.LABEL][..., 0], batch[runner.PREDICTION]  # [n, h, w]
        inputs = {name: self._input(name, labels, predictions, batch) for name in self._inputs}
        if len(self._accumulators) > 1:  # the confusion matrix, which is always there, has its counts already
            # Labels of images in windows are small integers, with which metrics of plugins might not count far enough.
            labels, predictions = labels.astype(np.int32, copy=False), predictions.astype(np.int32, copy=False)
        for name, accumulator in self._accumulators.items():
            accumulator.update(labels, predictions, **{key: inputs[key] for key in self._metrics[name].inputs})

    def _input(self, name: str, labels: np.ndarray, predictions: np.ndarray, batch: runner.Batch) -> Any:
        """Returns one of `registry.metrics.INPUTS`."""
        if name == MATRICES:
            return confusion_matrix.of_images(
                labels, predictions, self._context.num_classes, self._context.ignore_label
            )
        if name == SIZES:
            return np.stack([batch[common.HEIGHT], batch[common.WIDTH]], axis=1)
        if name == NAMES:
            return [text.decode('utf-8', 'replace') for text in batch[common.IMAGE_NAME]]
        return batch[runner.CONFIDENCE]

    def results(self) -> Results:
        """Returns the results of all batches."""
        further = {name: made for name, made in self._accumulators.items() if name != CONFUSION_MATRIX}
        further |= {} if self._of_tasks is None else self._of_tasks.accumulators
        of_classes = {
            name: {key: tuple(map(_finite, values)) for key, values in made.class_figures().items()}
            for name, made in further.items()
            if hasattr(made, 'class_figures')
        }
        documents: dict[str, str] = {}
        for made in further.values():
            documents |= made.documents() if hasattr(made, 'documents') else {}
        return Results(
            metrics=self._accumulators[CONFUSION_MATRIX].matrix.result(),
            further={
                name: {key: _finite(value) for key, value in made.result().items()} for name, made in further.items()
            },
            of_classes=of_classes,
            documents=documents,
            calibration={name: made.calibration() for name, made in further.items() if hasattr(made, 'calibration')},
        )


def _finite(figure: float | None) -> float | None:
    """Returns a figure as a Python number; None for one that is not finite."""
    if figure is None:
        return None
    value = float(figure)
    return value if math.isfinite(value) else None
