"""An order of images in which the first ones differ, and stand for the many images that are uncertain."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from deeplab.checks import similarity

LABELED = -1  # in place of the position of an image
_BLOCK = 1 << 24  # most numbers in a matrix of similarities
_MOST = 4096  # images that stand for all of them in a sum
_AT_ONCE = 32  # gains that are computed together


@dataclasses.dataclass(frozen=True)
class Appearance:
    """What n images look like.

    Attributes:
      features: [n, d] float32 of length 1; the product of two rows says how much two images have in common.
      thumbnails: [17, 17] uint8 of each, by which near-duplicates are recognized.
    """

    features: np.ndarray
    thumbnails: Sequence[np.ndarray]


class Sought(NamedTuple):
    """Images that the chosen ones shall stand for: their scores, [m], 0 or more, and what they look like."""

    scores: np.ndarray
    images: Appearance


@dataclasses.dataclass(frozen=True)
class Order:
    """An order of images.

    Attributes:
      places: positions of all images, the first ones first.
      chosen: how many of the first ones were chosen to differ; the others follow by their score, near-duplicates last.
      duplicates: position of the chosen image, or `LABELED`, that a near-duplicate looks like, by its position.
    """

    places: list[int]
    chosen: int
    duplicates: dict[int, int]


def order(
    scores: np.ndarray,
    images: Appearance,
    first: int,
    labeled: Appearance | None = None,
    sought: Sought | None = None,
) -> Order:
    """Orders images: greedily, each time the one that stands for most of the uncertainty that is not covered yet.

    The similarity of two images is 1 less their Hellinger distance, sqrt(1 - product). An image is covered as far as it
    is similar to an image that is labeled or chosen. Chosen next is the image that adds most to the sum, over all
    `sought` images (4096 of more), of score times coverage (facility location): outliers, which stand for themselves
    alone, come late. A near-duplicate of a labeled or chosen image is not chosen.

    Args:
      scores: [n], 0 or more.
      images: what they look like.
      first: how many to choose, at most.
      labeled: what images with labels look like; None for none.
      sought: images that the chosen ones shall stand for; None for `images` themselves.

    Source: K. Wei, R. Iyer and J. Bilmes, Submodularity in data subset selection and active learning, ICML 2015
    (section 3); gains that were computed earlier are upper bounds: M. Minoux, Accelerated greedy algorithms, 1978.
    """
    number = len(scores)
    all_scores, all_images = sought or Sought(scores, images)
    summed = np.unique(np.linspace(0, len(all_scores) - 1, min(len(all_scores), _MOST)).astype(int))
    points, weights = all_images.features[summed], all_scores[summed].astype(np.float32)
    covered = np.zeros(len(summed), np.float32)
    duplicates: dict[int, int] = {}
    if labeled is not None and len(labeled.features):
        for rows in _blocks(len(labeled.features), len(summed)):
            covered = np.maximum(covered, _similarity(labeled.features[rows], points).max(axis=0))
        pairs = similarity.similar_pairs(labeled.thumbnails, images.thumbnails)
        duplicates = {place: LABELED for _, place in pairs}

    def gains_of(places: slice | np.ndarray) -> np.ndarray:
        gains: np.ndarray = np.maximum(_similarity(images.features[places], points) - covered, 0) @ weights
        return gains

    gains = np.concatenate([gains_of(rows) for rows in _blocks(number, len(summed))])
    is_current = np.ones(number, bool)
    is_free = np.ones(number, bool)
    is_free[list(duplicates)] = False
    chosen: list[int] = []
    while len(chosen) < first and is_free.any():
        bounds = np.where(is_free, gains, -1)
        place = int(bounds.argmax())
        if not is_current[place]:
            largest = np.append(np.argpartition(-bounds, min(_AT_ONCE, number - 1))[:_AT_ONCE], place)  # one of equals
            gains[largest], is_current[largest] = gains_of(largest), True
            continue
        chosen.append(place)
        is_free[place], is_current[:] = False, False
        covered = np.maximum(covered, _similarity(images.features[[place]], points)[0])
        for _, other in similarity.similar_pairs([images.thumbnails[place]], images.thumbnails):
            if is_free[other]:
                duplicates[other] = place
                is_free[other] = False
    return Order([*chosen, *_rest(scores, chosen, duplicates)], len(chosen), duplicates)


def _rest(scores: np.ndarray, chosen: Sequence[int], duplicates: Mapping[int, int]) -> list[int]:
    """Returns the positions of the images that were not chosen, by their score, near-duplicates last."""
    is_chosen = np.zeros(len(scores), bool)
    is_chosen[list(chosen)] = True
    rest = [place for place in np.argsort(-scores, kind='stable').tolist() if not is_chosen[place]]
    rest.sort(key=lambda place: place in duplicates)
    return rest


def _blocks(rows: int, columns: int) -> list[slice]:
    """Returns parts of the rows of a matrix, each of at most 64 MB in float32."""
    block = max(_BLOCK // columns, 1)
    return [slice(start, start + block) for start in range(0, rows, block)]


def _similarity(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Returns the similarity of the features of images, 0 to 1: [m, d] and [n, d] to [m, n]."""
    similar: np.ndarray = 1 - np.sqrt(np.clip(1 - first @ second.T, 0, 1))
    return similar
