"""Facts about the samples of a split: sums, the first cases of each problem, and a summary of every image."""

from __future__ import annotations

import array
import collections
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from deeplab.checks import edges

KEPT = 100  # cases of a problem that are named
SHOWN = 3  # cases and ids that a text names
GRID = 12  # cells on each side of an image, with a color and labels each


class Case(NamedTuple):
    """A sample with a problem: its name in messages, and its number in the split; None for what is no sample."""

    text: str
    number: int | None = None


def shown_cases(cases: Sequence[str], number: int) -> str:
    """Returns the first of `number` cases for a message."""
    more = f'; and {number - SHOWN} more' if number > SHOWN else ''
    return '; '.join(cases[:SHOWN]) + more


class ImageSummary(NamedTuple):
    """An image that can be read, reduced to what comparisons with other images need.

    Attributes:
      name: name in messages.
      stem: name as in lists, without the place of a record; records may have an extension.
      number: number of the sample in its split.
      digest: digest of the bytes of the image.
      mask_digest: digest of the bytes of the mask; b'' without one.
      thumbnail: [17, 17] uint8, by which near-duplicates are recognized.
      cells: [2, 12, 12] uint8, colors and labels (`inspection.cells`); None without a mask of ids.
      agreement: agreement of edges and borders; None where there are too few.
      size: height and width, as in records.
      planes: keys of the planes of `planes.BUILT` that the sample has.
      class_ids: classes of the whole image, as they are in the record.
      id_colors: colors of the ids in a mask with a palette, see `images.Mask`.
    """

    name: str
    stem: str
    number: int
    digest: bytes
    mask_digest: bytes
    thumbnail: np.ndarray
    cells: np.ndarray | None
    agreement: edges.Agreement | None
    size: tuple[int, int]
    planes: frozenset[str] = frozenset()
    class_ids: tuple[int, ...] = ()
    id_colors: bytes = b''


_integers: Callable[[], array.array[int]] = functools.partial(array.array, 'q')
_ids = functools.partial(np.zeros, 256, np.int64)


@dataclasses.dataclass
class Facts:
    """Facts about some samples; facts about others can be added.

    `deeplab doctor` alone measures the attributes from `thin` on (`inspection.Criteria.is_thorough`).

    Attributes:
      samples: number of records, or of listed images.
      records: numbers of the samples that can be read, with their masks.
      sizes: stored height and width of each of these, one after the other.
      sums: length and checksum of each of these, one after the other; empty for records in shards.
      oriented: number of these with an EXIF orientation.
      counts: [256] pixels of each id in masks of one channel.
      pixels_beside: [256] labeled pixels of the masks in which the id occurs.
      images_with: [256] number of masks in which the id occurs.
      problems: number of samples with each problem, by rule.
      unread: number of samples, and of shards, that the system could not read; it may be able to later.
      cases: first cases of each problem; all of 'corrupt', because programs name every record that they skip.
      colors: pixels of each color (red, green, blue) in masks of colors that have few; gray levels are not colors.
      thin: [256] pixels in parts narrower than the output stride.
      between: [256] pixels with an id between the ids of opposite neighbors.
      instance_images: [256] number of images in which the class has instances.
      lone_instances: [256] number of images in which it has exactly one.
      lone_in_parts: [256] number of images in which it has exactly one, of several parts.
      instance_pixels: [256] pixels of the class in masks with instances.
      unnumbered: [256] these pixels without an instance.
      images: the images that can be read, also without a mask.
      shifts: [3, n, n] by the pixels of a step and the number of steps in each direction: how much each shift raises
        the agreement of edges and borders, summed over images, the sum of the squares, and the number of images.
    """

    samples: int = 0
    records: array.array[int] = dataclasses.field(default_factory=_integers)
    sizes: array.array[int] = dataclasses.field(default_factory=_integers)
    sums: array.array[int] = dataclasses.field(default_factory=_integers)
    oriented: int = 0
    counts: np.ndarray = dataclasses.field(default_factory=_ids)
    pixels_beside: np.ndarray = dataclasses.field(default_factory=_ids)
    images_with: np.ndarray = dataclasses.field(default_factory=_ids)
    problems: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    unread: int = 0
    cases: dict[str, list[Case]] = dataclasses.field(default_factory=dict)
    colors: collections.Counter[tuple[int, int, int]] = dataclasses.field(default_factory=collections.Counter)
    thin: np.ndarray = dataclasses.field(default_factory=_ids)
    between: np.ndarray = dataclasses.field(default_factory=_ids)
    instance_images: np.ndarray = dataclasses.field(default_factory=_ids)
    lone_instances: np.ndarray = dataclasses.field(default_factory=_ids)
    lone_in_parts: np.ndarray = dataclasses.field(default_factory=_ids)
    instance_pixels: np.ndarray = dataclasses.field(default_factory=_ids)
    unnumbered: np.ndarray = dataclasses.field(default_factory=_ids)
    images: list[ImageSummary] = dataclasses.field(default_factory=list)
    shifts: dict[tuple[int, int], np.ndarray] = dataclasses.field(default_factory=dict)

    def note(self, rule: str, text: str, number: int | None = None) -> None:
        """Adds a case of a problem."""
        self.problems[rule] += 1
        self._keep(rule, [Case(text, number)])

    def _keep(self, rule: str, cases: Sequence[Case]) -> None:
        kept = self.cases.setdefault(rule, [])
        kept += cases if rule == 'corrupt' else cases[: KEPT - len(kept)]

    def add_shifts(self, step: int, scores: np.ndarray) -> None:
        """Adds the agreement of an image for each shift, as from `edges.compare`."""
        reach = len(scores) // 2
        gains = scores - scores[reach, reach]
        sums = np.stack([gains, gains**2, np.ones_like(gains)])
        self.shifts[step, reach] = self.shifts.get((step, reach), 0) + sums

    def add(self, other: Facts) -> None:
        """Adds the facts about other samples, which follow."""
        for name in (field.name for field in dataclasses.fields(self) if field.name not in ('cases', 'shifts')):
            total = getattr(self, name)
            total += getattr(other, name)
            setattr(self, name, total)
        for rule, cases in other.cases.items():
            self._keep(rule, cases)
        for key, sums in other.shifts.items():
            self.shifts[key] = self.shifts.get(key, 0) + sums

    @property
    def image_sizes(self) -> collections.Counter[tuple[int, int]]:
        """Number of images of each (height, width)."""
        return collections.Counter(image.size for image in self.images)

    def class_images(self, num_classes: int) -> np.ndarray:
        """Returns the number of images of each class, of classes of whole images: [num_classes] int64."""
        class_ids = np.array([class_id for image in self.images for class_id in set(image.class_ids)], np.int64)
        return np.bincount(class_ids[(class_ids >= 0) & (class_ids < num_classes)], minlength=num_classes)

    def class_pixels(self, num_classes: int, ignore_label: int) -> np.ndarray:
        """Returns the pixels of each class, without ignored ones: [num_classes]."""
        counts = self.counts.copy()
        counts[ignore_label] = 0
        return counts[:num_classes]

    def class_image_pixels(self, num_classes: int, ignore_label: int) -> np.ndarray:
        """Returns the labeled pixels of the images in which each class occurs: [num_classes]."""
        pixels = self.class_pixels(num_classes, ignore_label)
        return np.where(pixels > 0, self.pixels_beside[:num_classes], 0)
