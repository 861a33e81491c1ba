"""Decoders of masks that tools store as run lengths (RLE)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deeplab.datasets.annotations.shapes import MOST_PIXELS
from deeplab.errors import DataError

_LABEL_STUDIO_CHANNELS = 4  # brush masks are stored as red, green, blue and alpha
_HALF_COVERED = 128  # smallest alpha of a pixel that belongs to a brush mask
_LONGEST_FIELD = 32  # bits


def alternating(counts: Sequence[int] | np.ndarray, height: int, width: int, by_columns: bool = False) -> np.ndarray:
    """Returns the mask of run lengths that alternate between uncovered and covered pixels.

    CVAT stores masks in this form row by row, COCO (as uncompressed RLE) column by column.

    Args:
      counts: the run lengths.
      height: rows.
      width: columns.
      by_columns: whether the runs go down the columns.

    Returns:
      [h, w] bool.

    Raises:
      DataError: The runs do not have height * width pixels, or that is more than `MOST_PIXELS`.
    """
    _require_size(height, width)
    lengths = _whole(counts)
    total = int(lengths.sum())
    if total != height * width:
        raise DataError(
            f'its run lengths (RLE) have {total} pixels, but its size is {height} x {width} = {height * width}'
        )
    flat = np.repeat(np.arange(lengths.size) % 2 == 1, lengths)
    return flat.reshape(width, height).T if by_columns else flat.reshape(height, width)


def of_starts(runs: Sequence[int], height: int, width: int) -> np.ndarray:
    """Returns the mask of runs of covered pixels, row by row, as Hasty stores it.

    Args:
      runs: number of the first pixel, from 1 on, and length of each run, in the order of the pixels.
      height: rows.
      width: columns.

    Returns:
      [h, w] bool.

    Raises:
      DataError: The runs overlap, or have pixels beyond the last one.
    """
    _require_size(height, width)
    numbers = _whole(runs)
    if len(numbers) % 2:
        raise DataError('its run lengths (RLE) are not pairs of a start and a length')
    starts, lengths = numbers[::2] - 1, numbers[1::2]
    borders = np.stack([starts, starts + lengths], axis=1).ravel()
    counts = np.diff(borders, prepend=0, append=height * width)
    if counts.min() < 0:
        raise DataError(f'its run lengths (RLE) overlap, or do not fit its size {height} x {width} = {height * width}')
    return alternating(counts.tolist(), height, width)


def _require_size(height: int, width: int) -> None:
    """Raises `DataError` unless a mask of this size fits into the memory."""
    if min(height, width) < 0 or height * width > MOST_PIXELS:
        raise DataError(f'its size {height} x {width} is too large or negative; {MOST_PIXELS} pixels are allowed')


def _whole(values: Sequence[int] | np.ndarray) -> np.ndarray:
    """Returns whole numbers from 0 on: [n] int64."""
    try:
        numbers = np.asarray(values if len(values) else [0])
    except (TypeError, ValueError):  # lists of different lengths, or no list
        numbers = np.array([-1])
    if numbers.dtype.kind not in 'iu' or numbers.ndim != 1 or numbers.min() < 0 or numbers.max() > MOST_PIXELS:
        raise DataError(f'its run lengths are not all whole numbers from 0 to {MOST_PIXELS}')
    return numbers.astype(np.int64)


def of_coco_text(text: str | bytes) -> list[int]:
    """Returns the run lengths in COCO's compressed form.

    Each number is written in groups of five bits, the lowest first, one ASCII character from '0' on for each: 32 is
    added where more groups follow, and bit 16 of the last group is the sign. From the fourth number on, the difference
    to the one before the last is written.

    Raises:
      DataError: It contains other characters, or ends within a number.

    Source: the notes on its LEB128-like code in pycocotools (mask.py, common/maskApi.h).
    """
    content = text.encode('ascii', 'replace') if isinstance(text, str) else text
    numbers: list[int] = []
    value = shift = 0
    for byte in content:
        group = byte - 48
        if not 0 <= group < 64:
            raise DataError(f'its compressed run lengths (RLE) contain {chr(byte)!r}, which is not part of that code')
        value |= (group & 31) << shift
        shift += 5
        if group & 32:
            continue
        if group & 16:
            value -= 1 << shift
        numbers.append(value + (numbers[-2] if len(numbers) > 2 else 0))
        value = shift = 0
    if shift:
        raise DataError('its compressed run lengths (RLE) end within a number')
    return numbers


def of_label_studio(content: Sequence[int], height: int, width: int) -> np.ndarray:
    """Returns the mask of a Label Studio brush, whose pixels are covered at least by half.

    The bytes are a stream of bits, the highest of each byte first: 32 bits number of words, 5 bits size of a word less
    1, 4 times 4 bits size of a length less 1. Then runs: 1 bit whether it repeats one word, 2 bits which of the four
    sizes its length has, the length less 1, and one word or as many as the length states. The words are the bytes of an
    RGBA image, row by row; alpha is the mask.

    Args:
      content: the bytes.
      height: rows of the image.
      width: columns of the image.

    Returns:
      [h, w] bool.

    Raises:
      DataError: It is cut, or of another size.

    Source: README of @thi.ng/rle-pack ("Encoding format"), which Label Studio uses; Label Studio's documentation of the
      tag BrushLabels.
    """
    bits = _Bits(content)
    number, word_size = bits.number(32), bits.number(5) + 1
    sizes = [bits.number(4) + 1 for _ in range(4)]
    expected = height * width * _LABEL_STUDIO_CHANNELS
    if number != expected or word_size != 8:
        raise DataError(
            f'its brush mask (RLE) has {number} values of {word_size} bits, but its size is {height} x {width}, which '
            f'are {expected} of 8'
        )
    words = np.zeros(number, np.uint8)
    done = 0
    while done < number:
        is_repeated = bits.number(1)
        end = done + bits.number(sizes[bits.number(2)]) + 1
        if end > number:
            raise DataError(f'its brush mask (RLE) has more than the {number} values that it states')
        words[done:end] = bits.number(8) if is_repeated else bits.octets(end - done)
        done = end
    return words[3::_LABEL_STUDIO_CHANNELS].reshape(height, width) >= _HALF_COVERED


def counts_of(covered: np.ndarray, by_columns: bool = False) -> list[int]:
    """Returns the run lengths of a mask, [h, w] bool, for `alternating`: first of pixels that are not covered."""
    flat = covered.ravel(order='F' if by_columns else 'C')
    changes = np.flatnonzero(np.diff(flat.astype(np.int8), prepend=0))
    return [int(count) for count in np.diff(changes, prepend=0, append=flat.size)]


def coco_text(counts: Sequence[int]) -> str:
    """Returns run lengths in COCO's compressed form, see `of_coco_text`."""
    characters = []
    for place, count in enumerate(counts):
        value = count - counts[place - 2] if place > 2 else count
        while True:
            group, value = value & 31, value >> 5
            is_last = value == (-1 if group & 16 else 0)
            characters.append(chr(48 + group + (0 if is_last else 32)))
            if is_last:
                break
    return ''.join(characters)


