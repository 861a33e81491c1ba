"""Rules about the agreement of masks with their images: moved, mirrored, foreign and exchanged labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from deeplab.checks.edges import Agreement
from deeplab.checks.facts import GRID, Case, Facts, ImageSummary
from deeplab.checks.findings import Data, Finding
from deeplab.names import agreeing, counted

# A split is moved if the mean agreement of its images grows so much, and so surely, by a shift of so many steps.
_FEWEST_IMAGES = 4
_LEAST_STEPS = 2
_LEAST_GAIN = 0.1
_LEAST_T = 4.0
_LEAST_HEIGHT = 4.0  # of the peak, in standard deviations over the shifts
# A single mask is misplaced if another place is better by so many standard deviations, and good by itself.
_MOVED, _TURNED, _ABOVE_LEVEL, _LEAST_BEST = 2.5, 3.0, 3.0, 0.3
# That is only judged where the masks of the split follow edges (median, in standard deviations). A mask is foreign if
# it follows none.
_USUAL, _FOREIGN = 2.0, 0.5
_WORDS = {2: 'mirrored', 3: 'rotated by 180 degrees', 4: 'mirrored upside down'}
_MOST_IMAGES = 20000  # whose colors are compared
# Colors and heights in the image show how a class looks in other images.
_BANDS = 4  # heights in the image that are told apart
_CODES = 256  # colors that are told apart
FEWEST_IMAGES = 20  # that show how classes look
_PRIOR = 4.0  # cells that the mean over all colors counts as
_FEWEST_CELLS = 5  # of each of the two classes
_LEAST_LOG_GAIN = 1.0  # mean logarithm by which exchanged labels are more probable


def check(data: Data) -> Iterator[Finding]:
    """Yields the findings about the agreement of masks with images."""
    misplaced: list[tuple[str, Case]] = []
    for split, facts in data.splits.items():
        shift = common_shift(facts)
        if shift is not None:
            yield _shifted(data, split, shift)
        else:
            misplaced += [(split, case) for case in _misplaced(facts.images)]
    if misplaced:
        number = len(misplaced)
        what = f'{counted(number, "mask")} would fit the edges in the image better if moved or mirrored, or '
        yield data.finding('misplaced', '', f'{what}{agreeing(number, "fit no edges")}.', cases=misplaced)
    yield from _exchanged(data)


def common_shift(facts: Facts) -> tuple[int, int] | None:
    """Returns rows and columns by which all masks of a split should move; None if they lie well."""
    if not facts.shifts:
        return None
    (factor, reach), sums = max(facts.shifts.items(), key=lambda item: int(item[1][2, 0, 0]))
    gains, squares, images = *sums[:2], int(sums[2, 0, 0])
    if images < _FEWEST_IMAGES:
        return None
    gains = gains / images
    row, column = (int(place) for place in np.unravel_index(gains.argmax(), gains.shape))
    gain = float(gains[row, column])
    variance = max(float(squares[row, column]) / images - gain**2, 1e-6)
    height = (gain - float(gains.mean())) / max(float(gains.std()), 1e-6)
    is_sure = gain >= _LEAST_T * np.sqrt(variance / images) and height >= _LEAST_HEIGHT
    if max(abs(row - reach), abs(column - reach)) < _LEAST_STEPS or gain < _LEAST_GAIN or not is_sure:
        return None
    return (row - reach) * factor, (column - reach) * factor


def misplacement(down: int, right: int) -> str:
    """Returns how far masks lie from their place, such as '3 pixels too low and 2 pixels too far left'."""
    directions = ((down, ('too low', 'too high')), (right, ('too far right', 'too far left')))
    return ' and '.join(f'{abs(pixels)} pixels {names[pixels < 0]}' for pixels, names in directions if pixels)


def _shifted(data: Data, split: str, shift: tuple[int, int]) -> Finding:
    facts = data.splits[split]
    place = misplacement(-shift[0], -shift[1])
    what = f"The masks of split '{split}' lie {place}, judging by the edges in the images."
    return data.finding(
        'shifted', split, what, cases=[(split, Case(image.name, image.number)) for image in facts.images]
    )


def _misplaced(images: Sequence[ImageSummary]) -> Iterator[Case]:
    """Yields the images with a mask that lies better elsewhere, or nowhere."""
    agreements = [image.agreement for image in images if image.agreement is not None]
    if len(agreements) < _FEWEST_IMAGES or np.median([_height(one.here, one) for one in agreements]) < _USUAL:
        return
    for image in images:
        if image.agreement is not None and (text := _place(image.agreement)):
            yield Case(f'{image.name}: {text}', image.number)


def _height(value: float, agreement: Agreement) -> float:
    """Returns an agreement in standard deviations above its level."""
    return (value - agreement.level) / max(agreement.spread, 1e-6)


def _place(agreement: Agreement) -> str:
    """Describes where a mask lies better; '' if it lies well."""
    here, best, turned = (_height(value, agreement) for value in (agreement.here, agreement.best, agreement.turned))
    if turned >= max(here + _TURNED, best + 1, _ABOVE_LEVEL) and agreement.turned >= _LEAST_BEST:
        return _WORDS.get(agreement.turn, 'transposed or rotated by 90 degrees')
    is_moved = max(map(abs, agreement.shift)) >= _LEAST_STEPS * agreement.step
    if is_moved and best >= max(here + _MOVED, _ABOVE_LEVEL) and agreement.best >= _LEAST_BEST:
        return f'moved by {-agreement.shift[0]} rows and {-agreement.shift[1]} columns'
    return 'follows no edges' if here < _FOREIGN else ''


def _exchanged(data: Data) -> Iterator[Finding]:
    descriptor = data.descriptor
    cases = []
    for split, facts in data.splits.items():
        kept = [image.cells for image in facts.images[:_MOST_IMAGES]]
        for place, one, other, _ in exchanged(kept, descriptor.num_classes, descriptor.ignore_label):
            image = facts.images[place]
            text = f'{image.name}: {data.class_text(one)} and {data.class_text(other)}'
            cases.append((split, Case(text, image.number)))
    said = 'seem to have two classes exchanged, judging by the colors in other images'
    yield from data.of_images('exchanged', '', cases, said)


def exchanged(
    kept: Sequence[np.ndarray | None], num_classes: int, ignore_label: int
) -> Iterator[tuple[int, int, int, float]]:
    """Yields the images in which two classes seem to be exchanged.

    For each cell, the probability of each class follows from color and height in all other images.

    Args:
      kept: `cells` of the images; None for images without.
      num_classes: number of classes.
      ignore_label: id of pixels that are excluded.

    Yields:
      Position of the image, ids of both classes, and the mean logarithm by which exchanged labels are more probable.
    """
    places = [place for place, image_cells in enumerate(kept) if image_cells is not None]
    if len(places) < FEWEST_IMAGES:
        return
    stacked = np.stack([image_cells for image_cells in kept if image_cells is not None]).reshape(len(places), 2, -1)
    codes = stacked[:, 0].astype(np.int64) + _CODES * (np.arange(GRID * GRID) * _BANDS // (GRID * GRID))
    labels = stacked[:, 1].astype(np.int64)
    is_labeled = (labels < num_classes) & (labels != ignore_label)
    table = np.zeros((_CODES * _BANDS, num_classes), np.float32)
    np.add.at(table, (codes[is_labeled], labels[is_labeled]), 1)
    for number, place in enumerate(places):
        mine = is_labeled[number]
        if exchange := _exchange(codes[number][mine], labels[number][mine], table):
            yield place, *exchange


def _exchange(codes: np.ndarray, labels: np.ndarray, table: np.ndarray) -> tuple[int, int, float] | None:
    """Returns the best exchange of two classes in one image; None if no exchange is clearly better."""
    present, counts = np.unique(labels, return_counts=True)
    present = present[counts >= _FEWEST_CELLS]
    if len(present) < 2:
        return None
    used, where = np.unique(codes, return_inverse=True)
    others = table[used].copy()
    np.subtract.at(others, (where, labels), 1)
    total = table.sum(axis=0) - np.bincount(labels, minlength=table.shape[1])
    share = (total + 1) / (total + 1).sum()
    probability = (others + _PRIOR * share) / (others.sum(axis=1, keepdims=True) + _PRIOR)
    logarithms = np.log(np.maximum(probability, 1e-6))[where]  # [cells, classes]
    sums = np.stack([logarithms[labels == label][:, present].sum(axis=0) for label in present])  # [labeled, as]
    own = np.diag(sums)
    gains = sums + sums.T - own[:, np.newaxis] - own
    sizes = np.array([(labels == label).sum() for label in present])
    means = gains / (sizes[:, np.newaxis] + sizes)
    # Each of the two must look like the other.
    both = np.minimum(sums - own[:, np.newaxis], (sums - own[:, np.newaxis]).T) > 0
    means = np.where(both, means, -np.inf)
    np.fill_diagonal(means, -np.inf)
    one, other = np.unravel_index(means.argmax(), means.shape)
    if means[one, other] < _LEAST_LOG_GAIN:
        return None
    return int(present[one]), int(present[other]), float(means[one, other])
