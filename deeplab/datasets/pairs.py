"""Records from pairs of an image file and a mask file: reading, checks, EXIF orientation."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterable, Iterator

import numpy as np
from absl import logging

from deeplab.datasets import example, images, orientation, tfrecord
from deeplab.datasets.color_tables import ColorTable
from deeplab.datasets.mask_ids import MaskIds
from deeplab.errors import DataError
from deeplab.wording import option

_SHOWN = 3  # number of ids that a message names


@dataclasses.dataclass(frozen=True)
class Item:
    """The source files of one record.

    Attributes:
      image: path of the image.
      label: path of its mask; None for a split without masks.
      name: value of `image/filename`.
      colors: what the colors of the mask mean; None for a mask of ids.
    """

    image: str
    label: str | None
    name: str
    colors: ColorTable | None = None


@dataclasses.dataclass(frozen=True)
class Pair:
    """The result of reading an item.

    Attributes:
      record: the framed record.
      counts: [256] int64, pixels of each id in the mask; None without a mask.
      turns: how an EXIF orientation of image or mask was handled; None if neither has one.
      encoded_again: whether the image is a JPEG that had to be re-encoded.
    """

    record: bytes
    counts: np.ndarray | None
    turns: orientation.Decision | None
    encoded_again: bool


def read(item: Item, allowed: MaskIds | None) -> Pair:
    """Reads and checks the files of an item.

    Args:
      item: their paths.
      allowed: ids that the mask may hold; None to allow every id.

    Raises:
      DataError: a file is missing, invalid or of a wrong kind, or mask and image do not match; the message names the
        file.
    """
    image = _contents(item.image)
    with _naming(item.image):
        header = images.read_whole(image)
    if item.label is None:
        has_orientation = header.orientation != orientation.UPRIGHT
        return _pair(item, image, header, orientation.Decision(True, False, False) if has_orientation else None)
    label = _contents(item.label)
    with _naming(item.label):
        if item.colors is not None:
            label = item.colors.as_ids(label)
        mask = images.read_mask(label)
        gray = images.mask_as_gray_png(label, mask=mask)
        turns = _decide(item.image, header, mask)
        if turns is not None and turns.turn_mask:
            gray = images.mask_as_gray_png(label, mask.orientation, mask)
        # Masks of 16 bits are counted when they have 8.
        counts = images.read_mask(gray).counts if mask.counts is None else mask.counts
        _check_ids(counts, allowed)
    return _pair(item, image, header, turns, gray, counts)


def _pair(
    item: Item,
    image: bytes,
    header: images.Header,
    turns: orientation.Decision | None,
    mask: bytes | None = None,
    counts: np.ndarray | None = None,
) -> Pair:
    """Returns the record of valid files."""
    with _naming(item.image):
        content, header = _image_content(image, header, turns)
    # For JPEG and PNG, the record states the channels after decoding.
    channels = header.channels if header.format == 'npy' else 3
    record = example.encode(content, header.format, item.name, header.height, header.width, channels, mask)
    encoded_again = header.format == 'jpeg' and len(content) != len(image)
    return Pair(tfrecord.framed(record), counts, turns, encoded_again)


def _image_content(
    content: bytes, header: images.Header, turns: orientation.Decision | None
) -> tuple[bytes, images.Header]:
    """Returns the content of an image file for the record, and its header."""
    if (header.format, header.channels, header.bits) == ('npy', 3, 8):
        return images.encode_png(images.read_array(content)), dataclasses.replace(header, format='png')
    if header.orientation == orientation.UPRIGHT:
        return content, header
    if turns is None or not turns.turn_image:
        return orientation.reset(content), header
    height, width = orientation.shown_size(header.size, header.orientation)
    return orientation.turned(content, header.orientation), dataclasses.replace(header, height=height, width=width)


def _decide(image: str, header: images.Header, mask: images.Mask) -> orientation.Decision | None:
    """Returns how to handle EXIF orientations; None if there are none.

    Raises:
      DataError: image and mask differ in size in every orientation.
    """
    turns = orientation.decide(header.size, header.orientation, mask.size, mask.orientation)
    if turns is None:
        text = (
            f"it is {mask.height} x {mask.width} pixels (height x width), its image '{image}' "
            f'{header.height} x {header.width}'
        )
        raise DataError(text + orientation.explanation(header.size, header.orientation, mask.size, mask.orientation))
    return turns if {header.orientation, mask.orientation} != {orientation.UPRIGHT} else None


def _check_ids(counts: np.ndarray, allowed: MaskIds | None) -> None:
    """Raises `DataError` if a mask contains ids that are not allowed."""
    outside = () if allowed is None else allowed.outside(counts)
    if allowed is None or not len(outside):
        return
    shown = ', '.join(f'{value} on {counts[value]} pixels' for value in outside[:_SHOWN])
    more = f' and {len(outside) - _SHOWN} more' if len(outside) > _SHOWN else ''
    settings = f'set {option("BuilderOptions.num_classes")} or {option("BuilderOptions.ignore_label")}'
    fix = f'{settings}, or fix the mask'
    if pattern := allowed.advice(counts):
        fix = f'fix the masks, {pattern}; otherwise {settings}'
    raise DataError(f'it contains ids that are neither classes nor the ignore label: {shown}{more}; {fix}')


def _contents(path: str) -> bytes:
    try:
        return pathlib.Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"Cannot read '{path}': {error.strerror}.") from None


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Adds the file's name to errors."""
    try:
        yield
    except DataError as error:
        raise DataError(f"Cannot use '{path}': {error}.") from None


class Tally:
    """Totals over the pairs of a split, for the log.

    Attributes:
      counts: [256] int64, pixels of each id in all masks.
    """

    def __init__(self) -> None:
        self.counts = np.zeros(256, np.int64)
        self._turned = self._certain = self._kept = self._encoded_again = 0

    def records(self, pairs: Iterable[Pair]) -> Iterator[bytes]:
        """Yields the records of pairs and updates the totals."""
        for pair in pairs:
            if pair.counts is not None:
                self.counts += pair.counts
            if pair.turns is not None:
                self._kept += pair.turns.is_kept
                self._turned += not pair.turns.is_kept
                self._certain += pair.turns.is_certain and not pair.turns.is_kept
            self._encoded_again += pair.encoded_again
            yield pair.record

    def log_turns(self, split: str, total: int) -> None:
        """Logs how many images were rotated or mirrored for their EXIF orientation, if any."""
        if not self._turned + self._kept:
            return
        unsure = self._turned - self._certain
        logging.info(
            "Split '%s': %d of %d images (or their masks) have an EXIF orientation. %d were turned upright, as image "
            'viewers display them: for %d this follows from the sizes or from equal orientations of image and mask, '
            'for %d the mask is assumed to be upright. %d JPEG files were re-encoded with quality %d. %d keep their '
            'stored pixels, because only these have the size of the mask.',
            split,
            self._turned + self._kept,
            total,
            self._turned,
            self._certain,
            unsure,
            self._encoded_again,
            orientation.JPEG_QUALITY,
            self._kept,
        )
        if self._kept and unsure:
            logging.warning(
                "Split '%s': %d masks match the stored pixels of images with an EXIF orientation. For %d other images "
                'with one (upside down, mirrored or square) the sizes do not show whether the mask matches the stored '
                'or the displayed pixels, and they were turned upright. If their masks are wrong now, save these '
                'images upright and build the records again.',
                split,
                self._kept,
                unsure,
            )
