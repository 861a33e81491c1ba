"""Agreement of the edges in an image with the borders in its mask, which shows moved, mirrored and foreign masks.

The strength of the edges under the borders is measured for a range of shifts by one correlation, and for the mask
mirrored and rotated.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from deeplab.datasets.orientation import turned_pixels
from deeplab.pictures import drawing

_SIDE = 320  # longest side at which edges are compared
_RANGE = 16  # largest shift, in pixels of that size
_MARGIN = 6  # the largest shift is this part of the shorter side
_FEWEST = 40  # border pixels that show something
_NEAR = 3  # shifts this close to the best one belong to its peak
_SURE = 3.0  # standard deviations by which one of two orientations fits better
_STRONGEST = 95  # percentile of the edges above which all count alike


class Agreement(NamedTuple):
    """How well borders and edges agree, in standard deviations of the edges above their mean.

    Attributes:
      here: agreement as mask and image lie.
      best: agreement with the mask moved by `shift`.
      shift: rows and columns, in pixels of the image, from the mask to its best place.
      spread: standard deviation of the agreement over shifts that are not near the best one.
      level: mean agreement over these shifts.
      turned: agreement with the mask turned by the EXIF orientation `turn`.
      turn: the orientation with the best agreement.
      step: pixels between two shifts that were tried.
    """

    here: float
    best: float
    shift: tuple[int, int]
    spread: float
    level: float
    turned: float
    turn: int
    step: int


def factor_of(height: int, width: int) -> int:
    """Returns by how much sides are divided before edges are compared."""
    return max(-(-max(height, width) // _SIDE), 1)


def compare(gray: np.ndarray, ids: np.ndarray) -> tuple[Agreement, np.ndarray] | None:
    """Compares edges and borders.

    Args:
      gray: [h // factor, w // factor] float32, the image made smaller by averaging; see `factor_of`.
      ids: [h, w] uint8, its mask.

    Returns:
      The agreement as they lie, and for each shift in steps of `factor` pixels: [2 * r + 1, 2 * r + 1] float32, in
      the middle without a shift. None where image or mask have too few edges.
    """
    factor = factor_of(*ids.shape)
    borders = _borders(ids, factor)
    height, width = min(gray.shape[0], borders.shape[0]), min(gray.shape[1], borders.shape[1])
    reach = min(_RANGE, min(height, width) // _MARGIN)
    if reach < 2:
        return None
    strength = _edges(gray[:height, :width])
    inner = np.zeros((height, width), np.float32)
    middle = (slice(reach, height - reach), slice(reach, width - reach))
    inner[middle] = borders[:height, :width][middle]
    number = float(inner.sum())
    if strength is None or number < _FEWEST:
        return None
    scores = _correlation(inner, strength, reach) / number
    return _summary(scores, strength, inner, factor), scores


def fits_displayed(gray: np.ndarray, ids: np.ndarray, value: int) -> bool | None:
    """Returns whether a mask fits an image as viewers display it, rather than its stored pixels.

    Args:
      gray: the stored pixels, as for `compare`.
      ids: the mask, of the size of the stored pixels.
      value: EXIF orientation of the image.

    Returns:
      None where the edges do not show it.
    """
    back = {6: 8, 8: 6}.get(value, value)
    turned = turned_pixels(ids, back)
    if turned.shape != ids.shape:
        return None
    stored, displayed = compare(gray, ids), compare(gray, turned)
    if stored is None or displayed is None:
        return None
    one, other = stored[0], displayed[0]
    difference = (other.here - one.here) / max(one.spread, other.spread, 1e-6)
    return None if abs(difference) < _SURE else difference > 0


def _edges(gray: np.ndarray) -> np.ndarray | None:
    """Returns the strength of edges with mean 0 and standard deviation 1; None for a flat image."""
    down = np.zeros_like(gray)
    across = np.zeros_like(gray)
    down[1:-1] = gray[2:] - gray[:-2]
    across[:, 1:-1] = gray[:, 2:] - gray[:, :-2]
    strength = np.sqrt(np.hypot(down, across))
    most = np.percentile(strength, _STRONGEST)
    strength = np.minimum(strength, most)
    deviation = float(strength.std())
    if deviation < 1e-3:
        return None
    result: np.ndarray = ((strength - strength.mean()) / deviation).astype(np.float32)
    return result


def _borders(ids: np.ndarray, factor: int) -> np.ndarray:
    """Returns where ids change, both sides of the border: [h // factor, w // factor] bool."""
    is_border = drawing.borders(ids)
    if factor == 1:
        return is_border
    height, width = ids.shape[0] // factor, ids.shape[1] // factor
    blocks = is_border[: height * factor, : width * factor].reshape(height, factor, width, factor)
    return np.asarray(blocks.any(axis=(1, 3)))


def _correlation(borders: np.ndarray, strength: np.ndarray, reach: int) -> np.ndarray:
    """Returns the sum of edges under borders for each shift up to `reach`: [2 * reach + 1, 2 * reach + 1]."""
    spectrum = np.conj(np.fft.rfft2(borders)) * np.fft.rfft2(strength)
    sums = np.fft.irfft2(spectrum, borders.shape)
    places = np.arange(-reach, reach + 1)
    window: np.ndarray = sums[np.ix_(places, places)].astype(np.float32)
    return window


def _summary(scores: np.ndarray, strength: np.ndarray, borders: np.ndarray, factor: int) -> Agreement:
    reach = len(scores) // 2
    row, column = (int(place) for place in np.unravel_index(scores.argmax(), scores.shape))
    rows, columns = np.ogrid[: len(scores), : len(scores)]
    far = np.maximum(abs(rows - row), abs(columns - column)) > _NEAR
    others = scores[far] if far.any() else scores.reshape(-1)
    turned = {
        turn: float((turned_pixels(borders, turn) * strength).sum() / borders.sum())
        for turn in range(2, 9 if borders.shape[0] == borders.shape[1] else 5)  # orientations from 5 on need a square
    }
    turn = max(turned, key=lambda key: turned[key])
    return Agreement(
        float(scores[reach, reach]),
        float(scores[row, column]),
        ((row - reach) * factor, (column - reach) * factor),
        float(others.std()),
        float(others.mean()),
        turned[turn],
        turn,
        factor,
    )
