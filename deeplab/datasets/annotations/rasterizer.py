"""Rasterizer: masks of class ids, and of instances, from shapes."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from deeplab.datasets.annotations import reading, run_lengths
from deeplab.datasets.annotations.shapes import Bitmap, Ellipse, Filling, Geometry, Polygon, Shape
from deeplab.errors import DataError, OptionError
from deeplab.names import shown

_FARTHEST = 2**30  # coordinates are clipped to this, so that products of them can be computed
_FARTHEST_OF_COCO = 2**14  # pixels beyond the image; pycocotools needs memory for each pixel of a border
_TOLERANCE = 1.0  # pixels that a shape may reach beyond its image without being counted as clipped
MOST_INSTANCES = 2**16 - 1  # of an image: their numbers are stored in 16 bits


@dataclasses.dataclass(frozen=True)
class Region:
    """A rectangle of an image, and which of its pixels are covered.

    Attributes:
      top: first row of the rectangle.
      left: first column of the rectangle.
      covered: [h, w] bool; may be empty.
    """

    top: int
    left: int
    covered: np.ndarray

    def fill(self, canvas: np.ndarray, value: int) -> None:
        """Sets the pixels of `canvas`, [height, width] of the image, that the region covers."""
        height, width = self.covered.shape
        canvas[self.top : self.top + height, self.left : self.left + width][self.covered] = value


@dataclasses.dataclass(frozen=True)
class Drawing:
    """A mask of class ids, and a mask of instances.

    Attributes:
      ids: [h, w] uint8.
      instances: [h, w] uint16, number of each pixel's instance, from 1 on in drawing order; 0 for pixels of no
        instance: of no shape, of a class without instances, or of a crowd.
      clipped: number of shapes that reach beyond the image.
      empty: number of shapes that cover no pixel of the image.
    """

    ids: np.ndarray
    instances: np.ndarray
    clipped: int
    empty: int


def draw(
    shapes: Sequence[Shape],
    ids: Mapping[str, int | None],
    size: tuple[int, int],
    fill: int,
    things: Collection[int] = (),
) -> Drawing:
    """Draws shapes over each other, by their order and then by their place in the list.

    Each shape of a class with instances is one, together with the shapes of its class and group.

    Args:
      shapes: the shapes.
      ids: id of each label; None for labels that are not drawn.
      size: height and width.
      fill: id of pixels without a shape.
      things: ids of the classes that have instances.

    Raises:
      DataError: A bitmap is broken, or there are more instances than 16 bits can number.
    """
    canvas, instances = np.full(size, fill, np.uint8), np.zeros(size, np.uint16)
    ordered = sorted(enumerate(shapes, start=1), key=lambda pair: pair[1].order)
    numbers = _instance_numbers(ordered, ids, things)
    clipped = empty = 0
    for number, shape in ordered:
        class_id = ids[shape.label]
        if class_id is None:
            continue
        try:
            region, is_clipped = region_of(shape.geometry, size)
        except DataError as error:
            raise DataError(f"shape {number} ('{shown(shape.label)}'): {error}") from None
        clipped += is_clipped
        empty += not region.covered.any()
        region.fill(canvas, class_id)
        if numbers:
            region.fill(instances, numbers.get(number, 0))
    return Drawing(canvas, instances, clipped, empty)


def _instance_numbers(
    ordered: Sequence[tuple[int, Shape]], ids: Mapping[str, int | None], things: Collection[int]
) -> dict[int, int]:
    """Returns the numbers of instances, from 1 on, by the places of their shapes; `ordered` are place and shape."""
    by_key: dict[tuple[int | None, str | int], int] = {}
    numbers = {}
    for place, shape in ordered:
        if ids[shape.label] in things and not shape.is_crowd:
            key = ids[shape.label], place if shape.group is None else shape.group
            numbers[place] = by_key.setdefault(key, len(by_key) + 1)
    require_numbers(len(by_key))
    return numbers


def require_numbers(count: int) -> None:
    """Raises `DataError` if an image has more instances than 16 bits can number."""
    if count > MOST_INSTANCES:
        raise DataError(f'it has {count} instances; an image can have {MOST_INSTANCES}')


def region_of(geometry: Geometry, size: tuple[int, int]) -> tuple[Region, bool]:
    """Returns the pixels of an image that an area covers, and whether the area reaches beyond the image.

    Args:
      geometry: the area.
      size: height and width of the image.

    Raises:
      DataError: A bitmap is broken.
      OptionError: It is a polygon of COCO, and pycocotools is not installed.
    """
    if isinstance(geometry, Bitmap):
        return _of_bitmap(geometry, size)
    bounds = _bounds(geometry)
    left, top, right, bottom = bounds
    height, width = size
    is_clipped = bool(min(left, top) < -_TOLERANCE or right > width + _TOLERANCE or bottom > height + _TOLERANCE)
    window = left, top, right, bottom = _window(bounds, size)
    covered = np.zeros((bottom - top, right - left), bool)
    if not covered.size:  # the area is beyond the image
        return Region(top, left, covered), is_clipped
    if isinstance(geometry, Polygon):
        draw_ring = _POLYGONS[geometry.filling]
        for ring in geometry.rings:
            covered |= draw_ring(ring, window)
        for hole in geometry.holes:
            covered &= ~draw_ring(hole, window)
    elif geometry.with_border:
        covered = _drawn('ellipse', np.array(bounds).reshape(2, 2), window)
    else:
        covered = _of_ellipse(geometry, window)
    return Region(top, left, covered), is_clipped


def box(x: float, y: float, width: float, height: float, rotation: float = 0.0, about_center: bool = False) -> Polygon:
    """Returns a rectangle. Whole coordinates are corners of pixels.

    Args:
      x: left side before the rotation.
      y: upper side before the rotation.
      width: width of the rectangle.
      height: height of the rectangle.
      rotation: clockwise, in degrees.
      about_center: whether it is rotated about its center, rather than about its upper left corner.
    """
    corners = np.array([(x, y), (x + width, y), (x + width, y + height), (x, y + height)], np.float64)
    if rotation:
        pivot = corners.mean(0) if about_center else corners[0]
        angle = math.radians(rotation)
        turn = np.array([(math.cos(angle), math.sin(angle)), (-math.sin(angle), math.cos(angle))])
        corners = pivot + (corners - pivot) @ turn
    return Polygon((corners,))


def whole_pixels(points: np.ndarray) -> Polygon:
    """Returns the smallest upright rectangle around points, [n, 2], whose last row and column are covered, too."""
    (left, top), (right, bottom) = points.min(0), points.max(0)
    corners = np.array([(left, top), (right, top), (right, bottom), (left, bottom)])
    return Polygon((corners,), filling=Filling.BORDER)


def _bounds(geometry: Polygon | Ellipse) -> tuple[float, float, float, float]:
    """Returns the first and last x and y: left, top, right, bottom."""
    if isinstance(geometry, Ellipse):
        angle = math.radians(geometry.rotation)
        half_width = math.hypot(geometry.radius_x * math.cos(angle), geometry.radius_y * math.sin(angle))
        half_height = math.hypot(geometry.radius_x * math.sin(angle), geometry.radius_y * math.cos(angle))
        left, right = geometry.x - half_width, geometry.x + half_width
        top, bottom = geometry.y - half_height, geometry.y + half_height
    else:
        points = np.concatenate(geometry.rings)
        (left, top), (right, bottom) = points.min(0), points.max(0)
    return float(left), float(top), float(right), float(bottom)


def _window(bounds: tuple[float, float, float, float], size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Returns the part of the image that may be covered: left, top, right, bottom, the last two excluded."""
    height, width = size
    left, right = (int(min(max(value, -2), width + 2)) for value in (bounds[0], bounds[2]))
    top, bottom = (int(min(max(value, -2), height + 2)) for value in (bounds[1], bounds[3]))
    left, top = min(max(left - 1, 0), width), min(max(top - 1, 0), height)
    return left, top, max(min(right + 2, width), left), max(min(bottom + 2, height), top)


