"""Panoptic quality and parsing covering of segmentations into things and stuff.

Both sum a few numbers for each category over the images; sums of parts of a data set can be added.

Pixels without a segment are *void*: where the truth is void, the prediction is not judged. A *crowd* is a region of the
truth with several things of one category that are not told apart.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

_MATCH = 0.5  # segments with more overlap than this match; there is at most one match for a segment

Figures = dict[str, float | None]


@dataclasses.dataclass(frozen=True)
class Segmentation:
    """The segments of an image.

    Attributes:
      index: [h, w] integer, number of the segment of each pixel; 0 for void.
      categories: [n + 1] integer, categories of the segments; the first, void, is not used.
      is_crowd: [n + 1] bool, which segments are crowds.
    """

    index: np.ndarray
    categories: np.ndarray
    is_crowd: np.ndarray


@dataclasses.dataclass(frozen=True)
class _Overlaps:
    """What two segmentations of an image have in common; rows are true segments, columns predicted ones.

    Attributes:
      pixels: [t, p] int64, pixels in both.
      truth: [t] int64, pixels of each true segment.
      prediction: [p] int64, pixels of each predicted one.
      is_same: [t, p] bool, whether the categories agree; false for void.
    """

    pixels: np.ndarray
    truth: np.ndarray
    prediction: np.ndarray
    is_same: np.ndarray

    def iou(self, void: np.ndarray, may_match: np.ndarray) -> np.ndarray:
        """Returns intersection over union, [t, p] float64; 0 where the categories differ.

        Args:
          void: [p], pixels of each predicted segment that are not judged, and so not part of the union.
          may_match: [t] bool, which true segments are compared.
        """
        union = self.truth[:, None] + (self.prediction - void)[None] - self.pixels  # [t, p]
        return np.where(self.is_same & may_match[:, None], self.pixels / np.maximum(union, 1), 0.0)


def _overlaps(truth: Segmentation, prediction: Segmentation) -> _Overlaps:
    shape = len(truth.categories), len(prediction.categories)
    pairs = truth.index.astype(np.int64) * shape[1] + prediction.index  # [h, w]
    pixels = np.bincount(pairs.ravel(), minlength=shape[0] * shape[1]).reshape(shape)
    is_same = truth.categories[:, None] == prediction.categories[None]
    is_same[0] = is_same[:, 0] = False
    return _Overlaps(pixels, pixels.sum(axis=1), pixels.sum(axis=0), is_same)


# --- Panoptic quality ------------------------------------------------------------------------------------------------


def quality_sums(truth: Segmentation, prediction: Segmentation, num_categories: int) -> np.ndarray:
    """Returns what panoptic quality needs of one image.

    A predicted and a true segment of one category match if their IoU is above 0.5. Crowds are not matched. A predicted
    segment without a match is no error if more than half of it is void, or in crowds of its category.

    Returns:
      [num_categories, 4] float64: the sum of the IoU of the matches, and the numbers of matches (true positives), of
      true segments without a match (false negatives), and of predicted ones (false positives).

    Source: arXiv:1801.00868, sections 4.1 and 4.2.
    """
    overlaps = _overlaps(truth, prediction)
    iou = overlaps.iou(overlaps.pixels[0], ~truth.is_crowd)
    is_match = iou > _MATCH
    missed = ~is_match.any(axis=1) & ~truth.is_crowd & (overlaps.truth > 0)
    excused = overlaps.pixels[0] + np.where(overlaps.is_same & truth.is_crowd[:, None], overlaps.pixels, 0).sum(axis=0)
    wrong = ~is_match.any(axis=0) & (overlaps.prediction > 0) & (2 * excused <= overlaps.prediction)
    missed[0] = wrong[0] = False
    rows, columns = np.nonzero(is_match)

    def summed(categories: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        return np.bincount(categories, weights, num_categories)

    matched = truth.categories[rows]
    return np.stack(
        [
            summed(matched, iou[rows, columns]),
            summed(matched),
            summed(truth.categories[missed]),
            summed(prediction.categories[wrong]),
        ],
        axis=1,
    ).astype(np.float64)


def quality(sums: np.ndarray) -> list[Figures]:
    """Returns panoptic quality, segmentation quality and recognition quality of each category.

        SQ = sum of IoU / TP,  RQ = TP / (TP + FP / 2 + FN / 2),  PQ = SQ * RQ

    Args:
      sums: sums of `quality_sums`.

    Returns:
      'pq', 'sq' and 'rq' from 0 to 1, by category; None for a category that occurs in neither truth nor predictions.

    Source: arXiv:1801.00868, equations 1 and 2.
    """
    figures: list[Figures] = []
    for iou, hits, misses, wrong in sums.tolist():
        if hits + misses + wrong == 0:
            figures.append({'pq': None, 'sq': None, 'rq': None})
            continue
        sq, rq = iou / max(hits, 1), hits / (hits + (misses + wrong) / 2)
        figures.append({'pq': sq * rq, 'sq': sq, 'rq': rq})
    return figures


# --- Parsing covering ------------------------------------------------------------------------------------------------


def covering_sums(
    truth: Segmentation, prediction: Segmentation, num_categories: int, by_share: bool = True
) -> np.ndarray:
    """Returns what parsing covering needs of one image; crowds are void here.

    Args:
      truth: the true segments.
      prediction: the predicted ones.
      num_categories: categories are less than this.
      by_share: whether a segment has its share of the image as its weight instead of its number of pixels, so that
        large images do not count more.

    Returns:
      [num_categories, 2] float64: the sum over the true segments of weight times best IoU, and the sum of the weights.

    Source: arXiv:1902.05093, section 5.1.
    """
    overlaps = _overlaps(truth, prediction)
    judged = ~truth.is_crowd
    judged[0] = False
    best = overlaps.iou(overlaps.pixels[~judged].sum(axis=0), judged).max(axis=1)  # [t]
    weights = np.where(judged, overlaps.truth / (truth.index.size if by_share else 1), 0.0)
    categories = np.where(judged, truth.categories, 0)
    return np.stack(
        [np.bincount(categories, weights * best, num_categories), np.bincount(categories, weights, num_categories)],
        axis=1,
    )


def covering(sums: np.ndarray) -> list[Figures]:
    """Returns parsing covering of each category: the mean of the best IoU of its true segments, by their sizes.

        Cov = sum over segments R of |R| * max IoU(R, R') / sum of |R|

    Args:
      sums: sums of `covering_sums`.

    Returns:
      'pc' from 0 to 1, by category; None for a category that does not occur in the truth.

    Source: arXiv:1902.05093, equations 2 to 4.
    """
    return [{'pc': covered / weight if weight > 0 else None} for covered, weight in sums.tolist()]


# --- Means -----------------------------------------------------------------------------------------------------------


def means(figures: list[Figures], is_thing: Mapping[int, bool]) -> dict[str, Figures]:
    """Returns means over categories, 'All', 'Things' and 'Stuff', of figures by category.

    Returns:
      The mean of each figure, and 'n', the number of categories that have one; means are None if that is 0.
    """
    groups: dict[str, Callable[[int], bool]] = {
        'All': lambda category: True,
        'Things': lambda category: is_thing.get(category, False),
        'Stuff': lambda category: not is_thing.get(category, False),
    }
    result: dict[str, Figures] = {}
    for group, contains in groups.items():
        rows = [row for i, row in enumerate(figures) if contains(i) and None not in row.values()]
        result[group] = {name: float(np.mean([row[name] for row in rows])) if rows else None for name in figures[0]}
        result[group]['n'] = len(rows)
    return result
