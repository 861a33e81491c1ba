"""Pictures of samples for the page of the doctor: the image beside its mask drawn over it."""

from __future__ import annotations

import io
from typing import NamedTuple

import numpy as np
from PIL import Image

from deeplab.checks.findings import Data
from deeplab.checks.sources import Sample
from deeplab.datasets import images
from deeplab.errors import DataError
from deeplab.pictures import drawing

SIDE = 320  # longest side, in pixels
_WRONG = (255, 0, 220)  # ids that are not classes
_NOTHING = 128


class CasePicture(NamedTuple):
    """A sample as the page shows it.

    Attributes:
      name: how messages name it.
      photo: [h, w, 3] uint8, the image; gray where it cannot be read.
      overlay: [h, w, 3] uint8, the mask over it, or the mask alone where its values are no ids.
      remark: what the pictures do not show; empty if nothing.
    """

    name: str
    photo: np.ndarray
    overlay: np.ndarray
    remark: str


def draw(sample: Sample, data: Data, by_borders: bool = False) -> CasePicture:
    """Draws a sample, whatever is wrong with it; stored pixels are shown, without an EXIF orientation.

    Args:
      sample: the sample.
      data: its data set.
      by_borders: whether to draw the borders in the mask instead of its areas.
    """
    photo = _photo(sample.image)
    remark = ''
    if photo is None:
        photo, remark = np.full((SIDE * 3 // 4, SIDE, 3), _NOTHING, np.uint8), 'the image cannot be read'
    size = (photo.shape[1], photo.shape[0])
    ids = _ids(sample.mask)
    if ids is not None:
        small = np.asarray(Image.fromarray(ids).resize(size, Image.Resampling.NEAREST))
        descriptor = data.descriptor
        palette = descriptor.palette[: descriptor.num_classes]
        if by_borders:
            overlay = drawing.contours(photo, small, drawing.colored(np.arange(256), palette))
        else:
            overlay = drawing.mask_over(photo, small, palette, descriptor.ignore_label)
        is_wrong = (small >= descriptor.num_classes) & (small != descriptor.ignore_label)
        if is_wrong.any():
            overlay[is_wrong] = _WRONG
            remark = 'ids that are not classes in magenta'
        return CasePicture(sample.name, photo, overlay, remark)
    mask = None if sample.mask is None else _photo(sample.mask)
    if mask is None:
        return CasePicture(sample.name, photo, photo // 2 + 60, remark or 'there is no mask that can be read')
    overlay = np.asarray(Image.fromarray(mask).resize(size, Image.Resampling.NEAREST))
    return CasePicture(sample.name, photo, overlay, remark or 'the mask as it is')


def _photo(content: bytes) -> np.ndarray | None:
    """Returns an image of any format, made smaller, [h, w, 3] uint8; None if it cannot be read."""
    try:
        if content.startswith(images.ARRAY_MAGIC):
            pixels = images.read_array(content)
            pixels = pixels[..., :3] if pixels.shape[2] >= 3 else np.repeat(pixels[..., :1], 3, axis=2)
            picture = Image.fromarray(pixels if pixels.dtype == np.uint8 else (pixels >> 8).astype(np.uint8))
        else:
            with Image.open(io.BytesIO(content)) as image:
                image.draft('RGB', (2 * SIDE, 2 * SIDE))
                wide = image.mode.startswith('I')
                picture = (Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)) if wide else image).convert('RGB')
    except Exception:  # damaged files make Pillow's plugins raise anything
        return None
    picture.thumbnail((SIDE, SIDE))
    return np.asarray(picture)


def _ids(content: bytes | None) -> np.ndarray | None:
    """Returns the ids of a mask; None if it has none."""
    if content is None:
        return None
    try:
        with Image.open(io.BytesIO(images.mask_as_gray_png(content))) as image:
            return np.asarray(image)
    except DataError:
        return None
