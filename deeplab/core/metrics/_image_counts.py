"""Pixel counts of each image and class, and the figures that follow from them.

For each image and class: pixels that are right, pixels of the label, pixels of the prediction. Unlike a matrix of all
pairs of classes, these take 12 bytes an image and class: 36 MB for 20,000 images of 151 classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

RIGHT, OF_LABEL, OF_PREDICTION = range(3)

Counts = npt.NDArray[np.int64]
Fractions = npt.NDArray[np.float64]
_PIXELS_OF_BLOCK = 2**14


def blocks(size: int) -> Iterator[slice]:
    """Yields slices of `size` pixels in a row whose intermediate results fit into a processor core's cache."""
    return (slice(first, first + _PIXELS_OF_BLOCK) for first in range(0, size, _PIXELS_OF_BLOCK))


def of_matrices(matrices: Counts) -> Counts:
    """Returns the counts of confusion matrices.

    Args:
      matrices: [n, classes, classes], number of pixels [label][prediction].

    Returns:
      [n, 3, classes]: pixels that are right, of the label, of the prediction.
    """
    right = np.diagonal(matrices, axis1=1, axis2=2)
    return np.stack([right, matrices.sum(axis=2), matrices.sum(axis=1)], axis=1)


def class_iou(counts: npt.NDArray[Any]) -> Fractions:
    """Returns the IoU of each class: [..., 3, classes] -> [..., classes], NaN for a class that occurs nowhere."""
    right = counts[..., RIGHT, :]
    return fraction(right, counts[..., OF_LABEL, :] + counts[..., OF_PREDICTION, :] - right)


def fraction(part: npt.NDArray[Any], whole: npt.NDArray[Any]) -> Fractions:
    """Returns `part / whole` element by element, NaN for 0 / 0."""
    fractions: Fractions = np.divide(part, whole, out=np.full(np.shape(whole), np.nan), where=whole != 0)
    return fractions


def mean_of_known(values: Fractions) -> Fractions:
    """Returns the mean over the last axis of the values that are not NaN; NaN if all are."""
    is_number = ~np.isnan(values)
    return fraction(np.where(is_number, values, 0.0).sum(axis=-1), is_number.sum(axis=-1))


def to_numbers(values: Fractions) -> tuple[float | None, ...]:
    """Returns the values as Python numbers, None for NaN."""
    return tuple(None if math.isnan(value) else value for value in values.tolist())


def mean_number(values: Fractions) -> float | None:
    """Returns the mean of the values that are not NaN as a Python number; None if all are NaN."""
    return to_numbers(mean_of_known(values)[None])[0]


class Groups(NamedTuple):
    """Classes that belong together, such as the classes of a category: names of the groups, group of each class."""

    names: tuple[str, ...]
    of_class: npt.NDArray[np.intp]


def groups(names: Sequence[str]) -> Groups:
    """Returns the groups of classes of equal names."""
    different = tuple(dict.fromkeys(names))
    return Groups(different, np.array([different.index(name) for name in names]))
