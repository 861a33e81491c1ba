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
from deeplab.datasets import folder_splits, segmentation_dataset
from deeplab.names import agreeing, counted
from deeplab.options import crop_sizes
from deeplab.wording import option

_DEFAULT_CROP = 513  # of train and eval
_LONGER_SIDE = 640  # of photos whose objects fit into such a crop
# Photos with a longer side are resized, as docs/tutorial_own_dataset.md says, by these flags of all programs.
LARGEST_UNRESIZED = 1500
RESIZING = {'min_resize_value': 321, 'max_resize_value': 513, 'resize_factor': 16}
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
    if not data.is_classification:  # whose images are resized
        yield from _large_images(data)


def is_part(one: str, other: str) -> bool:
    """Returns whether a split may consist of the other one and more, as trainval of train and val."""
    are_folds = all(map(segmentation_dataset.FOLD.fullmatch, (one, other)))  # fold1 is no part of fold10
    return not are_folds and (one in other or other in one)


def _missing(data: Data) -> Iterator[Finding]:
    """Yields findings about splits without images, and about missing splits to train and evaluate on."""
    for name, facts in data.splits.items():
        if not facts.images:
            yield data.finding('empty', name, f"Split '{name}' has no image that can be read.")
    if any(map(segmentation_dataset.FOLD.fullmatch, data.splits)):
        return  # of which a cross-validation evaluates each and trains on the others
    if data.train not in data.splits:
        yield data.finding(
            'no_training',
            data.train,
            f"There is no split '{data.train}', so nothing is known about the classes of the training. Splits: "
            f'{", ".join(data.splits)}.',
            f'Set {option("DoctorOptions.train_split")} to the split to train on.',
        )
    if data.evaluated not in data.splits:
        fraction = option('BuildFolderOptions.val_fraction', folder_splits.DEFAULT_VAL_FRACTION)
        yield data.finding(
            'no_evaluation',
            data.evaluated,
            f"There is no split '{data.evaluated}', so nothing shows how well the network does on other images.",
            build_again(
                data,
                f'Set aside a part of the images in a list {data.evaluated}.txt; without any list, deeplab '
                f'build_folder_data with {fraction} sets aside a tenth',
            ),
        )


def _repeated(data: Data, name: str, images: Sequence[ImageSummary]) -> Iterator[Finding]:
    first: dict[bytes, ImageSummary] = {}
    cases = []
    for image in images:
        if image.digest in first:
            cases.append((name, Case(f'{image.name} is a copy of {first[image.digest].name}', image.number)))
        first.setdefault(image.digest, image)
    yield from data.of_images('repeated', name, cases, 'are in it more than once, with the same bytes')


def _shared(data: Data, one: str, other: str) -> Iterator[Finding]:
    """Yields findings about images of `other` that are in `one`: the same, similar ones, or neighbors in a video."""
    first, second = data.splits[one].images, data.splits[other].images
    where = f'{one}, {other}'
    by_digest = {image.digest: image for image in first}
    copies = [image for image in second if image.digest in by_digest]
    yield from data.of_images(
        'overlap',
        where,
        [(other, Case(_copy(image, by_digest[image.digest]), image.number)) for image in copies],
        f"are also in split '{one}', with the same bytes: metrics on them do not show how well the network does on "
        'other images',
    )
    places = similarity.similar_pairs([image.thumbnail for image in first], [image.thumbnail for image in second])
    similar = [(first[i], second[j]) for i, j in places if second[j].digest not in by_digest]
    yield from data.of_images(
        'similar',
        where,
        [(other, Case(f'{b.name} looks like {a.name}', b.number)) for a, b in similar],
        f"look almost like one in split '{one}', as frames of one video do: metrics on them are too optimistic",
    )
    named = {image.digest for _, image in similar} | by_digest.keys()
    neighbors = similarity.shared_neighbors(first, [image for image in second if image.digest not in named])
    yield from data.of_images(
        'sequence',
        where,
        [(other, Case(f'{b.name} is beside {a.name}', b.number)) for a, b in neighbors],
        f"have a number beside an image of split '{one}', and most of them look like that image, as frames of one "
        'video do: metrics on them are too optimistic',
    )


def _copy(image: ImageSummary, other: ImageSummary) -> str:
    """Returns an image and the one that it is a copy of, which may have its name in another split."""
    return image.name if image.name == other.name else f'{image.name} is a copy of {other.name}'


def _inconsistent(data: Data) -> Iterator[Finding]:
    """Yields a finding about images that are equal or look almost alike and have different masks."""
    cases = []
    seen: dict[bytes, ImageSummary] = {}
    for name, facts in data.splits.items():
        images = facts.images
        for image in images:
            other = seen.setdefault(image.digest, image)
            if other.mask_digest and image.mask_digest and _differ(other, image, 1):
                cases.append((name, Case(_copy(image, other), image.number)))
        thumbnails = [image.thumbnail for image in images]
        are_alike = similarity.correlations(thumbnails[:-1], thumbnails[1:]) >= similarity.SIMILAR
        cases += [
            (name, Case(f'{b.name} looks like {a.name}', b.number))
            for (a, b), is_alike in zip(itertools.pairwise(images), are_alike, strict=True)
            if is_alike and a.digest != b.digest and _differ(a, b, _LEAST_AGREEMENT)
        ]
    said = 'have a different mask than an identical image, or than an image that looks alike'
    yield from data.of_images('inconsistent', '', cases, said)


def _differ(one: ImageSummary, other: ImageSummary, least: float) -> bool:
    """Returns whether the labels of two images agree in less than a share of the cells."""
    if one.mask_digest == other.mask_digest or one.cells is None or other.cells is None:
        return False
    return bool((one.cells[1] == other.cells[1]).mean() < least)


def _large_images(data: Data) -> Iterator[Finding]:
    for name in dict.fromkeys((data.train, data.evaluated)):
        sizes = data.splits[name].image_sizes if name in data.splits else {}
        if not sizes:
            continue
        largest = np.max(list(sizes), axis=0)
        count = sum(number for size, number in sizes.items() if max(size) > _DEFAULT_CROP)
        if not count:
            continue
        crop = crop_sizes.above(largest, data.options.output_stride)
        text = f'{largest[0]} x {largest[1]} (height x width)'
        flags = ' '.join(f'--{flag}={value}' for flag, value in RESIZING.items())
        smaller = option('BuildFolderOptions.max_side', _LONGER_SIDE)
        resized = f'build smaller records, such as by {smaller}, or let all programs resize them, such as by {flags}.'
        is_evaluated = name == data.evaluated
        if is_evaluated and largest.max() > LARGEST_UNRESIZED:
            fix = f'Evaluation does not crop: {resized} Or evaluate in windows with --window.'
        elif is_evaluated:
            fix = (
                f'Evaluate with --eval_crop_size={crop[0]},{crop[1]}, since evaluation does not crop, or in '
                'windows with --window, or make the images smaller.'
            )
        else:
            fix = f'Training cuts a random crop from each image. If objects are larger than a crop, {resized}'
        yield data.finding(
            'large_images',
            name,
            f"{counted(count, 'image')} of split '{name}' {agreeing(count, 'are')} larger than the default crop size "
            f'{_DEFAULT_CROP},{_DEFAULT_CROP}: the largest sides are {text}.',
            fix,
        )
