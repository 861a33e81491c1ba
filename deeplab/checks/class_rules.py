"""Rules about the classes of whole images, for data sets of image classification."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from deeplab.checks import label_weights, similarity
from deeplab.checks.facts import Case, Facts, ImageSummary
from deeplab.checks.findings import Data, Finding, build_again
from deeplab.checks.rule import NOTE
from deeplab.datasets import description_file, label_file
from deeplab.errors import DataError
from deeplab.names import listed

_FEWEST_IMAGES = 20  # of a class, to train on
_SURE = 0.9  # probability from which a classifier contradicts a class


class Contradiction(NamedTuple):
    """An image whose classes a classifier contradicts: its split, number and name, and what is more probable."""

    split: str
    number: int
    image: str
    class_ids: tuple[int, ...]
    predicted: int
    probability: float


def has_only_classes(splits: Mapping[str, Facts]) -> bool:
    """Returns whether images of some splits have classes as a whole, and none has a mask or a plane."""
    images = [image for facts in splits.values() for image in facts.images]
    return any(image.class_ids for image in images) and not any(image.mask_digest or image.planes for image in images)


def check(data: Data) -> Iterator[Finding]:
    """Yields the findings about classes."""
    num_classes = data.descriptor.num_classes
    try:
        folder = description_file.folder_of(data.options.data)
        text = label_file.contradiction(folder, data.descriptor.class_names or num_classes)
    except DataError as error:
        text = str(error).removesuffix('.')
    if text:
        yield data.finding('class_names', '', f'{text}.')
    for split, facts in data.splits.items():
        cases = [
            (split, Case(f'{image.name}: {", ".join(map(str, image.class_ids)) or "no class"}', image.number))
            for image in facts.images
            if not image.class_ids or not all(0 <= class_id < num_classes for class_id in image.class_ids)
        ]
        if split in (data.train, data.evaluated) or any(image.class_ids for image in facts.images):
            said = f'have no class, or a class id other than 0 to {num_classes - 1}'
            yield from data.of_images('class_ids', split, cases, said)
    yield from _contradictory(data)
    yield from _absent(data)


def _contradictory(data: Data) -> Iterator[Finding]:
    """Yields a finding about images that are equal or look almost alike and have different classes."""
    images = [(split, image) for split, facts in data.splits.items() for image in facts.images if image.class_ids]
    sets: dict[frozenset[int], int] = {}
    numbers = np.array([sets.setdefault(frozenset(image.class_ids), len(sets)) for _, image in images])
    thumbnails = [image.thumbnail for _, image in images]
    alike = {other: one for one, other in similarity.similar_pairs(thumbnails, thumbnails, (numbers, numbers))}
    first: dict[bytes, int] = {}
    for place, (_, image) in enumerate(images):
        copied = first.setdefault(image.digest, place)
        if numbers[copied] != numbers[place]:
            alike |= {place: copied, copied: place}
    cases = []
    for place, other in sorted(alike.items(), key=lambda pair: (min(pair), max(pair))):  # the two are neighbors
        (split, image), (_, partner) = images[place], images[other]
        likeness = 'is a copy of' if image.digest == partner.digest else 'looks like'
        text = f', {likeness} '.join(f'{each.name}, {texts(data, each.class_ids)}' for each in (image, partner))
        cases.append((split, Case(text, image.number)))
    said = 'have a different class than an identical image, or than an image that looks almost the same'
    yield from data.of_images('contradictory', '', cases, said)


def texts(data: Data, class_ids: Sequence[int]) -> str:
    """Returns classes of an image, which may be out of range, as messages name them."""
    return listed([data.class_text(i) if 0 <= i < data.descriptor.num_classes else f'id {i}' for i in class_ids])


def _absent(data: Data) -> Iterator[Finding]:
    """Yields findings about classes that a split lacks, and about classes with few images to train on."""
    num_classes = data.descriptor.num_classes
    counts = {split: facts.class_images(num_classes) for split, facts in data.splits.items()}
    train = counts.pop(data.train, np.zeros(num_classes, np.int64))
    if not train.any():
        return
    evaluated = counts.get(data.evaluated, np.zeros(num_classes, np.int64))
    if classes := data.class_texts((train == 0) & (evaluated > 0)):
        where = f"split '{data.evaluated}' that split '{data.train}' does not have"
        fix = f'Move images of these classes to split {data.train}'
        split = f'{data.train}, {data.evaluated}'
        yield data.finding('only_evaluated', split, f'Classes in {where}: {classes}.', build_again(data, fix))
    lacking = {data.train: (train == 0) & (evaluated == 0)}
    lacking |= {split: (train > 0) & (images == 0) for split, images in counts.items() if images.any()}
    for split, is_absent in lacking.items():
        if classes := data.class_texts(is_absent):
            severity = None if split in (data.train, data.evaluated) else NOTE
            what = f"Classes without an image in split '{split}': {classes}."
            yield data.finding('absent_classes', split, what, severity=severity)
    is_rare = (train > 0) & (train < _FEWEST_IMAGES)
    if is_rare.any():
        classes = listed([f'{data.class_text(i)} {train[i]}' for i in np.flatnonzero(is_rare).tolist()])
        what = f"Classes with fewer than {_FEWEST_IMAGES} images in split '{data.train}': {classes}."
        yield data.finding('few_images', data.train, what)


def contradictions(predictions: Iterable[tuple[str, ImageSummary, np.ndarray]]) -> list[Contradiction]:
    """Returns the images with classes that a classifier contradicts, the surest ones first.

    Args:
      predictions: split and summary of each image, and the probabilities of its classes, [num_classes].
    """
    made = []
    for split, image, probabilities in predictions:
        predicted, probability = int(probabilities.argmax()), round(float(probabilities.max()), 6)
        if image.class_ids and predicted not in image.class_ids and probability >= _SURE:
            made.append(Contradiction(split, image.number, image.name, image.class_ids, predicted, probability))
    return sorted(made, key=lambda contradiction: -contradiction.probability)


def contradicted(data: Data, made: Sequence[Contradiction]) -> Iterator[Finding]:
    """Yields the finding about what `contradictions` returns."""
    cases = []
    for each in made:
        predicted = f'{data.class_text(each.predicted)} with {each.probability:.1%}'
        cases.append((each.split, Case(f'{each.image}, {texts(data, each.class_ids)}: {predicted}', each.number)))
    said = f'have a class that the classifier contradicts with a probability of {_SURE} or more'
    yield from data.of_images('contradicted', '', cases, said)


def table(data: Data) -> list[dict[str, Any]]:
    """Returns the number of images of each class in each split, and its share and weight in the splits to train on."""
    num_classes = data.descriptor.num_classes
    counts = {split: facts.class_images(num_classes) for split, facts in data.splits.items()}
    train = sum((counts[name] for name in data.training_splits), np.zeros(num_classes, np.int64))
    total = max(int(train.sum()), 1)
    weights = label_weights.median_frequency(train, np.full(num_classes, total)) if train.any() else train
    return [
        {
            'id': i,
            'name': data.descriptor.class_name(i),
            'share': int(train[i]) / total,
            'images': {split: int(images[i]) for split, images in counts.items()},
            'label_weight': float(weights[i]),
        }
        for i in range(num_classes)
    ]
