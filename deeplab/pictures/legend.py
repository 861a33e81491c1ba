"""Legends: pictures of the names and colors of classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image, ImageDraw

from deeplab import names
from deeplab.pictures import drawing

_MARGIN = 16
_SWATCH = (34, 18)  # width and height
_GAP = 12
_LINE = 28
_MOST_LINES = 26  # in a column
_FONT, _SMALL_FONT = 15, 13
_LONGEST_NAME = 60  # characters


class Entry(NamedTuple):
    """A line of a legend: name and color of a class, and a short text such as its share."""

    name: str
    color: Sequence[int]
    figures: str = ''


def drawn(entries: Sequence[Entry]) -> Image.Image:
    """Draws a legend, in RGB: down the first column, then down the next."""
    columns = max(1, math.ceil(len(entries) / _MOST_LINES))
    lines = max(1, math.ceil(len(entries) / columns))
    font, small = drawing.font(_FONT), drawing.font(_SMALL_FONT)
    shown = [names.shown(entry.name, _LONGEST_NAME) for entry in entries]
    of_names = math.ceil(max(map(font.getlength, shown), default=0))
    of_figures = math.ceil(max((small.getlength(entry.figures) for entry in entries), default=0))
    width = _SWATCH[0] + _GAP + of_names + (_GAP + of_figures if of_figures else 0)
    size = (2 * _MARGIN + columns * (width + 2 * _GAP) - 2 * _GAP, 2 * _MARGIN + lines * _LINE)
    sheet = Image.new('RGB', size, drawing.PAPER)
    pencil = ImageDraw.Draw(sheet)
    for number, (entry, name) in enumerate(zip(entries, shown, strict=True)):
        left = _MARGIN + number // lines * (width + 2 * _GAP)
        middle = _MARGIN + number % lines * _LINE + _LINE // 2
        top = middle - _SWATCH[1] // 2
        red, green, blue = (int(value) for value in entry.color)
        corners = (left, top, left + _SWATCH[0] - 1, top + _SWATCH[1] - 1)
        pencil.rectangle(corners, (red, green, blue), drawing.FADED)
        pencil.text((left + _SWATCH[0] + _GAP, middle), name, drawing.INK, font=font, anchor='lm')
        pencil.text((left + width, middle), entry.figures, drawing.FADED, font=small, anchor='rm')
    return sheet
