"""Color tables: the classes of the colors of masks, read from the files that labeling tools write."""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from deeplab.datasets import descriptor, images, mask_sources, orientation
from deeplab.errors import DataError, OptionError
from deeplab.files import documents
from deeplab.names import listed
from deeplab.options.rules import MOST_CLASSES, require_classes

Color = tuple[int, int, int]

IGNORED_NAME = 'ignore'
_COLORED_MODES = ('RGB', 'RGBA', 'LA')
_GRAY_MODES = ('1', 'L')
_SHOWN = 3  # number of colors that a message names
_MANY = 20  # with so many unknown colors, a mask was probably interpolated or compressed
_HEX = re.compile(r'#([0-9a-fA-F]{6})\b')
_NUMBERS = re.compile(r'(?<![\w.-])(\d{1,3})' + r'(?:\s*[,;]\s*|\s+)(\d{1,3})' * 2 + r'(?![\w.])')
_LAST_NUMBERS = re.compile(_NUMBERS.pattern + r'[\s:]*$')
_ID = re.compile(r'^(\d{1,3})(?:\s*[,;:]\s*|\s+)')
_HEADER = re.compile(r'[^\d#]*')


@dataclasses.dataclass(frozen=True)
class Entry:
    """A color of a table.

    Attributes:
      class_id: id of the pixels of this color.
      color: red, green and blue, 0 to 255 each.
      name: name of the class; None if the table has none.
    """

    class_id: int
    color: Color
    name: str | None = None


class ColorTable:
    """Converts masks of colors to masks of ids.

    Attributes:
      entries: the colors.
      with_palettes: whether the colors of a palette count, rather than the indices into it.
      others: id of pixels of any other color; None if there must be none.
      with_gray: whether gray levels are colors, too, rather than ids; true if the table has no other colors.
    """

    def __init__(self, entries: Sequence[Entry], with_palettes: bool = True, others: int | None = None) -> None:
        self.entries = tuple(entries)
        self.with_palettes = with_palettes
        self.others = others
        self.with_gray = with_palettes and all(len(set(entry.color)) == 1 for entry in entries)
        codes = _codes(np.array([entry.color for entry in entries], np.uint8))
        order = np.argsort(codes)
        self._codes = codes[order]
        self._ids = np.array([entry.class_id for entry in entries], np.uint8)[order]

    @property
    def key(self) -> str:
        """Identifies the table."""
        content = np.stack([self._codes, self._ids]).tobytes()
        gray = ' gray' if self.with_gray else ''
        return f'colors {self.with_palettes} {self.others}{gray} {mask_sources.digest(content)}'

    def lacking(self, colors: Iterable[Color]) -> list[Color]:
        """Returns the given colors that are not in the table."""
        entries = {entry.color for entry in self.entries}
        return [color for color in colors if color not in entries]

    def is_for(self, mask: images.Mask) -> bool:
        """Returns whether a mask has colors that the table converts."""
        return (
            mask.mode in _COLORED_MODES
            or (mask.is_palette and self.with_palettes)
            or (mask.mode in _GRAY_MODES and self.with_gray)
        )

    def masks(self, path: str) -> mask_sources.Masks:
        """Returns the mask in a file, see `as_ids`."""
        return mask_sources.Masks(self.as_ids(mask_sources.contents(path)))

    def as_ids(self, content: bytes) -> bytes:
        """Returns a mask as a PNG of ids; a mask that has no colors is returned as it is.

        Args:
          content: the file of the mask.

        Raises:
          DataError: It is not a PNG, is broken, or has a color that is not in the table.
        """
        mask = images.read_mask(content)
        if not self.is_for(mask):
            return content
        with Image.open(io.BytesIO(content)) as image:
            colors = np.asarray(image.convert('RGB'))  # [h, w, 3]
        codes = _codes(colors)  # [h, w]
        places = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        unknown = self._codes[places] != codes
        ids = self._ids[places]
        if unknown.any():
            if self.others is None:
                raise DataError(_unknown_colors(codes[unknown]))
            ids[unknown] = self.others
        return images.encode_png(orientation.turned_pixels(ids, mask.orientation))

    def palette(self, num_classes: int) -> np.ndarray | None:
        """Returns the first color of each class, [num_classes, 3] uint8; None if a class has no color."""
        first: dict[int, Color] = {}
        for entry in self.entries:
            first.setdefault(entry.class_id, entry.color)
        if any(class_id not in first for class_id in range(num_classes)):
            return None
        return np.array([first[class_id] for class_id in range(num_classes)], np.uint8)

    def names(self, num_classes: int) -> tuple[str, ...] | None:
        """Returns the first name of each class; None if a class has no name, or two have the same."""
        first: dict[int, str] = {}
        for entry in self.entries:
            if entry.name:
                first.setdefault(entry.class_id, entry.name)
        names = tuple(first[class_id] for class_id in range(num_classes) if class_id in first)
        return names if len(set(names)) == num_classes else None


def chosen(path: str | None, dataset: descriptor.DatasetDescriptor | None, ignore_label: int) -> ColorTable | None:
    """Returns the table in a file, see `load`, or else of a data set's palette, for RGB masks.

    It is None without both, and for a palette in which two classes have the same color.
    """
    if path:
        return load(path, ignore_label)
    if dataset is None:
        return None
    colors: list[Color] = list(map(tuple, dataset.palette[: dataset.num_classes].tolist()))
    if len(set(colors)) < len(colors):
        return None
    return ColorTable([Entry(number, color) for number, color in enumerate(colors)], with_palettes=False)


