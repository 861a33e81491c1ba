"""Layout of the image of `deeplab preview`: records with each augmentation, training samples, a legend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from deeplab.pictures import drawing
from deeplab.pictures.legend import SWATCH, Entry, draw_swatch

MARGIN = 24
GAP = 12
CELL_WIDTH = 224
MOST_CELL_HEIGHT = 320
BETWEEN_IMAGE_AND_MASK = 2
TITLE_HEIGHT = 58
HEADING_HEIGHT = 46
CAPTION_HEIGHT = 20
FURTHER_CAPTION_HEIGHT = 18
LEGEND_ENTRY = (300, 28)  # width and height


class Cell(NamedTuple):
    """An image with what is drawn below it.

    Attributes:
      caption: text above the image.
      image: [h, w, 3] uint8.
      ids: class ids of its mask, [h, w]; None for no mask.
      further: further pictures below it, [rows, columns, 3] uint8 in any size, by their captions.
    """

    caption: str
    image: np.ndarray
    ids: np.ndarray | None
    further: Mapping[str, np.ndarray] = {}


class Column(NamedTuple):
    """The heading of a column: a title, and a line of details."""

    title: str
    details: str


class Content(NamedTuple):
    """The content of the image, from the top to the bottom, and what masks are drawn with."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]  # of each record, a cell for each column
    samples: Sequence[Cell]  # complete training samples
    samples_title: str
    legend: Sequence[Entry]
    legend_title: str
    palette: drawing.Palette  # by class
    ignore_label: int


def compose(content: Content) -> Image.Image:
    """Draws the image, in RGB."""
    across = max(len(content.columns), min(len(content.samples), 4))
    width = 2 * MARGIN + across * (CELL_WIDTH + GAP) - GAP
    lines = [content.samples[start : start + across] for start in range(0, len(content.samples), across)]
    rows, samples = ([[_drawn(cell, content) for cell in row] for row in part] for part in (content.rows, lines))
    legend_across = max(1, (width - 2 * MARGIN) // LEGEND_ENTRY[0])
    legend_rows = -(-len(content.legend) // legend_across)
    height = TITLE_HEIGHT + 3 * HEADING_HEIGHT + sum(map(_row_height, (*rows, *samples)))
    sheet = Image.new('RGB', (width, height + legend_rows * LEGEND_ENTRY[1] + MARGIN), drawing.PAPER)
    pencil = ImageDraw.Draw(sheet)
    pencil.text((MARGIN, 18), content.title, drawing.INK, font=drawing.font(20))
    top = TITLE_HEIGHT
    for number, column in enumerate(content.columns):
        _heading(pencil, (_left(number), top), *column)
    top += HEADING_HEIGHT
    for row, pictures in zip(content.rows, rows, strict=True):
        top = _paste_row(sheet, pencil, top, row, pictures)
    _heading(pencil, (MARGIN, top), content.samples_title, '')
    top += HEADING_HEIGHT
    for line, pictures in zip(lines, samples, strict=True):
        top = _paste_row(sheet, pencil, top, line, pictures)
    if content.legend:
        _heading(pencil, (MARGIN, top), content.legend_title, '')
        _draw_legend(sheet, pencil, top + HEADING_HEIGHT, content.legend, legend_rows)
    return sheet


def _left(number: int) -> int:
    return MARGIN + number * (CELL_WIDTH + GAP)


def _row_height(pictures: Sequence[Image.Image]) -> int:
    return CAPTION_HEIGHT + max(picture.height for picture in pictures) + GAP


def _drawn(cell: Cell, content: Content) -> Image.Image:
    """Draws a cell: the image, below it the image with its mask, below that the further pictures."""
    height, width = cell.image.shape[:2]
    factor = min(CELL_WIDTH / width, MOST_CELL_HEIGHT / height)
    size = (max(1, round(width * factor)), max(1, round(height * factor)))
    # Shrunk smoothly; enlarged without interpolation, so that pixels remain visible.
    image = Image.fromarray(cell.image)
    image = image.resize(size, Image.Resampling.LANCZOS if factor < 1 else Image.Resampling.NEAREST)
    parts = [('', image)]
    if cell.ids is not None:
        ids = np.asarray(Image.fromarray(cell.ids.astype(np.uint8)).resize(size, Image.Resampling.NEAREST))
        masked = drawing.mask_over(np.asarray(image), ids, content.palette, content.ignore_label)
        parts.append(('', Image.fromarray(masked)))
    for caption, picture in cell.further.items():
        parts.append((caption, Image.fromarray(picture).resize(size, Image.Resampling.NEAREST)))
    return _stacked(parts)


def _stacked(parts: Sequence[tuple[str, Image.Image]]) -> Image.Image:
    """Pastes pictures of one size below each other, with the captions that are not empty above them."""
    width, height = parts[0][1].size
    above = [FURTHER_CAPTION_HEIGHT if caption else BETWEEN_IMAGE_AND_MASK for caption, _ in parts]
    above[0] = 0
    stack = Image.new('RGB', (width, len(parts) * height + sum(above)), drawing.PAPER)
    pencil = ImageDraw.Draw(stack)
    top = 0
    for space, (caption, picture) in zip(above, parts, strict=True):
        pencil.text((0, top + 3), caption, drawing.FADED, font=drawing.font(12))
        stack.paste(picture, (0, top + space))
        top += space + height
    return stack


def _heading(pencil: ImageDraw.ImageDraw, corner: tuple[int, int], title: str, details: str) -> None:
    left, top = corner
    pencil.text((left, top + 4), title, drawing.INK, font=drawing.font(16))
    pencil.text((left, top + 25), details, drawing.FADED, font=drawing.font(12))


def _paste_row(
    sheet: Image.Image, pencil: ImageDraw.ImageDraw, top: int, row: Sequence[Cell], pictures: Sequence[Image.Image]
) -> int:
    """Pastes the pictures of cells side by side, with the caption above each; returns the top of the next row."""
    for number, (cell, picture) in enumerate(zip(row, pictures, strict=True)):
        shown = cell.caption if len(cell.caption) <= 34 else f'...{cell.caption[-31:]}'
        pencil.text((_left(number), top + 2), shown, drawing.FADED, font=drawing.font(12))
        sheet.paste(picture, (_left(number), top + CAPTION_HEIGHT))
    return top + _row_height(pictures)


def _draw_legend(sheet: Image.Image, pencil: ImageDraw.ImageDraw, top: int, lines: Sequence[Entry], rows: int) -> None:
    """Draws the classes, down the first column, then down the second."""
    for number, line in enumerate(lines):
        left = MARGIN + number // rows * LEGEND_ENTRY[0]
        middle = top + number % rows * LEGEND_ENTRY[1] + LEGEND_ENTRY[1] // 2
        draw_swatch(sheet, (left, middle - SWATCH[1] // 2), line.color)
        name = line.name if len(line.name) <= 16 else f'{line.name[:14]}...'
        pencil.text((left + 44, middle), name, drawing.INK, font=drawing.font(15), anchor='lm')
        figures_right = left + LEGEND_ENTRY[0] - 2 * GAP
        pencil.text((figures_right, middle), line.figures, drawing.FADED, font=drawing.font(13), anchor='rm')