def label_studio_content(covered: np.ndarray) -> list[int]:
    """Returns a mask, [h, w] bool, as a brush of Label Studio, see `of_label_studio`: all runs repeat one word."""
    counts = counts_of(covered)
    fields = [(covered.size * _LABEL_STUDIO_CHANNELS, 32), (7, 5), *[(_LONGEST_FIELD // 2 - 1, 4)] * 4]
    longest = 1 << (_LONGEST_FIELD // 2)
    for place, count in enumerate(counts):
        words = count * _LABEL_STUDIO_CHANNELS
        while words:
            part = min(words, longest)
            fields += [(1, 1), (0, 2), (part - 1, _LONGEST_FIELD // 2), (255 * (place % 2), 8)]
            words -= part
    text = ''.join(f'{value:0{size}b}' for value, size in fields)
    content = int(text + '0' * (-len(text) % 8), 2).to_bytes(-(-len(text) // 8), 'big')
    return list(content)


class _Bits:
    """Reads numbers from a stream of bits."""

    def __init__(self, content: Sequence[int]) -> None:
        try:
            self._bytes = bytes(content)
        except (TypeError, ValueError):
            raise DataError('its brush mask (RLE) is not a list of numbers from 0 to 255') from None
        self._position = 0  # in bits

    def number(self, size: int) -> int:
        """Returns the next number of at most 32 bits."""
        start, offset = divmod(self._take(size), 8)
        window = self._bytes[start : start + _LONGEST_FIELD // 8 + 1]
        value = int.from_bytes(window, 'big') >> max(8 * len(window) - offset - size, 0)
        return value & ((1 << size) - 1)

    def octets(self, count: int) -> np.ndarray:
        """Returns the next numbers of 8 bits each: [count] uint8."""
        start, offset = divmod(self._take(8 * count), 8)
        window = np.frombuffer(self._bytes, np.uint8, min(count + 1, len(self._bytes) - start), start)
        if not offset:
            return window[:count]
        return np.packbits(np.unpackbits(window)[offset : offset + 8 * count])

    def _take(self, size: int) -> int:
        """Returns the position, and advances it by some bits."""
        position = self._position
        self._position += size
        if self._position > 8 * len(self._bytes):
            raise DataError('its brush mask (RLE) is cut')
        return position
