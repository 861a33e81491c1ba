"""Pictures in a report: photographs as WebP, class ids compressed, each within its share of the page's size."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from deeplab.pictures import html_page

MOST_BYTES = 24_000_000  # of a page
_USUAL_BYTES = 17_000_000  # of all pictures, in base64
LONGEST_SIDE = 960  # of a picture, in pixels
_SHORTEST_SIDE = 64


def encoded(
    photo: np.ndarray, truth: np.ndarray, predictions: Sequence[np.ndarray | None], most_bytes: int
) -> dict[str, Any]:
    """Encodes an image with its masks, made smaller until they take at most `most_bytes` in base64.

    Args:
      photo: [h, w, 3] uint8.
      truth: [h, w] ids.
      predictions: [h, w] ids, of each run; None for a run without predictions.
      most_bytes: limit, which the smallest size may exceed.

    Returns:
      Width and height, of the picture and of the image; `photo`, `truth` and `predictions` in base64: WebP, and ids
      row by row in zlib's format.
    """
    height, width = truth.shape

    def encode(size: tuple[int, int]) -> list[str | None]:
        return [_photo(photo, size), *(None if ids is None else _ids(ids, size) for ids in (truth, *predictions))]

    size, (picture, *masks) = _within(most_bytes, (width, height), encode)
    return {
        'width': size[0],
        'height': size[1],
        'image_width': width,
        'image_height': height,
        'photo': picture,
        'truth': masks[0],
        'predictions': masks[1:],
    }


def several_encoded(drawn: Mapping[str, np.ndarray], most_bytes: int) -> dict[str, Any]:
    """Encodes pictures of one size, made smaller until they take at most `most_bytes` in base64.

    Args:
      drawn: [h, w, 3] uint8, by their captions.
      most_bytes: limit, which the smallest size may exceed.

    Returns:
      Width and height, and `pictures`: a list of captions and of WebP in base64.
    """
    if not drawn:
        return {'width': 0, 'height': 0, 'pictures': []}
    height, width, _ = next(iter(drawn.values())).shape
    size, contents = _within(most_bytes, (width, height), lambda size: [_photo(each, size) for each in drawn.values()])
    return {'width': size[0], 'height': size[1], 'pictures': [list(pair) for pair in zip(drawn, contents, strict=True)]}


def _within(
    most_bytes: int, full: tuple[int, int], encode: Callable[[tuple[int, int]], list[str | None]]
) -> tuple[tuple[int, int], list[str | None]]:
    """Encodes parts of a picture in the largest size that takes at most `most_bytes`; `full` is width and height."""
    side = min(LONGEST_SIDE, max(full))
    while True:
        factor = side / max(full)
        size = (max(round(full[0] * factor), 1), max(round(full[1] * factor), 1))
        parts = encode(size)
        used = sum(len(part) for part in parts if part is not None)
        if used <= most_bytes or side <= _SHORTEST_SIDE:
            return size, parts
        side = max(int(side * min(0.9, (most_bytes / used) ** 0.5)), _SHORTEST_SIDE)


def _photo(pixels: np.ndarray, size: tuple[int, int]) -> str:
    """Resizes a photograph smoothly and compresses it."""
    photo = Image.fromarray(pixels)
    if size != photo.size:
        photo = photo.resize(size, Image.Resampling.LANCZOS)
    return html_page.webp(np.asarray(photo))


def _ids(ids: np.ndarray, size: tuple[int, int]) -> str:
    """Resizes ids by nearest neighbor and compresses them."""
    small = Image.fromarray(ids.astype(np.uint8)).resize(size, Image.Resampling.NEAREST)
    return base64.b64encode(zlib.compress(np.asarray(small).tobytes(), 9)).decode('ascii')


def share(images: int, used: int) -> int:
    """Returns the bytes that each of that many pictures may take on a page whose other parts take `used` bytes."""
    return int(max(min(_USUAL_BYTES, MOST_BYTES - used), 0) / max(images, 1))
