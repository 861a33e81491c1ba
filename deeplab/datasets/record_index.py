"""Index of the records of a split, for random access by number."""

from __future__ import annotations

import array
import contextlib
import hashlib
import os
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from deeplab.datasets import tfrecord
from deeplab.errors import DataError, UnreadableFileError
from deeplab.files import storage
from deeplab.wording import option

# Number of files that stay open; further shards are opened for each read. Remote files have buffers, too.
MAX_OPEN_FILES = 128
# Bytes of records that are read ahead from a storage, if they are large.
_MAX_AHEAD = 128 << 20
# Bytes of a request that looks for the next records in a storage: as fast as one of a few bytes.
_BLOCK = 1 << 18

_IN_DIGEST = np.dtype([('length', '<i8'), ('checksum', '<u4')])


class Records(Protocol):
    """The records of a split by number: those in shards (`RecordIndex`), or made from files when they are read.

    Attributes:
      damaged: one line for each unreadable part of the split, which is left out.
    """

    damaged: tuple[str, ...]

    def __len__(self) -> int: ...

    @property
    def where(self) -> str:
        """Files or folders of the records, for messages."""

    @property
    def parallel_reads(self) -> int:
        """How many records to read at the same time, because each read waits for a storage; 0 on local disks."""

    def read(self, record: int) -> bytes:
        """Returns the serialized record; raises `DataError`. Several threads may read at once."""

    def name_of(self, record: int) -> str:
        """Returns how messages name a record."""

    def facts(self) -> dict[str, Any]:
        """Returns digest and place of the records, which identify them."""

    def parts(self) -> list[int]:
        """Returns the numbers of records in the parts of `SegmentationDataset.signatures`."""

    def close(self) -> None:
        """Closes files; the next read opens them again."""


class Columns(NamedTuple):
    """The records of one shard.

    Attributes:
      offset: [n] int64, offset of each record's data, in bytes.
      length: [n] int64, its length, in bytes.
      checksum: [n] uint32, the checksum that the shard stores with it.
    """

    offset: np.ndarray
    length: np.ndarray
    checksum: np.ndarray

    @classmethod
    def of_lengths(cls, length: np.ndarray, checksum: np.ndarray) -> Columns:
        """Returns the columns of records that follow each other without gaps."""
        framing = tfrecord.HEADER_BYTES + tfrecord.FOOTER_BYTES
        ends = np.cumsum(length.astype(np.int64) + framing)
        return cls(ends - length - tfrecord.FOOTER_BYTES, length.astype(np.int64), checksum.astype(np.uint32))


