"""Boundary IoU and boundary F-score: how well the boundaries of each class are predicted.

Sliding minima and disks are computed by whole-array operations of NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from deeplab.core.metrics import _image_counts
from deeplab.registry import Metric, MetricContext, Parameter, register
from deeplab.registry.metrics import SIZES, Ids

_ONE = 2**40  # scores are summed as integers, so that the sum does not depend on the order of the images
_BITS = 64  # classes that are dilated at the same time

Mask = npt.NDArray[np.bool_]
Bits = npt.NDArray[np.unsignedinteger[Any]]


def boundary_width(fraction: float, height: int, width: int) -> int:
    """Returns a fraction of the diagonal of an image in pixels: rounded, and 1 or more."""
    return max(1, round(fraction * math.hypot(height, width)))


def near_boundary(ids: Ids, counted: Mask, width: int) -> Mask:
    """Returns which pixels have another class, or the edge of the image, within a square around them.

    Args:
      ids: [h, w] unsigned integers, class ids below the largest value of their type; any value where a pixel is not
        counted.
      counted: [h, w], whether a pixel has a class. One that has none is no other class either.
      width: largest distance in pixels, in rows or columns.

    Returns:
      [h, w]; for pixels that are not counted the value has no meaning.
    """
    near = np.ones(ids.shape, bool)
    if min(ids.shape) <= 2 * width:  # the edge is near everywhere
        return near
    # Where no class is, the value that loses: the largest one for minima; for maxima 0, all ids being one larger.
    full = ids.dtype.type(np.iinfo(ids.dtype).max)
    absent = (~counted).astype(ids.dtype) * full
    lowest = _sliding(ids | absent, 2 * width + 1, np.minimum)
    highest = _sliding(ids + ids.dtype.type(1) & ~absent, 2 * width + 1, np.maximum)
    inner = slice(width, -width)
    # Equal for a window of one class. A window without a counted pixel does not matter: its center has no class.
    near[inner, inner] = lowest + ids.dtype.type(1) != highest
    return near


def compact(ids: Ids, classes: int) -> Ids:
    """Returns ids in the smallest unsigned type whose largest value is no id; ignored ones may become any value."""
    return ids.astype(np.uint8 if classes < np.iinfo(np.uint8).max else np.uint16)


def _sliding(values: npt.NDArray[Any], length: int, extreme: np.ufunc) -> npt.NDArray[Any]:
    """Returns the smallest or largest value of each window of `length` rows and columns that lies in the array.

    The extreme of a window follows from two shorter windows that overlap: log2(length) operations for each axis.
    """
    done = 1
    while done < length:
        shift = min(done, length - done)
        values = extreme(values[:-shift], values[shift:])
        values = extreme(values[:, :-shift], values[:, shift:])
        done += shift
    return values


def contours(ids: Ids, counted: Mask) -> Mask:
    """Returns which counted pixels have a pixel of another class above, below, left or right of them: [h, w]."""
    on_contour = np.zeros(ids.shape, bool)
    for mask, values, is_counted in ((on_contour, ids, counted), (on_contour.T, ids.T, counted.T)):
        differs = (values[:-1] != values[1:]) & is_counted[:-1] & is_counted[1:]
        mask[:-1] |= differs
        mask[1:] |= differs
    return on_contour


def within_disk(values: Bits, radius: float, combine: np.ufunc = np.bitwise_or) -> Bits:
    """Combines, for each pixel, the values of all pixels at a Euclidean distance of `radius` or less.

    Args:
      values: [h, w] unsigned integers, such as one bit a class.
      radius: radius of the disk in pixels, 0 or more.
      combine: `bitwise_or` for the bits that are set in any pixel, or `maximum`.

    Returns:
      [h, w] of the same type.
    """
    height, width = values.shape
    dilated = values.copy()
    rows = min(int(radius), height - 1)
    half_widths = [min(int(math.sqrt(radius**2 - row**2)), width - 1) for row in range(rows + 1)]
    segment, reach = values.copy(), 0  # `segment`: all values within `reach` columns, combined
    for row in range(rows, -1, -1):  # the chord of the disk grows towards its center
        for shift in range(reach + 1, half_widths[row] + 1):
            right, left = segment[:, shift:], segment[:, : width - shift]
            combine(right, values[:, : width - shift], out=right)
            combine(left, values[:, shift:], out=left)
        reach = half_widths[row]
        below, above = dilated[row:], dilated[: height - row]
        combine(below, segment[: height - row], out=below)
        combine(above, segment[row:], out=above)
    return dilated


def _without_padding(labels: Ids, predictions: Ids, sizes: Ids) -> Iterator[tuple[Ids, Ids]]:
    """Yields labels and prediction of each image of a batch, cut to its size."""
    for image_labels, image_predictions, (height, width) in zip(labels, predictions, sizes, strict=True):
        yield image_labels[:height, :width], image_predictions[:height, :width]


class BoundaryIou:
    """Counts, over all images, the pixels of each class near the boundary of its region.

    A pixel of a class is near the boundary if a square of `2 * width + 1` pixels around it contains a pixel of another
    class or leaves the image. Ignored pixels are excluded from labels and predictions, and are no other class.
    """

    accumulated = ('_counts',)

    def __init__(self, context: MetricContext, boundary_iou_width: float) -> None:
        self._context = context
        self._width = boundary_iou_width
        self._counts = np.zeros((3, context.num_classes), np.int64)

    def update(self, labels: Ids, predictions: Ids, *, sizes: Ids) -> None:
        """Adds a batch of images, see `deeplab.registry.metrics.Accumulator`."""
        classes = self._context.num_classes
        for truth, predicted in _without_padding(labels, predictions, sizes):
            counted = truth != self._context.ignore_label
            truth, predicted = compact(truth, classes), compact(predicted, classes)
            width = boundary_width(self._width, *truth.shape)
            near_label = near_boundary(truth, counted, width) & counted
            near_prediction = near_boundary(predicted, counted, width) & counted
            both = near_label & near_prediction & (truth == predicted)
            for row, ids, mask in (
                (_image_counts.RIGHT, truth, both),
                (_image_counts.OF_LABEL, truth, near_label),
                (_image_counts.OF_PREDICTION, predicted, near_prediction),
            ):
                self._counts[row] += np.bincount(ids[mask], minlength=classes)

    def merge(self, other: BoundaryIou) -> None:
        """Adds the images of `other`."""
        self._counts += other._counts

    def result(self) -> dict[str, float | None]:
        """Returns the mean over the classes that have one."""
        return {'mean': _image_counts.mean_number(_image_counts.class_iou(self._counts))}

    def class_figures(self) -> dict[str, tuple[float | None, ...]]:
        """Returns the Boundary IoU of each class; None for a class without boundary in labels and predictions."""
        return {'iou': _image_counts.to_numbers(_image_counts.class_iou(self._counts))}


class BoundaryF:
    """Averages the F-score of the contours of each class over the images in which the class has one.

    A pixel is on a contour of its class if a pixel above, below, left or right of it has another class. Ignored pixels
    have no contour, and make none. Precision is the fraction of the prediction's contour that is within the distance of
    the label's contour of that class. Recall is the fraction the other way round.
    """

    accumulated = ('_sums', '_images')

    def __init__(self, context: MetricContext, boundary_f_width: float) -> None:
        self._context = context
        self._width = boundary_f_width
        self._sums = np.zeros(context.num_classes, np.int64)  # of scores, in units of 1 / _ONE
        self._images = np.zeros(context.num_classes, np.int64)

    def update(self, labels: Ids, predictions: Ids, *, sizes: Ids) -> None:
        """Adds a batch of images, see `deeplab.registry.metrics.Accumulator`."""
        for image_labels, image_predictions in _without_padding(labels, predictions, sizes):
            scores = self._scores(image_labels, image_predictions)
            has_score = ~np.isnan(scores)
            self._sums[has_score] += np.rint(scores[has_score] * _ONE).astype(np.int64)
            self._images += has_score

    def _scores(self, labels: Ids, predictions: Ids) -> npt.NDArray[np.float64]:
        """Returns the F-score of each class in an image; NaN for a class without a contour in either."""
        counted = labels != self._context.ignore_label
        radius = self._width * math.hypot(*labels.shape)
        classes = self._context.num_classes
        contours = [_Contour(compact(ids, classes), counted, classes) for ids in (labels, predictions)]
        has_contour = contours[0].lengths + contours[1].lengths > 0
        present = np.flatnonzero(has_contour)
        hits = [np.zeros(classes, np.int64) for _ in contours]
        for first in range(0, len(present), _BITS):
            chosen = present[first : first + _BITS]
            for number, contour in enumerate(contours):
                hits[number] += contour.within(contours[1 - number].near(chosen, radius), chosen)
        recall, precision = (_image_counts.fraction(hit, c.lengths) for hit, c in zip(hits, contours, strict=True))
        # Where one has no contour, precision or recall is unknown, and the score 0.
        product, total = np.nan_to_num(2 * precision * recall), np.nan_to_num(precision + recall)
        return np.where(has_contour, np.nan_to_num(_image_counts.fraction(product, total)), np.nan)

    def merge(self, other: BoundaryF) -> None:
        """Adds the images of `other`."""
        self._sums += other._sums
        self._images += other._images

    def result(self) -> dict[str, float | None]:
        """Returns the mean over the classes that have a score."""
        return {'mean': _image_counts.mean_number(_image_counts.fraction(self._sums / _ONE, self._images))}

    def class_figures(self) -> dict[str, tuple[float | None, ...]]:
        """Returns the score of each class; None for one that has no contour in any image."""
        return {'f': _image_counts.to_numbers(_image_counts.fraction(self._sums / _ONE, self._images))}


class _Contour:
    """The contour pixels of a map of class ids."""

    def __init__(self, ids: Ids, counted: npt.NDArray[np.bool_], classes: int) -> None:
        self._shape = ids.shape
        self._at = np.flatnonzero(contours(ids, counted))
        self._ids = ids.reshape(-1)[self._at]
        self.lengths = np.bincount(self._ids, minlength=classes)  # contour pixels of each class

    def near(self, classes: npt.NDArray[Any], radius: float) -> Bits:
        """Returns which of up to `_BITS` classes have a contour pixel within the distance: [h * w], a bit a class."""
        kind = next(np.dtype(f'u{size}') for size in (1, 2, 4, 8) if len(classes) <= 8 * size)
        bits = np.zeros(self._shape, kind)
        bits.reshape(-1)[self._at] = self._bits_of(classes, kind)
        return within_disk(bits, radius).reshape(-1)

    def within(self, near: Bits, classes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
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
        name='boundary_iou',
        summary='Boundary IoU: IoU of the pixels near the boundaries of each class.',
        create=BoundaryIou,
        inputs=(SIZES,),
        parameters=(
            Parameter(
                'boundary_iou_width',
                0.02,
                'Width of the boundary for boundary_iou, as a fraction of the image diagonal.',
                range='(0, 1]',
            ),
        ),
        source='arXiv:2103.16562, section 4',
    )
)
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
                'Largest distance at which contours match in boundary_f, as a fraction of the image diagonal.',
                range='[0, 1]',
            ),
        ),
        source='Csurka et al., What is a good evaluation measure for semantic segmentation?, BMVC 2013, section 3',
    )
)
