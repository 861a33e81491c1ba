"""Conversion of figures from arrays, with NaN for unknown ones, to Python numbers, with None."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from deeplab.core.metrics import _image_counts

Shares = npt.NDArray[np.float64]


def known(values: Shares) -> tuple[float | None, ...]:
    """Returns the values as Python numbers, None for NaN."""
    return tuple(None if math.isnan(value) else value for value in values.tolist())


def mean_of_known(values: Shares) -> float | None:
    """Returns the mean of the values that are not NaN; None if all are."""
    return known(_image_counts.mean_of_known(values)[None])[0]
