"""A supersampled canvas that draws an image and its labels together, and a pinhole camera.

Everything is painted as part of a *layer*, which has an increasing number: later (nearer) layers cover earlier ones in
both image and labels, and the border between two layers is known. An object is one layer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

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


class Drawing(NamedTuple):
    """The painted image ([h, w, 3] float32, 0 to 255), labels ([h, w] uint8) and layers ([h, w] int32)."""

    image: np.ndarray
    labels: np.ndarray
    layers: np.ndarray


class Canvas:
    """An RGB image at twice its final size beside a map of layers."""

    def __init__(self, height: int, width: int) -> None:
        size = (width * SUPERSAMPLING, height * SUPERSAMPLING)
        self.height, self.width = height, width
        self._image = Image.new('RGB', size)
        self._layers = Image.new('I', size)
        self._draw_image = ImageDraw.Draw(self._image)
        self._draw_layers = ImageDraw.Draw(self._layers)
        self._labels: list[int] = []
        self._has_border: list[bool] = []

    def begin(self, label: int, has_border: bool = False) -> None:
        """Starts a new layer in front of all others; everything painted afterwards belongs to it.

        Args:
          label: class id.
          has_border: whether a thin ignored line surrounds it, as around VOC's objects.
        """
        self._labels.append(label)
        self._has_border.append(has_border)

    def paste(self, pixels: np.ndarray) -> None:
        """Fills image and labels with the current layer; `pixels` is [height, width, 3], 0 to 255."""
        picture = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
        self._image.paste(picture.resize(self._image.size, Image.Resampling.BILINEAR))
        self._layers.paste(self._layer, (0, 0, *self._layers.size))

    def polygon(self, points: np.ndarray, color: Color) -> None:
        """Paints a polygon ([n, 2] pixels) of the current layer."""
        corners = (points * SUPERSAMPLING).ravel().tolist()
        self._draw_image.polygon(corners, fill=_rgb(color))
        self._draw_layers.polygon(corners, fill=self._layer)

    def ellipse(self, box: Sequence[float], color: Color) -> None:
        """Paints an ellipse that fills `box` (left, top, right, bottom, in pixels) with the current layer."""
        left, top, right, bottom = (value * SUPERSAMPLING for value in box)
        bounds = (left, top, max(left, right), max(top, bottom))
        self._draw_image.ellipse(bounds, fill=_rgb(color))
        self._draw_layers.ellipse(bounds, fill=self._layer)

    def bar(self, left: int, top: int, right: int, bottom: int, color: Color) -> None:
        """Paints exactly the pixels of rows top..bottom-1 and columns left..right-1 (nothing when there are none)."""
        if right <= left or bottom <= top:
            return
        box = [left * SUPERSAMPLING, top * SUPERSAMPLING, right * SUPERSAMPLING - 1, bottom * SUPERSAMPLING - 1]
        self._draw_image.rectangle(box, fill=_rgb(color))
        self._draw_layers.rectangle(box, fill=self._layer)

    def detail(self, points: np.ndarray, color: Color) -> None:
        """Paints a polygon in the image alone: a window, a lane mark, a shadow."""
        self._draw_image.polygon((points * SUPERSAMPLING).ravel().tolist(), fill=_rgb(color))

    def finish(self, border_within_class: bool = True) -> Drawing:
        """Returns what was painted, at its final size.

        Args:
          border_within_class: whether pixels between two objects of the same class are ignored, too. If not, such
            objects touch, and the class of each pixel between them is known all the same.
        """
        image = np.asarray(self._image.reduce(SUPERSAMPLING), np.float32)
        layers = np.asarray(self._layers)[::SUPERSAMPLING, ::SUPERSAMPLING]
        labels = np.array([0, *self._labels], np.uint8)[layers]
        border = self._border(layers, None if border_within_class else labels)
        return Drawing(image, np.where(border, np.uint8(IGNORE_LABEL), labels), layers)

    def _border(self, layers: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
        """Pixels that touch a nearer layer with a border: one pixel wide and outside it, so thin things stay whole.

        With `labels`, a nearer layer of the pixel's own label has no border.
        """
        nearest = np.zeros_like(layers)
        bordered = np.pad(np.where(np.array([False, *self._has_border])[layers], layers, 0), 1)
        padded = None if labels is None else np.pad(labels, 1)
        for beside in (np.s_[:-2, 1:-1], np.s_[2:, 1:-1], np.s_[1:-1, :-2], np.s_[1:-1, 2:]):
            near = bordered[beside] if padded is None else np.where(padded[beside] == labels, 0, bordered[beside])
            nearest = np.maximum(nearest, near)
        bordering: np.ndarray = nearest > layers
        return bordering

    @property
    def _layer(self) -> int:
        return len(self._labels)


def _rgb(color: Color) -> tuple[int, int, int]:
    values = color.tolist() if isinstance(color, np.ndarray) else color  # Python numbers are much faster one by one
    red, green, blue = (min(255, max(0, int(value))) for value in values)
    return red, green, blue
