"""Legends: pictures of the names and colors of classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image, ImageDraw

from deeplab import names
from deeplab.pictures import drawing

_MARGIN = 16
SWATCH = (34, 18)  # width and height
_GAP = 12
_LINE = 28
_MOST_LINES, _FEWEST_LINES = 26, 4  # in a column
_MOST_COLUMNS = 3  # beside a picture, unless these have the most lines
_FONT, _SMALL_FONT = 15, 13
_LONGEST_NAME = 60  # characters
# A legend beside a picture is legible where the whole picture is shown on a screen.
_SIDE_PER_SCALE, _LARGEST_SCALE = 1000, 8


class Entry(NamedTuple):
    """A line of a legend: name and color of a class, None for ignored pixels, and a short text such as its share."""

    name: str
    color: Sequence[int] | None
    figures: str = ''


def drawn(entries: Sequence[Entry], most_lines: int = _MOST_LINES, scale: int = 1) -> Image.Image:
    """Draws a legend, in RGB: down the first column, then down the next.

    Args:
      entries: lines of the legend.
      most_lines: largest number of lines in a column.
      scale: factor on all sizes.
    """
    columns = max(1, math.ceil(len(entries) / most_lines))
    lines = max(1, math.ceil(len(entries) / columns))
    margin, gap, line, *swatch = (scale * size for size in (_MARGIN, _GAP, _LINE, *SWATCH))
    font, small = drawing.font(scale * _FONT), drawing.font(scale * _SMALL_FONT)
    shown = [names.shown(entry.name, _LONGEST_NAME) for entry in entries]
    of_names = math.ceil(max(map(font.getlength, shown), default=0))
    of_figures = math.ceil(max((small.getlength(entry.figures) for entry in entries), default=0))
    width = swatch[0] + gap + of_names + (gap + of_figures if of_figures else 0)
    size = (2 * margin + columns * (width + 2 * gap) - 2 * gap, 2 * margin + lines * line)
    sheet = Image.new('RGB', size, drawing.PAPER)
    pencil = ImageDraw.Draw(sheet)
    for number, (entry, name) in enumerate(zip(entries, shown, strict=True)):
        left = margin + number // lines * (width + 2 * gap)
        middle = margin + number % lines * line + line // 2
        draw_swatch(sheet, (left, middle - swatch[1] // 2), entry.color, (swatch[0], swatch[1]))
        pencil.text((left + swatch[0] + gap, middle), name, drawing.INK, font=font, anchor='lm')
        pencil.text((left + width, middle), entry.figures, drawing.FADED, font=small, anchor='rm')
    return sheet


def draw_swatch(
    sheet: Image.Image, corner: tuple[int, int], color: Sequence[int] | None, size: tuple[int, int] = SWATCH
) -> None:
    """Draws a color, or the stripes of ignored pixels for None, with an outline, in a `size` of width and height."""
    (left, top), (width, height) = corner, size
    if color is None:
        sheet.paste(Image.fromarray(drawing.stripes(height, width)), corner)
    fill = None if color is None else tuple(int(value) for value in color)
    ImageDraw.Draw(sheet).rectangle((left, top, left + width - 1, top + height - 1), fill, drawing.FADED)


def beside(size: tuple[int, int], entries: Sequence[Entry]) -> Image.Image:
    """Draws a legend to the right of a space for a picture, in a size that fits it.

    Args:
      size: width and height of the picture.
      entries: lines of the legend; without any, there is only the space.

    Returns:
      The sheet in RGB, at least as large as the picture.
    """
    if not entries:
        return Image.new('RGB', size)
    scale = min(max(1, round(max(size) / _SIDE_PER_SCALE)), _LARGEST_SCALE)
    fitting = (size[1] // scale - 2 * _MARGIN) // _LINE
    lines = max(fitting, _FEWEST_LINES, math.ceil(len(entries) / _MOST_COLUMNS))
    text = drawn(entries, min(lines, _MOST_LINES), scale)
    sheet = Image.new('RGB', (size[0] + text.width, max(size[1], text.height)), drawing.PAPER)
    sheet.paste(text, (size[0], 0))
    return sheet
