"""Panoptic quality and parsing covering of segmentations into things and stuff.

Both sum a few numbers for each category over the images; sums of parts of a data set can be added.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from deeplab.core.segment_overlaps import Overlaps

_MATCH = 0.5  # segments with more overlap than this match; there is at most one match for a segment
_GROUPS = {'All': '', 'Things': '_things', 'Stuff': '_stuff'}  # of means, and the endings of their figures

Figures = dict[str, float | None]


# --- Panoptic quality ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Matches:
    """Which true and predicted segments of an image match; all are numbers of segments.

    Attributes:
      truth: [k], true segments with a match (true positives).
      prediction: [k], predicted segments that they match.
      iou: [k] float64, the IoU of each match.
      missed: [m], true segments without a match (false negatives).
      wrong: [w], predicted segments without a match (false positives).
    """

    truth: np.ndarray
    prediction: np.ndarray
    iou: np.ndarray
    missed: np.ndarray
    wrong: np.ndarray


def matches(overlaps: Overlaps, any_crowd: bool = False) -> Matches:
    """Returns the matches between the segments of an image.

    A predicted and a true segment of one category match if their IoU is above 0.5. Crowds are not matched. A predicted
    segment without a match is no error if more than half of it is void, or in crowds of its category.

    Args:
      overlaps: the overlaps of true and predicted segments.
      any_crowd: whether crowds of other categories count as well, as in the original's eval_coco_format.

    Source: arXiv:1801.00868, sections 4.1 and 4.2.
    """
    is_crowd, pixels = overlaps.truth.is_crowd, overlaps.pixels
    iou = overlaps.iou(pixels[0], ~is_crowd)
    is_match = iou > _MATCH
    missed = ~is_match.any(axis=1) & ~is_crowd & (overlaps.truth_pixels > 0)
    excuses = is_crowd[:, None] & (overlaps.is_same | any_crowd)  # [t, p]
    excused = pixels[0] + np.where(excuses, pixels, 0).sum(axis=0)
    wrong = ~is_match.any(axis=0) & (overlaps.predicted_pixels > 0) & (2 * excused <= overlaps.predicted_pixels)
    missed[0] = wrong[0] = False
    rows, columns = np.nonzero(is_match)
    return Matches(rows, columns, iou[rows, columns], np.flatnonzero(missed), np.flatnonzero(wrong))


def quality_sums(overlaps: Overlaps, num_categories: int, any_crowd: bool = False) -> np.ndarray:
    """Returns what panoptic quality needs of one image.

    Args:
      overlaps: the overlaps of true and predicted segments.
      num_categories: categories are less than this.
      any_crowd: see `matches`.

    Returns:
      [num_categories, 4] float64: the sum of the IoU of the `matches`, and the numbers of matches (true positives), of
      true segments without a match (false negatives), and of predicted ones (false positives).
    """
    pairs = matches(overlaps, any_crowd)
    of_truth, of_prediction = overlaps.truth.categories, overlaps.prediction.categories
    columns = [
        np.bincount(of_truth[pairs.truth], pairs.iou, num_categories),
        np.bincount(of_truth[pairs.truth], None, num_categories),
        np.bincount(of_truth[pairs.missed], None, num_categories),
        np.bincount(of_prediction[pairs.wrong], None, num_categories),
    ]
    return np.stack(columns, axis=1).astype(np.float64)


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


class PanopticQuality:
    """Sums what panoptic quality needs over images.

    Attributes:
      sums: [num_classes, 4] float64, the sums of `quality_sums`.
    """

    accumulated = ('sums',)

    def __init__(self, num_classes: int, things: Sequence[int]) -> None:
        """Creates empty sums; `things` are the classes that have instances."""
        self._is_thing = dict.fromkeys(things, True)
        self.sums = np.zeros((num_classes, 4))

    def update(self, overlaps: Overlaps) -> None:
        """Adds an image, the overlaps of its true and predicted segments."""
        self.sums += quality_sums(overlaps, len(self.sums))

    def merge(self, other: PanopticQuality) -> None:
        """Adds the images of `other`."""
        self.sums += other.sums

    def result(self) -> Figures:
        """Returns the means over all classes, 'pq', 'sq' and 'rq', over things, 'pq_things' ..., and over stuff."""
        groups = means(quality(self.sums), self._is_thing)
        return {f'{name}{_GROUPS[group]}': row[name] for group, row in groups.items() for name in ('pq', 'sq', 'rq')}

    def class_figures(self) -> dict[str, tuple[float | None, ...]]:
        """Returns figures of each class: 'pq', 'sq' and 'rq', None for one that does not occur; 'tp', 'fn' and 'fp'."""
        rows = quality(self.sums)
        counts = zip(('tp', 'fn', 'fp'), self.sums[:, 1:].T.astype(int).tolist(), strict=True)
        return {name: tuple(row[name] for row in rows) for name in ('pq', 'sq', 'rq')} | {
            name: tuple(numbers) for name, numbers in counts
        }


# --- Parsing covering ------------------------------------------------------------------------------------------------


def covering_sums(overlaps: Overlaps, num_categories: int, by_share: bool = True) -> np.ndarray:
    """Returns what parsing covering needs of one image; crowds are void here.

    Args:
      overlaps: the overlaps of true and predicted segments.
      num_categories: categories are less than this.
      by_share: whether a segment has its share of the image as its weight instead of its number of pixels, so that
        large images do not count more.

    Returns:
      [num_categories, 2] float64: the sum over the true segments of weight times best IoU, and the sum of the weights.

    Source: arXiv:1902.05093, section 5.1.
    """
    truth = overlaps.truth
    judged = ~truth.is_crowd
    judged[0] = False
    best = overlaps.iou(overlaps.pixels[~judged].sum(axis=0), judged).max(axis=1)  # [t]
    weights = np.where(judged, overlaps.truth_pixels / (overlaps.pixels.sum() if by_share else 1), 0.0)
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
