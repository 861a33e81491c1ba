"""An order of images in which the first ones are uncertain and differ from each other."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from deeplab.checks import similarity

LABELED = -1  # in place of the position of an image


@dataclasses.dataclass(frozen=True)
class Appearance:
    """What n images look like.

    Attributes:
      features: [n, d] float32 of length 1; the product of two rows says how much two images have in common.
      thumbnails: [17, 17] uint8 of each, by which near-duplicates are recognized.
    """

    features: np.ndarray
    thumbnails: Sequence[np.ndarray]


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


def order(scores: np.ndarray, images: Appearance, first: int, labeled: Appearance | None = None) -> Order:
    """Orders images: greedily, each time the one with the largest product of score and distance.

    The distance of an image is the Hellinger distance of its features from the nearest image that is labeled or chosen,
    sqrt(1 - product); 1 while there is none. A near-duplicate of such an image is not chosen.

    Args:
      scores: [n], 0 or more.
      images: what they look like.
      first: how many to choose, at most.
      labeled: what images with labels look like; None for none.

    Source: O. Sener and S. Savarese, arXiv:1708.00489 (section 4.3, k-center greedy), here weighted by the score.
    """
    number = len(scores)
    distances = np.ones(number)
    chosen: list[int] = []
    duplicates: dict[int, int] = {}
    if labeled is not None and len(labeled.features):
        for start in range(0, len(labeled.features), 1024):
            part = labeled.features[start : start + 1024]
            distances = np.minimum(distances, _distance((images.features @ part.T).max(axis=1)))
        pairs = similarity.similar_pairs(labeled.thumbnails, images.thumbnails)
        duplicates = {place: LABELED for _, place in pairs}
    is_free = np.ones(number, bool)
    is_free[list(duplicates)] = False
    while len(chosen) < first and is_free.any():
        place = int(np.where(is_free, scores * distances, -1).argmax())
        chosen.append(place)
        is_free[place] = False
        distances = np.minimum(distances, _distance(images.features @ images.features[place]))
        for _, other in similarity.similar_pairs([images.thumbnails[place]], images.thumbnails):
            if is_free[other]:
                duplicates[other] = place
                is_free[other] = False
    is_chosen = np.zeros(number, bool)
    is_chosen[chosen] = True
    rest = [place for place in np.argsort(-scores, kind='stable').tolist() if not is_chosen[place]]
    rest.sort(key=lambda place: place in duplicates)
    return Order([*chosen, *rest], len(chosen), duplicates)


def _distance(products: np.ndarray) -> np.ndarray:
    """Returns the Hellinger distances of features, from their products."""
    distances: np.ndarray = np.sqrt(np.clip(1 - products, 0, 1))
    return distances
