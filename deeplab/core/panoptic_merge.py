"""Panoptic segmentation from class ids, a heatmap of centers and offsets: the merge of Panoptic-DeepLab, in NumPy.

The rule is the Python implementation of deeplab2: pixels of things are void where the image has no center, and stuff is
void where the class has less than `stuff_area` pixels. Its C++ operation makes one instance of these pixels of things,
and void of a class with `stuff_area` pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

_IDS = 256  # of classes
_TILE = 64  # side in pixels; pixels of a tile mostly point to the same few centers
_SLACK = 1 + 1e-5  # more than the rounding of squared distances


class MergeRule(NamedTuple):
    """How outputs of the network become segments.

    Attributes:
      things: ids of the classes that have instances.
      ignore_label: class id of void pixels in the result, 0 to 255.
      center_threshold: centers are where the heatmap is larger; at least 0.
      nms_kernel: side of the square in which a center is the maximum of the heatmap, in pixels; odd.
      top_k: if there are more centers than this, 1 to 65535, those with a larger value than the k-th largest remain.
      stuff_area: a class without instances that has fewer pixels in the image is void.
    """

    things: Sequence[int]
    ignore_label: int
    center_threshold: float = 0.1
    nms_kernel: int = 7
    top_k: int = 200
    stuff_area: int = 2048


class Instance(NamedTuple):
    """One instance of a result.

    Attributes:
      class_id: id of the class that most of its pixels have; of several, the smallest.
      instance_id: number within its class, from 1.
      center: row and column of its center.
      pixels: number of its pixels.
      score: mean probability of its class over its pixels, times the heatmap at its center; None without probabilities.
    """

    class_id: int
    instance_id: int
    center: tuple[int, int]
    pixels: int
    score: float | None


class PanopticResult(NamedTuple):
    """Segments of an image.

    Attributes:
      class_ids: [h, w] uint8; `ignore_label` where a pixel is void.
      instance_ids: [h, w] uint16, within a class from 1; 0 on stuff and void pixels.
      instances: one for each pair of class id and instance id, by center, row by row.
    """

    class_ids: np.ndarray
    instance_ids: np.ndarray
    instances: list[Instance]


def merge(
    class_ids: np.ndarray,
    heatmap: np.ndarray,
    offsets: np.ndarray,
    rule: MergeRule,
    probabilities: np.ndarray | None = None,
) -> PanopticResult:
    """Merges the outputs of a network for one image.

    Args:
      class_ids: [h, w] integers from 0 to 255, the most probable class of each pixel.
      heatmap: [h, w] float, from 0 to about 1.
      offsets: [h, w, 2] float, the center of the pixel's instance minus the pixel's position (y, x), in pixels.
      rule: how outputs become segments.
      probabilities: [h, w, classes] float, for the scores of instances.

    Source: arXiv:1911.10194, section 3.3; score: section 4.1.
    """
    is_thing = _table(rule.things)[class_ids]
    centers, center_values = find_centers(heatmap, rule)
    numbers = group_pixels(offsets, is_thing, centers)[is_thing].astype(np.int64)  # [pixels of things]
    votes = np.bincount(numbers * _IDS + class_ids[is_thing], minlength=(len(centers) + 1) * _IDS)
    votes = votes.reshape(-1, _IDS)
    class_of = votes.argmax(axis=1)  # ties: the smallest
    class_of[0] = rule.ignore_label  # no center
    areas = votes.sum(axis=1)
    instances = []
    instance_of = np.zeros(len(areas), np.uint16)
    totals = None if probabilities is None else _sums(probabilities, is_thing, numbers, class_of)
    count = np.zeros(_IDS, np.int64)  # instances of each class so far
    for number in (np.flatnonzero(areas[1:]) + 1).tolist():
        class_id, pixels = int(class_of[number]), int(areas[number])
        count[class_id] += 1
        instance_of[number] = count[class_id]
        score = None if totals is None else float(totals[number] / pixels * center_values[number - 1])
        y, x = centers[number - 1].tolist()
        instances.append(Instance(class_id, int(count[class_id]), (y, x), pixels, score))
    result = _stuff(class_ids, rule)
    result[is_thing] = class_of[numbers]
    instance_ids = np.zeros(class_ids.shape, np.uint16)
    instance_ids[is_thing] = instance_of[numbers]
    return PanopticResult(result, instance_ids, instances)


def _table(class_ids: Sequence[int]) -> np.ndarray:
    """Whether an id, 0 to 255, is one of `class_ids`: [256] bool."""
    return np.isin(np.arange(_IDS), class_ids)


def _stuff(class_ids: np.ndarray, rule: MergeRule) -> np.ndarray:
    """Returns [h, w] uint8: the ids of classes without instances that are large enough, void elsewhere."""
    areas = np.bincount(class_ids.ravel(), minlength=_IDS)
    remains = (areas >= rule.stuff_area) & ~_table(rule.things)
    result: np.ndarray = np.where(remains, np.arange(_IDS), rule.ignore_label).astype(np.uint8)[class_ids]
    return result


def _sums(probabilities: np.ndarray, is_thing: np.ndarray, numbers: np.ndarray, class_of: np.ndarray) -> np.ndarray:
    """Sums the probabilities of the class of each instance over its pixels: [centers + 1] float64."""
    is_grouped = numbers > 0
    rows, columns = (positions[is_grouped] for positions in np.nonzero(is_thing))
    numbers = numbers[is_grouped]
    return np.bincount(numbers, probabilities[rows, columns, class_of[numbers]], minlength=len(class_of))


def find_centers(heatmap: np.ndarray, rule: MergeRule) -> tuple[np.ndarray, np.ndarray]:
    """Finds the centers of instances.

    Args:
      heatmap: [h, w] float.
      rule: threshold, kernel and largest number of centers.

    Returns:
      Positions (y, x), [centers, 2] int64, row by row, and the heatmap there, [centers].
    """
    peaks = heatmap_peaks(heatmap, rule.center_threshold, rule.nms_kernel)
    positions = np.argwhere(peaks > 0)
    values = peaks[positions[:, 0], positions[:, 1]]
    if len(values) > rule.top_k:
        is_kept = values > np.partition(values, -rule.top_k)[-rule.top_k]
        positions, values = positions[is_kept], values[is_kept]
    return positions, values


def heatmap_peaks(heatmap: np.ndarray, threshold: float, kernel: int) -> np.ndarray:
    """Returns `heatmap` [h, w] where it is above `threshold` and the maximum of kernel x kernel pixels, 0 elsewhere."""
    heatmap = np.where(heatmap > threshold, heatmap, 0)
    largest = np.pad(heatmap, kernel // 2)
    for axis in (0, 1):
        largest = _running_maximum(largest, kernel, axis)
    return np.where(heatmap == largest, heatmap, 0)


def _running_maximum(values: np.ndarray, size: int, axis: int) -> np.ndarray:
    """Returns the maxima of `size` neighbors along an axis, which becomes shorter by `size - 1`."""
    values = np.moveaxis(values, axis, 0)
    covered = 1
    while covered < size:
        step = min(covered, size - covered)
        values = np.maximum(values[:-step], values[step:])
        covered += step
    return np.moveaxis(values, 0, axis)


def group_pixels(offsets: np.ndarray, is_thing: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Gives each pixel of things the center that is nearest to where its offset points.

    Args:
      offsets: [h, w, 2] float (y, x) in pixels.
      is_thing: [h, w] bool.
      centers: [centers, 2] integers, (y, x).

    Returns:
      [h, w] uint16: index of the center plus 1; 0 for pixels of stuff, and everywhere if there are no centers.
    """
    numbers = np.zeros(is_thing.shape, np.uint16)
    if not len(centers):
        return numbers
    for tile in _tiles(is_thing.shape):
        within = np.nonzero(is_thing[tile])
        if not len(within[0]):
            continue
        targets = [
            offsets[tile][(*within, axis)] + np.float32(tile[axis].start) + within[axis].astype(np.float32)
            for axis in (0, 1)
        ]
        candidates = _candidates(targets, centers)
        numbers[tile][within] = candidates[_nearest(targets, centers[candidates])] + 1
    return numbers


