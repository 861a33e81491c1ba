"""Regions of COCO annotations as pixels: polygons, and run lengths in both of their forms.

Source: the description of COCO's format (cocodataset.org, Data format) and of its package pycocotools, which draws
polygons.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deeplab.errors import DataError, OptionError


def pixels(segmentation: Any, height: int, width: int) -> np.ndarray:
    """Returns the pixels of a region: [height, width] bool.

    Args:
      segmentation: a list of polygons [x1, y1, x2, y2, ...], or {"size": [height, width], "counts": ...} with run
        lengths in column order, as a list or in COCO's compressed text.
      height: of the image.
      width: of the image.

    Raises:
      DataError: It is not such a region, or its run lengths are those of another size.
    """
    if isinstance(segmentation, Mapping):
        return _of_runs(segmentation, height, width)
    good = isinstance(segmentation, Sequence) and not isinstance(segmentation, str)
    polygons = [_checked(polygon) for polygon in segmentation] if good else []
    if not good:
        raise DataError('the segmentation is neither a list of polygons nor run lengths')
    polygons = [polygon for polygon in polygons if len(polygon) >= 6]  # pycocotools draws nothing for fewer corners
    if not polygons:
        return np.zeros((height, width), bool)
    mask = require_pycocotools()
    return _of_runs(mask.merge(mask.frPyObjects(polygons, height, width)), height, width)


def _checked(polygon: Any) -> list[float]:
    """Returns the coordinates of a polygon."""
    try:
        found = [float(part) for part in polygon]
    except (TypeError, ValueError):
        found = [math.nan]
    if len(found) % 2 or not all(map(math.isfinite, found)):
        raise DataError('a polygon is not a list of coordinates [x1, y1, x2, y2, ...]')
    return found


def _of_runs(region: Mapping[str, Any], height: int, width: int) -> np.ndarray:
    """Returns the pixels of run lengths, which begin with those outside of the region."""
    if list(region.get('size') or ()) != [height, width]:
        raise DataError(
            f'run lengths have the size {region.get("size")}, but their image is {height} x {width} (height x width)'
        )
    counts = region.get('counts')
    try:
        runs = np.array(_unpacked(counts) if isinstance(counts, (str, bytes)) else counts, np.int64)
        good = runs.ndim == 1 and not (runs < 0).any() and runs.sum() == height * width
    except (TypeError, ValueError, OverflowError, IndexError):
        good = False
    if not good:
        raise DataError(f'its run lengths do not sum up to the {height * width} pixels of the image')
    return np.repeat(np.arange(len(runs)) % 2 == 1, runs).reshape(width, height).T


def _unpacked(text: str | bytes) -> list[int]:
    """Returns the run lengths in a compressed text.

    A number is written in digits of five bits, the lowest first, in the characters from "0" on; the sixth bit says that
    another digit follows, and the highest bit of the last is the sign. From the fourth number on, a number is the
    difference to the one two before.
    """
    codes = text.encode('ascii') if isinstance(text, str) else text
    found: list[int] = []
    place = 0
    while place < len(codes):
        value, shift, more = 0, 0, True
        while more:
            digit = codes[place] - 48
            place += 1
            value |= (digit & 31) << shift
            shift += 5
            more = bool(digit & 32)
        if digit & 16:
            value -= 1 << shift
        found.append(value + found[-2] if len(found) > 2 else value)
    return found


def require_pycocotools() -> Any:
    """Returns the module that draws polygons.

    Raises:
      OptionError: It is not installed.
    """
    try:
        from pycocotools import mask
    except ImportError:
        raise OptionError("Polygons of COCO need the package pycocotools. Run: pip install 'deeplab[coco]'") from None
    return mask
