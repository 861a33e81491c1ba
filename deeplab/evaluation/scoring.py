"""The metrics of a pass over a split: their accumulators, fed in a thread beside the network."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from deeplab import common
from deeplab.core.metrics import Metrics, confusion_matrix
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.errors import OptionError
from deeplab.evaluation import runner, task_results
from deeplab.options import ModelOptions
from deeplab.registry import CONFUSION_MATRIX, METRICS, MetricContext, TaskContext
from deeplab.registry.metrics import CONFIDENCE, MATRICES, NAMES, SIZES
from deeplab.wording import option

Parameters = Mapping[str, Mapping[str, Any]]  # values of the parameters of each metric, by its name and theirs
Figures = dict[str, float | None]

# What batches must have for an input of metrics, beside labels and predictions.
_KEYS = {SIZES: (common.HEIGHT, common.WIDTH), NAMES: (common.IMAGE_NAME,)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Results:
    """The results of all metrics.

    Attributes:
      metrics: metrics of the confusion matrix.
      further: figures of the further metrics and of the tasks, by names of metrics or tasks, and of figures.
      of_classes: their figures of each class, by the same names: one value a class.
      documents: further results as text, by names of files.
      calibration: what tasks have chosen on these images, by name of the task; see `registry.Task.metric`.
      has_classes: whether there are metrics of the confusion matrix; if not, none of them has a value.
    """

    metrics: Metrics
    further: Mapping[str, Figures] = dataclasses.field(default_factory=dict)
    of_classes: Mapping[str, Mapping[str, tuple[float | None, ...]]] = dataclasses.field(default_factory=dict)
    documents: Mapping[str, str] = dataclasses.field(default_factory=dict)
    calibration: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    has_classes: bool = True


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
    names = descriptor.names
    categories = None if descriptor.categories is None else tuple(descriptor.categories)
    eval_ids = None if descriptor.eval_ids is None else tuple(descriptor.eval_ids)
    return MetricContext(descriptor.num_classes, descriptor.ignore_label, names, categories, eval_ids)


def _accumulators_of_labels(parameters: Parameters, context: MetricContext) -> dict[str, Any]:
    """Returns new accumulators of the confusion matrix and further metrics, by name."""
    return {
        name: METRICS.get(name).create(context, **parameters.get(name, {})) for name in (CONFUSION_MATRIX, *parameters)
    }


class MetricSetup(NamedTuple):
    """What accumulators are created from.

    Attributes:
      classes: the classes of the data set.
      parameters: the further metrics.
      tasks: names of the tasks that have metrics.
      of_tasks: what their metrics know; None without tasks.
      has_classes: see `Results`.
    """

    classes: MetricContext
    parameters: Parameters
    tasks: tuple[str, ...]
    of_tasks: TaskContext | None
    has_classes: bool

    def accumulators(self) -> dict[str, Any]:
        """Returns new accumulators, by names of metrics and tasks."""
        of_tasks = {} if self.of_tasks is None else task_results.accumulators_of(self.tasks, self.of_tasks)
        return (_accumulators_of_labels(self.parameters, self.classes) if self.has_classes else {}) | of_tasks


class Scores:
    """The accumulators of all metrics: the confusion matrix (with `has_classes`), further ones, and those of tasks.

    Attributes:
      has_classes: see `Results`.
      setup: what equal accumulators are created from.
    """

    def __init__(
        self,
        descriptor: DatasetDescriptor,
        parameters: Parameters,
        network: ModelOptions | None = None,
        calibration: Mapping[str, Any] | None = None,
        handle_results: task_results.Handler = lambda sample, results: None,
    ) -> None:
        """Creates empty accumulators.

        Args:
          descriptor: the data set.
          parameters: the further metrics.
          network: the network, for the metrics of its tasks; None for classes of pixels alone.
          calibration: what its tasks have chosen before for its checkpoint; None for nothing.
          handle_results: called with the results of these tasks for each image, in order.

        Raises:
          OptionError: a metric cannot be computed for the data set, or needs classes of pixels, which the network does
            not predict.
        """
        context = _context(descriptor)
        self._context = context
        self._of_tasks = None
        if network is not None and not network.is_semantic:
            self._of_tasks = task_results.TaskScores(descriptor, network, calibration, handle_results)
        self.has_classes = self._of_tasks is None or self._of_tasks.has_classes
        if parameters and not self.has_classes:
            assert network is not None
            raise OptionError(
                f'{option("EvalOptions.metrics")} needs a class for each pixel, which '
                f'{option("ModelOptions.task", network.task)} does not predict: it has figures of its own. Omit '
                f'{option("EvalOptions.metrics")}.'
            )
        self._metrics = {name: METRICS.get(name) for name in (CONFUSION_MATRIX, *parameters)}
        self._of_labels = _accumulators_of_labels(parameters, context) if self.has_classes else {}
        tasks = None if self._of_tasks is None else self._of_tasks.context
        names = () if self._of_tasks is None else tuple(self._of_tasks.accumulators)
        self.setup = MetricSetup(context, parameters, names, tasks, self.has_classes)

    @property
    def keys(self) -> tuple[str, ...]:
        """What batches must have, by the names in `common`."""
        of_tasks = (common.LABEL,) if self._of_tasks is None else self._of_tasks.keys
        return (*of_tasks, *(key for name, keys in _KEYS.items() if name in self._inputs for key in keys))

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
        if not self.has_classes:
            return
        labels, predictions = batch[common.LABEL][..., 0], batch[runner.PREDICTION]  # [n, h, w]
        inputs = {name: self._input(name, labels, predictions, batch) for name in self._inputs}
        if len(self._of_labels) > 1:  # the confusion matrix, which is always there, has its counts already
            # Labels of images in windows are small integers, with which metrics of plugins might not count far enough.
            labels, predictions = labels.astype(np.int32, copy=False), predictions.astype(np.int32, copy=False)
        for name, accumulator in self._of_labels.items():
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
        if runner.MAPS in batch:  # the probabilities of classes come first
            return batch[runner.MAPS][..., : self._context.num_classes].max(axis=3)
        return batch[runner.CONFIDENCE]

    @property
    def accumulators(self) -> dict[str, Any]:
        """All accumulators, by names of metrics and tasks."""
        return self._of_labels | ({} if self._of_tasks is None else self._of_tasks.accumulators)

    def results(self) -> Results:
        """Returns the results of all batches."""
        return results_of(self.accumulators, self.setup)


def results_of(accumulators: Mapping[str, Any], setup: MetricSetup) -> Results:
    """Returns the results of accumulators, by names of metrics and tasks, that `setup` has created."""
    further = {name: made for name, made in accumulators.items() if name != CONFUSION_MATRIX}
    of_classes = {
        name: {key: tuple(map(_finite, values)) for key, values in made.class_figures().items()}
        for name, made in further.items()
        if hasattr(made, 'class_figures')
    }
    documents: dict[str, str] = {}
    for made in further.values():
        documents |= made.documents() if hasattr(made, 'documents') else {}
    if setup.has_classes:
        metrics = accumulators[CONFUSION_MATRIX].matrix.result()
    else:
        metrics = confusion_matrix.without_pixels(setup.classes.num_classes)
    return Results(
        metrics=metrics,
        further={name: {key: _finite(value) for key, value in made.result().items()} for name, made in further.items()},
        of_classes=of_classes,
        documents=documents,
        calibration={name: made.calibration() for name, made in further.items() if hasattr(made, 'calibration')},
        has_classes=setup.has_classes,
    )


def _finite(figure: float | None) -> float | None:
    """Returns a figure as a Python number; None for one that is not finite."""
    if figure is None:
        return None
    value = float(figure)
    return value if math.isfinite(value) else None
