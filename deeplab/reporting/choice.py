"""Choice of the images that a report shows, by their mean IoU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

WORST, MEDIAN, BEST = 'worst', 'median', 'best'
CONFUSION = 'confusion'  # shows a frequent confusion of two classes
BETTER, WORSE = 'better', 'worse'  # than the first network
_SHARE_OF_CONFUSIONS = 0.2

Groups = dict[int, list[str]]
Group = tuple[str, Iterable[int]]  # its name and its images


def of_one(scores: np.ndarray, confusing: Sequence[int], most: int) -> Groups:
    """Chooses the worst, median and best images, and examples of the most frequent confusions.

    Args:
      scores: mean IoU of each image; NaN for one without labels, which is not chosen.
      confusing: images that show the most frequent confusions, the most frequent first; may repeat.
      most: largest number of images.

    Returns:
      The groups of each chosen image, in the order of the groups, the worst first.
    """
    ranked = _ranked(scores)
    if len(ranked) <= most:
        thirds = np.array_split(ranked, 3)
        return _merged(zip((WORST, MEDIAN, BEST), thirds, strict=True), most)
    examples = list(dict.fromkeys(int(i) for i in confusing if np.isfinite(scores[i])))
    examples = examples[: int(most * _SHARE_OF_CONFUSIONS)]
    third, rest = divmod(most - len(examples), 3)
    middle = third + rest
    start = (len(ranked) - middle) // 2
    others: list[Group] = [
        (MEDIAN, ranked[start : start + middle]),
        (BEST, ranked[len(ranked) - third :][::-1]),
        (CONFUSION, examples),
    ]
    return _filled(lambda lowest: [(WORST, lowest), *others], ranked, third, most)


def of_several(scores: np.ndarray, most: int) -> Groups:
    """Chooses the images whose mean IoU differs most from the first network's, then the worst ones.

    Args:
      scores: [networks, images] mean IoU of each image; NaN for one without labels.
      most: largest number of images.

    Returns:
      The groups of each chosen image: half of the images have become worse, half better, as far as there are such.
    """
    change = scores[1:] - scores[0]  # [networks - 1, images]
    largest = np.take_along_axis(change, np.abs(np.nan_to_num(change)).argmax(axis=0)[None], axis=0)[0]
    ranked = _ranked(largest)
    worse = [i for i in ranked if largest[i] < 0]
    better = [i for i in ranked[::-1] if largest[i] > 0]
    half = max(most // 2, most - len(better))
    groups = [(WORSE, worse[:half]), (BETTER, better[: max(most // 2, most - len(worse))])]
    room = max(most - sum(len(each) for _, each in groups), 0)
    return _filled(lambda lowest: [*groups, (WORST, lowest)], _ranked(scores.min(axis=0)), room, most)


def _filled(with_lowest: Callable[[np.ndarray], Sequence[Group]], ranked: np.ndarray, number: int, most: int) -> Groups:
    """Returns the groups with as many of the lowest images as it takes to have `most` images, as far as there are any.

    `number` images are enough if no image is in two groups.
    """
    groups = _merged(with_lowest(ranked[:number]), most)
    while len(groups) < most and number < len(ranked):  # an image in two groups counts once
        number += 1
        groups = _merged(with_lowest(ranked[:number]), most)
    return groups


def _ranked(scores: np.ndarray) -> np.ndarray:
    """Returns the images with a score, the lowest first; equal ones in order."""
    order = np.argsort(scores, kind='stable')
    ranked: np.ndarray = order[np.isfinite(scores[order])]
    return ranked


def _merged(groups: Iterable[Group], most: int) -> Groups:
    """Returns the groups of each image; an image of several groups counts once."""
    merged: Groups = {}
    for name, images in groups:
        for image in map(int, images):
            if image in merged or len(merged) < most:
                merged.setdefault(image, []).append(name)
    return merged
