"""Pixel counts of each image and class, from which the figures of images and of resampled images follow.

For each image and class: pixels that are right, pixels of the label, pixels of the prediction. Unlike a matrix of all
pairs of classes, these take 12 bytes an image and class: 36 MB for 20,000 images of 151 classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

RIGHT, OF_LABEL, OF_PREDICTION = range(3)

Counts = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]
_FIRST_ROOM = 64  # images


def of_matrices(matrices: Counts) -> Counts:
    """Returns the counts of confusion matrices.

    Args:
      matrices: [n, classes, classes], number of pixels [label][prediction].

    Returns:
      [n, 3, classes]: pixels that are right, of the label, of the prediction.
    """
    right = np.diagonal(matrices, axis1=1, axis2=2)
    return np.stack([right, matrices.sum(axis=2), matrices.sum(axis=1)], axis=1)


def images_of(counts: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Returns the number of images with each class in labels or predictions: [n, 3, classes] -> [classes]."""
    numbers: npt.NDArray[np.intp] = counts.any(axis=1).sum(axis=0)
    return numbers


def class_iou(counts: npt.NDArray[Any]) -> Shares:
    """Returns the IoU of each class: [..., 3, classes] -> [..., classes], NaN for a class that occurs nowhere."""
    right = counts[..., RIGHT, :]
    return share(right, counts[..., OF_LABEL, :] + counts[..., OF_PREDICTION, :] - right)


def share(part: npt.NDArray[Any], whole: npt.NDArray[Any]) -> Shares:
    """Returns `part / whole` element by element, NaN for 0 / 0."""
    shares: Shares = np.divide(part, whole, out=np.full(np.shape(whole), np.nan), where=whole != 0)
    return shares


def mean_of_known(values: Shares) -> Shares:
    """Returns the mean over the last axis of the values that are not NaN; NaN if all are."""
    known = ~np.isnan(values)
    return share(np.where(known, values, 0.0).sum(axis=-1), known.sum(axis=-1))


class ImageCounts:
    """The counts of a growing number of images, in 32 bits."""

    def __init__(self, num_classes: int) -> None:
        self._rows = np.empty((0, 3, num_classes), np.uint32)
        self._number = 0

    @property
    def rows(self) -> npt.NDArray[np.uint32]:
        """The counts of all images: [n, 3, classes]."""
        return self._rows[: self._number]

    def add(self, counts: npt.NDArray[Any]) -> None:
        """Adds images: [n, 3, classes]."""
        needed = self._number + len(counts)
        if needed > len(self._rows):
            grown = np.empty((max(needed, 2 * len(self._rows), _FIRST_ROOM), *self._rows.shape[1:]), np.uint32)
            grown[: self._number] = self.rows
            self._rows = grown
        self._rows[self._number : needed] = counts
        self._number = needed
