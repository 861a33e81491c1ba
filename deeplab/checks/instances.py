"""Measurements of the instances in a mask: their sizes, their parts, and things without an instance."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from deeplab.core import connected_components

SMALLEST = 16  # pixels of an instance that are at least one of the outputs, whose stride is 4
_ID_BITS = 16
_MOST_PARTS = 50  # of an instance that are compared, the largest first


class Instances(NamedTuple):
    """The instances of an image.

    Attributes:
      class_ids: [n] class of each.
      ids: [n] id of each.
      areas: [n] pixels of each.
      parts: [n] connected parts of each.
      are_far: [n] whether a part lies apart from all others, farther than the longest side of both.
    """

    class_ids: np.ndarray
    ids: np.ndarray
    areas: np.ndarray
    parts: np.ndarray
    are_far: np.ndarray


def measure(class_ids: np.ndarray, instance_ids: np.ndarray, things: Collection[int]) -> Instances:
    """Measures the instances of some classes.

    An instance is a pair of a class id and an instance id above 0. Parts of less than `SMALLEST` pixels do not lie
    apart: they are mistakes of drawing rather than objects.

    Args:
      class_ids: [h, w] class ids.
      instance_ids: [h, w] instance ids, 0 to 65535.
      things: ids of these classes.
    """
    counted = np.isin(class_ids, list(things)) & (instance_ids > 0)  # [h, w]
    codes = class_ids.astype(np.int64) << _ID_BITS | instance_ids  # [h, w]
    parts = connected_components.connected_components(codes, counted)[counted] - 1  # [pixels]
    areas = np.bincount(parts)  # [parts]
    part_codes = np.zeros(len(areas), np.int64)
    part_codes[parts] = codes[counted]
    boxes = _boxes(parts, np.argwhere(counted), len(areas))
    unique, places, part_counts = np.unique(part_codes, return_inverse=True, return_counts=True)
    are_far = np.zeros(len(unique), bool)
    for place in np.flatnonzero(part_counts > 1):
        own = np.flatnonzero((places == place) & (areas >= SMALLEST))
        are_far[place] = _is_apart(boxes[own[np.argsort(-areas[own], kind='stable')][:_MOST_PARTS]])
    totals = np.bincount(places, areas, len(unique)).astype(np.int64)
    return Instances(unique >> _ID_BITS, unique & ((1 << _ID_BITS) - 1), totals, part_counts, are_far)


def _boxes(parts: np.ndarray, pixels: np.ndarray, count: int) -> np.ndarray:
    """Returns the first and last row and column of each part: [count, 2, 2] of (first, last) and (row, column)."""
    boxes = np.full((count, 2, 2), -1)
    boxes[:, 0] = pixels.max(initial=0) + 1
    np.minimum.at(boxes[:, 0], parts, pixels)
    np.maximum.at(boxes[:, 1], parts, pixels)
    return boxes


def _is_apart(boxes: np.ndarray) -> bool:
    """Returns whether one of the boxes, see `_boxes`, is farther from each other one than the longest side of both."""
    first, last = boxes[:, 0], boxes[:, 1]
    gaps = np.maximum(first[:, np.newaxis] - last, first - last[:, np.newaxis]).max(axis=2) - 1  # [n, n]
    sides = (last - first + 1).max(axis=1)  # [n]
    is_far = gaps > np.maximum(sides, sides[:, np.newaxis])
    np.fill_diagonal(is_far, True)
    return len(boxes) > 1 and bool(is_far.all(axis=1).any())
