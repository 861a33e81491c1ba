"""The framing of TFRecord files: writing records, and finding their positions.

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
    """The framing is invalid; the message does not name the file."""


def masked_crc(content: bytes) -> int:
    """Returns the masked CRC32C that TFRecord files store."""
    crc: int = google_crc32c.value(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def framed(content: bytes) -> bytes:
    """Returns `content` as a record of a TFRecord file."""
    length = struct.pack('<Q', len(content))
    return length + struct.pack('<I', masked_crc(length)) + content + struct.pack('<I', masked_crc(content))


def spans(descriptor: int) -> Iterator[tuple[int, int]]:
    """Finds the records of a file by reading only their headers.

    Args:
      descriptor: an open file.

    Yields:
      (offset, length) of each record's data in bytes.

    Raises:
      FramingError: The file ends inside a record, or a header is damaged. Spans yielded before are valid.
    """
    size = os.fstat(descriptor).st_size
    position = 0
    while position < size:
        header = os.pread(descriptor, HEADER_BYTES, position)
        if position == 0 and header.startswith(_GZIP_MAGIC):
            raise FramingError('the file is compressed with gzip; unpack it')
        if len(header) < HEADER_BYTES:
            raise FramingError(f'the file ends after {len(header)} of the 12 bytes of the header')
        length, crc = struct.unpack('<QI', header)
        if masked_crc(header[:8]) != crc:
            raise FramingError('the checksum of the header does not match')
        end = position + HEADER_BYTES + length + FOOTER_BYTES
        if end > size:
            raise FramingError(f'the file ends {end - size} bytes before the end of the record')
        yield position + HEADER_BYTES, length
        position = end
