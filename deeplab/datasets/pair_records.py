"""Records made from image and mask files when they are read, with the bytes that the builders would write."""

from __future__ import annotations

import array
import concurrent.futures
import os
import struct
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from deeplab.datasets import (
    example,
    image_parts,
    images,
    mask_sources,
    orientation,
    pairs,
    planes,
    record_index,
    tfrecord,
)
from deeplab.datasets.color_tables import ColorTable
from deeplab.errors import DataError
from deeplab.system import processors

# Masks that have to be converted are kept up to this many bytes; most take a few kilobytes.
LARGEST_CACHE = 256 << 20
GROUP = 64  # pairs of files that are checked again together
_GRAY, _PLAIN_BITS = 0, 8


class PairRecords:
    """The pairs of a split as records, numbered from 0; see `record_index.Records`.

    A record has the bytes that the builder writes for the same files. What the builder checks by decoding is left to
    the check of the records and to the decoder: a file that can be stored as it is, is only read.

    Attributes:
      items: the files of each record.
      damaged: empty.
    """

    def __init__(self, items: Sequence[pairs.SourceFiles]) -> None:
        self.items = tuple(items)
        self.damaged: tuple[str, ...] = ()
        self._masks: dict[int, mask_sources.Masks] = {}
        self._cached = 0
        self._lock = threading.Lock()
        self._sums: tuple[np.ndarray, np.ndarray] | None = None

    def __len__(self) -> int:
        return len(self.items)

    @property
    def where(self) -> str:
        """The folders of the images."""
        return ', '.join(dict.fromkeys(os.path.dirname(item.image) for item in self.items))

    @property
    def parallel_reads(self) -> int:
        """0, because the images are on local disks."""
        return 0

    def read(self, record: int) -> bytes:
        """Returns the serialized record of a pair of files.

        Raises:
          DataError: A file is missing, invalid or of a wrong kind, or mask and image do not match; the message names
            the file.
        """
        item = self.items[record]
        image = item.image_contents()
        with pairs.naming(item.image):
            header = images.read_whole(image, decodes=False)
        size = header.height, header.width
        if header.orientation != orientation.UPRIGHT or header.format == 'npy' or (item.label is None and item.planes):
            return pairs.read(item, None, image).record
        if item.label is None:
            return example.encode(image, header.format, item.name, *size, 3, None)
        masks = self._masks.get(record)
        if masks is None:
            # A table of colors does not change a gray mask, unless it has gray levels alone; other sources do.
            source = item.source
            is_plain = source is None or (isinstance(source, ColorTable) and not source.with_gray)
            label = mask_sources.contents(item.label) if is_plain else b''
            if is_plain and _is_plain(label, header.size):
                masks = mask_sources.Masks(label)
            else:
                serialized = pairs.read(item, None, image).record
                made = example.parse(serialized)
                if made.image_bytes != image or made.label_bytes is None:
                    return serialized
                instances: Any = made.features.get(planes.INSTANCE.feature)
                masks = mask_sources.Masks(made.label_bytes, instances)
                self._keep(record, masks)
        further = {} if masks.instances is None else {planes.INSTANCE.feature: masks.instances}
        return example.encode(image, header.format, item.name, *size, 3, masks.classes, further)

    def name_of(self, record: int) -> str:
        """Returns the path of the image."""
        return self.items[record].image

    def parts(self) -> list[int]:
        """Returns the number of records in each group."""
        full, rest = divmod(len(self.items), GROUP)
        return [GROUP] * full + [rest] * (rest > 0)

    def note_sums(self, length: array.array[int], checksum: array.array[int]) -> None:
        """Keeps the lengths and checksums of all records, which `facts` would have to compute."""
        if len(length) == len(self):
            self._sums = np.array(length, np.int64), np.array(checksum, np.uint32)

    def facts(self) -> dict[str, Any]:
        """Returns the digest that records built from these files have, and the folders of the images."""
        if self._sums is None:
            with concurrent.futures.ThreadPoolExecutor(processors.available_cores()) as pool:
                sums = list(pool.map(self._sum, range(len(self))))
            table = np.array(sums, np.int64).reshape(-1, 2)
            self._sums = table[:, 0], table[:, 1].astype(np.uint32)
        return {'digest': record_index.digest(*self._sums), 'folders': self.where}

    def close(self) -> None:
        """Drops the masks that were converted."""
        with self._lock:
            self._masks.clear()
            self._cached = 0

    def _sum(self, record: int) -> tuple[int, int]:
        """Returns length and checksum of a record; zeros if it cannot be read."""
        try:
            content = self.read(record)
        except DataError:
            return 0, 0
        return len(content), tfrecord.masked_crc(content)

    def _keep(self, record: int, masks: mask_sources.Masks) -> None:
        """Keeps converted masks, while there is room."""
        size = sum(map(len, filter(None, masks)))
        with self._lock:
            if record not in self._masks and self._cached + size <= LARGEST_CACHE:
                self._masks[record] = masks
                self._cached += size


def _is_plain(label: bytes, size: tuple[int, int]) -> bool:
    """Returns whether a mask is stored as it is: a gray PNG of 8 bits and of the size of its image, upright."""
    if not label.startswith(image_parts.PNG_MAGIC) or len(label) < 33:
        return False
    width, height, bits, kind = struct.unpack_from('>IIBB', label, 16)
    is_gray = (bits, kind) == (_PLAIN_BITS, _GRAY)
    return is_gray and (height, width) == size and orientation.read(label) == orientation.UPRIGHT
