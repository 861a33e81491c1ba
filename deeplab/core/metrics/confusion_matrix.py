"""Segmentation metrics from a confusion matrix: accuracies; IoU, precision and Dice of classes; IoU of categories.

Counts are integers, so the result does not depend on the order of the images, and matrices of parts of a data set
can be merged. This module needs NumPy alone.
"""

from __future__ import annotations

import dataclasses
from typing import Self

import numpy as np
import numpy.typing as npt

from deeplab.core.metrics import _image_counts
from deeplab.errors import DataError, OptionError
from deeplab.registry import Metric, MetricContext, register
from deeplab.registry.metrics import CONFUSION_MATRIX, MATRICES, Ids

Counts = npt.NDArray[np.int64]
# Titles of the figures of all classes, by attribute of `Metrics`.
MEANS = {
    'miou': 'mean IoU',
    'pixel_accuracy': 'pixel accuracy',
    'mean_accuracy': 'mean accuracy',
    'frequency_weighted_iou': 'frequency weighted IoU',
    'mean_precision': 'mean precision',
    'mean_dice': 'mean Dice',
}


@dataclasses.dataclass(frozen=True)
class Metrics:
    """Metrics computed from a confusion matrix.

    Every figure is a fraction from 0 to 1, or None where no pixel was counted that could decide it.

    Attributes:
      miou: mean of `class_iou` over the classes that have one.
      class_iou: for each class TP / (TP + FP + FN); None for a class that occurs neither in labels nor in predictions.
      pixel_accuracy: fraction of the counted pixels whose class is right.
      mean_accuracy: mean, over the classes that occur in labels, of the fraction of their pixels that is right.
      frequency_weighted_iou: `class_iou` weighted with the fraction of the labeled pixels that each class has.
      confusion_matrix: number of pixels [label][prediction]; empty if there are no classes of pixels.
      class_accuracy: for each class TP / (TP + FN), its recall; None for a class that does not occur in labels.
      class_precision: for each class TP / (TP + FP); None for a class that does not occur in predictions.
      class_dice: for each class 2 TP / (2 TP + FP + FN), its F1-score; None for the same classes as `class_iou`.
    """

    miou: float | None
    class_iou: tuple[float | None, ...]
    pixel_accuracy: float | None
    mean_accuracy: float | None
    frequency_weighted_iou: float | None
    confusion_matrix: tuple[tuple[int, ...], ...]
    class_accuracy: tuple[float | None, ...]
    class_precision: tuple[float | None, ...]
    class_dice: tuple[float | None, ...]

    @property
    def mean_precision(self) -> float | None:
        """Mean of `class_precision` over the classes that have one."""
        return _mean_of_numbers(self.class_precision)

    @property
    def mean_dice(self) -> float | None:
        """Mean of `class_dice` over the classes that have one."""
        return _mean_of_numbers(self.class_dice)


