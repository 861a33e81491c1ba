"""Frames of one sequence that are in two splits, by the numbers in their names and by how alike neighbors look.

Frames of a video that are a second apart are no near-duplicates. But a network that was trained on the frames beside an
image knows most of it, so that metrics on the image are too optimistic. Mixed numbers alone do not show that: photos
that have nothing in common are numbered, too. Here the neighbors of a sequence must also look more like each other than
like other images.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Sequence

import numpy as np

from deeplab.checks import thumbnails
from deeplab.checks.facts import ImageSummary

_NUMBERED = re.compile(r'(.*?)([0-9]+)([^0-9]*)')  # the last number in a name
_FEWEST = 10  # neighbors that show how alike they look
_LEAST_SHARE = 0.1  # of the images of the split that have neighbors in the other one; a split of whole parts has few
_LEAST_ALIKE = 0.8  # share of them that look more like the neighbor than like another image
_LEAST_GAIN = 0.15  # median by which the correlation with the neighbor is larger; CamVid, at random: 0.45


def shared_neighbors(
    first: Sequence[ImageSummary], second: Sequence[ImageSummary]
) -> list[tuple[ImageSummary, ImageSummary]]:
    """Returns neighbors in a sequence that is in both splits: the image of `first`, and that of `second`.

    Args:
      first: images of a split.
      second: images of another split.

    Returns:
      for each image of `second` with a neighbor in `first`, the nearest one; nothing unless the neighbors look alike.
    """
    pairs = _neighbors([look.stem for look in first], [look.stem for look in second])
    if len(pairs) < max(_FEWEST, _LEAST_SHARE * len(second)):
        return []
    own = [first[i].thumbnail for i, _ in pairs]
    others = [first[(i + len(first) // 2) % len(first)].thumbnail for i, _ in pairs]
    images = [second[j].thumbnail for _, j in pairs]
    gains = thumbnails.correlations(images, own) - thumbnails.correlations(images, others)
    are_alike = (gains > 0).mean() >= _LEAST_ALIKE and np.median(gains) >= _LEAST_GAIN
    return [(first[i], second[j]) for i, j in pairs] if are_alike else []


def _neighbors(first: Sequence[str], second: Sequence[str]) -> list[tuple[int, int]]:
    """Returns the positions of names that differ in their last number alone, with no number of either split between."""
    sequences: dict[tuple[str, str], list[tuple[int, int, int]]] = collections.defaultdict(list)
    for split, names in enumerate((first, second)):
        for place, name in enumerate(names):
            if found := _NUMBERED.fullmatch(name):
                sequences[found[1], found[3]].append((int(found[2]), split, place))
    pairs = []
    for members in sequences.values():
        members.sort()
        for at, (number, split, place) in enumerate(members):
            if split == 1:
                beside = [other for other in members[max(at - 1, 0) : at + 2] if other[1] == 0]
                if beside:
                    pairs.append((min(beside, key=lambda other: abs(other[0] - number))[2], place))
    return sorted(pairs, key=lambda pair: pair[1])
