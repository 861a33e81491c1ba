"""Mask sources: conversions of files with something else, such as other ids or polygons, to masks of class ids."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np

from deeplab.datasets import images, orientation
from deeplab.errors import DataError, UnreadableFileError
from deeplab.names import escaped, listed

_SHOWN = 5  # number of ids that a message names


class Masks(NamedTuple):
    """The masks of an image.

    Attributes:
      classes: PNG of class ids.
      instances: PNG of instance ids, of the same size, gray of up to 16 bits; 0 is no instance: stuff, or a crowd of a
        class of things. None without instances.
    """

    classes: bytes
    instances: bytes | None = None


class MaskSource(Protocol):
    """Makes the masks of an image from a file."""

    @property
    def key(self) -> str:
        """Identifies the conversion: with equal keys, the same files become the same masks."""

    def masks(self, path: str) -> Masks:
        """Returns the masks that a file becomes.

        Raises:
          DataError: The file cannot be used; the message does not name it.
        """


@dataclasses.dataclass(frozen=True, eq=False)
class FileBeside:
    """Takes the instances from a file of their ids, beside the file of the class mask.

    Attributes:
      instances: path of the mask of instance ids.
      classes: source of the class mask; None for a file of ids.
      table: [65536] uint16, the instance id of each value in the file; None for a file of instance ids.
    """

    instances: str
    classes: MaskSource | None = None
    table: np.ndarray | None = None

    @property
    def key(self) -> str:
        """Identifies the conversions, and the state of the file of instances."""
        classes = '' if self.classes is None else self.classes.key
        table = '' if self.table is None else digest(self.table.tobytes())
        return f'{classes} instances {table} {file_state(self.instances)}'

    def masks(self, path: str) -> Masks:
        """Returns the class mask, and the mask of instance ids."""
        classes = masks_of(self.classes, path).classes
        content = contents(self.instances)
        if self.table is None:
            return Masks(classes, content)
        try:
            values = orientation.turned_pixels(images.read_ids(content), orientation.read(content))
        except DataError as error:
            raise DataError(f"its instances in '{escaped(self.instances)}' cannot be used: {error}") from None
        return Masks(classes, images.encode_png(self.table[values]))


def masks_of(source: MaskSource | None, path: str) -> Masks:
    """Returns the masks that a file becomes, as `MaskSource.masks`; None for a file that is a mask of class ids."""
    return Masks(contents(path)) if source is None else source.masks(path)


def file_state(path: str) -> str:
    """Returns path, size and time of change of a file, for keys."""
    try:
        stat = os.stat(path)
    except OSError:  # reading it says so
        return path
    return f'{path} {stat.st_size} {stat.st_mtime_ns}'


class IdTable:
    """Replaces the ids of masks by other ids."""

    def __init__(self, ids: Mapping[int, int], other: int | None = None) -> None:
        """Keeps the table.

        Args:
          ids: the new id of each id, 0 to 255 each.
          other: new id of all other ids; None if there must not be others.
        """
        self._table = np.full(256, -1 if other is None else other, np.int16)
        for old, new in ids.items():
            self._table[old] = new

    @property
    def key(self) -> str:
        """Identifies the table."""
        return f'ids {digest(self._table.tobytes())}'

    def masks(self, path: str) -> Masks:
        """Returns the mask in a file, see `as_ids`."""
        return Masks(self.as_ids(contents(path)))

    def as_ids(self, content: bytes) -> bytes:
        """Returns the mask with the new ids, upright.

        Args:
          content: a PNG of one channel of up to 16 bits, or with a palette.

        Raises:
          DataError: It is no such PNG, is broken, or has an id that the table lacks.
        """
        ids = ids_of(content)
        new = self._table[ids]
        if new.min(initial=0) < 0:
            counts = np.bincount(ids[new < 0])
            unknown = [f'{value} on {counts[value]} pixels' for value in np.flatnonzero(counts)]
            raise DataError(f'it contains ids that this data set does not have: {listed(unknown, _SHOWN)}')
        return images.encode_png(new.astype(np.uint8))


def ids_of(content: bytes) -> np.ndarray:
    """Returns the ids of a mask, upright: [h, w] uint8; takes and raises what `images.mask_ids` does."""
    return images.mask_ids(content, orientation.read(content))


def contents(path: str) -> bytes:
    """Returns the content of a file.

    Raises:
      UnreadableFileError: It cannot be read.
    """
    try:
        return pathlib.Path(path).read_bytes()
    except OSError as error:
        raise UnreadableFileError(f"Cannot read '{escaped(path)}': {error.strerror}.") from None


def digest(content: bytes) -> str:
    """Returns a short digest of a content, for keys."""
    return hashlib.sha256(content).hexdigest()[:16]
