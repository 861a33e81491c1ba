"""Drawing helpers: colors, font, class colors, overlays, contours, error maps, atomic PNG files."""

from __future__ import annotations

import io
import os
import pathlib
import re
from collections.abc import Iterator, Sequence

import numpy as np
from PIL import Image, ImageFont

from deeplab.files import writing

PAPER, INK, FADED = (252, 252, 250), (34, 34, 38), (120, 120, 126)
IGNORED_COLOR = (224, 224, 192)
# Of error maps: wrong pixels stand out of a pale gray image, pixels without truth are darker than all of it.
WRONG, WITHOUT_TRUTH = (213, 62, 0), (128, 128, 128)
# Stripes for ignored pixels, where a color could be mistaken for a class.
_STRIPES = np.array([(245, 245, 245), (40, 40, 44)], np.uint8)
_STRIPE_WIDTH = 3
_MASK_SHARE = 0.6
_PALE = 0.45  # contrast of the image in error maps
_BAND = 1 << 20  # pixels that are converted at a time
# From far to near: dark blue, violet, red, orange, pale yellow.
_HEAT = np.array([(12, 16, 60), (96, 32, 120), (204, 60, 84), (250, 152, 60), (252, 250, 190)], np.float32)
_SIDE_PER_WIDTH = 600  # pixels of a side for each pixel of the width of contours

Palette = Sequence[Sequence[int]] | np.ndarray


def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Returns the font; `size` in pixels."""
    return ImageFont.load_default(size)


def write(path: str | os.PathLike[str], sheet: Image.Image) -> None:
    """Writes an image as PNG, atomically."""
    path = pathlib.Path(path)
    content = io.BytesIO()
    sheet.save(content, 'PNG')
    writing.remove_leftovers(str(path.parent), re.escape(path.name))
    writing.write(path, content.getvalue())


def is_sheet(path: str | os.PathLike[str]) -> bool:
    """Returns whether a file was drawn here: a PNG whose four corners have the background color."""
    try:
        with Image.open(path, formats=('PNG',)) as image:
            right, bottom = image.width - 1, image.height - 1
            corners = [image.getpixel(place) for place in ((0, 0), (right, 0), (0, bottom), (right, bottom))]
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return False
    return all(corner == PAPER for corner in corners)


def colored(ids: np.ndarray, palette: Palette) -> np.ndarray:
    """Colors class ids: [h, w] to [h, w, 3] uint8. Ids without a class get the color of ignored pixels."""
    table = np.full((256, 3), IGNORED_COLOR, np.uint8)
    table[: len(palette)] = palette[:256]
    colors: np.ndarray = table[ids]
    return colors


def bands(height: int, width: int) -> list[slice]:
    """Returns slices of rows that cover an image, each of a moderate number of pixels."""
    rows = max(_BAND // width, 1)
    return [slice(top, top + rows) for top in range(0, height, rows)]


def overlay(image: np.ndarray, ids: np.ndarray, colors: np.ndarray, opacity: float | np.ndarray) -> np.ndarray:
    """Blends the colors of class ids over an image.

    Args:
      image: [h, w, channels], 0 to 255; of fewer than three channels the first is shown in gray.
      ids: [h, w] class ids, 0 to n - 1.
      colors: [n, 3], a color for each id.
      opacity: opacity of the colors, 0 to 1; a number, or one for each id, [n].

    Returns:
      [h, w, 3] uint8.
    """
    mixed = np.empty((*ids.shape, 3), np.uint8)
    for rows, part in overlay_parts(image, ids, colors, opacity):
        mixed[rows] = part
    return mixed


def overlay_parts(
    image: np.ndarray, ids: np.ndarray, colors: np.ndarray, opacity: float | np.ndarray
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yields rows of `overlay`, [rows, w, 3] uint8, so that a large image needs little memory."""
    shares = np.broadcast_to(np.asarray(opacity, np.float32), len(colors))[:, np.newaxis]  # [n, 1]
    paint = colors * shares
    shown = image[..., :3] if image.shape[2] >= 3 else image[..., :1]
    for rows in bands(*ids.shape):
        of_rows = ids[rows]
        values = shown[rows].astype(np.float32) * (1 - shares)[of_rows] + paint[of_rows]
        yield rows, np.clip(np.rint(values), 0, 255).astype(np.uint8)


