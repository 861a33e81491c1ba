"""Masks that contradict the predictions of networks that were trained without them (cross-validation).

Networks make mistakes, and the same ones in many images; a wrong mask is one that another mask would explain much
better than is usual in the data set. What a prediction says about the label of a pixel is calibrated first: of all
pixels that are predicted as class k with a confidence in bin b, the share q(y | k, b) has the label y. The gain of
another label c at a pixel is log q(c | k, b) - log q(y | k, b). Four explanations of an image are compared with its
mask as it is:

    whole      the mask is not of this image: mean of -log q(y | k, b), less its expectation if labels follow q
    moved      the mask lies elsewhere: signed-rank statistic of the mean gains of 6 x 8 parts of the image, the largest
               over all displacements
    exchanged  two classes are exchanged: sum of the gains, the largest over all pairs of classes where both gain
    region     a connected region with the label a shows class c: sum of the gains, for each pair (a, c) relative to
               what is usual for that pair

Each value is compared with the values of all images: if v90 is their 90 % quantile and m the mean excess above it (up
to the 98 % quantile, as wrong masks are among them), the score is (v - v90) / (m + floor), the number of e-folds by
which v is rarer than v90 if the tail is exponential. The floor keeps values that are usually 0 from counting too much:
the median gain of all regions for sums of gains, and 1 for the signed-rank statistic, and for the scores of regions,
which are compared in the same way. The score of a mask is its largest.

Sources: C. Northcutt et al., Confident learning, arXiv:1911.00068 (out-of-sample predictions, calibration by class);
F. Wilcoxon, Individual comparisons by ranking methods, 1945 (signed ranks). Importing this module does not load
TensorFlow.
"""

from __future__ import annotations

import collections
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from deeplab.checks.facts import ImageSummary
from deeplab.core.connected_components import connected_components
from deeplab.datasets.annotations import outlines

SURE = 1.5  # score from which a mask is a finding
DRAWN = 100  # masks with outlines, the first ones
_SIDE = 256  # longest side of the grid of pixels that are compared
_BINS = 8  # of the confidence
_PRIOR = 1000  # pixels that have the labels of all pixels of a predicted class, or of all pixels
_REACH, _STEP = 6, 2  # displacements, in cells of the grid
_PARTS = (6, 8)
_FEWEST_PARTS = 5
_SMALLEST_REGION = 20  # cells
_LOW, _HIGH = 0.9, 0.98  # quantiles of the tail
_NOTHING = -1.0  # score of a value of 0, where the 90 % quantile is 0, too
_MOST_REGIONS = 5  # of an image, with outlines
WHOLE, MOVED, EXCHANGED, REGION = 'whole', 'moved', 'exchanged', 'region'


class FoldPrediction(NamedTuple):
    """What a network that was trained without an image predicts for it.

    Attributes:
      split: split of the image.
      image: the image.
      mask: [h, w] uint8, its ids.
      probabilities: [h, w, classes].
    """

    split: str
    image: ImageSummary
    mask: np.ndarray
    probabilities: np.ndarray


class Region(NamedTuple):
    """A region with one label that shows another class.

    Attributes:
      label: class id in the mask.
      predicted: class id that the network predicts.
      share: share of the image, 0 to 1.
      rings: outer borders and holes, in columns and rows of the image.
    """

    label: int
    predicted: int
    share: float
    rings: list[list[list[int]]]


