"""The figure of an evaluation that tells which checkpoint is best: mIoU, or a figure of a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from deeplab.core.metrics import MEANS
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.errors import OptionError
from deeplab.evaluation import scoring
from deeplab.options import ModelOptions
from deeplab.registry import TASKS
from deeplab.wording import one_of, option

_FIELD = 'ValidationOptions.best_metric'


class BestFigure(NamedTuple):
    """A figure by which checkpoints are compared.

    Attributes:
      key: `miou` or another mean of the confusion matrix (`core.metrics.MEANS`), or TASK/FIGURE, such as `panoptic/pq`.
      is_smaller_better: whether the smallest figure is the best.
    """

    key: str = 'miou'
    is_smaller_better: bool = False

    def __str__(self) -> str:
        """Returns the value of the option: the key, after '-' if smaller is better."""
        return f'-{self.key}' if self.is_smaller_better else self.key

    @property
    def title(self) -> str:
        """The name for the user."""
        return 'mIoU' if self.key == 'miou' else self.key

    def of(self, results: scoring.Results) -> float | None:
        """Returns the figure of an evaluation; None if nothing determines it."""
        task, _, name = self.key.rpartition('/')
        value: float | None = results.further.get(task, {}).get(name) if task else getattr(results.metrics, name)
        return value

    def in_file(self, content: Mapping[str, Any]) -> float | None:
        """Returns the figure in the content of a metrics-STEP.json; None if it has none."""
        task, _, name = self.key.rpartition('/')
        figures = content.get('metrics', {}).get(task, {}) if task else content
        value: float | None = figures.get(name)
        return value

    def is_better(self, value: float | None, other: float | None) -> bool:
        """Returns whether a figure is better than another one; any figure is better than none."""
        if value is None or other is None:
            return value is not None and other is None
        return value < other if self.is_smaller_better else value > other


MIOU = BestFigure()


def of_network(network: ModelOptions, name: str | None = None) -> BestFigure | None:
    """Returns the figure that tells which checkpoint of a network is best.

    Args:
      network: the network.
      name: what a user has set: a key, after '-' if smaller is better; its sign may be omitted for the headline of a
        task. None for the headline of the first task that has one; it is mIoU for the task `semantic`.

    Returns:
      the figure, which the metrics may lack; None if no task has a headline.
    """
    headlines = [headline for task in TASKS.chosen(network) if (headline := _headline(task)) is not None]
    if name is None:
        return headlines[0] if headlines else None
    return next((each for each in headlines if each.key == name), BestFigure(name.removeprefix('-'), name[:1] == '-'))


def _headline(task: Any) -> BestFigure | None:
    if task.decode is None:
        return MIOU
    name = task.headline.removeprefix('-')
    return BestFigure(f'{task.name}/{name}', task.headline != name) if name else None


def check(figure: BestFigure | None, network: ModelOptions, descriptor: DatasetDescriptor) -> BestFigure:
    """Returns the figure, if evaluations of the network have it.

    Raises:
      OptionError: they do not; the message names their figures.
    """
    empty = scoring.Scores(descriptor, {}, network).results()
    keys = list(MEANS) if empty.has_classes else []
    keys += [f'{task}/{name}' for task, figures in empty.further.items() for name in figures]
    if not keys:
        raise OptionError(
            f'{option("ModelOptions.task", network.task)} has no metrics, so no checkpoint can be called the best. '
            f'Omit {option("ValidationOptions.split")}, or add metrics to the task.'
        )
    if figure is None:
        raise OptionError(
            f'{option("ModelOptions.task", network.task)} does not define a metric for selecting the best checkpoint. '
            f"Set {option(_FIELD)} to one of {', '.join(keys)}, with '-' before it if smaller is better."
        )
    if figure.key not in keys:
        raise OptionError(
            f'{option(_FIELD, str(figure))} is not allowed: validation has no such figure; '
            f"{one_of(figure.key, keys)}, with '-' before it if smaller is better."
        )
    return figure
