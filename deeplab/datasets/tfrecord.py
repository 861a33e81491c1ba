"""The framing of TFRecord files: writing records, and finding their positions.

A record is: length of the data (8 bytes, little endian), the masked CRC32C of those 8 bytes (4 bytes), the data, the
masked CRC32C of the data (4 bytes). Source: TensorFlow's documentation of the format, "TFRecords format details".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

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


def spans(read_at: Callable[[int, int], bytes], size: int) -> Iterator[tuple[int, int, int]]:
    """Finds the records of a file by reading only what stands between their data.

    Args:
      read_at: reads up to a number of bytes at an offset.
      size: size of the file in bytes.

    Yields:
      (offset, length, checksum) of each record's data; offset and length are in bytes.

    Raises:
      FramingError: The file ends inside a record, or a header is damaged. Spans yielded before are valid.
    """
    position = 0
    header = read_at(HEADER_BYTES, 0)
    if header.startswith(_GZIP_MAGIC):
        raise FramingError('the file is compressed with gzip; unpack it')
    while position < size:
        if len(header) < HEADER_BYTES:
            raise FramingError(f'the file ends after {len(header)} of the 12 bytes of the header')
        length, crc = struct.unpack('<QI', header)
        if masked_crc(header[:8]) != crc:
            raise FramingError('the checksum of the header does not match')
        start, end = position + HEADER_BYTES, position + HEADER_BYTES + length + FOOTER_BYTES
        if end > size:
            raise FramingError(f'the file ends {end - size} bytes before the end of the record')
        between = read_at(FOOTER_BYTES + HEADER_BYTES, end - FOOTER_BYTES)  # the checksum, and the next header
        if len(between) < FOOTER_BYTES:
            raise FramingError('the file has been truncated while it was read')
        yield start, length, struct.unpack_from('<I', between)[0]
        position, header = end, between[FOOTER_BYTES:]


def is_record_at(read_at: Callable[[int, int], bytes], offset: int, length: int) -> bool:
    """Returns whether the header before `offset` is one of `length` bytes of data."""
    wanted = struct.pack('<Q', length)
    return read_at(HEADER_BYTES, offset - HEADER_BYTES) == wanted + struct.pack('<I', masked_crc(wanted))
