"""Measurement of the samples of a split: each is read once, in threads, and only sums and short facts are kept."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import hashlib
import io
import os
import sys
from collections.abc import Iterable

import numpy as np
import tqdm
from PIL import Image

from deeplab.datasets import images, orientation
from deeplab.diagnosis.sources import Sample, Split
from deeplab.errors import DataError

_CHUNK = 16  # samples that a thread measures at a time
KEPT = 100  # cases of a problem that are named
_THUMBNAIL = 17  # sides of the picture that near-duplicates are recognized by
_MOST_COLORS = 256


def _ids() -> np.ndarray:
    return np.zeros(256, np.int64)


@dataclasses.dataclass
class Measured:
    """Facts about samples; those of two sets of samples can be added.

    Attributes:
      samples: number of records, or of listed images.
      images: number of images that can be read.
      sizes: number of images of each (height, width).
      counts: [256] pixels of each id in masks of one channel.
      pixels_beside: [256] labeled pixels of the masks in which the id occurs.
      images_with: [256] masks in which the id occurs.
      thin: [256] pixels in parts narrower than the output stride.
      between: [256] pixels whose id lies between those of opposite neighbors.
      problems: number of samples with each problem, by rule.
      cases: the first cases of each problem.
      names: of the readable images.
      digests: of their bytes.
      thumbnails: of their pixels; None for those that have none.
    """

    samples: int = 0
    images: int = 0
    sizes: collections.Counter[tuple[int, int]] = dataclasses.field(default_factory=collections.Counter)
    counts: np.ndarray = dataclasses.field(default_factory=_ids)
    pixels_beside: np.ndarray = dataclasses.field(default_factory=_ids)
    images_with: np.ndarray = dataclasses.field(default_factory=_ids)
    thin: np.ndarray = dataclasses.field(default_factory=_ids)
    between: np.ndarray = dataclasses.field(default_factory=_ids)
    problems: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    cases: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    names: list[str] = dataclasses.field(default_factory=list)
    digests: list[bytes] = dataclasses.field(default_factory=list)
    thumbnails: list[np.ndarray | None] = dataclasses.field(default_factory=list)

    def note(self, rule: str, case: str) -> None:
        """Adds a case of a problem."""
        self.problems[rule] += 1
        cases = self.cases.setdefault(rule, [])
        if len(cases) < KEPT:
            cases.append(case)

    def add(self, other: Measured) -> None:
        """Adds the facts of other samples."""
        self.images += other.images
        self.sizes += other.sizes
        for name in ('counts', 'pixels_beside', 'images_with', 'thin', 'between'):
            getattr(self, name)[:] += getattr(other, name)
        self.problems += other.problems
        for rule, cases in other.cases.items():
            mine = self.cases.setdefault(rule, [])
            mine += cases[: KEPT - len(mine)]
        self.names += other.names
        self.digests += other.digests
        self.thumbnails += other.thumbnails

    def ignored(self, ignore_label: int) -> int:
        """Returns the number of ignored pixels."""
        return int(self.counts[ignore_label])

    def class_pixels(self, num_classes: int, ignore_label: int) -> np.ndarray:
        """Returns the pixels of each class, without ignored ones: [num_classes]."""
        counts = self.counts.copy()
        counts[ignore_label] = 0
        return counts[:num_classes]


def measure(split: Split, ignore_label: int, output_stride: int) -> Measured:
    """Measures every sample of a split, in threads; Pillow and NumPy release the global interpreter lock.

    Args:
      split: the split.
      ignore_label: id of the pixels that are excluded.
      output_stride: parts of a mask that are narrower than this many pixels are thin.
    """
    found = Measured()
    for rule, case in split.missing:
        found.note(rule, case)
    total = len(split)
    found.samples = total + len(split.missing)

    def part(numbers: Iterable[int]) -> Measured:
        mine = Measured()
        for number in numbers:
            try:
                _add_sample(mine, split.read(number), ignore_label, output_stride)
            except DataError as error:
                mine.note('corrupt', str(error))
        return mine

    chunks = [range(start, min(start + _CHUNK, total)) for start in range(0, total, _CHUNK)]
    # The progress bar appears only in a terminal, and only if reading takes long.
    bar = tqdm.tqdm(
        total=total, desc=f'reading {split.name}', unit='image', delay=2, disable=not sys.stderr.isatty(), leave=False
    )
    pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1)
    try:
        for chunk, measured in zip(chunks, pool.map(part, chunks), strict=True):
            found.add(measured)
            bar.update(len(chunk))
    finally:
        pool.shutdown(cancel_futures=True)
        bar.close()
    return found


def _add_sample(found: Measured, sample: Sample, ignore_label: int, output_stride: int) -> None:
    """Adds the facts of one sample."""
    try:
        header = images.read_whole(sample.image)
    except DataError as error:
        found.note('corrupt', f'{sample.name}: {error}')
        return
    found.images += 1
    found.sizes[header.size] += 1
    found.names.append(sample.name)
    found.digests.append(hashlib.blake2b(sample.image, digest_size=16).digest())
    mode, thumbnail = _mode_and_thumbnail(sample.image, header)
    found.thumbnails.append(thumbnail)
    if kind := _kind_of_image(header, mode):
        found.note(kind, sample.name)
    if sample.mask is None:
        found.note('no_mask', sample.name)
        return
    try:
        if sample.mask.startswith(b'\xff\xd8\xff'):
            found.note('jpeg_mask', sample.name)
            return
        mask = images.read_mask(sample.mask)
    except DataError as error:
        found.note('corrupt', f'mask of {sample.name}: {error}')
        return
    _add_turns(found, sample.name, header, mask)
    if mask.channels > 1:
        _add_colors(found, sample, mask)
        return
    try:
        gray = images.mask_as_gray_png(sample.mask, mask=mask)
    except DataError as error:  # an id above 255
        found.note('large_ids', f'{sample.name}: {error}')
        return
    if mask.is_palette or mask.counts is None:
        found.note('palette' if mask.is_palette else 'sixteen_bit_mask', sample.name)
    counts = images.read_mask(gray).counts if mask.counts is None else mask.counts
    _add_ids(found, gray, counts, ignore_label, output_stride)


def _kind_of_image(header: images.Header, mode: str) -> str:
    """Returns the rule about an unusual kind of image; '' for RGB of 8 bits."""
    if mode == 'CMYK':
        return 'cmyk'
    if header.bits == 16:
        return 'sixteen_bits'
    if header.format == 'png' and header.channels in (2, 4):
        return 'alpha'
    return 'gray' if header.channels == 1 else ''


def _mode_and_thumbnail(content: bytes, header: images.Header) -> tuple[str, np.ndarray | None]:
    """Returns Pillow's mode of an image, and its thumbnail: [17, 17] uint8, None for an array."""
    if header.format == 'npy':
        return '', None
    with Image.open(io.BytesIO(content), formats=('JPEG', 'PNG')) as image:
        mode = image.mode
        image.draft('L', (4 * _THUMBNAIL, 4 * _THUMBNAIL))  # a JPEG is decoded at an eighth of its size
        gray = image.convert('L').resize((_THUMBNAIL, _THUMBNAIL), Image.Resampling.BOX)
        return mode, np.asarray(gray)


