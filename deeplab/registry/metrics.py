"""Registry of evaluation metrics."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from deeplab.registry.records import Record, Registry

Ids = npt.NDArray[np.integer[Any]]

CONFUSION_MATRIX = 'confusion_matrix'  # the metric that is always computed


class MetricContext(NamedTuple):
    """The classes that a metric is computed for.

    Attributes:
      num_classes: number of classes; ids are 0 to num_classes - 1.
      ignore_label: label of the pixels that are excluded; it may be one of the ids.
      class_names: name of each class, or its number as text.
    """

    num_classes: int
    ignore_label: int
    class_names: tuple[str, ...]


class Accumulator(Protocol):
    """The state of a metric while images are evaluated."""

    def update(self, labels: Ids, predictions: Ids) -> None:
        """Adds a batch of whole images.

        Args:
          labels: [n, h, w] integers, class ids or the ignore label. All images are padded, at the right and at the
            bottom, to the crop size of the network; padding has the ignore label.
          predictions: [n, h, w] int32, class ids, of all pixels.
        """

    def merge(self, other: Any) -> None:
        """Adds the images of another accumulator of the same metric, classes and parameters."""

    def result(self) -> Mapping[str, float | None]:
        """Returns the figures of all images by name; None for one that no image determines."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Metric(Record):
    """An evaluation metric, a name in --metrics.

    Attributes:
      create: returns a new accumulator; takes the `MetricContext`, and the parameters as keywords.
    """

    create: Callable[..., Accumulator]


METRICS: Registry[Metric] = Registry('metric', 'EvalOptions.metrics', 'deeplab.core.metrics')
