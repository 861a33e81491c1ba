"""Medians, spreads and ratios of measurements, with bootstrap intervals."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_SAMPLES = 4000
_SHARE = 0.95


class Ratio(NamedTuple):
    """A ratio of medians and the interval that holds 95 % of those of resampled measurements; None for too few."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def differs(self) -> bool:
        """Whether the interval is known and excludes 1."""
        return self.low is not None and self.high is not None and not self.low <= 1.0 <= self.high

    def __str__(self) -> str:
        interval = '' if self.low is None else f' [{self.low:.2f}, {self.high:.2f}]'
        return f'{self.value:.2f}{interval}'


def paired(numerators: Sequence[float], denominators: Sequence[float]) -> Ratio:
    """Returns the ratio of the medians of measurements that were made in pairs, which are resampled together."""
    return _ratio(np.array(numerators), np.array(denominators), are_pairs=True)


def unpaired(numerators: Sequence[float], denominators: Sequence[float]) -> Ratio:
    """Returns the ratio of the medians of measurements of two runs."""
    return _ratio(np.array(numerators), np.array(denominators), are_pairs=False)


def _ratio(numerators: np.ndarray, denominators: np.ndarray, are_pairs: bool) -> Ratio:
    value = float(np.median(numerators) / np.median(denominators))
    if min(len(numerators), len(denominators)) < 3:
        return Ratio(value)
    rng = np.random.default_rng(0)
    first = rng.integers(0, len(numerators), (_SAMPLES, len(numerators)))
    second = first if are_pairs else rng.integers(0, len(denominators), (_SAMPLES, len(denominators)))
    ratios = np.median(numerators[first], axis=1) / np.median(denominators[second], axis=1)
    outside = (1 - _SHARE) / 2
    low, high = np.quantile(ratios, [outside, 1 - outside])
    return Ratio(value, float(low), float(high))


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Returns minimum, median and maximum."""
    return min(values), statistics.median(values), max(values)