def load(path: str, ignore_label: int) -> ColorTable:
    """Reads a color table.

    Args:
      path: a JSON or YAML file (a list of [red, green, blue], an object with a color for each name, or the description
        of a data set with a palette), or a text with a color in each line, three numbers or #rrggbb, and a name before
        or after it. The first color belongs to class 0. A line that begins with a fourth number gives the id itself; a
        name may then occur several times. The color that is named "ignore" marks ignored pixels.
      ignore_label: id of ignored pixels.

    Raises:
      OptionError: The file cannot be read, or is no such table.
    """
    try:
        if path.lower().endswith(descriptor.FILE_SUFFIXES):
            entries = _of_document(documents.load(path), path)
        else:
            entries = _of_lines(documents.load_text(path).splitlines(), path)
    except documents.DocumentError as error:
        raise OptionError(f"The color table '{path}' {error}.") from None
    except OSError as error:
        raise OptionError(f"The color table '{path}' cannot be read: {error.strerror}.") from None
    return ColorTable(_numbered(entries, path, ignore_label))


def _of_document(content: Any, path: str) -> list[tuple[int | None, Any, str | None]]:
    """Returns id (if given), color and name of each entry of a JSON or YAML document."""
    names: Any = None
    if isinstance(content, Mapping) and 'palette' in content:
        names, content = content.get('class_names'), content['palette']
    if isinstance(content, Mapping):
        names, content = list(map(str, content)), list(content.values())
    if not isinstance(content, list) or not content:
        raise OptionError(
            f"The color table '{path}' must be a list of [red, green, blue], or an object of them by name."
        )
    names = names if isinstance(names, list) and len(names) == len(content) else [None] * len(content)
    return [(None, color, name) for color, name in zip(content, names, strict=True)]


def _of_lines(lines: Sequence[str], path: str) -> list[tuple[int | None, Any, str | None]]:
    """Returns id (if given), color and name of each line of a text."""
    entries: list[tuple[int | None, Any, str | None]] = []
    for number, line in enumerate(map(str.strip, lines), start=1):
        if not line or line.startswith(('# ', '//')) or (not entries and _HEADER.fullmatch(line)):
            continue
        class_id = None
        if (leading := _ID.match(line)) and _color_in(line[leading.end() :]) is not None:
            class_id, line = int(leading[1]), line[leading.end() :]
        color = _color_in(line)
        if color is None:
            raise OptionError(
                f"Line {number} of the color table '{path}' has no color: '{line[:80]}'. Write RED GREEN BLUE NAME, "
                'such as 128 64 0 road, or #804000 road.'
            )
        entries.append((class_id, color[0], color[1] or None))
    if len({class_id is None for class_id, _, name in entries if (name or '').lower() != IGNORED_NAME}) > 1:
        raise OptionError(f"Some lines of the color table '{path}' have four numbers (an id first), others three.")
    return entries


def _color_in(line: str) -> tuple[Color, str] | None:
    """Returns the color in a line and the name before or behind it; None without a color."""
    if match := _HEX.search(line):
        value = int(match[1], 16)
        color = (value >> 16, value >> 8 & 255, value & 255)
    elif match := _LAST_NUMBERS.search(line) or _NUMBERS.search(line):
        color = (int(match[1]), int(match[2]), int(match[3]))
    else:
        return None
    before, behind = line[: match.start()].strip(' \t,;:"\''), line[match.end() :].strip(' \t,;:"\'')
    return color, before or behind


def _numbered(given: Sequence[tuple[int | None, Any, str | None]], path: str, ignore_label: int) -> list[Entry]:
    """Returns the entries; entries without an id are numbered."""
    entries: list[Entry] = []
    classes = 0
    for class_id, color, name in given:
        good = isinstance(color, (list, tuple)) and len(color) == 3
        if not good or not all(type(part) is int and 0 <= part <= 255 for part in color):
            raise OptionError(
                f"The color table '{path}' has the color {color!r}: it must be three numbers from 0 to 255."
            )
        if class_id is None and name is not None and name.lower() == IGNORED_NAME:
            class_id = ignore_label
        elif class_id is None:
            class_id, classes = classes, classes + 1
        elif class_id >= MOST_CLASSES:
            raise OptionError(f"The color table '{path}' has the id {class_id}: the largest id is {MOST_CLASSES - 1}.")
        entries.append(Entry(class_id, tuple(color), name))
    if not entries:
        raise OptionError(f"The color table '{path}' has no color.")
    require_classes(f"The color table '{path}'", max(classes, 1))
    ids: dict[Color, int] = {}
    for entry in entries:
        if ids.setdefault(entry.color, entry.class_id) != entry.class_id:
            raise OptionError(
                f"The color table '{path}' gives the color {entry.color} to the classes {ids[entry.color]} and "
                f'{entry.class_id}. Colors must be unique.'
            )
    return entries


def _codes(colors: np.ndarray) -> np.ndarray:
    """Returns one number for each color: [..., 3] uint8 to [...] int32."""
    wide = colors.astype(np.int32)
    codes: np.ndarray = wide[..., 0] << 16 | wide[..., 1] << 8 | wide[..., 2]
    return codes


def _unknown_colors(codes: np.ndarray) -> str:
    values, counts = np.unique(codes, return_counts=True)
    colors = [
        f'({values[i] >> 16}, {values[i] >> 8 & 255}, {values[i] & 255}) on {counts[i]} pixels'
        for i in np.argsort(-counts, kind='stable')
    ]
    fix = 'add them to the table, or fix the mask'
    if len(values) >= _MANY:
        fix = 'the mask was probably smoothed or saved as JPEG: export it again, without smoothing, as PNG'
    return f'it has colors that are not in the color table: {listed(colors, _SHOWN)}; {fix}'
