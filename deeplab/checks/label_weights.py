"""Label weights that balance rare classes (median frequency balancing)."""

from __future__ import annotations

import numpy as np

LARGEST_WEIGHT = 10.0


def median_frequency(class_pixels: np.ndarray, class_image_pixels: np.ndarray) -> np.ndarray:
    """Median-frequency weights: `median(frequency) / frequency` of each class, but at most `LARGEST_WEIGHT`.

    The frequency of a class is its share of the labeled pixels in the images that contain it. A class that is large in
    few images is therefore not treated as rare. The median is over the classes that occur. About half of the classes
    weigh more than 1, half less.

    Without the bound, a class of a few scattered pixels would weigh hundreds of times as much as the median class, and
    each of its (often wrong) labels would dominate its batch; CamVid's poles and bicyclists, at 5 and 9, are below it.
    A class that never occurs weighs 0: its weight is never used, and 0 shows this in the log.

    Args:
      class_pixels: [classes] pixels of each class in all masks.
      class_image_pixels: [classes] labeled pixels, of any class, in the images that contain the class.

    Returns:
      [classes] float64, 0 or more.

    Raises:
      ValueError: no class occurs.

    Source: arXiv:1411.4734, section 6.3.2.
    """
    occurs = class_pixels > 0
    if not occurs.any():
        raise ValueError('no class occurs in the masks')
    frequencies = class_pixels[occurs] / class_image_pixels[occurs]
    weights = np.zeros(len(class_pixels))
    weights[occurs] = np.minimum(np.median(frequencies) / frequencies, LARGEST_WEIGHT)
    return weights
