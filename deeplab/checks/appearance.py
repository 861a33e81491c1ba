"""Agreement of labels with colors: images in which two classes seem to be exchanged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

GRID = 12  # cells on each side of an image whose colors and labels are kept
_BANDS = 4  # heights in the image that are told apart
_CODES = 256  # colors that are told apart
FEWEST_IMAGES = 20  # that show how classes look
_PRIOR = 4.0  # cells that the mean over all colors counts as
_FEWEST_CELLS = 5  # of each of the two classes
_LEAST_GAIN = 1.0  # mean logarithm by which exchanged labels are more probable


class Exchange(NamedTuple):
    """An image in which two classes seem to be exchanged.

    Attributes:
      place: position of the image.
      one: id of a class.
      other: id of the other class.
      gain: mean logarithm by which the exchanged labels are more probable.
    """

    place: int
    one: int
    other: int
    gain: float


def cells(colors: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Returns color codes and labels of a grid of cells.

    Args:
      colors: [12, 12, 3] uint8, the image made smaller by averaging.
      ids: [h, w] uint8, its mask.

    Returns:
      [2, 12, 12] uint8: 3 bits of red, 3 of green, 2 of blue; and the id in the middle of the cell.
    """
    codes = (colors[..., 0] >> 5 << 5) | (colors[..., 1] >> 5 << 2) | (colors[..., 2] >> 6)
    rows, columns = (((np.arange(GRID) + 0.5) * side / GRID).astype(int) for side in ids.shape)
    return np.stack([codes, ids[np.ix_(rows, columns)]]).astype(np.uint8)


def exchanged(kept: Sequence[np.ndarray | None], num_classes: int, ignore_label: int) -> Iterator[Exchange]:
    """Yields the images in which two classes seem to be exchanged.

    For each cell, the probability of each class follows from color and height in all other images.

    Args:
      kept: `cells` of the images; None for images without.
      num_classes: number of classes.
      ignore_label: id of pixels that are excluded.
    """
    places = [place for place, found in enumerate(kept) if found is not None]
    if len(places) < FEWEST_IMAGES:
        return
    stacked = np.stack([found for found in kept if found is not None]).reshape(len(places), 2, -1)
    codes = stacked[:, 0].astype(np.int64) + _CODES * (np.arange(GRID * GRID) * _BANDS // (GRID * GRID))
    labels = stacked[:, 1].astype(np.int64)
    is_labeled = (labels < num_classes) & (labels != ignore_label)
    table = np.zeros((_CODES * _BANDS, num_classes), np.float32)
    np.add.at(table, (codes[is_labeled], labels[is_labeled]), 1)
    for number, place in enumerate(places):
        mine = is_labeled[number]
        if found := _exchange(place, codes[number][mine], labels[number][mine], table):
            yield found


def _exchange(place: int, codes: np.ndarray, labels: np.ndarray, table: np.ndarray) -> Exchange | None:
    """Returns the best exchange of two classes in one image; None if no exchange is clearly better."""
    present, counts = np.unique(labels, return_counts=True)
    present = present[counts >= _FEWEST_CELLS]
    if len(present) < 2:
        return None
    used, where = np.unique(codes, return_inverse=True)
    others = table[used].copy()
    np.subtract.at(others, (where, labels), 1)
    total = table.sum(axis=0) - np.bincount(labels, minlength=table.shape[1])
    share = (total + 1) / (total + 1).sum()
    probability = (others + _PRIOR * share) / (others.sum(axis=1, keepdims=True) + _PRIOR)
    logarithms = np.log(np.maximum(probability, 1e-6))[where]  # [cells, classes]
    sums = np.stack([logarithms[labels == label][:, present].sum(axis=0) for label in present])  # [labeled, as]
    own = np.diag(sums)
    gains = sums + sums.T - own[:, np.newaxis] - own
    sizes = np.array([(labels == label).sum() for label in present])
    means = gains / (sizes[:, np.newaxis] + sizes)
    # Each of the two must look like the other.
    both = np.minimum(sums - own[:, np.newaxis], (sums - own[:, np.newaxis]).T) > 0
    means = np.where(both, means, -np.inf)
    np.fill_diagonal(means, -np.inf)
    one, other = np.unravel_index(means.argmax(), means.shape)
    if means[one, other] < _LEAST_GAIN:
        return None
    return Exchange(place, int(present[one]), int(present[other]), float(means[one, other]))
