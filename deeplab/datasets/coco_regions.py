"""Regions of COCO's annotations as pixels: polygons, and run lengths in both of their forms.

Source: the description of COCO's format (cocodataset.org, Data format) and of its package pycocotools, which draws
polygons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deeplab.datasets.annotations import coco, reading
from deeplab.errors import DataError, OptionError


def pixels(segmentation: Any, height: int, width: int) -> np.ndarray:
    """Returns the pixels of a region: [height, width] bool.

    Args:
      segmentation: a list of polygons [x1, y1, x2, y2, ...], or {"size": [height, width], "counts": ...} with run
        lengths down the columns, as a list or in COCO's compressed form.
      height: rows of the image.
      width: columns of the image.

    Raises:
      DataError: It is not such a region, or its run lengths are those of another size.
      OptionError: It has polygons, and pycocotools is not installed.
    """
    with reading.within('segmentation'):
        if isinstance(segmentation, Mapping):
            return coco.bitmap(segmentation, (height, width)).decode()
        if not isinstance(segmentation, Sequence) or isinstance(segmentation, str):
            raise DataError('it is neither a list of polygons nor run lengths')
        rings = [reading.points(polygon) for polygon in segmentation]
    polygons = [ring.ravel().tolist() for ring in rings if reading.has_area(ring)]
    if not polygons:
        return np.zeros((height, width), bool)
    mask = require_pycocotools()
    # Its own `decode` fails with the warnings of NumPy 2 as errors.
    return coco.bitmap(mask.merge(mask.frPyObjects(polygons, height, width)), (height, width)).decode()


def require_pycocotools() -> Any:
    """Returns the module that draws polygons.

    Raises:
      OptionError: It is not installed.
    """
    try:
        from pycocotools import mask
    except ImportError:
        raise OptionError(
            "Polygons of COCO need the package pycocotools. Run: pip install 'deeplab-toolkit[coco]'"
        ) from None
    return mask