class ConfusionMatrix:
    """Counts pixels by label and prediction."""

    accumulated = ('counts',)

    def __init__(self, num_classes: int, ignore_label: int | None = None) -> None:
        """Creates an empty matrix.

        Args:
          num_classes: number of classes; ids are 0 to num_classes - 1.
          ignore_label: label of the pixels that are excluded; None for no such label. It may be a class id.
        """
        if num_classes < 1:
            raise ValueError(f'num_classes is {num_classes}; it must be 1 or more.')
        self.num_classes = num_classes
        self.ignore_label = ignore_label
        self.counts: Counts = np.zeros((num_classes, num_classes), np.int64)

    @classmethod
    def of_counts(cls, counts: Counts) -> Self:
        """Returns the matrix of the given numbers of pixels [label, prediction]."""
        matrix = cls(len(counts))
        matrix.counts = counts
        return matrix

    def update(self, labels: npt.ArrayLike, predictions: npt.ArrayLike) -> None:
        """Counts the pixels of some images.

        Args:
          labels: integers of any shape, class ids or `ignore_label`.
          predictions: integers of the same number of elements in the same order, class ids (anything where the label
            is ignored).

        Raises:
          DataError: a label or a prediction that counts is no class id.
          ValueError: the two differ in their number of pixels, or are no integers.
        """
        label_ids, predicted_ids = _flat_integers('labels', labels), _flat_integers('predictions', predictions)
        if label_ids.size != predicted_ids.size:
            raise ValueError(
                f'There are {label_ids.size} labels and {predicted_ids.size} predictions; the numbers must be equal.'
            )
        if label_ids.size < self.num_classes:  # such as the class of an image: no pass over all pairs of classes
            np.add.at(self.counts, self._counted(label_ids, predicted_ids), 1)
            return
        counts = np.zeros_like(self.counts)
        for block in _image_counts.blocks(label_ids.size):
            counts += self._counts_of(label_ids[block], predicted_ids[block])
        self.counts += counts

    def _counts_of(self, label_ids: npt.NDArray[np.integer], predicted_ids: npt.NDArray[np.integer]) -> Counts:
        label_ids, predicted_ids = self._counted(label_ids, predicted_ids)
        # One number a pair of ids turns the two-dimensional count into one pass.
        pairs = label_ids.astype(np.int64) * self.num_classes + predicted_ids
        return np.bincount(pairs, minlength=self.num_classes**2).reshape(self.counts.shape)

    def _counted(
        self, label_ids: npt.NDArray[np.integer], predicted_ids: npt.NDArray[np.integer]
    ) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]:
        """Returns the ids of the pixels that count; raises `DataError` if one is no class id."""
        if self.ignore_label is not None:
            counted = label_ids != self.ignore_label
            label_ids, predicted_ids = label_ids[counted], predicted_ids[counted]
        self._check_range('label', label_ids)
        self._check_range('prediction', predicted_ids)
        return label_ids, predicted_ids

    def merge(self, other: ConfusionMatrix) -> None:
        """Adds the pixels that `other` counted.

        Raises:
          ValueError: `other` has other classes.
        """
        if (self.num_classes, self.ignore_label) != (other.num_classes, other.ignore_label):
            raise ValueError(
                f'A matrix of {other.num_classes} classes that ignores {other.ignore_label} cannot be merged into one '
                f'of {self.num_classes} classes that ignores {self.ignore_label}.'
            )
        self.counts += other.counts

    @property
    def class_accuracy(self) -> tuple[float | None, ...]:
        """See `Metrics`; unlike `result`, it takes little time for thousands of classes."""
        return _fractions(np.diagonal(self.counts), self.counts.sum(axis=1))

    @property
    def mean_accuracy(self) -> float | None:
        """See `Metrics` and `class_accuracy`."""
        return _mean_of_numbers(self.class_accuracy)

    @property
    def class_precision(self) -> tuple[float | None, ...]:
        """See `Metrics` and `class_accuracy`."""
        return _fractions(np.diagonal(self.counts), self.counts.sum(axis=0))

    def result(self) -> Metrics:
        """Returns the metrics of all pixels counted so far.

        Source: arXiv:1411.4038, section 5 (pixel accuracy, mean accuracy, mean IU, frequency weighted IU).
        """
        right = np.diagonal(self.counts)
        of_label, of_prediction = self.counts.sum(axis=1), self.counts.sum(axis=0)
        union = of_label + of_prediction - right
        class_iou = _fractions(right, union)
        total = int(self.counts.sum())
        weighted = None
        if total:
            weighted = sum((iou or 0.0) * int(pixels) / total for iou, pixels in zip(class_iou, of_label, strict=True))
        return Metrics(
            miou=_mean_of_numbers(class_iou),
            class_iou=class_iou,
            pixel_accuracy=int(right.sum()) / total if total else None,
            mean_accuracy=self.mean_accuracy,
            frequency_weighted_iou=weighted,
            confusion_matrix=tuple(tuple(int(count) for count in row) for row in self.counts),
            class_accuracy=self.class_accuracy,
            class_precision=self.class_precision,
            class_dice=_fractions(2 * right, of_label + of_prediction),
        )

    def _check_range(self, what: str, ids: npt.NDArray[np.integer]) -> None:
        if not ids.size:
            return
        lowest, highest = int(ids.min()), int(ids.max())
        if lowest >= 0 and highest < self.num_classes:
            return
        wrong = lowest if lowest < 0 else highest
        ignored = '' if self.ignore_label is None else f' ({self.ignore_label} is ignored)'
        raise DataError(
            f'A {what} has the id {wrong}, but the {self.num_classes} classes have ids 0 to '
            f'{self.num_classes - 1}{ignored}. Check the masks, and num_classes of the data set.'
        )


def without_pixels(num_classes: int) -> Metrics:
    """Returns the metrics of a network that predicts no class for each pixel: None, and no confusion matrix."""
    nothing = (None,) * num_classes
    return Metrics(
        miou=None,
        class_iou=nothing,
        pixel_accuracy=None,
        mean_accuracy=None,
        frequency_weighted_iou=None,
        confusion_matrix=(),  # which is large for a classifier of images with thousands of classes
        class_accuracy=nothing,
        class_precision=nothing,
        class_dice=nothing,
    )