def _add_turns(found: Measured, name: str, header: images.Header, mask: images.Mask) -> None:
    """Adds problems of size and EXIF orientation."""
    turns = (header.size, header.orientation, mask.size, mask.orientation)
    decision = orientation.decide(*turns)
    sizes = f'{name}: image {header.height} x {header.width}, mask {mask.height} x {mask.width}'
    if decision is None:
        found.note('size', sizes + orientation.explanation(*turns))
    elif header.size != mask.size:
        found.note('turned', sizes + orientation.explanation(*turns))
    elif header.orientation != mask.orientation:
        found.note('oriented', f'{name}: EXIF orientation {header.orientation}, its mask {mask.orientation}')


def _add_colors(found: Measured, sample: Sample, mask: images.Mask) -> None:
    """Adds the problem of a mask of several channels."""
    with Image.open(io.BytesIO(sample.mask or b'')) as image:
        colors = image.convert('RGB').getcolors(_MOST_COLORS)
    if colors is None:
        text = f'more than {_MOST_COLORS} colors'
    else:
        are_gray = all(len(set(color)) == 1 for _, color in colors if isinstance(color, tuple))
        text = f'{len(colors)} ' + ('gray levels in equal channels' if are_gray else 'colors')
    found.note('color_mask', f'{sample.name}: {mask.mode}, {text}')


def _add_ids(found: Measured, gray: bytes, counts: np.ndarray, ignore_label: int, output_stride: int) -> None:
    """Adds the facts about the ids of a mask."""
    with Image.open(io.BytesIO(gray)) as image:
        ids = np.asarray(image)
    found.counts += counts
    found.images_with += counts > 0
    found.pixels_beside[counts > 0] += counts.sum() - counts[ignore_label]
    if counts[ignore_label] == counts.sum():
        found.note('all_ignored', found.names[-1])
    found.thin += thin_pixels(ids, output_stride)
    found.between += between_pixels(ids)


def thin_pixels(ids: np.ndarray, width: int) -> np.ndarray:
    """Returns the pixels of each id in rows or columns of equal ids that are shorter than `width`.

    Args:
      ids: [h, w] uint8.
      width: in pixels.

    Returns:
      [256] int64.
    """
    thickness = np.minimum(_runs(ids), _runs(ids.T).T)
    # An image narrower than `width` has no thicker parts.
    return np.bincount(ids[thickness < min(width, *ids.shape)], minlength=256)


def _runs(ids: np.ndarray) -> np.ndarray:
    """Returns the length of the run of equal ids in its row for each pixel: [h, w]."""
    starts = np.ones(ids.shape, bool)
    starts[:, 1:] = ids[:, 1:] != ids[:, :-1]
    places = np.flatnonzero(starts)
    lengths = np.diff(places, append=ids.size)
    return np.repeat(lengths, lengths).reshape(ids.shape)


def between_pixels(ids: np.ndarray) -> np.ndarray:
    """Returns the pixels of each id that lies strictly between the ids left and right, or above and below.

    Interpolation at the edges of objects makes such ids.

    Args:
      ids: [h, w] uint8.

    Returns:
      [256] int64.
    """
    is_between = np.zeros(ids.shape, bool)
    for values, result in ((ids, is_between), (ids.T, is_between.T)):
        first, middle, last = values[:, :-2], values[:, 1:-1], values[:, 2:]
        result[:, 1:-1] |= ((first < middle) & (middle < last)) | ((first > middle) & (middle > last))
    return np.bincount(ids[is_between], minlength=256)
