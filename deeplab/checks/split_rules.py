"""Rules about splits: missing ones, and images that are in several splits.

They may be there with equal bytes, as similar pictures, or as frames of one sequence.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from deeplab.checks import similarity
from deeplab.checks.facts import Case, ImageSummary
from deeplab.checks.findings import Data, Finding, build_again
from deeplab.names import agreeing, counted
from deeplab.options import crop_sizes

_DEFAULT_CROP = 513  # of train and eval
_LEAST_AGREEMENT = 0.6  # share of the cells in which the masks of two similar images agree


def check(data: Data) -> Iterator[Finding]:
    """Yields the findings about splits."""
    yield from _missing(data)
    for name, facts in data.splits.items():
        yield from _repeated(data, name, facts.images)
    for one, other in itertools.combinations(data.splits, 2):
        if not is_part(one, other):
            yield from _shared(data, one, other)
    yield from _inconsistent(data)
    yield from _large_images(data)


def is_part(one: str, other: str) -> bool:
    """Returns whether a split may consist of the other one and more, as trainval of train and val."""
    return one in other or other in one


def _missing(data: Data) -> Iterator[Finding]:
    """Yields a finding about splits without images, and about a missing split to evaluate on."""
    for name, facts in data.splits.items():
        if not facts.images:
            yield data.finding('empty', name, f"Split '{name}' has no image that can be read.")
    if data.evaluated not in data.splits:
        yield data.finding(
            'no_evaluation',
            data.evaluated,
            f"There is no split '{data.evaluated}', so nothing shows how well the network does on other images.",
            build_again(
                data,
                f'Set aside a part of the images in a list {data.evaluated}.txt; without any list, deeplab '
                'build_folder_data sets aside a tenth',
            ),
        )


def _repeated(data: Data, name: str, images: Sequence[ImageSummary]) -> Iterator[Finding]:
    """Yields a finding about images that a split holds more than once."""
    first: dict[bytes, ImageSummary] = {}
    cases = []
    for image in images:
        if image.digest in first:
            cases.append((name, Case(f'{image.name} is a copy of {first[image.digest].name}', image.number)))
        first.setdefault(image.digest, image)
    if cases:
        said = agreeing(len(cases), 'are in it more than once, with the same bytes')
        what = f"{counted(len(cases), 'image')} of split '{name}' {said}."
        yield data.finding('repeated', name, what, cases=cases)


def _shared(data: Data, one: str, other: str) -> Iterator[Finding]:
    """Yields findings about images of one split that are, exactly or nearly, in another."""
    first, second = data.splits[one].images, data.splits[other].images
    by_digest = {image.digest: image for image in first}
    exact = [(by_digest[image.digest], image) for image in second if image.digest in by_digest]
    where = f'{one}, {other}'
    if exact:
        yield data.finding(
            'overlap',
            where,
            f"{counted(len(exact), 'image')} of split '{other}' {agreeing(len(exact), 'are')} also in split '{one}', "
            'with the same bytes: metrics on them do not show how well the network does on other images.',
            cases=[(other, Case(_copy(b, a), b.number)) for a, b in exact],
        )
    places = similarity.similar_pairs([image.thumbnail for image in first], [image.thumbnail for image in second])
    pairs = [(first[i], second[j]) for i, j in places if second[j].digest not in by_digest]
    if pairs:
        yield data.finding(
            'similar',
            where,
            f"{counted(len(pairs), 'image')} of split '{other}' {agreeing(len(pairs), 'look')} almost like one in "
            f"split '{one}', as frames of one video do: metrics on them are too optimistic.",
            cases=[(other, Case(f'{b.name} looks like {a.name}', b.number)) for a, b in pairs],
        )
    named = {image.digest for _, image in pairs} | by_digest.keys()
    yield from _in_sequence(data, one, other, [image for image in second if image.digest not in named])


def _in_sequence(data: Data, one: str, other: str, images: Sequence[ImageSummary]) -> Iterator[Finding]:
    """Yields a finding about images of the split `other` that follow or precede one of the split `one` in a video."""
    neighbors = similarity.shared_neighbors(data.splits[one].images, images)
    if neighbors:
        yield data.finding(
            'sequence',
            f'{one}, {other}',
            f"{counted(len(neighbors), 'image')} of split '{other}' {agreeing(len(neighbors), 'have')} a number beside "
            f"an image of split '{one}', and most of them look like that image, as frames of one video do: "
            'metrics on them are too optimistic.',
            cases=[(other, Case(f'{b.name} is beside {a.name}', b.number)) for a, b in neighbors],
        )


def _copy(image: ImageSummary, other: ImageSummary) -> str:
    """Returns an image and the one that it is a copy of, which may have its name in another split."""
    return image.name if image.name == other.name else f'{image.name} is a copy of {other.name}'


def _inconsistent(data: Data) -> Iterator[Finding]:
    """Yields a finding about images that are equal or look almost alike and have different masks."""
    cases = []
    seen: dict[bytes, ImageSummary] = {}
    splits = [(name, facts.images) for name, facts in data.splits.items()]
    for name, images in splits:
        for image in images:
            other = seen.setdefault(image.digest, image)
            if other.mask_digest and image.mask_digest and _differ(other, image, 1):
                cases.append((name, Case(_copy(image, other), image.number)))
        alike = similarity.alike_in_order([image.thumbnail for image in images])
        followed = [(images[i], images[i + 1]) for i, is_alike in enumerate(alike) if is_alike]
        cases += [
            (name, Case(f'{b.name} looks like {a.name}', b.number))
            for a, b in followed
            if a.digest != b.digest and _differ(a, b, _LEAST_AGREEMENT)
        ]
    if cases:
        said = agreeing(len(cases), 'have another mask than an equal image, or than an image that looks alike')
        what = f'{counted(len(cases), "image")} {said}.'
        yield data.finding('inconsistent', '', what, cases=cases)


def _differ(one: ImageSummary, other: ImageSummary, least: float) -> bool:
    """Returns whether the labels of two images agree in less than a share of the cells."""
    if one.mask_digest == other.mask_digest or one.cells is None or other.cells is None:
        return False
    return bool((one.cells[1] == other.cells[1]).mean() < least)


def _large_images(data: Data) -> Iterator[Finding]:
    """Yields a note about images that are larger than the default crop size."""
    for name in dict.fromkeys((data.train, data.evaluated)):
        sizes = data.splits[name].image_sizes if name in data.splits else {}
        if not sizes:
            continue
        largest = np.max(list(sizes), axis=0)
        count = sum(number for size, number in sizes.items() if max(size) > _DEFAULT_CROP)
        if not count:
            continue
        crop = crop_sizes.above(largest, data.output_stride)
        text = f'{largest[0]} x {largest[1]} (height x width)'
        is_evaluated = name == data.evaluated
        yield data.finding(
            'large_images',
            name,
            f"{counted(count, 'image')} of split '{name}' {agreeing(count, 'are')} larger than the default crop size "
            f'{_DEFAULT_CROP},{_DEFAULT_CROP}: the largest sides are {text}.',
            f'Evaluate with --eval_crop_size={crop[0]},{crop[1]}, since evaluation does not crop, or in '
            'windows with --window, or make the images smaller.'
            if is_evaluated
            else 'Training cuts a random crop from each image. If objects are larger than a crop, make the images '
            'smaller, or let all programs resize them, such as by --min_resize_value=321 --max_resize_value=513 '
            '--resize_factor=16.',
        )
