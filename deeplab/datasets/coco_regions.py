"""Regions of COCO annotations as pixels: polygons, and run lengths in both of their forms.

Source: the description of COCO's format (cocodataset.org, Data format) and of its package pycocotools, which draws
polygons.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deeplab.datasets.annotations import run_lengths
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
    """Returns the pixels of run lengths."""
    if list(region.get('size') or ()) != [height, width]:
        raise DataError(
            f'its run lengths (RLE) have the size {region.get("size")}, but its image is {height} x {width} (height x '
            'width)'
        )
    counts = region.get('counts')
    numbers = run_lengths.of_coco_text(counts) if isinstance(counts, (str, bytes)) else counts
    return run_lengths.alternating(numbers, height, width, by_columns=True)


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