def _flat_integers(name: str, values: npt.ArrayLike) -> npt.NDArray[np.integer]:
    array = np.asarray(values)
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f'{name} are of type {array.dtype}; they must be integers.')
    return array.reshape(-1)


def of_images(labels: Ids, predictions: Ids, num_classes: int, ignore_label: int) -> Counts:
    """Returns the confusion matrix of each image of a batch.

    Args:
      labels: [n, h, w] class ids or `ignore_label`.
      predictions: [n, h, w] class ids.
      num_classes: number of classes.
      ignore_label: label of the pixels that are excluded.

    Returns:
      [n, classes, classes], number of pixels [label][prediction].

    Raises:
      DataError: a label or a prediction that counts is no class id.
    """
    matrices = [ConfusionMatrix(num_classes, ignore_label) for _ in labels]
    for matrix, image_labels, image_predictions in zip(matrices, labels, predictions, strict=True):
        matrix.update(image_labels, image_predictions)
    return np.array([matrix.counts for matrix in matrices]).reshape(-1, num_classes, num_classes)


def _fractions(parts: Counts, wholes: Counts) -> tuple[float | None, ...]:
    """Returns `part / whole` of each pair, None for 0 / 0."""
    return _image_counts.to_numbers(_image_counts.fraction(parts, wholes))


def _mean_of_numbers(values: tuple[float | None, ...] | list[float | None]) -> float | None:
    """Returns the mean of the values that are not None; None if all are."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


class Figures:
    """A confusion matrix as a registered metric."""

    accumulated = ('matrix',)

    def __init__(self, context: MetricContext) -> None:
        self.matrix = ConfusionMatrix(context.num_classes, context.ignore_label)
        self._class_names = context.class_names

    def update(self, labels: Ids, predictions: Ids, *, matrices: Counts) -> None:
        """Counts the pixels of a batch, see `deeplab.registry.metrics.Accumulator`."""
        self.matrix.counts += matrices.sum(axis=0)

    def merge(self, other: Figures) -> None:
        """Adds the pixels that `other` counted."""
        self.matrix.merge(other.matrix)

    def result(self) -> dict[str, float | None]:
        """Returns the means, then the IoU of each class as 'iou of NAME'."""
        metrics = self.matrix.result()
        of_classes = zip(self._class_names, metrics.class_iou, strict=True)
        return {name: getattr(metrics, name) for name in MEANS} | {f'iou of {name}': iou for name, iou in of_classes}


class CategoryIou:
    """Sums the confusion matrix of categories of classes: confusions within a category are right."""

    accumulated = ('_counts',)

    def __init__(self, context: MetricContext) -> None:
        if context.categories is None:
            raise OptionError(
                'category_iou needs the category of each class, which this data set does not state. Add `categories` '
                'to its description, a list with one name for each class.'
            )
        self._names, self._category = _image_counts.groups(context.categories)
        self._counts = np.zeros((len(self._names),) * 2, np.int64)

    def update(self, labels: Ids, predictions: Ids, *, matrices: Counts) -> None:
        """Adds a batch of images, see `deeplab.registry.metrics.Accumulator`."""
        places = self._category[:, None], self._category[None, :]
        np.add.at(self._counts, places, matrices.sum(axis=0))

    def merge(self, other: CategoryIou) -> None:
        """Adds the images of `other`."""
        self._counts += other._counts

    def result(self) -> dict[str, float | None]:
        """Returns the mean, and the IoU of each category by its name; None for one that occurs nowhere."""
        ious = _image_counts.class_iou(_image_counts.of_matrices(self._counts[None]))[0]
        by_name = dict(zip(self._names, _image_counts.to_numbers(ious), strict=True))
        return {'mean': _image_counts.mean_number(ious)} | by_name


register(
    Metric(
        name=CONFUSION_MATRIX,
        summary='Mean IoU, accuracies, and IoU, accuracy, precision and Dice of each class; always computed.',
        create=Figures,
        inputs=(MATRICES,),
        source='arXiv:1411.4038, section 5',
    )
)
register(
    Metric(
        name='category_iou',
        summary='IoU of categories of classes, such as the Cityscapes categories.',
        create=CategoryIou,
        inputs=(MATRICES,),
        source='arXiv:1604.01685, section 3.2',
    )
)
