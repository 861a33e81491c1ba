"""IoU of categories of classes, as Cityscapes evaluates them: confusions within a category are right."""

from __future__ import annotations

import numpy as np

from deeplab.core.metrics import _image_counts
from deeplab.errors import OptionError
from deeplab.registry import Metric, MetricContext, register
from deeplab.registry.metrics import MATRICES, Ids


class CategoryIou:
    """Sums the confusion matrix of categories."""

    def __init__(self, context: MetricContext) -> None:
        if context.categories is None:
            raise OptionError(
                'category_iou needs the category of each class, which this data set does not state. Add `categories` '
                'to its description, a list with one name for each class.'
            )
        self._names = list(dict.fromkeys(context.categories))
        self._category = np.array([self._names.index(name) for name in context.categories])
        self._counts = np.zeros((len(self._names),) * 2, np.int64)

    def update(self, labels: Ids, predictions: Ids, *, matrices: _image_counts.Counts) -> None:
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
        name='category_iou',
        summary='IoU of the categories of classes, such as the categories of Cityscapes.',
        create=CategoryIou,
        inputs=(MATRICES,),
        source='arXiv:1604.01685, section 3.2',
    )
)
