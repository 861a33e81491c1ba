"""Figures of each image: mean IoU over the images, and a table of the images as CSV."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from deeplab.core.metrics import _image_counts
from deeplab.files import documents
from deeplab.registry import Metric, MetricContext, register
from deeplab.registry.metrics import MATRICES, NAMES, SIZES, Ids

FILE = 'per_image.csv'


class ImageIou:
    """Collects the mIoU of each image, in which every image weighs the same, whatever its number of labeled pixels.

    The mIoU of an image follows from its own confusion matrix: the mean over the classes that occur in its labels or
    predictions. An image without a labeled pixel is excluded.
    """

    accumulated = ('_of_images',)

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


class PerImage:
    """Collects the counts of each image, with its name and size."""

    accumulated = ('_counts', '_names', '_sizes')

    def __init__(self, context: MetricContext) -> None:
        self._context = context
        self._counts = [np.empty((0, 3, context.num_classes), np.uint32)]  # [n, 3, classes] of each batch
        self._names: list[str] = []
        self._sizes: list[tuple[int, int]] = []

    def update(
        self, labels: Ids, predictions: Ids, *, matrices: _image_counts.Counts, names: Sequence[str], sizes: Ids
    ) -> None:
        """Adds a batch of images, see `deeplab.registry.metrics.Accumulator`."""
        self._counts.append(_image_counts.of_matrices(matrices).astype(np.uint32))
        self._names += names
        self._sizes += [(int(height), int(width)) for height, width in sizes]

    def merge(self, other: PerImage) -> None:
        """Adds the images of `other`."""
        self._counts += other._counts
        self._names += other._names
        self._sizes += other._sizes

    def result(self) -> dict[str, float | None]:
        """Returns no figures: the table is a document."""
        return {}

    def documents(self) -> dict[str, str]:
        """Returns the table, one line an image in the order of the records; a figure that is unknown is empty."""
        columns = ['name', 'height', 'width', 'labeled_pixels', 'accuracy', 'miou']
        columns += [f'{what} {name}' for what in ('iou', 'pixels') for name in self._context.class_names]
        return {FILE: documents.csv_text([columns, *self._lines()])}

    def _lines(self) -> Iterator[list[object]]:
        all_counts = np.concatenate(self._counts).astype(np.int64)  # [n, 3, classes]
        for name, size, counts in zip(self._names, self._sizes, all_counts, strict=True):
            right, of_label = counts[_image_counts.RIGHT], counts[_image_counts.OF_LABEL]
            total = of_label.sum()
            ious = _image_counts.class_iou(counts)
            figures = [_image_counts.fraction(right.sum(), total), _image_counts.mean_of_known(ious)]
            values = [*figures, *ious, *_image_counts.fraction(of_label, np.full_like(of_label, total))]
            texts = ['' if value is None else f'{value:.6g}' for value in _image_counts.to_numbers(np.array(values))]
            yield [name, *size, int(total), *texts]


register(
    Metric(
        name='image_iou',
        summary='Mean IoU of each image: the mean over all images, and the lowest.',
        create=ImageIou,
        inputs=(MATRICES,),
    )
)
register(
    Metric(
        name='per_image',
        summary='Table per_image.csv with one row per image: size, accuracy, mIoU, and the IoU and fraction of pixels '
        'of each class.',
        create=PerImage,
        inputs=(MATRICES, NAMES, SIZES),
    )
)
