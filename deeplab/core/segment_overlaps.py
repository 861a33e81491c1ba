"""Segments of an image, things and stuff, and the pixels that true and predicted segments have in common.

Pixels without a segment are *void*: where the truth is void, the prediction is not judged. A *crowd* is a region of the
truth with several things of one category that are not told apart.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from deeplab.errors import DataError

_LARGEST_TABLE = 2**24  # entries; pairs of larger ids are sorted

Ids = npt.NDArray[np.integer[Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Segments:
    """The segments of an image by number, from 1; number 0 is void.

    Attributes:
      categories: [n + 1] integer, categories of the segments; -1 for void.
      ids: [n + 1] integer, ids of the segments in what they were read from.
      is_crowd: [n + 1] bool, which segments are crowds.
    """

    categories: Ids
    ids: Ids
    is_crowd: npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Segmentation(Segments):
    """The segments of an image and their pixels.

    Attributes:
      index: [h, w] integer, number of the segment of each pixel; 0 for void.
    """

    index: Ids


@dataclasses.dataclass(frozen=True)
class Overlaps:
    """What two segmentations of an image have in common; rows are true segments, columns predicted ones.

    `overlaps` makes them of segmentations. Masks that cover each other have overlaps, too, but no segmentation.

    Attributes:
      truth: the true segments.
      prediction: the predicted ones.
      pixels: [t, p] integer, pixels in both; the first row and column are void.
      truth_pixels: [t] integer, pixels of each true segment.
      predicted_pixels: [p] integer, pixels of each predicted one.
    """

    truth: Segments
    prediction: Segments
    pixels: Ids
    truth_pixels: Ids
    predicted_pixels: Ids

    @functools.cached_property
    def is_same(self) -> npt.NDArray[np.bool_]:
        """Whether the categories agree, [t, p]; false for void."""
        is_same: npt.NDArray[np.bool_] = self.truth.categories[:, None] == self.prediction.categories[None]
        is_same[0] = is_same[:, 0] = False
        return is_same

    def iou(self, void: Ids, may_match: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        """Returns intersection over union, [t, p] float64; 0 where the categories differ.

        Args:
          void: [p], pixels of each predicted segment that are not judged, and so not part of the union.
          may_match: [t] bool, which true segments are compared.
        """
        union = self.truth_pixels[:, None] + (self.predicted_pixels - void)[None] - self.pixels  # [t, p]
        return np.where(self.is_same & may_match[:, None], self.pixels / np.maximum(union, 1), 0.0)


def overlaps(truth: Segmentation, prediction: Segmentation) -> Overlaps:
    """Returns what two segmentations of an image have in common.

    Raises:
      ValueError: their sizes differ.
    """
    if truth.index.shape != prediction.index.shape:
        raise ValueError(f'The truth has the shape {truth.index.shape}, the prediction {prediction.index.shape}.')
    shape = len(truth.categories), len(prediction.categories)
    pairs = truth.index.astype(np.int64) * shape[1] + prediction.index  # [h, w]
    pixels = np.bincount(pairs.ravel(), minlength=shape[0] * shape[1]).reshape(shape)
    return Overlaps(truth, prediction, pixels, pixels.sum(axis=1), pixels.sum(axis=0))


@dataclasses.dataclass(frozen=True)
class PanopticClasses:
    """The classes of panoptic maps, which are class ids and instance ids of each pixel.

    An instance is the pair of a class and an instance id, where the class is a thing. A stuff class is one segment.

    Attributes:
      num_classes: number of classes; ids are 0 to num_classes - 1.
      things: the classes that have instances.
      ignore_label: class id of void pixels; it may be one of the ids.
    """

    num_classes: int
    things: Sequence[int]
    ignore_label: int

    def truth(self, class_ids: Ids, instance_ids: Ids) -> Segmentation:
        """Returns the segments of a true map; pixels of a thing with instance id 0 are a crowd.

        Args:
          class_ids: [h, w], class ids, or the ignore label.
          instance_ids: [h, w], 0 or more; instance ids of stuff are not read.

        Raises:
          DataError: a pixel has neither a class id nor the ignore label, or a negative instance id.
          ValueError: the shapes differ.
        """
        return self._segmentation(class_ids, instance_ids, 'label')

    def prediction(self, class_ids: Ids, instance_ids: Ids) -> Segmentation:
        """Returns the segments of a predicted map; pixels of a thing with instance id 0 are void.

        Arguments and exceptions are as of `truth`.
        """
        return self._segmentation(class_ids, instance_ids, 'prediction')

    def _segmentation(self, class_ids: Ids, instance_ids: Ids, kind: str) -> Segmentation:
        if class_ids.shape != instance_ids.shape:
            raise ValueError(f'The class ids have the shape {class_ids.shape}, the instance ids {instance_ids.shape}.')
        if class_ids.min(initial=0) < 0 or instance_ids.min(initial=0) < 0:
            raise DataError(f'A {kind} has a class id or instance id below 0; ids must be 0 or more.')
        stride = int(instance_ids.max(initial=0)) + 1
        pairs, places = _distinct(class_ids.astype(np.int64) * stride + instance_ids)
        categories, ids = np.divmod(pairs, stride)
        outside = categories[(categories >= self.num_classes) & (categories != self.ignore_label)]
        if outside.size:
            raise DataError(
                f'A {kind} has class id {outside[0]}; ids must be from 0 to {self.num_classes - 1}, or '
                f'{self.ignore_label} for pixels that are ignored.'
            )
        is_thing = np.isin(categories, self.things)
        is_crowd = is_thing & (ids == 0)
        is_void = categories == self.ignore_label
        if kind == 'prediction':
            is_void |= is_crowd
        # Of stuff, all instance ids become one segment.
        segments, numbers = np.unique((pairs - np.where(is_thing, 0, ids))[~is_void], return_inverse=True)
        number_of = np.zeros(len(pairs), np.int32)
        number_of[~is_void] = numbers + 1
        categories, ids = np.divmod(np.append(-stride, segments), stride)
        return Segmentation(
            categories=categories,
            ids=ids,
            is_crowd=np.isin(categories, self.things) & (ids == 0),
            index=number_of[places],
        )


def _distinct(numbers: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], Ids]:
    """Returns the different numbers, ascending, and for each element the place of its number; numbers are 0 or more."""
    if numbers.max(initial=0) >= _LARGEST_TABLE:
        distinct, places = np.unique(numbers, return_inverse=True)
        return distinct, places.reshape(numbers.shape)
    counts = np.bincount(numbers.ravel(), minlength=1)
    distinct = np.flatnonzero(counts)
    place_of = np.zeros(len(counts), np.int32)
    place_of[distinct] = np.arange(len(distinct))
    return distinct, place_of[numbers]
