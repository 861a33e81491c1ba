"""Similarity of images by the gradients of their thumbnails.

It does not depend on brightness, contrast, size or compression.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

_SIMILAR = 0.97  # correlation of the gradients of two thumbnails
_BLOCK = 2048
_MOST_COMPARISONS = 4e9  # about a minute on one core
_FLATTEST = 2.0  # standard deviation of a gradient below which a picture shows too little


def similar_pairs(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> list[tuple[int, int]]:
    """Returns for each thumbnail of `second` that has a similar one in `first` the positions of both.

    Args:
      first: [17, 17] uint8 thumbnails.
      second: those of other images.
    """
    if not first or not second or len(first) * len(second) > _MOST_COMPARISONS:
        return []
    found = []
    for low, right in _described(second):
        best = np.full(len(right), -1.0, np.float32)
        place = np.zeros(len(right), np.int64)
        for start, left in _described(first):
            scores = right @ left.T  # [right, left]
            highest = scores.argmax(axis=1)
            values = scores[np.arange(len(right)), highest]
            place[values > best] = highest[values > best] + start
            best = np.maximum(best, values)
        found += [(int(place[i]), low + int(i)) for i in np.flatnonzero(best >= _SIMILAR)]
    return found


def correlations(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> np.ndarray:
    """Returns how alike the thumbnails of each pair are: [n] float32, from -1 to 1; 0 where one of them is flat.

    Args:
      first: n [17, 17] uint8 thumbnails.
      second: as many others.
    """
    parts = [
        (one * other).sum(axis=1) for (_, one), (_, other) in zip(_described(first), _described(second), strict=True)
    ]
    return np.concatenate([np.zeros(0, np.float32), *parts])


def alike_in_order(thumbnails: Sequence[np.ndarray]) -> np.ndarray:
    """Returns whether each thumbnail is similar to the one behind it: [n - 1] bool, or none for fewer than two."""
    are_alike: np.ndarray = correlations(thumbnails[:-1], thumbnails[1:]) >= _SIMILAR
    return are_alike


def _described(thumbnails: Sequence[np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
    """Yields blocks of thumbnails: the position of the first one, and the descriptions."""
    for low in range(0, len(thumbnails), _BLOCK):
        yield low, _descriptions(thumbnails[low : low + _BLOCK])


def _descriptions(thumbnails: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the gradients of thumbnails with length 1, or 0 for those that are flat: [n, 544] float32."""
    pixels = np.stack(thumbnails).astype(np.float32)
    across, down = np.diff(pixels, axis=2), np.diff(pixels, axis=1)
    gradients = np.concatenate([across.reshape(len(pixels), -1), down.reshape(len(pixels), -1)], axis=1)
    lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
    is_flat = lengths < _FLATTEST * np.sqrt(gradients.shape[1])
    described: np.ndarray = np.where(is_flat, 0, gradients / np.maximum(lengths, 1e-6))
    return described
