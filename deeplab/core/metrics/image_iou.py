"""Mean IoU of each image: mean over the images, and lowest."""

from __future__ import annotations

import math

from deeplab.core.metrics import _image_counts
from deeplab.registry import Metric, MetricContext, register
from deeplab.registry.metrics import MATRICES, Ids


class ImageIou:
    """Collects the mIoU of each image, in which every image weighs the same, whatever its number of labeled pixels.

    The mIoU of an image follows from its own confusion matrix: the mean over the classes that occur in its labels or
    predictions. An image without a labeled pixel is excluded.
    """

    def __init__(self, context: MetricContext) -> None:
        self._of_images: list[float] = []

    def update(self, labels: Ids, predictions: Ids, *, matrices: _image_counts.Counts) -> None:
        """Adds a batch of images, see `deeplab.registry.metrics.Accumulator`."""
        counts = _image_counts.of_matrices(matrices)
        has_labels = counts[:, _image_counts.OF_LABEL].any(axis=1)
        self._of_images += _image_counts.mean_of_known(_image_counts.class_iou(counts[has_labels])).tolist()

    def merge(self, other: ImageIou) -> None:
        """Adds the images of `other`."""
        self._of_images += other._of_images

    def result(self) -> dict[str, float | None]:
        """Returns the mean, which does not depend on the order of the images, and the lowest mIoU."""
        mean = math.fsum(self._of_images) / len(self._of_images) if self._of_images else None
        return {'mean': mean, 'lowest': min(self._of_images, default=None)}


register(
    Metric(
        name='image_iou',
        summary='Mean IoU of each image: mean over the images, and lowest.',
        create=ImageIou,
        inputs=(MATRICES,),
    )
)
