"""One record from an image file and its mask file: read, checked, turned upright where EXIF says so."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterable, Iterator

import numpy as np
from absl import logging

from deeplab.datasets import example, images, orientation, tfrecord
from deeplab.datasets.mask_ids import MaskIds
from deeplab.errors import DataError

_SHOWN = 3  # ids that a message names


@dataclasses.dataclass(frozen=True)
class Item:
    """One record to be.

    Attributes:
      image: path of the image.
      label: path of its mask; None for a split without masks.
      name: what `image/filename` will say.
    """

    image: str
    label: str | None
    name: str


@dataclasses.dataclass(frozen=True)
class Pair:
    """What became of an item.

    Attributes:
      record: the framed record.
      counts: [256] int64, pixels of each id in the mask; None without a mask.
      turns: what was done about an EXIF orientation of image or mask; None where neither has one.
      encoded_again: whether the image is a JPEG that had to be encoded again.
    """

    record: bytes
    counts: np.ndarray | None
    turns: orientation.Decision | None
    encoded_again: bool


def read(item: Item, allowed: MaskIds | None) -> Pair:
    """Reads and checks the files of an item.

    Args:
      item: where they are.
      allowed: ids that the mask may hold; None to allow every id.

    Raises:
      DataError: a file is missing, broken or of a wrong kind, or mask and image do not fit; the message names the file.
    """
    image = _contents(item.image)
    with _naming(item.image):
        header = images.read_whole(image)
    if item.label is None:
        has_orientation = header.orientation != orientation.UPRIGHT
        return _pair(item, image, header, orientation.Decision(True, False, False) if has_orientation else None)
    label = _contents(item.label)
    with _naming(item.label):
        grey = images.mask_as_grey_png(label)
        turns = _decide(item.image, header, images.read_mask(label))
        if turns is not None and turns.turn_mask:
            grey = images.mask_as_grey_png(label, orientation.read(label))
        counts = images.read_mask(grey).counts
        _check_ids(counts, allowed)
    return _pair(item, image, header, turns, grey, counts)


def _pair(
    item: Item,
    image: bytes,
    header: images.Header,
    turns: orientation.Decision | None,
    mask: bytes | None = None,
    counts: np.ndarray | None = None,
) -> Pair:
    """The record of files that are good."""
    with _naming(item.image):
        content, header = _image_content(image, header, turns)
    # Of a JPEG or PNG the record has always said what a reader makes of it.
    channels = header.channels if header.format == 'npy' else 3
    record = example.encode(content, header.format, item.name, header.height, header.width, channels, mask)
    encoded_again = header.format == 'jpeg' and len(content) != len(image)
    return Pair(tfrecord.framed(record), counts, turns, encoded_again)


def _image_content(
    content: bytes, header: images.Header, turns: orientation.Decision | None
) -> tuple[bytes, images.Header]:
    """What the record holds of an image file, and its header."""
    if (header.format, header.channels, header.bits) == ('npy', 3, 8):
        return images.encode_png(images.read_array(content)), dataclasses.replace(header, format='png')
    if header.orientation == orientation.UPRIGHT:
        return content, header
    if turns is None or not turns.turn_image:
        return orientation.reset(content), header
    height, width = orientation.shown_size(header.size, header.orientation)
    return orientation.turned(content, header.orientation), dataclasses.replace(header, height=height, width=width)


def _decide(image: str, header: images.Header, mask: images.Mask) -> orientation.Decision | None:
    """What to do about EXIF orientations; None where there are none.

    Raises:
      DataError: image and mask differ in size, however they are turned.
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
    """Raises `DataError` where a mask holds ids that are not allowed."""
    outside = () if allowed is None else allowed.outside(counts)
    if allowed is None or not len(outside):
        return
    shown = ', '.join(f'{value} on {counts[value]} pixels' for value in outside[:_SHOWN])
    more = f' and {len(outside) - _SHOWN} more' if len(outside) > _SHOWN else ''
    mend = 'set --num_classes or --ignore_label, or mend the mask'
    if pattern := allowed.mend(counts):
        mend = f'mend the masks, {pattern}; or else set --num_classes or --ignore_label'
    raise DataError(f'it holds ids that are neither classes nor the ignore label: {shown}{more}; {mend}')


def _contents(path: str) -> bytes:
    try:
        return pathlib.Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"Cannot read '{path}': {error.strerror}.") from None


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Puts the file's name before what is wrong with it."""
    try:
        yield
    except DataError as error:
        raise DataError(f"Cannot use '{path}': {error}.") from None


class Tally:
    """What the pairs of a split have in common, for the log.

    Attributes:
      counts: [256] int64, pixels of each id in all masks.
    """

    def __init__(self) -> None:
        self.counts = np.zeros(256, np.int64)
        self._turned = self._certain = self._kept = self._encoded_again = 0

    def records(self, pairs: Iterable[Pair]) -> Iterator[bytes]:
        """Yields the records of pairs, and counts."""
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
        """Logs how many images were turned, why, and what that did to them; nothing where none has an orientation."""
        if not self._turned + self._kept:
            return
        unsure = self._turned - self._certain
        logging.info(
            "Split '%s': %d of %d images (or their masks) have an EXIF orientation. %d of them were turned upright, as "
            'viewers show them: sizes or equal orientations of image and mask decide it for %d, for %d they do not and '
            'masks are taken to be upright. %d JPEG files were encoded again, with quality %d. %d keep their stored '
            'pixels, which alone have the size of the mask.',
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
                "Split '%s': %d masks fit the stored pixels of images with an EXIF orientation. For %d other images "
                'with one (upside down, mirrored or square) sizes do not show which pixels the mask was drawn on, and '
                'they were turned: if their masks are wrong now, save these images upright and build again.',
                split,
                self._kept,
                unsure,
            )
