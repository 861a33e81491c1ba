"""The demo's result image: images, ground truth and predictions side by side, with a legend of colors and IoU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from deeplab.pictures import drawing

COLUMNS = ('Image', 'Truth', 'Prediction')
PICTURE_WIDTH = 352
MARGIN = 24
GAP = 10
LEGEND_WIDTH = 250
HEADER_HEIGHT = 74
ROW_OF_LEGEND = 34


class Legend(NamedTuple):
    """Class names, their colors (RGB triples), a figure of each (None for a class that does not occur), its name."""

    names: Sequence[str]
    palette: Sequence[Sequence[int]]
    figures: Sequence[float | None]
    figure: str = 'IoU'


def compose(rows: Sequence[Sequence[np.ndarray]], legend: Legend, title: str) -> Image.Image:
    """Draws the result image.

    Args:
      rows: the examples, from top to bottom; at least one. Each is an image, its truth and its prediction, all
        [h, w, 3] uint8.
      legend: the meaning of the colors.
      title: one line at the top.

    Returns:
      An RGB image.
    """
    height, width, _ = rows[0][0].shape
    size = (PICTURE_WIDTH, round(PICTURE_WIDTH * height / width))
    legend_height = ROW_OF_LEGEND * (len(legend.names) + 3)
    body = max(len(rows) * (size[1] + GAP), legend_height)
    left_of_legend = MARGIN + len(COLUMNS) * (size[0] + GAP) + MARGIN
    sheet = Image.new('RGB', (left_of_legend + LEGEND_WIDTH + MARGIN, HEADER_HEIGHT + body + MARGIN), drawing.PAPER)
    pencil = ImageDraw.Draw(sheet)
    pencil.text((MARGIN, 14), title, drawing.INK, font=drawing.font(20))
    for column, name in enumerate(COLUMNS):
        pencil.text((MARGIN + column * (size[0] + GAP), HEADER_HEIGHT - 24), name, drawing.FADED, font=drawing.font(15))
    for number, row in enumerate(rows):
        top = HEADER_HEIGHT + number * (size[1] + GAP)
        for column, pixels in enumerate(row):
            method = Image.Resampling.BICUBIC if column == 0 else Image.Resampling.NEAREST
            sheet.paste(Image.fromarray(pixels).resize(size, method), (MARGIN + column * (size[0] + GAP), top))
    _draw_legend(pencil, (left_of_legend, HEADER_HEIGHT), legend)
    return sheet


def _draw_legend(pencil: ImageDraw.ImageDraw, corner: tuple[int, int], legend: Legend) -> None:
    left, top = corner
    heading = f'{legend.figure} on val'
    pencil.text((left + LEGEND_WIDTH, top - 24), heading, drawing.FADED, font=drawing.font(15), anchor='ra')
    lines = [
        *zip(legend.names, legend.palette, map(_shown, legend.figures), strict=True),
        ('ignored', drawing.IGNORED_COLOR, ''),
    ]
    for number, (name, color, figure) in enumerate(lines):
        middle = top + number * ROW_OF_LEGEND + ROW_OF_LEGEND // 2
        box = (left, middle - 11, left + 30, middle + 11)
        pencil.rectangle(box, fill=tuple(color), outline=drawing.FADED)
        pencil.text((left + 42, middle), name, drawing.INK, font=drawing.font(17), anchor='lm')
        pencil.text((left + LEGEND_WIDTH, middle), figure, drawing.INK, font=drawing.font(17), anchor='rm')
    bottom = top + len(lines) * ROW_OF_LEGEND
    pencil.line((left, bottom + 4, left + LEGEND_WIDTH, bottom + 4), fill=drawing.FADED)
    figures = [figure for figure in legend.figures if figure is not None]
    mean = _shown(float(np.mean(figures)) if figures else None)
    pencil.text((left + 42, bottom + 24), 'mean', drawing.INK, font=drawing.font(17), anchor='lm')
    pencil.text((left + LEGEND_WIDTH, bottom + 24), mean, drawing.INK, font=drawing.font(17), anchor='rm')


def _shown(figure: float | None) -> str:
    return '-' if figure is None else f'{figure:.3f}'
