"""Segments of JPEG files and chunks of PNG files, found without decoding pixels."""

from __future__ import annotations

import struct
from collections.abc import Iterator

PNG_MAGIC = b'\x89PNG\r\n\x1a\n'
JPEG_MAGIC = b'\xff\xd8'
START_OF_SCAN = b'\xff\xda'  # the segment in front of the pixels of a JPEG
END_OF_IMAGE = b'\xff\xd9'


def parts(content: bytes, *kinds: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Finds segments of a JPEG up to its first scan, or complete chunks of a PNG; other files have none.

    Args:
      content: the file.
      kinds: markers of segments (two bytes) and types of chunks (four bytes).

    Yields:
      The kind of each part, and the offsets of start and end of its data, which follows kind and length.
    """
    if content.startswith(PNG_MAGIC):
        return _chunks(content, kinds)
    return _segments(content, kinds) if content.startswith(JPEG_MAGIC) else iter(())


def _chunks(content: bytes, kinds: tuple[bytes, ...]) -> Iterator[tuple[bytes, int, int]]:
    position = len(PNG_MAGIC)
    while position + 12 <= len(content):
        length, kind = struct.unpack_from('>I4s', content, position)
        start = position + 8
        position = start + length + 4  # a checksum follows the data
        if position > len(content):
            return
        if kind in kinds:
            yield kind, start, start + length


def _segments(content: bytes, kinds: tuple[bytes, ...]) -> Iterator[tuple[bytes, int, int]]:
    position = len(JPEG_MAGIC)
    while position + 4 <= len(content):
        kind, length = struct.unpack_from('>2sH', content, position)
        if kind == b'\xff\xff':  # any number of bytes 0xFF may stand in front of a marker
            position += 1
            continue
        if kind[0] != 0xFF or kind == END_OF_IMAGE or length < 2:
            return
        if kind in kinds:
            yield kind, position + 4, min(position + 2 + length, len(content))
        if kind == START_OF_SCAN:
            return
        position += 2 + length
