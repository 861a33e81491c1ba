"""Palettes: colors of class ids that follow a rule."""

from __future__ import annotations

import numpy as np


def bit_shift_palette(size: int) -> np.ndarray:
    """Returns the PASCAL VOC colors of the ids 0 to `size` - 1.

    The bits of an id, from the lowest up, are dealt in turn to red, green and blue; each color fills its byte from
    the highest bit down. So ids that differ little differ much in color.

    Args:
      size: number of colors, 0 to 2 ** 24.

    Returns:
      [size, 3] uint8, red, green and blue.

    Source: the color map of the PASCAL VOC development kit (M. Everingham et al., The PASCAL Visual
      Object Classes Challenge 2012, development kit).
    """
    ids = np.arange(size)
    colors = np.zeros((size, 3), np.uint8)
    for bit in range(24):
        channel, place = bit % 3, 7 - bit // 3
        colors[:, channel] |= ((ids >> bit & 1) << place).astype(np.uint8)
    return colors
