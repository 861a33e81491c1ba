"""A supersampled canvas that draws an image and its labels together, and a pinhole camera.

Everything is painted as part of a *thing*, which has an increasing number: later (nearer) things cover earlier ones in
both image and labels, and the border between two things is known.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

Color = Sequence[float] | np.ndarray
SUPERSAMPLING = 2
IGNORE_LABEL = 255


@dataclasses.dataclass(frozen=True)
class Camera:
    """A pinhole camera above the ground, looking along +z (metres; x to the right, y up from the ground).

    Attributes:
      focal: focal length in pixels.
      center_x: column of the vanishing point, in pixels.
      horizon: row of the horizon, in pixels.
      height: metres of the camera above the ground.
      shift: metres of the camera to the right of the road's middle.
    """

    focal: float
    center_x: float
    horizon: float
    height: float
    shift: float

    def project(self, points: np.ndarray) -> np.ndarray:
        """Projects [..., 3] points (x, y, z > 0, metres) to [..., 2] pixels (column, row)."""
        scale = self.focal / points[..., 2]
        pixels = np.empty((*points.shape[:-1], 2))
        pixels[..., 0] = self.center_x + (points[..., 0] - self.shift) * scale
        pixels[..., 1] = self.horizon - (points[..., 1] - self.height) * scale
        return pixels


class Canvas:
    """An RGB image at twice its final size beside a map of things."""

    def __init__(self, height: int, width: int) -> None:
        size = (width * SUPERSAMPLING, height * SUPERSAMPLING)
        self.height, self.width = height, width
        self._image = Image.new('RGB', size)
        self._things = Image.new('I', size)
        self._draw_image = ImageDraw.Draw(self._image)
        self._draw_things = ImageDraw.Draw(self._things)
        self._labels: list[int] = []
        self._has_border: list[bool] = []

    def begin(self, label: int, has_border: bool = False) -> None:
        """Starts a new thing in front of all others; everything painted afterwards belongs to it.

        Args:
          label: class id.
          has_border: whether a thin ignored line surrounds it, as around VOC's objects.
        """
        self._labels.append(label)
        self._has_border.append(has_border)

    def paste(self, pixels: np.ndarray) -> None:
        """Fills image and labels with the current thing; `pixels` is [height, width, 3], 0 to 255."""
        picture = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
        self._image.paste(picture.resize(self._image.size, Image.Resampling.BILINEAR))
        self._things.paste(self._thing, (0, 0, *self._things.size))

    def polygon(self, points: np.ndarray, color: Color) -> None:
        """Paints a polygon ([n, 2] pixels) of the current thing."""
        corners = (points * SUPERSAMPLING).ravel().tolist()
        self._draw_image.polygon(corners, fill=_rgb(color))
        self._draw_things.polygon(corners, fill=self._thing)

    def ellipse(self, box: Sequence[float], color: Color) -> None:
        """Paints an ellipse that fills `box` (left, top, right, bottom, in pixels) with the current thing."""
        left, top, right, bottom = (value * SUPERSAMPLING for value in box)
        bounds = (left, top, max(left, right), max(top, bottom))
        self._draw_image.ellipse(bounds, fill=_rgb(color))
        self._draw_things.ellipse(bounds, fill=self._thing)

    def bar(self, left: int, top: int, right: int, bottom: int, color: Color) -> None:
        """Paints exactly the pixels of rows top..bottom-1 and columns left..right-1 (nothing when there are none)."""
        if right <= left or bottom <= top:
            return
        box = [left * SUPERSAMPLING, top * SUPERSAMPLING, right * SUPERSAMPLING - 1, bottom * SUPERSAMPLING - 1]
        self._draw_image.rectangle(box, fill=_rgb(color))
        self._draw_things.rectangle(box, fill=self._thing)

    def detail(self, points: np.ndarray, color: Color) -> None:
        """Paints a polygon in the image alone: a window, a lane mark, a shadow."""
        self._draw_image.polygon((points * SUPERSAMPLING).ravel().tolist(), fill=_rgb(color))

    def finish(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the image ([height, width, 3] float32, 0 to 255) and the labels ([height, width] uint8)."""
        image = np.asarray(self._image.reduce(SUPERSAMPLING), np.float32)
        things = np.asarray(self._things)[::SUPERSAMPLING, ::SUPERSAMPLING]
        labels = np.array([0, *self._labels], np.uint8)[things]
        return image, np.where(self._border(things), np.uint8(IGNORE_LABEL), labels)

    def _border(self, things: np.ndarray) -> np.ndarray:
        """Pixels that touch a nearer thing with a border: one pixel wide and outside it, so thin things stay whole."""
        bordered = np.where(np.array([False, *self._has_border])[things], things, 0)
        padded = np.pad(bordered, 1)
        above, below = padded[:-2, 1:-1], padded[2:, 1:-1]
        left, right = padded[1:-1, :-2], padded[1:-1, 2:]
        bordering: np.ndarray = np.maximum.reduce([above, below, left, right]) > things
        return bordering

    @property
    def _thing(self) -> int:
        return len(self._labels)


def _rgb(color: Color) -> tuple[int, int, int]:
    values = color.tolist() if isinstance(color, np.ndarray) else color  # Python numbers are much faster one by one
    red, green, blue = (min(255, max(0, int(value))) for value in values)
    return red, green, blue
