"""Pixels of masks that lie in thin parts, and pixels whose ids lie between those of their neighbors."""

from __future__ import annotations

import numpy as np


def thin_pixels(ids: np.ndarray, width: int) -> np.ndarray:
    """Returns the pixels of each id in rows or columns of equal ids that are shorter than `width`.

    Args:
      ids: [h, w] uint8.
      width: in pixels.

    Returns:
      [256] int64.
    """
    thickness = np.minimum(_runs(ids), _runs(ids.T).T)
    # An image narrower than `width` has no thicker parts.
    return np.bincount(ids[thickness < min(width, *ids.shape)], minlength=256)


def _runs(ids: np.ndarray) -> np.ndarray:
    """Returns the length of the run of equal ids in its row for each pixel: [h, w]."""
    starts = np.ones(ids.shape, bool)
    starts[:, 1:] = ids[:, 1:] != ids[:, :-1]
    places = np.flatnonzero(starts)
    lengths = np.diff(places, append=ids.size)
    return np.repeat(lengths, lengths).reshape(ids.shape)


def between_pixels(ids: np.ndarray) -> np.ndarray:
    """Returns the pixels of each id that lies strictly between the ids left and right, or above and below.

    Interpolation at the edges of objects makes such ids.

    Args:
      ids: [h, w] uint8.

    Returns:
      [256] int64.
    """
    is_between = np.zeros(ids.shape, bool)
    for values, result in ((ids, is_between), (ids.T, is_between.T)):
        first, middle, last = values[:, :-2], values[:, 1:-1], values[:, 2:]
        result[:, 1:-1] |= ((first < middle) & (middle < last)) | ((first > middle) & (middle > last))
    return np.bincount(ids[is_between], minlength=256)
