"""Confidence intervals of mIoU and of the IoU of each class, by resampling the images (bootstrap)."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from deeplab.core.metrics import _image_counts
from deeplab.registry import Metric, MetricContext, Parameter, register
from deeplab.registry.metrics import MATRICES, Ids

_MOST_DRAWS = 2_000_000  # numbers of images drawn at a time


class Intervals:
    """Percentile intervals of 95 %: in 95 % of repeated samples of images, such an interval contains the true value.

    Each resample draws as many images as there are, with replacement, and sums their counts. An image without a
    labeled pixel is excluded. Resamples of one image do not vary: there is no interval of a class that occurs in fewer
    than two images (in labels or predictions), and with fewer than two images none at all.
    """

    accumulated = ('_counts',)

    def __init__(self, context: MetricContext, bootstrap_samples: int, bootstrap_seed: int) -> None:
        self._samples = bootstrap_samples
        self._seed = bootstrap_seed
        self._counts = [np.empty((0, 3, context.num_classes), np.uint32)]  # [n, 3, classes] of each batch
        self._ends: tuple[Fractions, Fractions] | None = None

    def update(self, labels: Ids, predictions: Ids, *, matrices: _image_counts.Counts) -> None:
        """Adds a batch of images, see `deeplab.registry.metrics.Accumulator`."""
        counts = _image_counts.of_matrices(matrices)
        self._counts.append(counts[counts[:, _image_counts.OF_LABEL].any(axis=1)].astype(np.uint32))
        self._ends = None

    def merge(self, other: Intervals) -> None:
        """Adds the images of `other`."""
        self._counts += other._counts
        self._ends = None

    def result(self) -> dict[str, float | None]:
        """Returns both ends of the interval of mIoU; None with fewer than two images."""
        miou, _ = self._intervals()
        low, high = _image_counts.to_numbers(miou)
        return {'miou low': low, 'miou high': high}

    def class_figures(self) -> dict[str, tuple[float | None, ...]]:
        """Returns both ends of the interval of the IoU of each class; None for one in fewer than two images."""
        _, classes = self._intervals()
        return {'low': _image_counts.to_numbers(classes[0]), 'high': _image_counts.to_numbers(classes[1])}

    def _intervals(self) -> tuple[Fractions, Fractions]:
        """Returns the intervals of mIoU, [2], and of the classes, [2, classes]; they do not depend on the order."""
        if self._ends is None:
            counts = np.concatenate(self._counts)  # [n, 3, classes]
            rows = counts.reshape(len(counts), 3 * counts.shape[2])
            # An order that follows from the values of the rows alone.
            as_bytes = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1] * rows.itemsize)))
            rows = rows[np.argsort(as_bytes[:, 0], kind='stable')]
            ious = resampled_iou(rows, self._samples, np.random.default_rng(self._seed))
            ends = percentiles(np.concatenate([_image_counts.mean_of_known(ious)[:, None], ious], axis=1))
            ends = of_several_images(ends, [len(rows), *counts.any(axis=1).sum(axis=0)])
            self._ends = ends[:, 0], ends[:, 1:]
        return self._ends


Fractions = _image_counts.Fractions


def resampled_iou(rows: npt.NDArray[np.uint32], samples: int, random: np.random.Generator) -> Fractions:
    """Returns the IoU of each class in each resample: [n, 3 * classes] counts of images -> [samples, classes]."""
    images, columns = rows.shape
    if not images:
        return np.full((samples, columns // 3), np.nan)
    ious = []
    values = rows.astype(np.float64)  # sums are exact below 2**53
    step = max(1, _MOST_DRAWS // images)
    for first in range(0, samples, step):
        number = min(step, samples - first)
        drawn = random.integers(0, images, (number, images)) + images * np.arange(number)[:, None]
        times = np.bincount(drawn.reshape(-1), minlength=number * images).reshape(number, images)
        sums = times.astype(np.float64) @ values  # [number, 3 * classes]
        ious.append(_image_counts.class_iou(sums.reshape(number, 3, -1)))
    return np.concatenate(ious)


def percentiles(values: Fractions) -> Fractions:
    """Returns the 2.5 % and 97.5 % quantiles of each column, without NaN: [n, columns] -> [2, columns]."""
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', RuntimeWarning)  # about columns of NaN only, which give NaN
        quantiles: Fractions = np.nanquantile(values, (0.025, 0.975), axis=0)
    return quantiles


def of_several_images(ends: Fractions, images: npt.ArrayLike) -> Fractions:
    """Returns the ends of intervals, NaN for figures that fewer than two images determine.

    Args:
      ends: [2, columns].
      images: [columns], numbers of images that determine each figure.
    """
    return np.where(np.asarray(images) < 2, np.nan, ends)


register(
    Metric(
        name='intervals',
        summary='95% confidence intervals of the mIoU and of the IoU of each class, by bootstrap over the images.',
        create=Intervals,
        inputs=(MATRICES,),
        parameters=(
            Parameter('bootstrap_samples', 1000, 'Number of bootstrap resamples for intervals.', range='[100, 100000]'),
            Parameter('bootstrap_seed', 0, 'Seed of the bootstrap resamples for intervals.', range='[0, inf)'),
        ),
        source='Efron, Tibshirani: An Introduction to the Bootstrap, 1993, chapter 13',
    )
)
