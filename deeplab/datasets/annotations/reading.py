"""Reading of annotation files: the record of a format, and values with errors that name their place."""

from __future__ import annotations

import binascii
import contextlib
import dataclasses
import io
import math
import os
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

import numpy as np
from PIL import Image, UnidentifiedImageError

from deeplab.datasets.annotations.shapes import MOST_PIXELS, AnnotationSet, Color
from deeplab.errors import DataError, OptionError
from deeplab.files import documents
from deeplab.names import shown

_HEX_COLOR = re.compile(r'#?([0-9a-fA-F]{6})([0-9a-fA-F]{2})?')
_FEWEST_CORNERS = 3
_LARGEST_VALUE = 255


@dataclasses.dataclass(frozen=True)
class Document:
    """A file that may hold annotations.

    Attributes:
      path: path of the file.
      content: the value of a JSON file, the root element of an XML file, or the text of another file.
    """

    path: str
    content: Any

    @property
    def folder(self) -> str:
        """Folder of the file."""
        return os.path.dirname(self.path)

    @property
    def name(self) -> str:
        """Name of the file."""
        return os.path.basename(self.path)

    def has(self, **kinds: type) -> bool:
        """Returns whether it is a JSON object with these keys, whose values have these types."""
        return isinstance(self.content, Mapping) and all(
            isinstance(self.content.get(key), kind) for key, kind in kinds.items()
        )

    def lists_objects(self, *keys: str) -> bool:
        """Returns whether it is a list of JSON objects, at least one, which have these keys."""
        entries = self.content if isinstance(self.content, list) else []
        return bool(entries) and all(isinstance(entry, Mapping) and entry.keys() >= {*keys} for entry in entries)


@dataclasses.dataclass(frozen=True)
class Format:
    """A format of annotations.

    Attributes:
      name: name of the format.
      looks_for: signs by which the format is recognized, for messages.
      recognizes: function that returns whether a file has this format.
      parse: function that adds the annotations in such a file to a set; it raises `DataError` if the file is broken.
    """

    name: str
    looks_for: str
    recognizes: Callable[[Document], bool]
    parse: Callable[[Document, AnnotationSet], None]


def load(path: str) -> Document:
    """Reads a JSON, XML or text file.

    Raises:
      DataError: It cannot be read or parsed.
    """
    try:
        if os.path.getsize(path) == 0:
            raise DataError(f"'{shown(path)}' is empty")
        if path.lower().endswith('.xml'):
            return Document(path, ElementTree.parse(path).getroot())
        if path.lower().endswith('.json'):
            return Document(path, documents.load(path, checks_depth=False))
        return Document(path, documents.load_text(path))
    except ElementTree.ParseError as error:
        raise DataError(f"'{shown(path)}' is not XML: {error}") from None
    except documents.DocumentError as error:
        raise DataError(f"'{shown(path)}' {error}") from None
    except OSError as error:
        raise DataError(f"'{shown(path)}' cannot be read: {error.strerror}") from None


@contextlib.contextmanager
def within(place: str) -> Iterator[None]:
    """Converts errors about the values of a file to `DataError`, and adds their place.

    Args:
      place: place in the file, such as 'shape 3'.
    """
    try:
        yield
    except DataError as error:
        raise DataError(f'{place}: {error}') from None
    except OptionError:  # about an option or a package, not about the file
        raise
    except KeyError as error:
        raise DataError(f"{place}: '{error.args[0]}' is missing") from None
    except binascii.Error as error:
        raise DataError(f'{place}: it is not base64: {error}') from None
    except IndexError:
        raise DataError(f'{place}: a value is missing') from None
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DataError(f'{place}: a value has another form than in this format ({error})') from None


def points(values: Any) -> np.ndarray:
    """Returns coordinates.

    Args:
      values: [[x, y], ...] or [x, y, x, y, ...].

    Returns:
      [n, 2] float64, x and y.

    Raises:
      DataError: They are not numbers, or not in pairs.
    """
    try:
        coordinates = np.array(values, np.float64)
    except (TypeError, ValueError):
        raise DataError('its coordinates are not all numbers') from None
    if coordinates.ndim == 1 and coordinates.size % 2 == 0:
        coordinates = coordinates.reshape(-1, 2)
    if coordinates.ndim != 2 or coordinates.shape[1] != 2:
        raise DataError('its coordinates are not pairs of x and y')
    if not np.isfinite(coordinates).all():
        raise DataError('its coordinates are not all finite numbers')
    return coordinates