def _of_centers(ring: np.ndarray, window: tuple[int, int, int, int]) -> np.ndarray:
    """Returns the pixels of a window whose centers are inside a polygon by the even-odd rule: [h, w] bool.

    A row of centers crosses the polygon's edges; a pixel is inside if the number of crossings left of its center is
    odd.
    """
    left, top, right, bottom = window
    height, width = bottom - top, right - left
    middle = left + 0.5, top + 0.5  # center of the window's first pixel, which becomes (0, 0)
    first = np.clip(ring, -_FARTHEST, _FARTHEST) - middle
    second = np.roll(first, -1, axis=0)
    upper = np.minimum(first[:, 1], second[:, 1])
    lower = np.maximum(first[:, 1], second[:, 1])
    begin = np.clip(np.ceil(upper), 0, height).astype(np.int64)
    end = np.clip(np.ceil(lower), 0, height).astype(np.int64)
    counts = end - begin  # rows that each edge crosses; an edge on a row crosses none
    edges = np.repeat(np.arange(len(ring)), counts)
    rows = np.arange(len(edges)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(begin, counts)
    (x0, y0), (x1, y1) = first[edges].T, second[edges].T
    columns = np.ceil(x0 + (rows - y0) * (x1 - x0) / (y1 - y0))
    toggled = np.zeros((height, width + 1), bool)
    np.logical_xor.at(toggled, (rows, np.clip(columns, 0, width).astype(np.int64)), True)
    return np.logical_xor.accumulate(toggled, axis=1)[:, :width]


def _of_coco(ring: np.ndarray, window: tuple[int, int, int, int]) -> np.ndarray:
    """Returns the pixels of a window that pycocotools fills for a polygon: [h, w] bool."""
    left, top, right, bottom = window
    near = np.clip(ring, -_FARTHEST_OF_COCO, np.array([right, bottom]) + _FARTHEST_OF_COCO)
    # The polygon is not moved into the window: pycocotools rounds coordinates, so that other pixels would be covered.
    (packed,) = require_pycocotools().frPyObjects([near.ravel().tolist()], bottom, right)
    # Its own `decode` fails with the warnings of NumPy 2 as errors, and decodes the columns left of the window, too.
    ends = np.cumsum(run_lengths.of_coco_text(packed['counts'])) - left * bottom
    counts = np.diff(np.maximum(ends, 0), prepend=0)
    return run_lengths.alternating(counts, bottom, right - left, by_columns=True)[top:]


def require_pycocotools() -> Any:
    """Returns the module of pycocotools that draws polygons; raises `OptionError` if it is not installed."""
    try:
        from pycocotools import mask
    except ImportError:
        raise OptionError(
            "Polygons of COCO need the package pycocotools. Run: pip install 'deeplab-toolkit[coco]'"
        ) from None
    return mask


def _drawn(what: str, points: np.ndarray, window: tuple[int, int, int, int]) -> np.ndarray:
    """Returns the pixels of a window that a method of Pillow's `ImageDraw` fills for [n, 2] points: [h, w] bool.

    Pillow cuts coordinates to whole numbers, towards 0. That is done here before they are moved to the window, so that
    the same pixels are filled as on the whole image.
    """
    left, top, right, bottom = window
    whole = np.trunc(np.clip(points, -_FARTHEST, _FARTHEST)).astype(np.int64) - (left, top)
    image = Image.new('L', (right - left, bottom - top))
    getattr(ImageDraw.Draw(image), what)([(int(x), int(y)) for x, y in whole], outline=1, fill=1)
    return np.asarray(image, bool)


_POLYGONS: Mapping[Filling, Callable[[np.ndarray, tuple[int, int, int, int]], np.ndarray]] = {
    Filling.CENTERS: _of_centers,
    Filling.BORDER: functools.partial(_drawn, 'polygon'),
    Filling.COCO: _of_coco,
}


def _of_ellipse(ellipse: Ellipse, window: tuple[int, int, int, int]) -> np.ndarray:
    """Returns the pixels of a window whose centers are inside an ellipse: [h, w] bool."""
    left, top, right, bottom = window
    x = np.arange(left, right) + 0.5 - ellipse.x  # [w]
    y = (np.arange(top, bottom) + 0.5 - ellipse.y)[:, np.newaxis]  # [h, 1]
    angle = math.radians(ellipse.rotation)
    along = (x * math.cos(angle) + y * math.sin(angle)) / ellipse.radius_x
    across = (y * math.cos(angle) - x * math.sin(angle)) / ellipse.radius_y
    return np.asarray(along**2 + across**2 <= 1)


def _of_bitmap(bitmap: Bitmap, size: tuple[int, int]) -> tuple[Region, bool]:
    """Returns the part of a bitmap inside the image, and whether it has covered pixels outside."""
    with reading.within('mask'):
        covered = bitmap.decode()
    if covered.ndim != 2:
        raise DataError(f'its mask has the shape {list(covered.shape)}, not rows and columns')
    height, width = size
    top, left = max(bitmap.top, 0), max(bitmap.left, 0)
    inner = covered[max(-bitmap.top, 0) :, max(-bitmap.left, 0) :][: max(height - top, 0), : max(width - left, 0)]
    is_clipped = inner.size < covered.size and int(inner.sum()) < int(covered.sum())
    return Region(min(top, height), min(left, width), inner), is_clipped
