"""Pictures in a report: photographs as WebP, class ids compressed, each within its share of the page's size."""

from __future__ import annotations

import base64
import io
import zlib
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

MOST_BYTES = 24_000_000  # of a page
_USUAL_BYTES = 17_000_000  # of all pictures, in base64
LONGEST_SIDE = 960  # of a picture, in pixels
_SHORTEST_SIDE = 64
_QUALITY = 82


class Picture(NamedTuple):
    """An image with its truth and the predictions of each network.

    Attributes:
      photo: [h, w, 3] or [h, w] uint8.
      truth: [h, w] ids.
      predictions: [h, w] ids, one for each run; None for a run without predictions.
    """

    photo: np.ndarray
    truth: np.ndarray
    predictions: list[np.ndarray | None]


def encoded(picture: Picture, most_bytes: int) -> dict[str, Any]:
    """Encodes a picture, made smaller until it takes at most `most_bytes` in base64.

    Returns:
      Width and height, of the picture and of the image; `photo`, `truth` and `predictions` in base64: WebP, and ids
      row by row in zlib's format.
    """
    height, width = picture.truth.shape
    side = min(LONGEST_SIDE, max(height, width))
    while True:
        encoded = _at(picture, side / max(height, width))
        size = len(encoded['photo']) + len(encoded['truth']) + sum(map(len, filter(None, encoded['predictions'])))
        if size <= most_bytes or side <= _SHORTEST_SIDE:
            return encoded
        side = max(int(side * min(0.9, (most_bytes / size) ** 0.5)), _SHORTEST_SIDE)


def _at(picture: Picture, factor: float) -> dict[str, Any]:
    height, width = picture.truth.shape
    size = (max(round(width * factor), 1), max(round(height * factor), 1))
    photo = Image.fromarray(picture.photo).convert('RGB')
    if size != photo.size:
        photo = photo.resize(size, Image.Resampling.LANCZOS)
    content = io.BytesIO()
    photo.save(content, 'WEBP', quality=_QUALITY, method=4)
    return {
        'width': size[0],
        'height': size[1],
        'image_width': width,
        'image_height': height,
        'photo': _text(content.getvalue()),
        'truth': _ids(picture.truth, size),
        'predictions': [None if ids is None else _ids(ids, size) for ids in picture.predictions],
    }


def _ids(ids: np.ndarray, size: tuple[int, int]) -> str:
    """Resizes ids by nearest neighbor and compresses them."""
    small = Image.fromarray(ids.astype(np.uint8)).resize(size, Image.Resampling.NEAREST)
    return _text(zlib.compress(np.asarray(small).tobytes(), 9))


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode('ascii')


def share(images: int, used: int) -> int:
    """Returns the bytes that each of that many pictures may take on a page whose other parts take `used` bytes."""
    return int(max(min(_USUAL_BYTES, MOST_BYTES - used), 0) / max(images, 1))
