"""Facts about the samples of a split: sums, first cases of each problem, and a little of every image."""

from __future__ import annotations

import collections
import dataclasses
from typing import NamedTuple

import numpy as np

from deeplab.checks import edges
from deeplab.datasets.mask_ids import MaskIds

KEPT = 100  # cases of a problem that are named


@dataclasses.dataclass(frozen=True)
class Expected:
    """What masks and images are measured against.

    Attributes:
      ignore_label: id of the pixels that are excluded.
      output_stride: parts of a mask that are narrower than this many pixels are thin.
      allowed: ids that masks may hold; None if that is not known.
      channels: channels of the images.
      bits: bits a channel, 8 or 16.
      in_records: whether the images are those of records, whose stored pixels are used; builders turn files upright.
    """

    ignore_label: int
    output_stride: int
    allowed: MaskIds | None = None
    channels: int = 3
    bits: int = 8
    in_records: bool = False


class Case(NamedTuple):
    """A sample with a problem: how messages name it, and its number in the split; None for what is no sample."""

    text: str
    number: int | None = None


class Look(NamedTuple):
    """An image that can be read.

    Attributes:
      name: how messages name it.
      stem: its name as in lists, without the place of a record; records may have an extension.
      number: of the sample in its split.
      digest: of the bytes of the image.
      mask_digest: of the bytes of the mask; b'' without one.
      thumbnail: [17, 17] uint8, by which near-duplicates are recognized.
      cells: [2, 12, 12] uint8, colors and labels (`appearance.cells`); None without a mask of ids.
      agreement: of edges and borders; None where there are too few.
    """

    name: str
    stem: str
    number: int
    digest: bytes
    mask_digest: bytes
    thumbnail: np.ndarray
    cells: np.ndarray | None
    agreement: edges.Agreement | None


class Maps(NamedTuple):
    """Sums over images of the agreement for each shift.

    Attributes:
      scores: sum of the agreement.
      gains: sum of the agreement above that without a shift.
      squares: sum of the squares of the gains.
      images: number of images.
    """

    scores: np.ndarray
    gains: np.ndarray
    squares: np.ndarray
    images: int


def _ids() -> np.ndarray:
    return np.zeros(256, np.int64)


@dataclasses.dataclass
class Measured:
    """Facts about samples; those of two sets of samples can be added.

    Attributes:
      samples: number of records, or of listed images.
      images: number of images that can be read.
      sizes: number of images of each (height, width), as in records.
      counts: [256] pixels of each id in masks of one channel.
      pixels_beside: [256] labeled pixels of the masks in which the id occurs.
      images_with: [256] masks in which the id occurs.
      thin: [256] pixels in parts narrower than the output stride.
      between: [256] pixels whose id lies between those of opposite neighbors.
      colors: pixels of each color (red, green, blue) in masks of colors that have few; gray levels are not colors.
      problems: number of samples with each problem, by rule.
      cases: the first cases of each problem.
      looks: the images that can be read.
      maps: agreement for each shift, by step and number of the shifts.
    """

    samples: int = 0
    images: int = 0
    sizes: collections.Counter[tuple[int, int]] = dataclasses.field(default_factory=collections.Counter)
    counts: np.ndarray = dataclasses.field(default_factory=_ids)
    pixels_beside: np.ndarray = dataclasses.field(default_factory=_ids)
    images_with: np.ndarray = dataclasses.field(default_factory=_ids)
    thin: np.ndarray = dataclasses.field(default_factory=_ids)
    between: np.ndarray = dataclasses.field(default_factory=_ids)
    colors: collections.Counter[tuple[int, int, int]] = dataclasses.field(default_factory=collections.Counter)
    problems: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    cases: dict[str, list[Case]] = dataclasses.field(default_factory=dict)
    looks: list[Look] = dataclasses.field(default_factory=list)
    maps: dict[tuple[int, int], Maps] = dataclasses.field(default_factory=dict)

    def note(self, rule: str, case: str, number: int | None = None) -> None:
        """Adds a case of a problem."""
        self.problems[rule] += 1
        cases = self.cases.setdefault(rule, [])
        if len(cases) < KEPT:
            cases.append(Case(case, number))

    def add_map(self, found: edges.Map) -> None:
        """Adds the agreement of an image for each shift."""
        reach = len(found.scores) // 2
        gains = found.scores - found.scores[reach, reach]
        self._add_maps((found.factor, reach), Maps(found.scores, gains, gains**2, 1))

    def _add_maps(self, key: tuple[int, int], other: Maps) -> None:
        mine = self.maps.get(key)
        if mine is not None:
            sums = (mine.scores + other.scores, mine.gains + other.gains, mine.squares + other.squares)
            other = Maps(*sums, mine.images + other.images)
        self.maps[key] = other

    def add(self, other: Measured) -> None:
        """Adds the facts of other samples."""
        self.images += other.images
        self.sizes += other.sizes
        for name in ('counts', 'pixels_beside', 'images_with', 'thin', 'between'):
            getattr(self, name)[:] += getattr(other, name)
        self.colors += other.colors
        self.problems += other.problems
        for rule, cases in other.cases.items():
            mine = self.cases.setdefault(rule, [])
            mine += cases[: KEPT - len(mine)]
        self.looks += other.looks
        for key, maps in other.maps.items():
            self._add_maps(key, maps)

    def ignored(self, ignore_label: int) -> int:
        """Returns the number of ignored pixels."""
        return int(self.counts[ignore_label])

    def class_pixels(self, num_classes: int, ignore_label: int) -> np.ndarray:
        """Returns the pixels of each class, without ignored ones: [num_classes]."""
        counts = self.counts.copy()
        counts[ignore_label] = 0
        return counts[:num_classes]