class MaskContradiction(NamedTuple):
    """How strongly a mask is contradicted, and by which explanation.

    Attributes:
      split: its split.
      number: number of the sample in the split.
      image: name of the image in messages.
      size: height and width of the mask.
      score: see the module; comparable within a data set.
      explanation: `WHOLE`, `MOVED`, `EXCHANGED` or `REGION`.
      shift: rows and columns by which the mask lies too far down and right; None for other explanations.
      class_ids: the two classes that are exchanged, or label and prediction of the region; None for others.
      regions: the regions with the largest gains, of the first masks.
    """

    split: str
    number: int
    image: str
    size: tuple[int, int]
    score: float
    explanation: str
    shift: tuple[int, int] | None
    class_ids: tuple[int, int] | None
    regions: tuple[Region, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        return {**self._asdict(), 'regions': [region._asdict() for region in self.regions]}


class _Evidence(NamedTuple):
    """Values of the explanations of an image; regions by pair of label and prediction."""

    whole: float
    moved: float
    shift: tuple[int, int]
    exchanged: float
    classes: tuple[int, int]
    regions: dict[tuple[int, int], float]


def find(predictions: Iterable[FoldPrediction], num_classes: int, ignore_label: int) -> list[MaskContradiction]:
    """Returns all masks that can be compared, the most contradicted ones first.

    Args:
      predictions: the predictions of all images, each by a network that has not seen it.
      num_classes: number of classes; other ids are excluded.
      ignore_label: id of the pixels that are excluded, too; it may be one of the classes.
    """
    counts = np.zeros((num_classes * _BINS, num_classes), np.int64)
    with _GridFile() as grids:
        images: list[tuple[str, ImageSummary, tuple[int, int]]] = []
        for prediction in predictions:
            grid = _grid(prediction, num_classes, ignore_label)
            is_labeled = grid.labels < num_classes
            if is_labeled.any():
                np.add.at(counts, (grid.cells[is_labeled], grid.labels[is_labeled]), 1)
                grids.append(grid)
                images.append((prediction.split, prediction.image, prediction.mask.shape))
        if not images:
            return []
        table = _log_probabilities(counts)
        evidence = [_evidence(grid, table) for grid in grids.all()]
        made = [_contradiction(*image, *scored) for image, scored in zip(images, _scored(evidence), strict=True)]
        order = sorted(range(len(made)), key=lambda place: -made[place].score)
        drawn = {place: tuple(_regions(grids.read(place), table)) for place in order[:DRAWN]}
    return [made[place]._replace(regions=drawn.get(place, ())) for place in order]


class _Grid(NamedTuple):
    """Predictions and labels of every n-th pixel.

    Attributes:
      cells: [h, w] uint16, predicted class * `_BINS` + bin of the confidence.
      labels: [h, w] uint16; `num_classes` or more where there is no class.
      step: distance of the pixels in the image.
    """

    cells: np.ndarray
    labels: np.ndarray
    step: int


def _grid(prediction: FoldPrediction, num_classes: int, ignore_label: int) -> _Grid:
    step = -(-max(prediction.mask.shape) // _SIDE)
    chosen = np.s_[step // 2 :: step, step // 2 :: step]
    probabilities = prediction.probabilities[chosen]
    bins = np.minimum((probabilities.max(axis=2) * _BINS).astype(np.uint16), _BINS - 1)
    labels = prediction.mask[chosen].astype(np.uint16)  # 256 classes leave no id of 8 bits
    labels[labels == ignore_label] = num_classes
    return _Grid(probabilities.argmax(axis=2).astype(np.uint16) * _BINS + bins, labels, step)


class _GridFile:
    """Grids in a temporary file, so that memory does not grow with the images."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()
        self._places: list[tuple[int, int, tuple[int, ...], int]] = []

    def __enter__(self) -> _GridFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, grid: _Grid) -> None:
        """Adds a grid."""
        content = zlib.compress(grid.cells.tobytes() + grid.labels.tobytes(), 1)
        self._places.append((self._file.seek(0, 2), len(content), grid.labels.shape, grid.step))
        self._file.write(content)

    def read(self, number: int) -> _Grid:
        """Returns a grid by its number."""
        start, length, shape, step = self._places[number]
        self._file.seek(start)
        content = zlib.decompress(self._file.read(length))
        cells = np.frombuffer(content, np.uint16, int(np.prod(shape))).reshape(shape)
        return _Grid(cells, np.frombuffer(content, np.uint16, offset=cells.nbytes).reshape(shape), step)

    def all(self) -> Iterator[_Grid]:
        """Yields all grids in order."""
        yield from map(self.read, range(len(self._places)))


def _log_probabilities(counts: np.ndarray) -> np.ndarray:
    """Returns log q(label | cell), [cells, classes], from the counts of pixels with a cell and a label."""
    num_classes = counts.shape[1]
    shares = (counts.sum(axis=0) + 1) / (counts.sum() + num_classes)
    by_class = counts.reshape(num_classes, _BINS, num_classes).sum(axis=1) + _PRIOR * shares
    by_class /= by_class.sum(axis=1, keepdims=True)
    smoothed = counts + _PRIOR * np.repeat(by_class, _BINS, axis=0)
    table: np.ndarray = np.log(smoothed / smoothed.sum(axis=1, keepdims=True)).astype(np.float32)
    return table


def _evidence(grid: _Grid, table: np.ndarray) -> _Evidence:
    """Returns the values of the explanations of an image; `table` is from `_log_probabilities`."""
    num_classes = table.shape[1]
    is_labeled = grid.labels < num_classes
    pixels = int(is_labeled.sum())
    joint = np.bincount(
        grid.labels[is_labeled].astype(np.int64) * len(table) + grid.cells[is_labeled],
        minlength=num_classes * len(table),
    ).reshape(num_classes, -1)
    sums = joint @ table  # [label, class] log-likelihood if the pixels of a label were of another class
    gains = sums - np.diag(sums)[:, np.newaxis]
    both = np.where(np.minimum(gains, gains.T) > 0, gains + gains.T, 0)
    one, other = np.unravel_index(both.argmax(), both.shape)
    moved, shift = _displacement(grid, table)
    regions: dict[tuple[int, int], float] = collections.defaultdict(float)
    for label, predicted, gain, _, _ in _contradicted_areas(grid, table)[0]:
        regions[label, predicted] = max(regions[label, predicted], gain / pixels)
    entropy = -(np.exp(table) * table).sum(axis=1)
    expected = float(joint.sum(axis=0) @ entropy)
    whole = -(float(np.diag(sums).sum()) + expected) / pixels
    return _Evidence(whole, moved, shift, float(both[one, other]) / pixels, (int(one), int(other)), dict(regions))


def _displacement(grid: _Grid, table: np.ndarray) -> tuple[float, tuple[int, int]]:
    """Returns the largest signed-rank statistic of a displacement, and rows and columns by which the mask is off.

    These are where the sum of the gains is largest: the statistic hardly tells displacements of one direction apart.
    """
    num_classes, reach = table.shape[1], _REACH
    labels = np.minimum(grid.labels, num_classes - 1)
    is_labeled = grid.labels < num_classes
    height, width = labels.shape
    if min(height, width) < 2 * reach + max(_PARTS):
        return 0.0, (0, 0)
    inner = np.s_[reach : height - reach, reach : width - reach]
    cells, is_inner = grid.cells[inner], is_labeled[inner]
    here = table[cells, labels[inner]]
    best, most, shift = 0.0, 0.0, (0, 0)
    steps = range(-reach, reach + 1, _STEP)
    for down, right in ((down, right) for down in steps for right in steps):
        if (down, right) == (0, 0) or down**2 + right**2 > reach**2 + _STEP**2:
            continue
        moved = np.s_[reach + down : height - reach + down, reach + right : width - reach + right]
        is_compared = is_inner & is_labeled[moved]
        gains = np.where(is_compared, table[cells, labels[moved]] - here, 0)
        best = max(best, _signed_rank(_part_sums(gains)))
        if (total := float(gains.sum())) > most:
            most, shift = total, (down * grid.step, right * grid.step)
    return best, shift


def _part_sums(values: np.ndarray) -> np.ndarray:
    """Returns the sums of the parts of an image, [h, w] to `_PARTS`."""
    starts = [np.arange(parts) * side // parts for parts, side in zip(_PARTS, values.shape, strict=True)]
    sums: np.ndarray = np.add.reduceat(np.add.reduceat(values, starts[0], axis=0), starts[1], axis=1)
    return sums


def _signed_rank(values: np.ndarray) -> float:
    """Returns the signed-rank statistic of values other than 0, about standard normal if their signs are random."""
    values = values[values != 0]
    if len(values) < _FEWEST_PARTS:
        return 0.0
    ranks = np.abs(values).argsort().argsort() + 1.0
    return float((np.sign(values) * ranks).sum() / np.sqrt((ranks**2).sum()))


def _contradicted_areas(grid: _Grid, table: np.ndarray) -> tuple[list[tuple[int, int, float, int, int]], np.ndarray]:
    """Returns label, prediction, gain, cells and number of each region, and the numbers of all regions, [h, w]."""
    num_classes = table.shape[1]
    labels = np.minimum(grid.labels, num_classes - 1).astype(np.int64)
    likeliest = table.argmax(axis=1)[grid.cells]
    is_contradicted = (grid.labels < num_classes) & (likeliest != labels)
    gains = np.where(is_contradicted, table.max(axis=1)[grid.cells] - table[grid.cells, labels], 0)
    pairs = labels * num_classes + likeliest
    numbers = connected_components(pairs, is_contradicted, at_corners=False)
    sizes = np.bincount(numbers.ravel())
    sums = np.bincount(numbers.ravel(), weights=gains.ravel())
    pair_of = np.zeros(len(sizes), np.int64)
    pair_of[numbers.ravel()] = pairs.ravel()
    large = [i for i in range(1, len(sizes)) if sizes[i] >= _SMALLEST_REGION]
    areas = [(*divmod(int(pair_of[i]), num_classes), float(sums[i]), int(sizes[i]), i) for i in large]
    return areas, numbers


def _regions(grid: _Grid, table: np.ndarray) -> Iterator[Region]:
    """Yields the regions of an image with the largest gains, with their outlines."""
    areas, numbers = _contradicted_areas(grid, table)
    areas = sorted(areas, key=lambda area: -area[2])[:_MOST_REGIONS]
    renumbered = np.zeros(int(numbers.max()) + 1, np.int64)
    for place, area in enumerate(areas, 1):
        renumbered[area[4]] = place
    for outline in outlines.outlines_of(renumbered[numbers], tolerance=1.0):
        label, predicted, _, cells, _ = areas[outline.number - 1]
        rings = [(ring * grid.step).tolist() for ring in (outline.ring, *outline.holes)]
        yield Region(label, predicted, round(cells / numbers.size, 5), rings)


def _scored(evidence: list[_Evidence]) -> Iterator[tuple[float, str, tuple[int, int] | None]]:
    """Yields score, explanation, and the shift or the two classes, of each image."""
    number = len(evidence)
    by_pair: dict[tuple[int, int], np.ndarray] = collections.defaultdict(lambda: np.zeros(number))
    for place, each in enumerate(evidence):
        for pair, gain in each.regions.items():
            by_pair[pair][place] = gain
    positive = np.concatenate([np.zeros(0), *(values[values > 0] for values in by_pair.values())])
    floor = float(np.median(positive)) if len(positive) else 1.0
    region, pairs = np.full(number, _NOTHING), [(0, 0)] * number
    for pair, values in by_pair.items():
        relative = _tail(values, floor)
        for place in np.flatnonzero((relative > region) & (values > 0)).tolist():
            region[place], pairs[place] = relative[place], pair
    scores = {
        WHOLE: _tail(np.array([each.whole for each in evidence]), floor),
        MOVED: _tail(np.array([each.moved for each in evidence]), 1.0),
        EXCHANGED: _tail(np.array([each.exchanged for each in evidence]), floor),
        REGION: _tail(region, 1.0),
    }
    for place, each in enumerate(evidence):
        name = max(scores, key=lambda name: scores[name][place])
        details = {WHOLE: None, MOVED: each.shift, EXCHANGED: each.classes, REGION: pairs[place]}
        yield float(scores[name][place]), name, details[name]


def _tail(values: np.ndarray, floor: float) -> np.ndarray:
    """Returns how far values are in the tail of all values, [n], see the module."""
    low, high = np.quantile(values, (_LOW, _HIGH), method='lower')
    is_above = values > low
    excess = float((np.clip(values, low, high) - low).sum()) / max(int(is_above.sum()), 1)
    tail: np.ndarray = (values - low) / (excess + floor)
    return np.where(values > 0, tail, np.minimum(tail, _NOTHING))


def _contradiction(
    split: str,
    image: ImageSummary,
    size: tuple[int, int],
    score: float,
    explanation: str,
    detail: tuple[int, int] | None,
) -> MaskContradiction:
    shift, classes = (detail, None) if explanation == MOVED else (None, detail)
    return MaskContradiction(split, image.number, image.name, size, round(score, 4), explanation, shift, classes)