def number(value: Any) -> float:
    """Returns a number, which may be given as text.

    Raises:
      DataError: It is not a finite number.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise DataError(f'{value!r} is not a number')
    try:
        parsed = float(value)
    except ValueError:
        parsed = math.nan
    if not math.isfinite(parsed):
        raise DataError(f'{value!r} is not a finite number')
    return parsed


def whole(value: Any) -> int:
    """Returns a whole number, which may be given as text; raises `DataError` for anything else."""
    parsed = number(value)
    if parsed != int(parsed):
        raise DataError(f'{value!r} is not a whole number')
    return int(parsed)


def mask_value(value: Any, earlier: Container[int]) -> int:
    """Returns the value of the pixels of a class in a painted mask, 0 to 255.

    Args:
      value: the value, which may be given as text.
      earlier: values of other classes.

    Raises:
      DataError: It is not such a value, or another class has it.
    """
    index = whole(value)
    if not 0 <= index <= _LARGEST_VALUE:
        raise DataError(f'its value {index} is not from 0 to {_LARGEST_VALUE}')
    if index in earlier:
        raise DataError(f'an earlier class has the same value {index}')
    return index


def size(height: Any, width: Any) -> tuple[int, int] | None:
    """Returns height and width of an image; None if they are not stated (missing, null or 0).

    Raises:
      DataError: They are not whole numbers from 1 on, or the image has more than `MOST_PIXELS`.
    """
    if not height and not width:
        return None
    rows, columns = whole(height), whole(width)
    if min(rows, columns) < 1:
        raise DataError(f'the size {rows} x {columns} (height x width) is not one of an image')
    if rows * columns > MOST_PIXELS:
        raise DataError(f'the size {rows} x {columns} is too large; {MOST_PIXELS} pixels are allowed')
    return rows, columns


def text(value: Any) -> str:
    """Returns a text without spaces around it; raises `DataError` if it is empty, or not a text."""
    if not isinstance(value, str) or not value.strip():
        raise DataError(f'{value!r} is not a name')
    return value.strip()


def group(value: Any, none: str = '') -> str | None:
    """Returns the group of a shape as a text; None for a shape without one.

    Args:
      value: the group, a number or a text; None for no group.
      none: text of a value that means no group.
    """
    return None if value is None or str(value) == none else str(value)


def color(value: Any) -> Color | None:
    """Returns the color of '#rrggbb' or '#rrggbbaa', or of three numbers; None if it is neither."""
    if isinstance(value, str) and (match := _HEX_COLOR.fullmatch(value.strip())):
        code = int(match[1], 16)
        return code >> 16, code >> 8 & 255, code & 255
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) in (3, 4):
        if all(type(part) is int and 0 <= part <= 255 for part in value):
            return value[0], value[1], value[2]
    return None


def code_of(given: Color) -> int:
    """Returns a color as one number: red << 16 | green << 8 | blue."""
    return given[0] << 16 | given[1] << 8 | given[2]


def has_area(ring: np.ndarray) -> bool:
    """Returns whether a polygon, [n, 2], has at least three corners."""
    return len(ring) >= _FEWEST_CORNERS


def covered_in_png(content: bytes) -> np.ndarray:
    """Returns the covered pixels of a mask: opaque pixels or, without alpha, pixels other than 0.

    Args:
      content: the mask as a PNG.

    Returns:
      [h, w] bool.

    Raises:
      DataError: It is no PNG, or broken.
    """
    try:
        with Image.open(io.BytesIO(content), formats=('PNG',)) as image:
            has_alpha = image.mode in ('RGBA', 'LA')
            pixels = np.asarray(image.getchannel('A') if has_alpha else image)
    except (UnidentifiedImageError, OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f'it is not a PNG that can be read ({error})') from None
    return np.asarray((pixels if pixels.ndim == 2 else pixels.max(2)) > 0)


def objects(value: Any) -> list[Mapping[str, Any]]:
    """Returns a list of JSON objects; raises `DataError` for anything else."""
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        raise DataError('it is not a list of objects')
    return value
