"""Pictures of the planes of a sample and of float maps: instances, masks, depth, heatmaps, offsets, polygons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from deeplab import common, names
from deeplab.datasets.planes import DEPTHS, IDS, MASKS, Plane
from deeplab.pictures import drawing

_SHOWN_DEPTHS = 2, 98  # percentiles between which depths have different colors
_INVALID = (128, 128, 128)
_OPACITY = 0.6
_GOLDEN_RATIO = 0.6180339887  # its multiples, as hues, are far apart for neighboring numbers
_LINE = (255, 225, 60)  # of polygons
_TEXT_WIDTH = 160  # least width of a picture with text below it
_MOST_CHANNELS = 16  # of a map that are drawn

Pictures = dict[str, np.ndarray]  # [h, w, 3] uint8, by caption


def of_plane(plane: Plane, values: np.ndarray, image: np.ndarray, palette: drawing.Palette) -> Pictures:
    """Draws a plane of a sample.

    Args:
      plane: the plane; of lists, only points can be drawn.
      values: its array, as in the table of `Plane`; points are rows and columns.
      image: [h, w, 3] uint8.
      palette: a color for each class.

    Returns:
      Its picture by its key; empty if it cannot be drawn.
    """
    if plane.key.startswith(common.POINTS_PREFIX):
        corners = values.reshape(len(values), plane.channels // 2, 2)
        return {plane.key.removeprefix(common.POINTS_PREFIX): polygons(image, corners)}
    if plane.kind == MASKS:
        return {plane.key: masks(image, values, palette)}
    if plane.kind == DEPTHS:
        return {plane.key: depth(values[..., 0])}
    return {plane.key: instances(image, values[..., 0])} if plane.kind == IDS else {}


def of_target(name: str, values: np.ndarray, image: np.ndarray) -> Pictures:
    """Draws a target of a task, or an output, by its number of channels.

    One channel is a heatmap over the image, two channels are offsets, and each of more is a heatmap of its own.

    Args:
      name: the caption.
      values: [h, w, channels], or [h, w]; in any size.
      image: [h, w, 3] uint8.

    Returns:
      Pictures in the size of the target, by caption; empty for arrays of other shapes, and for a vector of an image.
    """
    values = values[..., np.newaxis] if values.ndim == 2 else values
    if values.ndim != 3 or not values.size or values.shape[:2] == (1, 1):
        return {}
    height, width, channels = values.shape
    if image.shape[:2] != (height, width):
        image = np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BOX))
    if channels == 2:
        return {name: offsets(values)}
    captions = [name] if channels == 1 else [f'{name} {i}' for i in range(min(channels, _MOST_CHANNELS))]
    return {caption: heat(values[..., i], image) for i, caption in enumerate(captions)}


def instances(image: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Draws instances in different colors over an image, each with a white outline.

    Args:
      image: [h, w, 3] uint8.
      ids: [h, w] integers; 0 is no instance.

    Returns:
      [h, w, 3] uint8.
    """
    numbers, places = np.unique(ids, return_inverse=True)
    places = places.reshape(ids.shape)
    opacity = np.where(numbers == 0, 0.0, _OPACITY)
    shown = drawing.overlay(image, places, _hues(numbers * _GOLDEN_RATIO), opacity)
    shown[drawing.borders(ids) & (ids != 0)] = 255
    return shown


def masks(image: np.ndarray, values: np.ndarray, palette: drawing.Palette, opacity: float = _OPACITY) -> np.ndarray:
    """Draws masks that may overlap: the mean of the colors of the classes of a pixel, and stripes where none is known.

    Args:
      image: [h, w, channels], 0 to 255.
      values: [h, w, classes] bool or integers, 1 in the mask of a class, 255 where it is ignored.
      palette: a color for each class.
      opacity: opacity of the colors, 0 to 1.

    Returns:
      [h, w, 3] uint8.
    """
    is_in = (values == 1).astype(np.float32)  # [h, w, classes]
    count = is_in.sum(axis=2, keepdims=True)  # [h, w, 1]
    colors = is_in @ np.asarray(palette, np.float32)[: values.shape[2]] / np.maximum(count, 1)  # [h, w, 3]
    share = np.where(count > 0, np.float32(opacity), 0)
    shown = _bytes_of(drawing.in_rgb(image) * (1 - share) + colors * share)
    is_ignored = (values > 1).all(axis=2)
    shown[is_ignored] = drawing.stripes(*is_ignored.shape)[is_ignored]
    return shown


