"""Connected components of class maps, in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.integer[Any]]
Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int32]


def thing_components(class_ids: Ids, things: Sequence[int]) -> Numbers:
    """Numbers the connected components of the thing classes: the instances that a class map alone can tell apart.

    Objects of one class that touch become one instance, and an object in several parts becomes several.

    Args:
      class_ids: [h, w] class ids.
      things: class ids of things.

    Returns:
      [h, w] instance ids, see `connected_components`; 0 for all other classes.
    """
    return connected_components(class_ids, np.isin(class_ids, things))


def connected_components(ids: Ids, counted: Mask, at_corners: bool = True) -> Numbers:
    """Numbers the connected components: pixels with equal ids that touch, at a side or at a corner.

    Args:
      ids: [h, w], any integers.
      counted: [h, w], the pixels that belong to a component.
      at_corners: whether pixels that touch at a corner alone are connected.

    Returns:
      [h, w]: 1 for the component whose first pixel, row by row, is the first of the image; 2 for the next one, and so
      on; 0 for pixels that are not counted.

    Source: Y. Shiloach and U. Vishkin, An O(log n) parallel connectivity algorithm, Journal of Algorithms 3, 1982. Here
      the nodes are runs of equal ids within a row.
    """
    starts = counted.copy()  # whether a run starts at a pixel
    starts[:, 1:] &= ~counted[:, :-1] | (ids[:, 1:] != ids[:, :-1])
    runs = np.cumsum(starts, dtype=np.int32).reshape(ids.shape) - 1  # [h, w] run of each counted pixel
    roots = _roots(int(starts.sum()), _touching_runs(ids, counted, starts, runs, at_corners))
    numbers = np.cumsum(roots == np.arange(len(roots)), dtype=np.int32)[roots]  # a root is the first of its runs
    return np.where(counted, numbers[runs], np.int32(0)) if len(numbers) else np.zeros(ids.shape, np.int32)


def _touching_runs(ids: Ids, counted: Mask, starts: Mask, runs: Numbers, at_corners: bool) -> Numbers:
    """Returns [2, pairs] runs with equal ids that touch, each in a row and in the row below it."""
    width = ids.shape[1]
    pairs = []
    for shift in (-1, 0, 1) if at_corners else (0,):
        above = np.s_[:-1, max(0, shift) : width + min(0, shift)]
        below = np.s_[1:, max(0, -shift) : width + min(0, -shift)]
        # Where two runs touch first, one of them starts; the other pixels give no new pairs.
        touching = (starts[above] | starts[below]) & counted[above] & counted[below] & (ids[above] == ids[below])
        pairs.append(np.stack([runs[above][touching], runs[below][touching]]))
    return np.concatenate(pairs, axis=1)


def _roots(count: int, pairs: Numbers) -> Numbers:
    """Returns [count] the smallest node that each node is connected with through [2, n] pairs of nodes."""
    parents = np.arange(count, dtype=np.int32)
    while True:
        pairs = parents[pairs]
        pairs = pairs[:, pairs[0] != pairs[1]]
        if not pairs.size:
            return parents
        np.minimum.at(parents, pairs.max(axis=0), pairs.min(axis=0))
        while (parents != (grandparents := parents[parents])).any():
            parents = grandparents