def contours(image: np.ndarray, ids: np.ndarray, colors: np.ndarray) -> np.ndarray:
    """Draws the outlines of segments on an image.

    On both sides of a border runs a line in the color of the class there, and beside it a thin white one, which shows
    dark colors on dark images.

    Args:
      image: [h, w, channels], 0 to 255; of fewer than three channels the first is shown in gray.
      ids: [h, w] class ids, 0 to n - 1.
      colors: [n, 3], a color for each id.

    Returns:
      [h, w, 3] uint8.
    """
    width = line_width(ids.shape)
    line = widened(borders(ids), width - 1)
    shown = in_rgb(image)
    shown[widened(line, (width + 1) // 2)] = 255
    shown[line] = np.asarray(colors, np.uint8)[ids[line]]
    return shown


def borders(ids: np.ndarray) -> np.ndarray:
    """Returns the pixels on both sides of the borders of segments, [h, w] bool, of their ids [h, w]."""
    border = np.zeros(ids.shape, bool)
    down, across = ids[1:] != ids[:-1], ids[:, 1:] != ids[:, :-1]
    border[1:] |= down
    border[:-1] |= down
    border[:, 1:] |= across
    border[:, :-1] |= across
    return border


def line_width(size: Sequence[int]) -> int:
    """Returns the width of lines, on each side of a border, that suits the height and width of a picture."""
    return max(1, round(max(size) / _SIDE_PER_WIDTH))


def widened(lines: np.ndarray, pixels: int) -> np.ndarray:
    """Returns lines, [h, w] bool, that are wider by some pixels on each side."""
    for _ in range(pixels):
        wider = lines.copy()
        wider[1:] |= lines[:-1]
        wider[:-1] |= lines[1:]
        wider[:, 1:] |= lines[:, :-1]
        wider[:, :-1] |= lines[:, 1:]
        lines = wider
    return lines


def errors(image: np.ndarray, ids: np.ndarray, truth: np.ndarray, ignore_label: int) -> np.ndarray:
    """Draws where class ids are wrong: in `WRONG`, over the pale gray image.

    Args:
      image: [h, w, channels], 0 to 255; of fewer than three channels the first is shown.
      ids: [h, w] class ids.
      truth: [h, w] true class ids.
      ignore_label: label in `truth` of pixels that are neither right nor wrong, which get `WITHOUT_TRUTH`.

    Returns:
      [h, w, 3] uint8.
    """
    gray = image[..., :3].mean(axis=2) if image.shape[2] >= 3 else image[..., 0]
    pale = np.rint(255 - _PALE * (255 - gray)).astype(np.uint8)
    shown = np.repeat(pale[..., np.newaxis], 3, axis=2)
    shown[ids != truth] = WRONG
    shown[truth == ignore_label] = WITHOUT_TRUTH
    return shown


def shades(shares: np.ndarray) -> np.ndarray:
    """Returns shares of 0 to 1, [h, w], as gray values of 0 to 255, uint8."""
    gray = np.empty(shares.shape, np.uint8)
    for rows in bands(*shares.shape):
        gray[rows] = np.rint(shares[rows].astype(np.float32) * 255)
    return gray


def heat(shares: np.ndarray) -> np.ndarray:
    """Returns shares in colors from dark (0 or less) to bright (1 or more): [h, w] to [h, w, 3] uint8."""
    places = np.clip(shares, 0, 1) * (len(_HEAT) - 1)
    channels = [np.interp(places, range(len(_HEAT)), _HEAT[:, channel]) for channel in range(3)]
    colors: np.ndarray = np.rint(np.stack(channels, axis=2)).astype(np.uint8)
    return colors


def in_rgb(image: np.ndarray) -> np.ndarray:
    """Returns a copy of an image [h, w, channels] of 0 to 255, its first channel in gray if it has no three: uint8."""
    shown = np.empty((*image.shape[:2], 3), np.uint8)
    shown[:] = image[..., :3] if image.shape[2] >= 3 else image[..., :1]
    return shown


def stripes(height: int, width: int) -> np.ndarray:
    """Returns diagonal stripes, [h, w, 3] uint8, which mark ignored pixels."""
    rows, columns = np.ogrid[:height, :width]
    colors: np.ndarray = _STRIPES[(rows + columns) // _STRIPE_WIDTH % 2]
    return colors


def mask_over(image: np.ndarray, ids: np.ndarray, palette: Palette, ignore_label: int) -> np.ndarray:
    """Blends the colors of a mask over an image, with stripes on ignored pixels.

    Args:
      image: [h, w, 3] uint8.
      ids: [h, w] class ids, 0 to 255.
      palette: a color for each class.
      ignore_label: label of pixels excluded from loss and metrics.

    Returns:
      [h, w, 3] uint8.
    """
    colors = colored(ids, palette)
    ignored = ids == ignore_label
    colors[ignored] = stripes(*ids.shape)[ignored]
    mixed = (1 - _MASK_SHARE) * image + _MASK_SHARE * colors
    return np.rint(mixed).astype(np.uint8)
