"""Sliding windows: probabilities of overlapping tiles, blended by smooth weights.

Windows begin at multiples of the output stride and end with the padded image, so that a tile and the whole image have
features at the same places. A weight is 0 in the outer quarter of an overlap, where the border of the tile changes
the features most, and rises smoothly over its middle half; the weights of a pixel add up to 1. A network with a
receptive field below that quarter therefore gives the same result as for the whole image.

Memory does not grow with the height of the image: of two rows of tiles only the overlap is kept as probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from deeplab.options import crop_sizes

Box = tuple[slice, slice]  # rows and columns


class Axis(NamedTuple):
    """Windows along one axis.

    Attributes:
      size: pixels of the image.
      starts: where the windows begin, ascending from 0.
      ends: where they end, at most `size`.
      weights: weights of the pixels of each window; all weights of a pixel add up to 1.
    """

    size: int
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    weights: tuple[np.ndarray, ...]

    def done_after(self, number: int) -> int:
        """Returns the pixel up to which no window behind window `number` contributes."""
        return self.starts[number + 1] if number + 1 < len(self.starts) else self.size


def axis(size: int, window: int, stride: int, alignment: int) -> Axis:
    """Returns the windows along one axis.

    Args:
      size: pixels of the image.
      window: pixels of a window, `alignment * k + 1` unless `alignment` is 1.
      stride: distance of two windows, at most `window`; it is rounded down to a multiple of `alignment`.
      alignment: output stride of the network.
    """
    padded = size if alignment == 1 else crop_sizes.above((size, size), alignment)[0]
    last = max(padded - window, 0)
    step = max(stride // alignment * alignment, alignment)
    starts = (*range(0, last, step), last)
    ends = tuple(min(start + window, size) for start in starts)
    weights = [np.ones(end - start) for start, end in zip(starts, ends, strict=True)]
    for i in range(len(starts) - 1):
        overlap = starts[i] + window - starts[i + 1]
        rise = _rise(overlap)
        shared = slice(starts[i + 1] - starts[i], None)
        weights[i][shared] *= rise[::-1][: len(weights[i][shared])]
        weights[i + 1][:overlap] *= rise[: len(weights[i + 1])]
    total = np.zeros(size)
    for start, end, weight in zip(starts, ends, weights, strict=True):
        total[start:end] += weight
    normal = (weight / total[start:end] for start, end, weight in zip(starts, ends, weights, strict=True))
    return Axis(size, starts, ends, tuple(weight.astype(np.float32) for weight in normal))


def _rise(overlap: int) -> np.ndarray:
    """Returns weights that rise from 0 to 1 over the middle half of an overlap."""
    share = (np.arange(overlap) + 0.5 - overlap / 4) / max(overlap / 2, 1e-9)
    weights: np.ndarray = np.sin(np.pi / 2 * np.clip(share, 0, 1)) ** 2
    return weights


def blend(
    tiles: Callable[[Sequence[Box]], Iterable[np.ndarray]],
    rows: Axis,
    columns: Axis,
    handle: Callable[[int, int, np.ndarray], None],
) -> None:
    """Blends the probabilities of tiles.

    Args:
      tiles: takes the places of tiles, and returns the probabilities of each, [h, w, classes] float32, in order.
      rows: windows along the height.
      columns: windows along the width.
      handle: called with each part of the result once: its first row, its first column, [h, w, classes]. The array is
        changed afterwards.
    """
    shared: np.ndarray | None = None  # [h, width, classes], sums of the rows that the next tiles overlap
    for number, (top, bottom, weight) in enumerate(zip(rows.starts, rows.ends, rows.weights, strict=True)):
        done = min(rows.done_after(number), bottom) - top
        kept: np.ndarray | None = None
        for left, strip in _row(tiles, slice(top, bottom), columns):
            strip *= weight[:, np.newaxis, np.newaxis]  # [h, w, classes]
            place = slice(left, left + strip.shape[1])
            if shared is not None:
                strip[: len(shared)] += shared[:, place]
            handle(top, left, strip[:done])
            if done < len(strip):
                if kept is None:
                    shape = (len(strip) - done, columns.size, strip.shape[2])
                    # `shared` is written to again: its values are read before they are replaced.
                    kept = shared if shared is not None and shared.shape == shape else np.empty(shape, np.float32)
                kept[:, place] = strip[done:]
        shared = kept


def _row(
    tiles: Callable[[Sequence[Box]], Iterable[np.ndarray]], rows: slice, columns: Axis
) -> Iterator[tuple[int, np.ndarray]]:
    """Yields the columns of a row of tiles that are complete: the first column, [h, w, classes]."""
    places = [(rows, slice(start, end)) for start, end in zip(columns.starts, columns.ends, strict=True)]
    shared: np.ndarray | None = None
    for number, tile in enumerate(tiles(places)):
        left = columns.starts[number]
        values = tile * columns.weights[number][np.newaxis, :, np.newaxis]
        if shared is not None:
            values[:, : shared.shape[1]] += shared
        done = min(columns.done_after(number), columns.ends[number]) - left
        yield left, values[:, :done]
        shared = values[:, done:]