def _tiles(shape: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    """Yields the squares of an image."""
    for y in range(0, shape[0], _TILE):
        for x in range(0, shape[1], _TILE):
            yield slice(y, y + _TILE), slice(x, x + _TILE)


def _candidates(targets: list[np.ndarray], centers: np.ndarray) -> np.ndarray:
    """Returns the indices of the centers that can be the nearest one of a target.

    A center cannot be, if another is nearer to every point of the rectangle around the targets.
    """
    nearest, farthest = np.zeros(len(centers)), np.zeros(len(centers))
    for values, center in zip(targets, centers.T, strict=True):
        low, high = float(values.min()), float(values.max())
        nearest += np.square(np.clip(center, low, high) - center)
        farthest += np.square(np.maximum(high - center, center - low))
    return np.flatnonzero(~(nearest > farthest.min() * _SLACK))


def _nearest(targets: list[np.ndarray], centers: np.ndarray) -> np.ndarray:
    """Returns the index of the nearest center of each target; of several, the first."""
    best = np.zeros(len(targets[0]), np.intp)
    smallest = np.full(len(best), np.inf, np.float32)
    for number, (y, x) in enumerate(centers.astype(np.float32)):
        distance = np.square(targets[0] - y)
        distance += np.square(targets[1] - x)
        best[distance < smallest] = number
        np.minimum(smallest, distance, out=smallest)
    return best
