"""Rules about splits: missing ones, and images that are in several splits, as equal bytes or as similar pictures."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from deeplab.diagnosis.findings import HARMFUL, WARNING, Data, Finding, build_again
from deeplab.diagnosis.measurement import KEPT, Measured

_SIMILAR = 0.97  # correlation of the gradients of two thumbnails
_BLOCK = 2048
_MOST_COMPARISONS = 4e9  # about a minute on one core
_FLATTEST = 2.0  # standard deviation of a gradient below which a picture shows too little


def check(data: Data) -> Iterator[Finding]:
    """Yields the findings about splits."""
    yield from _missing(data)
    for name, facts in data.splits.items():
        yield from _repeated(data, name, facts)
    for one, other in itertools.combinations(data.splits, 2):
        if one not in other and other not in one:  # trainval consists of train and val
            yield from _shared(data, one, other)


def _missing(data: Data) -> Iterator[Finding]:
    """Yields a finding about splits without images, and about a missing split to evaluate on."""
    for name, facts in data.splits.items():
        if not facts.images:
            what = f"Split '{name}' has no image that can be read."
            yield Finding(HARMFUL, 'empty', name, what, 'Build it again, or remove it.')
    if data.evaluated not in data.splits:
        yield Finding(
            WARNING,
            'no_evaluation',
            data.evaluated,
            f"There is no split '{data.evaluated}', so nothing shows how well the network does on other images.",
            build_again(data, f'Set aside a part of the images in a list {data.evaluated}.txt'),
        )


def _repeated(data: Data, name: str, facts: Measured) -> Iterator[Finding]:
    """Yields a finding about images that a split holds more than once."""
    first: dict[bytes, str] = {}
    cases = []
    for digest, image in zip(facts.digests, facts.names, strict=True):
        if digest in first:
            cases.append(f'{image} is {first[digest]}')
        first.setdefault(digest, image)
    if cases:
        what = f"{len(cases)} images of split '{name}' are in it more than once, with the same bytes."
        fix = build_again(data, 'Remove the copies, and check that their masks agree')
        yield Finding(WARNING, 'repeated', name, what, fix, len(cases), tuple(cases[:KEPT]))


def _shared(data: Data, one: str, other: str) -> Iterator[Finding]:
    """Yields findings about images of one split that are, exactly or nearly, in another."""
    first, second = data.splits[one], data.splits[other]
    known = dict(zip(first.digests, first.names, strict=True))
    pairs = [(known[d], name) for d, name in zip(second.digests, second.names, strict=True) if d in known]
    where = f'{one}, {other}'
    if pairs:
        yield Finding(
            HARMFUL,
            'overlap',
            where,
            f"{len(pairs)} images of split '{other}' are also in split '{one}', with the same bytes: metrics on them "
            'do not show how well the network does on other images.',
            build_again(data, 'Remove them from one of the lists'),
            len(pairs),
            tuple(f'{a} is {b}' for a, b in pairs[:KEPT]),
        )
    exact = {i for i, digest in enumerate(second.digests) if digest in known}
    similar = [pair for pair in similar_pairs(first.thumbnails, second.thumbnails) if pair[1] not in exact]
    if similar:
        yield Finding(
            WARNING,
            'similar',
            where,
            f"{len(similar)} images of split '{other}' look almost like one in split '{one}', such as frames of one "
            'video: metrics on them are too optimistic.',
            build_again(data, 'Keep the frames of a video, or the photos of a scene, in one split'),
            len(similar),
            tuple(f'{first.names[i]} and {second.names[j]}' for i, j in similar[:KEPT]),
        )


def similar_pairs(first: list[np.ndarray | None], second: list[np.ndarray | None]) -> list[tuple[int, int]]:
    """Returns for each thumbnail of `second` that has a similar one in `first` the positions of both.

    Two are similar if their gradients correlate. It does not depend on brightness, contrast, size or compression.

    Args:
      first: [17, 17] uint8 thumbnails; None for images without one.
      second: those of other images.
    """
    if not first or not second or len(first) * len(second) > _MOST_COMPARISONS:
        return []
    found = []
    for low in range(0, len(second), _BLOCK):
        right = _descriptions(second[low : low + _BLOCK])
        best = np.full(len(right), -1.0, np.float32)
        place = np.zeros(len(right), np.int64)
        for start in range(0, len(first), _BLOCK):
            scores = right @ _descriptions(first[start : start + _BLOCK]).T  # [right, left]
            highest = scores.argmax(axis=1)
            values = scores[np.arange(len(right)), highest]
            place[values > best] = highest[values > best] + start
            best = np.maximum(best, values)
        found += [(int(place[i]), low + int(i)) for i in np.flatnonzero(best >= _SIMILAR)]
    return found


def _descriptions(thumbnails: list[np.ndarray | None]) -> np.ndarray:
    """Returns the gradients of thumbnails with length 1, or 0 for those that are flat or missing: [n, 544] float32."""
    blank = np.zeros((17, 17), np.uint8)
    pixels = np.stack([blank if one is None else one for one in thumbnails]).astype(np.float32)
    across, down = np.diff(pixels, axis=2), np.diff(pixels, axis=1)
    gradients = np.concatenate([across.reshape(len(pixels), -1), down.reshape(len(pixels), -1)], axis=1)
    lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
    is_flat = lengths < _FLATTEST * np.sqrt(gradients.shape[1])
    described: np.ndarray = np.where(is_flat, 0, gradients / np.maximum(lengths, 1e-6))
    return described
