"""The framing of a TFRecord file: writing, and finding where each record lies.

A record is: length of the data (8 bytes, little endian), the masked CRC32C of those 8 bytes (4 bytes), the data, the
masked CRC32C of the data (4 bytes). Source: TensorFlow's documentation of the format, "TFRecords format details".
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

import google_crc32c

HEADER_BYTES = 12
FOOTER_BYTES = 4
_GZIP_MAGIC = b'\x1f\x8b'


class FramingError(Exception):
    """The framing is broken; says how, not where."""


def masked_crc(content: bytes) -> int:
    """The CRC32C as TFRecord files store it: rotated and shifted, so that CRCs of data with CRCs in it stay good."""
    crc: int = google_crc32c.value(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def framed(content: bytes) -> bytes:
    """`content` as a record of a TFRecord file."""
    length = struct.pack('<Q', len(content))
    return length + struct.pack('<I', masked_crc(length)) + content + struct.pack('<I', masked_crc(content))


def spans(descriptor: int) -> Iterator[tuple[int, int]]:
    """Walks a file from header to header, without reading the data between them.

    Args:
      descriptor: an open file.

    Yields:
      (offset, length) of each record's data in bytes.

    Raises:
      FramingError: The file ends inside a record, or a header is damaged. What was yielded before is good.
    """
    size = os.fstat(descriptor).st_size
    position = 0
    while position < size:
        header = os.pread(descriptor, HEADER_BYTES, position)
        if position == 0 and header.startswith(_GZIP_MAGIC):
            raise FramingError('the file is compressed with gzip; unpack it')
        if len(header) < HEADER_BYTES:
            raise FramingError(f'the file ends after {len(header)} of the 12 bytes of its header')
        length, crc = struct.unpack('<QI', header)
        if masked_crc(header[:8]) != crc:
            raise FramingError('the checksum of its header disagrees')
        end = position + HEADER_BYTES + length + FOOTER_BYTES
        if end > size:
            raise FramingError(f'the file ends {end - size} bytes before the record does')
        yield position + HEADER_BYTES, length
        position = end
