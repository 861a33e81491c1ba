"""Boundary F-score: fraction of the contours of each class that is predicted within a distance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from deeplab.core.metrics import _image_counts, _morphology
from deeplab.registry import Metric, MetricContext, Parameter, register
from deeplab.registry.metrics import SIZES, Ids

_ONE = 2**40  # scores are summed as integers, so that the sum does not depend on the order of the images
_BITS = 64  # classes that are dilated at the same time


class BoundaryF:
    """Averages the F-score of the contours of each class over the images in which the class has one.

    A pixel is on a contour of its class if a pixel above, below, left or right of it has another class. Ignored pixels
    have no contour, and make none. Precision is the fraction of the prediction's contour that is within the distance of
    the label's contour of that class. Recall is the fraction the other way round.
    """

    def __init__(self, context: MetricContext, boundary_f_width: float) -> None:
        self._context = context
        self._width = boundary_f_width
        self._sums = np.zeros(context.num_classes, np.int64)  # of scores, in units of 1 / _ONE
        self._images = np.zeros(context.num_classes, np.int64)

    def update(self, labels: Ids, predictions: Ids, *, sizes: Ids) -> None:
        """Adds a batch of images, see `deeplab.registry.metrics.Accumulator`."""
        for image_labels, image_predictions, (height, width) in zip(labels, predictions, sizes, strict=True):
            inside = slice(int(height)), slice(int(width))
            scores = self._scores(image_labels[inside], image_predictions[inside])
            has_score = ~np.isnan(scores)
            self._sums[has_score] += np.rint(scores[has_score] * _ONE).astype(np.int64)
            self._images += has_score

    def _scores(self, labels: Ids, predictions: Ids) -> npt.NDArray[np.float64]:
        """Returns the F-score of each class in an image; NaN for a class without a contour in either."""
        counted = labels != self._context.ignore_label
        radius = self._width * math.hypot(*labels.shape)
        classes = self._context.num_classes
        contours = [_Contour(_morphology.compact(ids, classes), counted, classes) for ids in (labels, predictions)]
        present = np.flatnonzero(contours[0].lengths + contours[1].lengths)
        hits = [np.zeros(classes, np.int64) for _ in contours]
        for first in range(0, len(present), _BITS):
            chosen = present[first : first + _BITS]
            for number, contour in enumerate(contours):
                hits[number] += contour.within(contours[1 - number].near(chosen, radius), chosen)
        recall, precision = (_image_counts.fraction(hit, c.lengths) for hit, c in zip(hits, contours, strict=True))
        either = contours[0].lengths + contours[1].lengths > 0
        # Where one has no contour, precision or recall is unknown, and the score 0.
        product, total = np.nan_to_num(2 * precision * recall), np.nan_to_num(precision + recall)
        return np.where(either, np.nan_to_num(_image_counts.fraction(product, total)), np.nan)

    def merge(self, other: BoundaryF) -> None:
        """Adds the images of `other`."""
        self._sums += other._sums
        self._images += other._images

    def _class_scores(self) -> npt.NDArray[np.float64]:
        return _image_counts.fraction(self._sums / _ONE, self._images)

    def result(self) -> dict[str, float | None]:
        """Returns the mean over the classes that have a score."""
        return {'mean': _image_counts.mean_number(self._class_scores())}

    def class_figures(self) -> dict[str, tuple[float | None, ...]]:
        """Returns the score of each class; None for one that has no contour in any image."""
        return {'f': _image_counts.to_numbers(self._class_scores())}


class _Contour:
    """The contour pixels of a map of class ids.

    Attributes:
      lengths: [classes], number of contour pixels of each class.
    """

    def __init__(self, ids: Ids, counted: npt.NDArray[np.bool_], classes: int) -> None:
        self._shape = ids.shape
        self._at = np.flatnonzero(_morphology.contours(ids, counted))
        self._ids = ids.reshape(-1)[self._at]
        self.lengths = np.bincount(self._ids, minlength=classes)

    def near(self, classes: npt.NDArray[Any], radius: float) -> _morphology.Bits:
        """Returns which of up to `_BITS` classes have a contour pixel within the distance: [h * w], a bit a class."""
        kind = next(np.dtype(f'u{size}') for size in (1, 2, 4, 8) if len(classes) <= 8 * size)
        bits = np.zeros(self._shape, kind)
        bits.reshape(-1)[self._at] = self._bits_of(classes, kind)
        return _morphology.within_disk(bits, radius).reshape(-1)

    def within(self, near: _morphology.Bits, classes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Returns how many of its pixels of each class are where `near` has the bit of the class: [all classes]."""
        hit = (near[self._at] & self._bits_of(classes, near.dtype)) != 0
        return np.bincount(self._ids[hit], minlength=len(self.lengths))

    def _bits_of(self, classes: npt.NDArray[Any], kind: np.dtype[Any]) -> npt.NDArray[Any]:
        """Returns the bit of the class of each of its pixels, 0 for a class that is not one of `classes`."""
        bits = np.zeros(len(self.lengths), kind)
        bits[classes] = kind.type(1) << np.arange(len(classes), dtype=kind)
        return bits[self._ids]


register(
    Metric(
        name='boundary_f',
        summary='Boundary F-score: precision and recall of the contours of each class.',
        create=BoundaryF,
        inputs=(SIZES,),
        parameters=(
            Parameter(
                'boundary_f_width',
                0.0075,
                'Distance within which boundary_f finds a contour, as a fraction of the diagonal of the image.',
                range='[0, 1]',
            ),
        ),
        source='Csurka et al., What is a good evaluation measure for semantic segmentation?, BMVC 2013, section 3',
    )
)
