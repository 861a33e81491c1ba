"""Index of the records of a split, for random access by number."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Sequence

import numpy as np

from deeplab.datasets import tfrecord
from deeplab.errors import DataError
from deeplab.wording import option

# Number of files that stay open; those of further shards are opened for each read.
MAX_OPEN_FILES = 128


class RecordIndex:
    """The records of a split, numbered from 0 over its shards in the order given.

    Reading is safe from several threads at once.

    Attributes:
      shards: paths of the shards.
      shard: [n] int32, the shard of each record, as a position in `shards`.
      offset: [n] int64, offset of the record's data in its shard, in bytes.
      length: [n] int64, length of its data, in bytes.
      damaged: one line for each shard whose remainder could not be indexed (empty unless `skip_corrupt`).
    """

    def __init__(
        self,
        shards: Sequence[str],
        shard: np.ndarray,
        offset: np.ndarray,
        length: np.ndarray,
        damaged: Sequence[str] = (),
    ) -> None:
        self.shards = tuple(shards)
        self.shard = shard
        self.offset = offset
        self.length = length
        self.damaged = tuple(damaged)
        self._first = np.searchsorted(shard, np.arange(len(self.shards)))  # number of each shard's first record
        self._files: dict[int, int] = {}
        self._lock = threading.Lock()

    @classmethod
    def walk(cls, shards: Sequence[str], skip_corrupt: bool = False) -> RecordIndex:
        """Finds all records from the framing; their data is not read.

        Args:
          shards: paths of TFRecord files.
          skip_corrupt: whether to continue with the next shard if one is damaged (see `damaged`).

        Returns:
          The index.

        Raises:
          DataError: A shard cannot be read, ends inside a record or has a damaged header.
        """
        columns: list[tuple[int, int, int]] = []
        damaged = []
        for number, path in enumerate(shards):
            before = len(columns)
            try:
                with open(path, 'rb') as file:
                    columns.extend((number, offset, length) for offset, length in tfrecord.spans(file.fileno()))
            except (tfrecord.FramingError, OSError) as error:
                where = f'{path}, record {len(columns) - before}'
                if isinstance(error, OSError):
                    where, error = path, OSError(error.strerror)
                if not skip_corrupt:
                    raise DataError(
                        f'Cannot read {where}: {error}. Copy or build the file again, or skip unreadable records with '
                        f'{option("DatasetOptions.skip_corrupt_records", True)}.'
                    ) from None
                damaged.append(f'{where}: {error}')
        table = np.array(columns, np.int64).reshape(-1, 3)
        return cls(shards, table[:, 0].astype(np.int32), table[:, 1].copy(), table[:, 2].copy(), damaged)

    def __len__(self) -> int:
        return len(self.offset)

    def read(self, record: int) -> bytes:
        """Reads the data of a record and verifies its checksum.

        Args:
          record: its number, 0 to n - 1.

        Returns:
          Its bytes.

        Raises:
          DataError: The checksum does not match, or the file has been truncated.
        """
        wanted = int(self.length[record]) + tfrecord.FOOTER_BYTES
        try:
            content = self._pread(int(self.shard[record]), wanted, int(self.offset[record]))
        except OSError as error:
            raise DataError(f'Cannot read {self.name_of(record)}: {error.strerror}.') from None
        if len(content) < wanted:
            raise DataError(f'Cannot read {self.name_of(record)}: the file has been truncated since it was opened.')
        data = content[: -tfrecord.FOOTER_BYTES]
        if tfrecord.masked_crc(data) != struct.unpack('<I', content[-tfrecord.FOOTER_BYTES :])[0]:
            raise DataError(
                f'Cannot read {self.name_of(record)}: its checksum does not match its data. Copy or build the file '
                f'again, or skip unreadable records with {option("DatasetOptions.skip_corrupt_records", True)}.'
            )
        return data

    def name_of(self, record: int) -> str:
        """Returns shard file and number in it, such as 'train-00001-of-00004.tfrecord, record 17' (from 0)."""
        shard = self.shard[record]
        return f'{os.path.basename(self.shards[shard])}, record {int(record) - int(self._first[shard])}'

    def close(self) -> None:
        """Closes the files; the next read opens them again."""
        with self._lock:
            for file in self._files.values():
                os.close(file)
            self._files.clear()

    def __del__(self) -> None:
        self.close()

    def _pread(self, shard: int, size: int, offset: int) -> bytes:
        file = self._files.get(shard)
        if file is not None:
            return os.pread(file, size, offset)
        file = os.open(self.shards[shard], os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(file, size, offset)
        finally:
            with self._lock:
                keep = shard not in self._files and len(self._files) < MAX_OPEN_FILES
                if keep:
                    self._files[shard] = file
            if not keep:
                os.close(file)
