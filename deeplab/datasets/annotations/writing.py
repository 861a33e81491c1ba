"""Writing of predictions as annotations of labeling tools: what is written, and the record of a format's writer.

The modules of the formats have the writers (`labelme.WRITER` and others) beside their reading; `formats.WRITERS` lists
them. Areas with holes, and all areas if outlines are not simplified, are bitmaps in formats whose polygons cannot hold
them exactly.
"""

from __future__ import annotations

import base64
import dataclasses
import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from PIL import Image

from deeplab.datasets.annotations import outlines
from deeplab.datasets.annotations.shapes import Label
from deeplab.options import AnnotationOptions

# Formats whose polygons have whole points and cover their border lose more pixels, so they get finer outlines.
_SHARE_OF_TOLERANCE_WITH_BORDER = 0.6


@dataclasses.dataclass(frozen=True, eq=False)
class PredictedShape:
    """An area of one class, or an instance, which may have several parts.

    Attributes:
      label: name of its class.
      parts: its outlines.
      covered: its pixels in its rectangle, [h, w] bool.
      left: first column of the rectangle.
      top: first row of the rectangle.
      confidence: mean confidence of its pixels, 0 to 1; None if unknown.
      is_instance: whether it is one object.
    """

    label: str
    parts: tuple[outlines.Outline, ...]
    covered: np.ndarray
    left: int
    top: int
    confidence: float | None
    is_instance: bool

    @property
    def has_holes(self) -> bool:
        """Whether a part has a hole."""
        return any(part.holes for part in self.parts)

    @property
    def area(self) -> int:
        """Number of its pixels."""
        return int(self.covered.sum())

    def png(self) -> str:
        """Returns the pixels in its rectangle as a PNG of 0 and 255, in base64."""
        stream = io.BytesIO()
        Image.fromarray(self.covered.astype(np.uint8) * 255).save(stream, 'PNG')
        return base64.b64encode(stream.getvalue()).decode('ascii')

    def in_image(self, size: tuple[int, int]) -> np.ndarray:
        """Returns its pixels in an image of `size`: [h, w] bool."""
        canvas = np.zeros(size, bool)
        height, width = self.covered.shape
        canvas[self.top : self.top + height, self.left : self.left + width] = self.covered
        return canvas


@dataclasses.dataclass(frozen=True)
class PredictedImage:
    """The shapes of one image.

    Attributes:
      path: path of the image file, see `Writer.is_beside_images`.
      size: height and width.
      shapes: the shapes; no two cover a pixel.
      is_simplified: whether outlines leave the edges of pixels.
    """

    path: str
    size: tuple[int, int]
    shapes: tuple[PredictedShape, ...]
    is_simplified: bool


@dataclasses.dataclass(frozen=True)
class Writer:
    """How a format is written.

    Attributes:
      name: name of the format, as in `PredictOptions.save`.
      image: returns what the format says of an image, as a JSON value.
      suffix: of a file for each image, which has this value; empty for none.
      folder: of these files, below the output folder; empty for `name`.
      document: returns the text of a file for all images: takes the values of all images, and the classes. None for
        formats without one.
      document_name: path of that file below the output folder.
      is_beside_images: whether a file states the path of its image from its own folder, instead of from the folder of
        all images.
      keeps_extension: whether the files of images have their extensions, too.
      fills_border: whether polygons cover the pixels that their border passes, and have whole points.
    """

    name: str
    image: Callable[[PredictedImage], Any]
    suffix: str = ''
    folder: str = ''
    document: Callable[[Sequence[Any], Sequence[Label]], str] | None = None
    document_name: str = ''
    is_beside_images: bool = False
    keeps_extension: bool = False
    fills_border: bool = False

    def file_name(self, name: str, path: str) -> str:
        """Returns the annotation file of an image without `suffix`: its result's name, or the image's path."""
        return path if self.keeps_extension else name

    def tolerance(self, options: AnnotationOptions) -> float:
        """Returns the tolerance of the outlines, in pixels."""
        return options.polygon_tolerance * (_SHARE_OF_TOLERANCE_WITH_BORDER if self.fills_border else 1)


def pairs(points: np.ndarray) -> list[list[float]]:
    """Returns points, [n, 2], as lists."""
    return [[float(x), float(y)] for x, y in points]


def box_of(shape: PredictedShape) -> tuple[int, int, int, int]:
    """Returns the rectangle of a shape: left, top, width, height."""
    height, width = shape.covered.shape
    return shape.left, shape.top, width, height