def depth(values: np.ndarray) -> np.ndarray:
    """Draws depth, [h, w] float, from near (bright) to far (dark); gray where it is invalid (0): [h, w, 3] uint8."""
    is_valid = values > 0
    logarithms = np.log(values, where=is_valid, out=np.zeros(values.shape, np.float32))
    near, far = np.percentile(logarithms[is_valid], _SHOWN_DEPTHS) if is_valid.any() else (0.0, 0.0)
    shown = drawing.heat((far - logarithms) / max(far - near, 1e-6))
    shown[~is_valid] = _INVALID
    return shown


def heat(values: np.ndarray, image: np.ndarray) -> np.ndarray:
    """Draws numbers of 0 or more over an image, [h, w, 3] uint8; the largest, or 1 if all are less, covers it most."""
    shares = np.maximum(values.astype(np.float32), 0)  # [h, w]
    shares = np.nan_to_num(shares / max(float(shares.max(initial=0)), 1.0))
    opacity = (0.25 + 0.5 * shares)[..., np.newaxis]
    return _bytes_of((1 - opacity) * image + opacity * drawing.heat(shares))


def offsets(values: np.ndarray) -> np.ndarray:
    """Draws vectors, [h, w, 2]: the direction is the hue, the length the brightness."""
    rows, columns = np.nan_to_num(values[..., 0]), np.nan_to_num(values[..., 1])
    lengths = np.hypot(rows, columns)  # [h, w]
    brightness = (lengths / max(float(lengths.max(initial=0)), 1e-6))[..., np.newaxis]
    return _bytes_of(brightness * _hues(np.arctan2(rows, columns) / (2 * np.pi)))


def polygons(image: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Draws polygons, [n, k, 2] rows and columns, over an image, [h, w, 3] uint8."""
    picture = Image.fromarray(image)
    pencil = ImageDraw.Draw(picture)
    width = max(1, max(image.shape[:2]) // 300)
    for corners in points.tolist():
        closed = [(column, row) for row, column in (*corners, corners[0])]
        pencil.line(closed, _LINE, width)
    return np.asarray(picture)


def _bytes_of(colors: np.ndarray) -> np.ndarray:
    rounded: np.ndarray = np.rint(colors).astype(np.uint8)
    return rounded


def _hues(hues: np.ndarray) -> np.ndarray:
    """Returns the bright colors of hues, in turns: [...] to [..., 3] float, 0 to 255."""
    places = (np.asarray(hues, np.float32)[..., np.newaxis] * 6 + np.array([5, 3, 1], np.float32)) % 6
    return 255 * (1 - 0.85 * np.clip(np.minimum(places, 4 - places), 0, 1))


def captioned(image: np.ndarray, lines: Sequence[str]) -> np.ndarray:
    """Returns an image, [h, w, channels] of 0 to 255, with lines of text below it: [h', w, 3] uint8.

    A small image is enlarged to the width of text.
    """
    picture = Image.fromarray(drawing.in_rgb(image))
    if picture.width < _TEXT_WIDTH:
        factor = -(-_TEXT_WIDTH // picture.width)
        picture = picture.resize((picture.width * factor, picture.height * factor), Image.Resampling.NEAREST)
    size = max(picture.width // 24, 10)
    sheet = Image.new('RGB', (picture.width, picture.height + (len(lines) + 1) * size * 3 // 2), drawing.PAPER)
    sheet.paste(picture)
    pencil = ImageDraw.Draw(sheet)
    for number, line in enumerate(lines):
        place = (size, picture.height + size // 2 + number * size * 3 // 2)
        pencil.text(place, names.shown(line, 60), drawing.INK, font=drawing.font(size))
    return np.asarray(sheet)
