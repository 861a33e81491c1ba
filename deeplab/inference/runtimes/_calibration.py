"""Images for calibration, from whose activations engines measure the ranges of 8 bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from deeplab.errors import DataError
from deeplab.registry import Calibration


def full_range(calibration: Calibration, kind: str = 'float32') -> Iterator[np.ndarray]:
    """Yields the images, in the first of which two pixels have the values 0 and 255.

    So the input has the range of all images, and values of uint8 need no conversion.

    Args:
      calibration: the images.
      kind: type of the results.

    Raises:
      DataError: there is no image.
    """
    number = 0
    for number, images in enumerate(calibration(), start=1):
        images = images.astype(kind)  # a copy
        if number == 1:
            images[:, 0, 0], images[:, -1, -1] = 0, 255
        yield images
    if not number:
        raise DataError('There is no image for calibration.')
