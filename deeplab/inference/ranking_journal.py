"""Journal of `deeplab rank`: what was computed of each image, so that a stopped run continues.

One JSON line for each image, appended when it is predicted, after a line with the settings; a line that is not complete
is skipped. An entry counts if size and time of the image file have not changed.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import os
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np
from PIL import Image

from deeplab.checks.inspection import THUMBNAIL
from deeplab.files import documents, writing
from deeplab.inference.uncertainty import Uncertainty

_FORMAT = 1  # increase it when the same images get other values


@dataclasses.dataclass(frozen=True)
class Entry:
    """What was computed of an image; see `Uncertainty`.

    Attributes:
      thumbnail: [17, 17] uint8.
    """

    shares: np.ndarray
    by_class: np.ndarray
    features: np.ndarray
    thumbnail: np.ndarray


class Journal:
    """The journal in a folder, open for writing in a `with` statement; safe to use from several threads."""

    name = '.rank_scores.jsonl'

    def __init__(self, folder: str, settings: Mapping[str, Any]) -> None:
        """Creates it; nothing is read or written yet.

        Args:
          folder: an existing folder.
          settings: what the values depend on, JSON values; a journal of other settings is begun again.
        """
        self.settings = {'format': _FORMAT, **settings}
        self._path = os.path.join(folder, self.name)
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Journal:
        """Opens the journal; raises `DataError` if it cannot be written."""
        with writing.explained(self._path):
            is_kept = os.path.exists(self._path) and next(self._lines(), None) == self.settings
            self._file = open(self._path, 'ab' if is_kept else 'wb')
            self._file.write(b'\n' if is_kept else self._encoded(self.settings))  # behind a line that is not complete
            self._file.flush()
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, path: str, image: np.ndarray, uncertainty: Uncertainty) -> None:
        """Adds an image.

        Args:
          path: path of its file.
          image: [h, w, channels], 0 to 255.
          uncertainty: what was predicted.

        Raises:
          DataError: it cannot be written.
        """
        gray = Image.fromarray(np.clip(image.mean(axis=2), 0, 255).astype(np.uint8))
        thumbnail = np.asarray(gray.resize((THUMBNAIL, THUMBNAIL), Image.Resampling.BOX))
        values = {
            'path': path,
            'file': _state_of(path),
            'shares': [round(float(value), 7) for value in uncertainty.shares],
            'by_class': [[round(float(value), 7) for value in row] for row in uncertainty.by_class],
            'features': _text(uncertainty.features.astype(np.float16)),
            'thumbnail': _text(thumbnail),
            'map': [*uncertainty.map.shape, _text(uncertainty.map)],
        }
        self.add_lines(self._encoded(values))

    def add_lines(self, lines: bytes) -> None:
        """Adds lines of another journal; raises `DataError` if they cannot be written."""
        assert self._file is not None
        with self._lock, writing.explained(self._path):
            self._file.write(lines)
            self._file.flush()

    def missing(self, paths: Collection[str]) -> set[str]:
        """Returns the images of which there is no entry."""
        return set(paths) - {values['path'] for values in self._values()}

    def entries(self) -> dict[str, Entry]:
        """Returns the entries of all images by path."""
        entries = {}
        for values in self._values():
            features = np.frombuffer(base64.b64decode(values['features']), np.float16).astype(np.float32)
            thumbnail = np.frombuffer(base64.b64decode(values['thumbnail']), np.uint8).reshape(THUMBNAIL, THUMBNAIL)
            shares, by_class = (np.array(values[name], np.float32) for name in ('shares', 'by_class'))
            entries[values['path']] = Entry(shares, by_class, features / np.linalg.norm(features), thumbnail)
        return entries

    def maps(self, paths: Sequence[str]) -> list[np.ndarray]:
        """Returns the maps of some images, [h, w] uint8 each; there must be an entry of each."""
        maps, wanted = {}, set(paths)
        for values in self._values():
            if values['path'] in wanted:
                height, width, text = values['map']
                maps[values['path']] = np.frombuffer(base64.b64decode(text), np.uint8).reshape(height, width)
        return [maps[path] for path in paths]

    def _values(self) -> Iterator[dict[str, Any]]:
        """Yields the values of images whose files have not changed."""
        for values in self._lines():
            if 'path' in values and values['file'] == _state_of(values['path']):
                yield values

    def _lines(self) -> Iterator[dict[str, Any]]:
        with contextlib.suppress(OSError):
            yield from documents.lines_of(self._path)

    @staticmethod
    def _encoded(values: Mapping[str, Any]) -> bytes:
        return (json.dumps(values) + '\n').encode()


def _state_of(path: str) -> list[int] | None:
    """Returns size and time of change of a file; None if it does not exist."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return [stat.st_size, stat.st_mtime_ns]


def _text(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode('ascii')
