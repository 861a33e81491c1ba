"""Average precision (AP) of predicted instances, as the evaluation of COCO computes it for masks.

Of each predicted instance, its score and whether it is right are kept, and no mask. The package pycocotools
has the same rules; the tests compare the figures.

Source: cocodataset.org/#detection-eval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from deeplab.core.segment_overlaps import Overlaps

_THRESHOLDS = np.linspace(0.5, 0.95, 10)  # least IoU of a match
_RECALLS = np.linspace(0, 1, 101)  # where precision is read
# Ranges of the area of an instance in pixels, both ends included: all, small, medium, large.
_AREAS = np.array([[0, 1e10], [0, 32**2], [32**2, 96**2], [96**2, 1e10]])
_MOST_INSTANCES = 100  # of a class in an image; the ones with the highest scores count

_IS_RIGHT, _IS_WRONG, _IS_IGNORED = range(3)

Outcomes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class InstancePrecision:
    """Collects the predicted instances of images: classes, scores, and which of them are right.

    Instances with equal scores are ranked in the order of the images, as in pycocotools. Void and stuff have
    no effect: a predicted instance where the truth is void is wrong.
    """

    accumulated = ('_instances', '_classes', '_scores', '_outcomes')

    def __init__(self, num_classes: int, things: Sequence[int]) -> None:
        """Creates an accumulator without images; `things` are the classes that have instances."""
        self._things = tuple(things)
        self._instances = np.zeros((num_classes, len(_AREAS)), np.int64)  # true ones by class and range of areas
        self._classes: list[npt.NDArray[np.int64]] = []  # [n] of each class of each image
        self._scores: list[Numbers] = []  # [n]
        self._outcomes: list[Outcomes] = []  # [n, areas, thresholds]

    def update(self, overlaps: Overlaps, scores: Mapping[tuple[int, int], float]) -> None:
        """Adds an image.

        Args:
          overlaps: the overlaps of its true and predicted segments, or of masks, which may cover each other.
          scores: the score of each predicted instance, by class and instance id.

        Raises:
          KeyError: an instance has no score.
        """
        truth, prediction = overlaps.truth, overlaps.prediction
        for category in self._things:
            rows, columns = (np.flatnonzero(segments.categories == category) for segments in (truth, prediction))
            areas = overlaps.truth_pixels[rows]
            is_ignored = truth.is_crowd[rows] | _is_outside(areas)  # [areas, t]
            self._instances[category] += (~is_ignored).sum(axis=1)
            if not columns.size:
                continue
            of_class = np.array([scores[category, number] for number in prediction.ids[columns].tolist()], float)
            order = np.argsort(-of_class, kind='stable')[:_MOST_INSTANCES]
            columns = columns[order]
            predicted = overlaps.predicted_pixels[columns]
            pixels = overlaps.pixels[np.ix_(rows, columns)].T  # [p, t]
            # A crowd has several instances, so that a prediction need not cover it.
            iou = pixels / np.maximum(predicted[:, None] + np.where(truth.is_crowd[rows], 0, areas - pixels), 1)
            self._classes.append(np.full(len(order), category))
            self._scores.append(of_class[order])
            self._outcomes.append(_outcomes(iou, is_ignored, truth.is_crowd[rows], _is_outside(predicted)))

    def merge(self, other: InstancePrecision) -> None:
        """Adds the images of `other`, after the images of this one."""
        self._instances += other._instances
        self._classes += other._classes
        self._scores += other._scores
        self._outcomes += other._outcomes

    def result(self) -> dict[str, float | None]:
        """Returns the means over the classes of the figures of `class_figures`; None without true instances."""
        means = {}
        for name, values in self.class_figures().items():
            numbers = [value for value in values if value is not None]
            means[name] = float(np.mean(numbers)) if numbers else None
        return means

    def class_figures(self) -> dict[str, tuple[float | None, ...]]:
        """Returns AP of each class from 0 to 1; None for a class without true instances (of the area).

        'ap' is the mean over the IoU thresholds 0.50, 0.55 ... 0.95, 'ap50' and 'ap75' belong to one threshold.
        'ap_small', 'ap_medium' and 'ap_large' are AP of instances of up to 32 * 32, up to 96 * 96, and more pixels.
        """
        classes = np.concatenate([np.zeros(0, np.int64), *self._classes])
        scores = np.concatenate([np.zeros(0), *self._scores])
        outcomes = np.concatenate([np.zeros((0, len(_AREAS), len(_THRESHOLDS)), np.uint8), *self._outcomes])
        figures: dict[str, list[float | None]] = {
            name: [] for name in ('ap', 'ap50', 'ap75', 'ap_small', 'ap_medium', 'ap_large')
        }
        for category, instances in enumerate(self._instances):
            chosen = np.flatnonzero(classes == category)
            ranked = outcomes[chosen[np.argsort(-scores[chosen], kind='stable')]]  # [n, areas, thresholds]
            all_, *by_area = (_precision(ranked[:, i], number) for i, number in enumerate(instances.tolist()))
            values = [all_.mean(), all_[0], all_[5], *(of_area.mean() for of_area in by_area)]
            for name, value in zip(figures, values, strict=True):
                figures[name].append(None if np.isnan(value) else float(value))
        return {name: tuple(of_classes) for name, of_classes in figures.items()}


def _is_outside(pixels: npt.NDArray[np.integer]) -> Flags:
    """Returns which sizes are outside of each range of areas, [areas, n]."""
    return (pixels < _AREAS[:, :1]) | (pixels > _AREAS[:, 1:])


def _outcomes(iou: Numbers, is_ignored: Flags, is_crowd: Flags, is_outside: Flags) -> Outcomes:
    """Returns which predicted instances of a class in an image are right.

    One after the other, each predicted instance matches the true one with the highest IoU that is not matched yet. It
    matches an ignored one only if there is no other, and is ignored then; a crowd has any number of matches. Without a
    match, it is ignored if its area is outside of the range.

    Args:
      iou: [p, t], by descending score.
      is_ignored: [areas, t], which true instances are not to be found.
      is_crowd: [t], which of them are crowds.
      is_outside: [areas, p], which predicted instances are outside of the range of areas.

    Returns:
      [p, areas, thresholds], `_IS_RIGHT`, `_IS_WRONG` or `_IS_IGNORED`.
    """
    shape = len(_AREAS), len(_THRESHOLDS)
    outcomes = np.where(is_outside.T, _IS_IGNORED, _IS_WRONG).astype(np.uint8)[..., None].repeat(shape[1], axis=2)
    is_free = np.ones((*shape, len(is_crowd)), bool)
    for row, of_instance in zip(iou, outcomes, strict=True):
        near = np.flatnonzero(row >= _THRESHOLDS[0])[::-1]  # of equals, the last one is matched
        if not near.size:
            continue
        candidates = is_free[..., near] & (row[near] >= _THRESHOLDS[:, None])  # [areas, thresholds, k]
        regular = candidates & ~is_ignored[:, None, near]
        has_regular = regular.any(axis=2)
        eligible = np.where(has_regular[..., None], regular, candidates)
        best = near[np.where(eligible, row[near], -1.0).argmax(axis=2)]  # [areas, thresholds]
        places = np.nonzero(candidates.any(axis=2))
        of_instance[places] = np.where(has_regular[places], _IS_RIGHT, _IS_IGNORED)
        is_free[(*places, best[places])] = is_crowd[best[places]]
    return outcomes


def _precision(outcomes: Outcomes, instances: int) -> Numbers:
    """Returns the mean precision at each threshold, [thresholds]; NaN without instances.

    Args:
      outcomes: [n, thresholds], of the predicted instances by descending score.
      instances: number of true instances that are to be found.
    """
    if not instances:
        return np.full(len(_THRESHOLDS), np.nan)
    right, wrong = (np.cumsum(outcomes == outcome, axis=0) for outcome in (_IS_RIGHT, _IS_WRONG))
    precision = right / np.maximum(right + wrong, 1)  # [n, thresholds]
    # The precision at a recall is the highest one at this or a higher recall, and 0 where no recall is as high.
    highest = np.maximum.accumulate(np.append(precision, np.zeros((1, len(_THRESHOLDS))), axis=0)[::-1], axis=0)[::-1]
    recall = right / instances
    return np.array([highest[np.searchsorted(recall[:, i], _RECALLS), i].mean() for i in range(len(_THRESHOLDS))])
