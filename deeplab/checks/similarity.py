"""Images that look alike: near-duplicates, and frames of one sequence in two splits.

Near-duplicates have similar gradients in their thumbnails, which do not depend on brightness, contrast, size or
compression.

Frames of a video that are a second apart are no near-duplicates. But a network that was trained on the frames beside an
image knows most of it, so that metrics on the image are too optimistic. Mixed numbers alone do not show that: photos
that have nothing in common are numbered, too. Here the neighbors of a sequence must also look more like each other than
like other images.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator, Sequence

import numpy as np

from deeplab.checks.facts import ImageSummary

SIMILAR = 0.97  # correlation of the gradients of two thumbnails
_BLOCK = 2048
_MOST_COMPARISONS = 4e9  # about a minute on one core
_FLATTEST = 2.0  # standard deviation of a gradient below which a picture shows too little
# Neighbors in a sequence.
_NUMBERED = re.compile(r'(.*?)([0-9]+)([^0-9]*)')  # the last number in a name
_FEWEST = 10  # neighbors that show how alike they look
_LEAST_SHARE = 0.1  # of the images of the split that have neighbors in the other one; a split of whole parts has few
_LEAST_ALIKE = 0.8  # share of them that look more like the neighbor than like another image
_LEAST_GAIN = 0.15  # median by which the correlation with the neighbor is larger; CamVid, at random: 0.45


def similar_pairs(
    first: Sequence[np.ndarray], second: Sequence[np.ndarray], groups: tuple[np.ndarray, np.ndarray] | None = None
) -> list[tuple[int, int]]:
    """Returns for each thumbnail of `second` that has a similar one in `first` the positions of both.

    Args:
      first: [17, 17] uint8 thumbnails.
      second: [17, 17] uint8 thumbnails of other images.
      groups: the group of each thumbnail of both, integers; those of one group are not compared.
    """
    if not first or not second or len(first) * len(second) > _MOST_COMPARISONS:
        return []
    pairs = []
    for low, right in _described(second):
        best = np.full(len(right), -1.0, np.float32)
        place = np.zeros(len(right), np.int64)
        for start, left in _described(first):
            scores = right @ left.T  # [right, left]
            if groups is not None:
                own = groups[0][start : start + len(left)]
                scores[groups[1][low : low + len(right), np.newaxis] == own] = -1
            highest = scores.argmax(axis=1)
            values = scores[np.arange(len(right)), highest]
            place[values > best] = highest[values > best] + start
            best = np.maximum(best, values)
        pairs += [(int(place[i]), low + int(i)) for i in np.flatnonzero(best >= SIMILAR)]
    return pairs


def correlations(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> np.ndarray:
    """Returns how alike n pairs of thumbnails are, [17, 17] uint8 each: [n] float32, -1 to 1; 0 where one is flat."""
    parts = [
        (one * other).sum(axis=1) for (_, one), (_, other) in zip(_described(first), _described(second), strict=True)
    ]
    return np.concatenate([np.zeros(0, np.float32), *parts])


def _described(thumbnails: Sequence[np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
    """Yields the position of the first of each block of thumbnails, and their gradients.

    Gradients have length 1, or 0 for flat thumbnails: [n, 544] float32.
    """
    for low in range(0, len(thumbnails), _BLOCK):
        pixels = np.stack(thumbnails[low : low + _BLOCK]).astype(np.float32)
        across, down = np.diff(pixels, axis=2), np.diff(pixels, axis=1)
        gradients = np.concatenate([across.reshape(len(pixels), -1), down.reshape(len(pixels), -1)], axis=1)
        lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
        is_flat = lengths < _FLATTEST * np.sqrt(gradients.shape[1])
        yield low, np.where(is_flat, 0, gradients / np.maximum(lengths, 1e-6))


def shared_neighbors(
    first: Sequence[ImageSummary], second: Sequence[ImageSummary]
) -> list[tuple[ImageSummary, ImageSummary]]:
    """Returns neighbors in a sequence that is in both splits: the image of `first`, and the image of `second`.

    There is a pair for each image of `second` with a neighbor in `first`, but none unless the neighbors look more alike
    than two distant images; these are of the same classes, if the images have classes as a whole.
    """
    pairs = _neighbors([image.stem for image in first], [image.stem for image in second])
    if len(pairs) < max(_FEWEST, _LEAST_SHARE * len(second)):
        return []
    own = [first[i].thumbnail for i, _ in pairs]
    groups: dict[tuple[int, ...], list[int]] = collections.defaultdict(list)
    for place, image in enumerate(first):
        groups[image.class_ids].append(place)
    distant: dict[int, int] = {}
    for group in groups.values():
        distant |= dict(zip(group, group[len(group) // 2 :] + group[: len(group) // 2], strict=True))
    others = [first[distant[i]].thumbnail for i, _ in pairs]
    images = [second[j].thumbnail for _, j in pairs]
    gains = correlations(images, own) - correlations(images, others)
    are_alike = (gains > 0).mean() >= _LEAST_ALIKE and np.median(gains) >= _LEAST_GAIN
    return [(first[i], second[j]) for i, j in pairs] if are_alike else []


def _neighbors(first: Sequence[str], second: Sequence[str]) -> list[tuple[int, int]]:
    """Returns the positions of names that differ in their last number alone, with no number of either split between."""
    sequences: dict[tuple[str, str], list[tuple[int, int, int]]] = collections.defaultdict(list)
    for split, names in enumerate((first, second)):
        for place, name in enumerate(names):
            if numbered := _NUMBERED.fullmatch(name):
                sequences[numbered[1], numbered[3]].append((int(numbered[2]), split, place))
    pairs = []
    for members in sequences.values():
        members.sort()
        for at, (number, split, place) in enumerate(members):
            if split == 1:
                beside = [other for other in members[max(at - 1, 0) : at + 2] if other[1] == 0]
                if beside:
                    pairs.append((min(beside, key=lambda other: abs(other[0] - number))[2], place))
    return sorted(pairs, key=lambda pair: pair[1])
