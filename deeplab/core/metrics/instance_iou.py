"""Instance-weighted IoU (iIoU) of Cityscapes: each instance counts as much as one of average size."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from deeplab.core.metrics import _image_counts
from deeplab.errors import DataError, OptionError
from deeplab.registry import Metric, MetricContext, Parameter, register
from deeplab.registry.metrics import MATRICES, NAMES, SIZES, Ids
from deeplab.wording import option

_ENDINGS = ('_gtFine_instanceIds.png', '_instanceIds.png', '.png')
# The end of an image's name that its instance image does not have. Records of the original also have the folder.
_IMAGE_END = re.compile(r'(_leftImg8bit)?(\.png)?$')
_FIRST = 1000  # an instance is 1000 times the id of its class, plus a number
_ONE = 2**32  # fractions are summed as integers, so that the sum does not depend on the order of the images
# Average number of pixels of an instance of each class in Cityscapes, which its evaluation fixes.
_CITYSCAPES_SIZES = {
    'person': 3462.4756337644,
    'rider': 3930.4788056518,
    'car': 12794.0202738185,
    'truck': 27855.1264367816,
    'bus': 35732.1511111111,
    'train': 67583.7075812274,
    'motorcycle': 6298.7200839748,
    'bicycle': 4672.3249222261,
}


class InstanceIou:
    """Sums, over all instances in the labels, the fraction of their pixels that is right.

    With the average size of an instance of its class, each pixel of an instance weighs average / size. Pixels of false
    positives weigh 1: predictions have no instances.
    """

    accumulated = ('_right', '_instances', '_counts')

    def __init__(self, context: MetricContext, instance_dir: str) -> None:
        if not instance_dir:
            raise OptionError(
                'instance_iou needs the instance ids of the images: set '
                f'{option("EvalOptions.instance_dir")} to a folder with NAME_gtFine_instanceIds.png for each image.'
            )
        self._files = _instance_files(os.path.expanduser(instance_dir))
        self._folder = instance_dir
        ids = context.eval_ids or range(context.num_classes)
        self._average = np.array([_CITYSCAPES_SIZES.get(name, np.nan) for name in context.class_names])  # [classes]
        # By id in the instance images; -1 for ids of no class, and of classes without an average size.
        self._class_of = np.full(max(ids) + 1, -1)
        self._class_of[list(ids)] = np.where(np.isnan(self._average), -1, np.arange(context.num_classes))
        # Classes, and categories, that predictions are compared by.
        self._groups = [_image_counts.Groups(context.class_names, np.arange(context.num_classes))]
        if context.categories is not None:
            self._groups.append(_image_counts.groups(context.categories))
        classes = context.num_classes
        # By kind of group and class: fractions of instances that are right, and the number of instances.
        self._right = np.zeros((len(self._groups), classes), np.int64)
        self._instances = np.zeros(classes, np.int64)
        self._counts = np.zeros((classes, classes), np.int64)

    def update(
        self, labels: Ids, predictions: Ids, *, matrices: _image_counts.Counts, names: Sequence[str], sizes: Ids
    ) -> None:
        """Adds a batch of images, see `deeplab.registry.metrics.Accumulator`.

        Raises:
          DataError: an image has no instance image, or one of another size.
        """
        self._counts += matrices.sum(axis=0)
        for image_predictions, name, (height, width) in zip(predictions, names, sizes, strict=True):
            instances = self._read(name, (int(height), int(width)))
            self._add(instances, image_predictions[: int(height), : int(width)])

    def _add(self, instances: Ids, predictions: Ids) -> None:
        classes = instances // _FIRST
        is_counted = (instances > _FIRST) & (classes < len(self._class_of))
        is_counted[is_counted] = self._class_of[classes[is_counted]] >= 0
        numbers, places, pixels = np.unique(instances[is_counted], return_inverse=True, return_counts=True)
        class_of = self._class_of[numbers // _FIRST]
        for number, group in enumerate(self._groups):
            right = group.of_class[predictions[is_counted]] == group.of_class[class_of][places]
            hits = np.bincount(places[right], minlength=len(numbers))
            np.add.at(self._right[number], class_of, hits * _ONE // pixels)
        np.add.at(self._instances, class_of, 1)

    def _read(self, name: str, size: tuple[int, int]) -> Ids:
        """Returns the instance ids of an image: [h, w]."""
        from PIL import Image  # here, so that the registry is read without it

        path = self._files.get(name) or self._files.get(_IMAGE_END.sub('', name.rpartition('/')[2]))
        if path is None:
            raise DataError(f"'{self._folder}' has no instance image of {name!r}, such as {name}{_ENDINGS[0]}.")
        try:
            with Image.open(path) as image:
                ids: Ids = np.asarray(image).astype(np.int64)
        except Exception as error:  # damaged files make Pillow's plugins raise anything
            raise DataError(f'The instance image {path} cannot be read ({error}). Copy it again.') from None
        if ids.shape != size:
            raise DataError(
                f'{path} has the size {ids.shape}, its image {size}; they must be equal. Images may not be resized '
                'for instance_iou.'
            )
        return ids

    def merge(self, other: InstanceIou) -> None:
        """Adds the images of `other`."""
        self._right += other._right
        self._instances += other._instances
        self._counts += other._counts

    def _iou(self, number: int) -> npt.NDArray[np.float64]:
        """Returns the iIoU of each class or category.

        NaN for one without an average size, and for one with neither instances nor false positives.
        """
        group = self._groups[number]
        average = np.nan_to_num(self._average)
        right, all_ = self._right[number] / _ONE * average, self._instances * average
        wrong = self._counts * (group.of_class[:, None] != group.of_class[None, :])  # [label][prediction]
        of_group = (
            np.bincount(group.of_class, weights=values, minlength=len(group.names))
            for values in (right, all_, wrong.sum(axis=0), ~np.isnan(self._average))
        )
        true_positive, total, false_positive, sizes = of_group
        iou: npt.NDArray[Any] = _image_counts.fraction(true_positive, total + false_positive)
        return np.where(sizes > 0, iou, np.nan)

    def result(self) -> dict[str, float | None]:
        """Returns the mean over the classes with an iIoU, and over the categories."""
        figures = {'mean': _image_counts.mean_number(self._iou(0))}
        if len(self._groups) > 1:
            of_categories = self._iou(1)
            figures['category mean'] = _image_counts.mean_number(of_categories)
            ious = zip(self._groups[1].names, _image_counts.to_numbers(of_categories), strict=True)
            figures |= {f'category {name}': iou for name, iou in ious if iou is not None}
        return figures

    def class_figures(self) -> dict[str, tuple[float | None, ...]]:
        """Returns the iIoU of each class; None where it is undefined."""
        return {'iou': _image_counts.to_numbers(self._iou(0))}


def _instance_files(folder: str) -> dict[str, str]:
    """Returns the instance images in a folder and the folders in it, by name of the image.

    Raises:
      OptionError: there is no such folder.
    """
    if not os.path.isdir(folder):
        raise OptionError(f'{option("EvalOptions.instance_dir", folder)}: there is no such folder.')
    paths: dict[str, str] = {}
    for parent, _, files in os.walk(folder):
        for file in files:
            ending = next((ending for ending in _ENDINGS if file.endswith(ending)), None)
            if ending is not None:
                paths.setdefault(file.removesuffix(ending), os.path.join(parent, file))
    return paths


register(
    Metric(
        name='instance_iou',
        summary='Instance-weighted IoU (iIoU) of Cityscapes, from the instance ids of the images.',
        create=InstanceIou,
        inputs=(MATRICES, NAMES, SIZES),
        parameters=(
            Parameter(
                'instance_dir',
                '',
                'Folder of the instance ids for instance_iou: NAME_gtFine_instanceIds.png, also in subfolders.',
            ),
        ),
        source='arXiv:1604.01685, section 3.2',
    )
)
