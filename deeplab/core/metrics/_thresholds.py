"""Histograms of probabilities, from which the figures at every threshold follow."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from deeplab.errors import DataError

BINS = 1024  # of equal width; a power of two, so that multiplying a probability by it is exact

Counts = npt.NDArray[np.int64]


def require_numbers(probabilities: npt.NDArray[np.floating[Any]]) -> None:
    """Raises `DataError` if a probability is NaN."""
    if np.isnan(probabilities).any():
        raise DataError(
            'The network gives probabilities that are not a number (NaN). Its weights are probably not finite '
            'either: check them with `deeplab checkpoint`, and evaluate an earlier checkpoint.'
        )


def bins(probabilities: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.uint16]:
    """Returns the bin of each probability: bin k has those from `k / BINS` to below `(k + 1) / BINS`, the last also 1.

    Raises:
      DataError: A probability is not a number.
    """
    require_numbers(probabilities)
    return np.clip(probabilities * probabilities.dtype.type(BINS), 0, BINS - 1).astype(np.uint16)


def histogram(places: npt.NDArray[np.integer[Any]]) -> Counts:
    """Returns how many of the bins' numbers, an array of any shape, are of each bin: [BINS]."""
    return np.bincount(places.reshape(-1), minlength=BINS).astype(np.int64, copy=False)


def at_least(histograms: Counts) -> Counts:
    """Returns how many probabilities are `k / BINS` or more, for each k: [..., BINS] to [..., BINS]."""
    return np.cumsum(histograms[..., ::-1], axis=-1)[..., ::-1]


def best(scores: npt.NDArray[np.float64]) -> int | None:
    """Returns the bin whose lower bound is the threshold with the highest score.

    Of equal ones it is the nearest to a threshold of one half: the most tolerant of the thresholds that separate
    probabilities near 0 from probabilities near 1.

    Args:
      scores: [BINS], NaN where there is none. A threshold of 0, which all pixels reach, is left out.
    """
    if np.isnan(scores[1:]).all():
        return None
    is_best = scores[1:] == np.nanmax(scores[1:])
    places = np.arange(1, BINS)[is_best]
    return int(places[np.abs(places - BINS // 2).argmin()])
