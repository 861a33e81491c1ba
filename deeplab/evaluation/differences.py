"""Paired differences of IoU between two networks on the same images, with intervals by bootstrap over the images."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from deeplab.core import metrics

RESAMPLES = 1000
_SEED = 0


class Interval(NamedTuple):
    """A figure and both ends of its 95 % interval; None where unknown."""

    value: float | None
    low: float | None
    high: float | None


def paired(first: np.ndarray, second: np.ndarray) -> tuple[Interval, list[Interval]]:
    """Returns the differences second - first of mean IoU and of the IoU of each class.

    Both networks are resampled with the same images. An image without a labeled pixel is excluded. One image gives no
    interval: there is none for a class that occurs in fewer than two images (in the labels or predictions), and with
    fewer than two images none at all.

    Args:
      first: [images, 3, classes], pixels that are right, of the label, of the prediction, of each image and class.
      second: the same of the other network.
    """
    labeled = first[:, 1].any(axis=1)
    both = np.concatenate([first, second], axis=2)[labeled]  # [images, 3, 2 * classes]
    classes = first.shape[2]
    whole = metrics.class_iou(both.sum(axis=0))[None]  # [1, 2 * classes]
    rows = both.reshape(len(both), 6 * classes)
    draws = metrics.resampled_iou(rows, RESAMPLES, np.random.default_rng(_SEED))  # [resamples, 2 * classes]
    values, ends = [
        _means_first(each[:, classes:]) - _means_first(each[:, :classes]) for each in (whole, draws)
    ]  # [1 and resamples, 1 + classes]
    images = np.concatenate([[len(both)], both.any(axis=1).reshape(-1, 2, classes).any(axis=1).sum(axis=0)])
    low, high = metrics.of_several_images(metrics.percentiles(ends), images)
    statistics = [
        Interval(*(float(part) if np.isfinite(part) else None for part in parts))
        for parts in zip(values[0], low, high, strict=True)
    ]
    return statistics[0], statistics[1:]


def _means_first(ious: np.ndarray) -> np.ndarray:
    """Returns the mean over the classes that occur, and the IoU of each class: [n, classes] -> [n, 1 + classes]."""
    return np.concatenate([metrics.mean_of_known(ious)[:, None], ious], axis=1)