class RecordIndex:
    """The records of a split, numbered from 0 over its shards in the order given.

    Reading is safe from several threads at once.

    Attributes:
      shards: paths of the shards.
      shard: [n] int32, the shard of each record, as a position in `shards`.
      offset: [n] int64, offset of the record's data in its shard, in bytes.
      length: [n] int64, length of its data, in bytes.
      checksum: [n] uint32, the checksum that the shard stores with it.
      damaged: one line for each shard whose remainder could not be indexed (empty unless `skip_corrupt`).
    """

    def __init__(
        self,
        shards: Sequence[str],
        skip_corrupt: bool = False,
        indexed: Mapping[str, Columns] | None = None,
        label_divisor: int | None = None,
    ) -> None:
        """Finds all records from the framing; their data is not read.

        Args:
          shards: paths of TFRecord files.
          skip_corrupt: whether to continue with the next shard if one is damaged (see `damaged`).
          indexed: records of shards that need not be read, by path (`index_file.load`).
          label_divisor: divisor of the raw labels of deeplab2, which `read` gives as PNG files; None without them.

        Raises:
          DataError: A shard cannot be read, ends inside a record or has a damaged header.
        """
        self.shards = tuple(shards)
        self._label_divisor = label_divisor
        self._files: dict[int, storage.File] = {}
        self._sizes: dict[int, int | None] = {}  # of shards that did not stay open: in remote storage, a request each
        self._lock = threading.Lock()
        columns: list[Columns] = []
        damaged = []
        indexed = indexed or {}
        walked = storage.parallel_map(_walked, [path for path in shards if path not in indexed])
        for path in shards:
            part, error = (indexed[path], None) if path in indexed else next(walked)
            columns.append(part)
            if error is not None:
                is_missing = isinstance(error, OSError)
                where = path if is_missing else f'{path}, record {len(part.offset)}'
                reason = error.strerror if isinstance(error, OSError) else str(error)
                if not skip_corrupt:
                    raise DataError(
                        f'Cannot read {where}: {reason}. Copy or build the file again, or skip unreadable records with '
                        f'{option("DatasetOptions.skip_corrupt_records", True)}.'
                    ) from None
                damaged.append(f'{where}: {reason}')
        counts = [len(part.offset) for part in columns]
        self.shard = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        none = Columns(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint32))
        self.offset, self.length, self.checksum = map(np.concatenate, zip(none, *columns, strict=True))
        self.damaged = tuple(damaged)
        self._first = np.cumsum([0, *counts])  # number of each shard's first record

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def where(self) -> str:
        """The paths of the shards."""
        return ', '.join(self.shards)

    @property
    def parallel_reads(self) -> int:
        """How many records to read at the same time, within a bound on their bytes; 0 on local disks."""
        if not any(map(storage.is_remote, self.shards)):
            return 0
        return min(max(_MAX_AHEAD // max(int(self.length.max(initial=0)), 1), 2), storage.PARALLEL_READS)

    def read(self, record: int) -> bytes:
        """Reads the data of a record and verifies its checksum.

        Args:
          record: number of the record, 0 to n - 1.

        Returns:
          Its bytes.

        Raises:
          DataError: The checksum does not match, the file has been truncated, or a raw label does not fit;
            `UnreadableFileError` if the system cannot read it.
          StorageError: The storage does not answer.
        """
        wanted = int(self.length[record]) + tfrecord.FOOTER_BYTES
        try:
            content = self._read_at(int(self.shard[record]), wanted, int(self.offset[record]))
        except OSError as error:
            raise UnreadableFileError(f'Cannot read {self.name_of(record)}: {error.strerror}.') from None
        if len(content) < wanted:
            raise DataError(f'Cannot read {self.name_of(record)}: the file has been truncated since it was opened.')
        data = content[: -tfrecord.FOOTER_BYTES]
        if tfrecord.masked_crc(data) != struct.unpack('<I', content[-tfrecord.FOOTER_BYTES :])[0]:
            raise DataError(
                f'Cannot read {self.name_of(record)}: its checksum does not match its data. Copy or build the file '
                f'again, or skip unreadable records with {option("DatasetOptions.skip_corrupt_records", True)}.'
            )
        if self._label_divisor is None:
            return data
        from deeplab.datasets import example  # here, so that command lines start without Pillow

        try:
            return example.with_png_labels(data, self._label_divisor)
        except DataError as error:
            raise DataError(f'Cannot read {self.name_of(record)}: {error}.') from None

    def name_of(self, record: int) -> str:
        """Returns shard file and number in it, such as 'train-00001-of-00004.tfrecord, record 17' (from 0)."""
        shard = self.shard[record]
        return f'{os.path.basename(self.shards[shard])}, record {int(record) - int(self._first[shard])}'

    def parts(self) -> list[int]:
        """Returns the number of records in each shard."""
        counts: list[int] = np.diff(self._first).tolist()
        return counts

    def digest(self) -> str:
        """Returns the SHA-256 of each record's length and stored checksum, in order, as 'sha256:...'.

        It changes with any byte of any record; it does not depend on the shards' names, nor on how the records are
        distributed over them.
        """
        return digest(self.length, self.checksum)

    def facts(self) -> dict[str, Any]:
        """Returns `digest`, and the shards by name with their sizes."""
        stats = storage.parallel_map(storage.stat, self.shards)
        sizes = {os.path.basename(path): stat.size for path, stat in zip(self.shards, stats, strict=True)}
        return {'digest': self.digest(), 'shards': sizes}

    def close(self) -> None:
        """Closes the files; the next read opens them again."""
        with self._lock:
            for file in self._files.values():
                file.close()
            self._files.clear()

    def __del__(self) -> None:
        self.close()

    def _read_at(self, shard: int, size: int, offset: int) -> bytes:
        file = self._files.get(shard)
        if file is not None:
            return file.read_at(size, offset)
        file = storage.opened(self.shards[shard], self._sizes.get(shard))
        try:
            return file.read_at(size, offset)
        finally:
            with self._lock:
                keep = shard not in self._files and len(self._files) < MAX_OPEN_FILES
                if keep:
                    self._files[shard] = file
                else:
                    self._sizes[shard] = file.size
            if not keep:
                file.close()


def digest(length: np.ndarray, checksum: np.ndarray) -> str:
    """Returns the digest of records, see `RecordIndex.digest`.

    Args:
      length: [n], lengths of the records in bytes.
      checksum: [n], their masked CRC32C.
    """
    both = np.empty(len(length), _IN_DIGEST)
    both['length'], both['checksum'] = length, checksum
    return f'sha256:{hashlib.sha256(both.tobytes()).hexdigest()}'


def _walked(path: str) -> tuple[Columns, tfrecord.FramingError | OSError | None]:
    """Returns the records of a shard, and why its remainder cannot be read; None if it can."""
    # Arrays take 20 bytes for each record, lists of tuples ten times as much.
    offset, length, checksum = array.array('q'), array.array('q'), array.array('I')
    failure: tfrecord.FramingError | OSError | None = None
    try:
        size = storage.stat(path).size
        with contextlib.closing(storage.opened(path)) as file:
            read_at = _in_blocks(file.read_at, size) if storage.is_remote(path) else file.read_at
            for span in tfrecord.spans(read_at, size):
                offset.append(span[0])
                length.append(span[1])
                checksum.append(span[2])
    except (tfrecord.FramingError, OSError) as error:
        failure = error
    return Columns(np.array(offset, np.int64), np.array(length, np.int64), np.array(checksum, np.uint32)), failure


def _in_blocks(read_at: Callable[[int, int], bytes], end: int) -> Callable[[int, int], bytes]:
    """Returns `read_at` of a file of `end` bytes with larger requests, the last of which is kept."""
    start, block = 0, b''

    def read(size: int, offset: int) -> bytes:
        nonlocal start, block
        if not start <= offset <= min(offset + size, end) <= start + len(block):
            start, block = offset, read_at(max(size, _BLOCK), offset)
        return block[offset - start : offset - start + size]

    return read
