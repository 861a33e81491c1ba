"""Boundary IoU: the IoU of the pixels of each class that are near its boundary."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deeplab.core.metrics import _image_counts, _morphology
from deeplab.registry import Metric, MetricContext, Parameter, register
from deeplab.registry.metrics import SIZES, Ids


class BoundaryIou:
    """Sums, over all images, the pixels of each class near the boundary of its region.

    A pixel of a class is near the boundary if a square of `2 * width + 1` pixels around it contains a pixel of another
    class or leaves the image. Ignored pixels are excluded from labels and predictions, and are no other class.
    """

    def __init__(self, context: MetricContext, boundary_iou_width: float) -> None:
        self._context = context
        self._width = boundary_iou_width
        self._counts = np.zeros((3, context.num_classes), np.int64)

    def update(self, labels: Ids, predictions: Ids, *, sizes: Ids) -> None:
        """Adds a batch of images, see `deeplab.registry.metrics.Accumulator`."""
        for image_labels, image_predictions, (height, width) in zip(labels, predictions, sizes, strict=True):
            inside = slice(int(height)), slice(int(width))
            self._add(image_labels[inside], image_predictions[inside])

    def _add(self, labels: Ids, predictions: Ids) -> None:
        """Adds an image without padding."""
        counted = labels != self._context.ignore_label
        labels, predictions = (_morphology.compact(ids, self._context.num_classes) for ids in (labels, predictions))
        width = _morphology.boundary_width(self._width, *labels.shape)
        near_label = _morphology.near_boundary(labels, counted, width) & counted
        near_prediction = _morphology.near_boundary(predictions, counted, width) & counted
        both = near_label & near_prediction & (labels == predictions)
        for row, ids, mask in (
            (_image_counts.RIGHT, labels, both),
            (_image_counts.OF_LABEL, labels, near_label),
            (_image_counts.OF_PREDICTION, predictions, near_prediction),
        ):
            self._counts[row] += np.bincount(ids[mask], minlength=self._context.num_classes)

    def merge(self, other: BoundaryIou) -> None:
        """Adds the images of `other`."""
        self._counts += other._counts

    def _class_iou(self) -> npt.NDArray[np.float64]:
        return _image_counts.class_iou(self._counts)

    def result(self) -> dict[str, float | None]:
        """Returns the mean over the classes that have one."""
        return {'mean': _image_counts.mean_number(self._class_iou())}

    def class_figures(self) -> dict[str, tuple[float | None, ...]]:
        """Returns the Boundary IoU of each class; None for a class without boundary in labels and predictions."""
        return {'iou': _image_counts.to_numbers(self._class_iou())}


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
                'Width of the boundary for boundary_iou, as a fraction of the diagonal of the image.',
                range='(0, 1]',
            ),
        ),
        source='arXiv:2103.16562, section 4',
    )
)
