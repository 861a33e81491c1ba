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

# What a metric may ask for beside labels and predictions (`Metric.inputs`): keywords of `Accumulator.update`.
MATRICES = 'matrices'  # [n, classes, classes] int64, the confusion matrix of each image: [label][prediction]
SIZES = 'sizes'  # [n, 2] integers, height and width of each image without padding
CONFIDENCE = 'confidence'  # [n, h, w] float32, the probability of the predicted class
NAMES = 'names'  # n texts, the names of the images in their records
INPUTS = (MATRICES, SIZES, CONFIDENCE, NAMES)


class MetricContext(NamedTuple):
    """The classes that a metric is computed for.

    Attributes:
      num_classes: number of classes; ids are 0 to num_classes - 1.
      ignore_label: label of the pixels that are excluded; it may be one of the ids.
      class_names: name of each class, or its number as text.
      categories: name of the category of each class; None where the data set has no categories.
      eval_ids: id of each class in the data set's own files; None for the class ids.
    """

    num_classes: int
    ignore_label: int
    class_names: tuple[str, ...]
    categories: tuple[str, ...] | None = None
    eval_ids: tuple[int, ...] | None = None


class Accumulator(Protocol):
    """The state of a metric while images are evaluated.

    Two further methods are optional. `class_figures()` returns figures of each class, one value or None a class, by
    name. `documents()` returns further results as text, by names of files such as 'per_image.csv'.

    `accumulated`, a tuple of names, is needed for evaluations in parts: it names the attributes that `update` changes.
    Each is an array, a list of arrays that are concatenated, a list of JSON values, or an object that has `accumulated`
    itself.
    """

    @property
    def update(self) -> Callable[..., None]:
        """A method that adds a batch of whole images.

        Its arguments are labels, [n, h, w] integers, class ids or the ignore label; predictions, [n, h, w] int32, class
        ids, of all pixels; and, as keywords, what `Metric.inputs` names. All images are padded, at the right and at the
        bottom, to the crop size of the network; padding has the ignore label.
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
      inputs: what `update` of the accumulator takes as keywords beside labels and predictions, of `INPUTS`.
    """

    create: Callable[..., Accumulator]
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unknown = [name for name in self.inputs if name not in INPUTS]
        if unknown:
            raise ValueError(f"The metric '{self.name}' asks for '{unknown[0]}'; known inputs: {', '.join(INPUTS)}.")


METRICS: Registry[Metric] = Registry('metric', 'EvalOptions.metrics', 'deeplab.core.metrics')
