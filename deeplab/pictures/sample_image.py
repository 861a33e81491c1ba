"""Sample images for measurements and comparisons: areas of colors with slight noise, the same in each run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_ROWS, _COLUMNS = 9, 12  # areas of an image
_DEVIATION = 12  # of the noise


class SampleImage(NamedTuple):
    """An image and its mask.

    Attributes:
      image: [h, w, channels] uint8.
      mask: class ids, [h, w] uint8; each has one color.
    """

    image: np.ndarray
    mask: np.ndarray


def sample_image(
    size: tuple[int, int], channels: int = 3, seed: int = 0, num_classes: int = 256, ignore_label: int = 255
) -> SampleImage:
    """Returns an image of random areas.

    Args:
      size: height and width.
      channels: number of channels.
      seed: other seeds give other images.
      num_classes: number of classes in the mask.
      ignore_label: id that the mask does not have, if there are other classes.
    """
    height, width = size
    rng = np.random.default_rng(seed)
    areas = rng.integers(0, num_classes, (_ROWS, _COLUMNS))
    mask = areas[np.arange(height) * _ROWS // height][:, np.arange(width) * _COLUMNS // width].astype(np.uint8)
    if num_classes > ignore_label:
        mask[mask == ignore_label] = (ignore_label + 1) % num_classes
    colors = rng.integers(0, 256, (256, channels))
    noise = rng.normal(0, _DEVIATION, (height, width, channels))
    return SampleImage(np.clip(colors[mask] + noise, 0, 255).astype(np.uint8), mask)
