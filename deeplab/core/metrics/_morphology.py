"""Boundaries of regions in maps of class ids: sliding minima and disks, by whole-array operations of NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.integer[Any]]
Mask = npt.NDArray[np.bool_]
Bits = npt.NDArray[np.unsignedinteger[Any]]


def boundary_width(fraction: float, height: int, width: int) -> int:
    """Returns a fraction of the diagonal of an image in pixels: rounded, and 1 or more."""
    return max(1, round(fraction * math.hypot(height, width)))


def near_boundary(ids: Ids, counted: Mask, width: int) -> Mask:
    """Returns which pixels have another class, or the edge of the image, within a square around them.

    Args:
      ids: [h, w] unsigned integers, class ids below the largest value of their type; any value where a pixel is not
        counted.
      counted: [h, w], whether a pixel has a class. One that has none is no other class either.
      width: largest distance in pixels, in rows or columns.

    Returns:
      [h, w]; for pixels that are not counted the value has no meaning.
    """
    near = np.ones(ids.shape, bool)
    if min(ids.shape) <= 2 * width:  # the edge is near everywhere
        return near
    # Where no class is, the value that loses: the largest one for minima; for maxima 0, all ids being one larger.
    full = ids.dtype.type(np.iinfo(ids.dtype).max)
    absent = (~counted).astype(ids.dtype) * full
    lowest = _sliding(ids | absent, 2 * width + 1, np.minimum)
    highest = _sliding(ids + ids.dtype.type(1) & ~absent, 2 * width + 1, np.maximum)
    inner = slice(width, -width)
    # Equal for a window of one class. A window without a counted pixel does not matter: its center has no class.
    near[inner, inner] = lowest + ids.dtype.type(1) != highest
    return near


def compact(ids: Ids, classes: int) -> Ids:
    """Returns ids in the smallest unsigned type whose largest value is no id; ignored ones may become any value."""
    return ids.astype(np.uint8 if classes < np.iinfo(np.uint8).max else np.uint16)


def _sliding(values: npt.NDArray[Any], length: int, extreme: np.ufunc) -> npt.NDArray[Any]:
    """Returns the smallest or largest value of each window of `length` rows and columns that lies in the array.

    The extreme of a window follows from two shorter windows that overlap: log2(length) operations for each axis.
    """
    for axis in (0, 1):
        done = 1
        while done < length:
            shift = min(done, length - done)
            size = values.shape[axis]
            first, second = (_along(axis, 0, size - shift), _along(axis, shift, size))
            values = extreme(values[first], values[second])
            done += shift
    return values


def _along(axis: int, start: int, stop: int) -> tuple[slice, ...]:
    """Returns the index of rows, or of columns, `start` to `stop` of an array [h, w]."""
    return (slice(start, stop),) if axis == 0 else (slice(None), slice(start, stop))


def contours(ids: Ids, counted: Mask) -> Mask:
    """Returns which counted pixels have a pixel of another class above, below, left or right of them: [h, w]."""
    on_contour = np.zeros(ids.shape, bool)
    for axis in (0, 1):
        size = ids.shape[axis]
        first, second = _along(axis, 0, size - 1), _along(axis, 1, size)
        differs = (ids[first] != ids[second]) & counted[first] & counted[second]
        on_contour[first] |= differs
        on_contour[second] |= differs
    return on_contour


def within_disk(bits: Bits, radius: float) -> Bits:
    """Returns, for each pixel, the bits that are set in any pixel at a Euclidean distance of `radius` or less.

    Args:
      bits: [h, w] unsigned integers, one bit a class.
      radius: radius of the disk in pixels, 0 or more.

    Returns:
      [h, w] of the same type.
    """
    height, width = bits.shape
    dilated = bits.copy()
    rows = min(int(radius), height - 1)
    half_widths = [min(int(math.sqrt(radius**2 - row**2)), width - 1) for row in range(rows + 1)]
    segment, reach = bits.copy(), 0  # `segment`: all bits within `reach` columns
    for row in range(rows, -1, -1):  # the chord of the disk grows towards its center
        for shift in range(reach + 1, half_widths[row] + 1):
            segment[:, shift:] |= bits[:, : width - shift]
            segment[:, : width - shift] |= bits[:, shift:]
        reach = half_widths[row]
        dilated[row:] |= segment[: height - row]
        dilated[: height - row] |= segment[row:]
    return dilated
