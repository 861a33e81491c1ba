"""Drawing helpers for reports: colors, font, class colors, masks over images, atomic PNG files."""

from __future__ import annotations

import io
import os
import pathlib
import re
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageFont

from deeplab.utils import files

PAPER, INK, FADED = (252, 252, 250), (34, 34, 38), (120, 120, 126)
IGNORED_COLOR = (224, 224, 192)
# Stripes for ignored pixels, where a color could be mistaken for a class.
_STRIPES = np.array([(245, 245, 245), (40, 40, 44)], np.uint8)
_STRIPE_WIDTH = 3
_MASK_SHARE = 0.6

Palette = Sequence[Sequence[int]] | np.ndarray


def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Returns the font; `size` in pixels."""
    return ImageFont.load_default(size)


def write(path: str | os.PathLike[str], sheet: Image.Image) -> None:
    """Writes an image as PNG, atomically."""
    path = pathlib.Path(path)
    content = io.BytesIO()
    sheet.save(content, 'PNG')
    files.remove_leftovers(str(path.parent), re.escape(path.name))
    with files.written_whole(path, 'wb') as stream:
        stream.write(content.getvalue())


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
    return table[ids]


def stripes(height: int, width: int) -> np.ndarray:
    """Returns diagonal stripes, [h, w, 3] uint8, which mark ignored pixels."""
    rows, columns = np.ogrid[:height, :width]
    return _STRIPES[(rows + columns) // _STRIPE_WIDTH % 2]


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
