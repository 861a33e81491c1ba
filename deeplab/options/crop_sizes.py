"""Crop sizes that align features with pixels: sides of `output_stride * k + 1` pixels, k at least 1.

With other sizes, the corners of the network's features do not lie on the corners of the image.
"""

from __future__ import annotations

from collections.abc import Iterable


def are_aligned(sides: Iterable[int], output_stride: int) -> bool:
    """Returns whether every side is `output_stride * k + 1`."""
    return all(side % output_stride == 1 for side in sides)


def above(size: Iterable[int], output_stride: int) -> tuple[int, int]:
    """Returns the smallest aligned height and width that are at least as large."""
    height, width = (max(-(-(int(side) - 1) // output_stride), 1) * output_stride + 1 for side in size)
    return height, width


def below(sides: Iterable[int], output_stride: int) -> tuple[int, ...]:
    """Returns the largest aligned sides that are at most as large, or the smallest of all."""
    return tuple(max((int(side) - 1) // output_stride, 1) * output_stride + 1 for side in sides)
