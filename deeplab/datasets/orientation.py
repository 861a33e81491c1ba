"""EXIF orientation of JPEG and PNG files: read without decoding pixels, applied, reset.

Cameras store pixels as the sensor gives them and note in the EXIF tag 274 how a viewer has to turn them. TensorFlow
and Pillow ignore the tag, so the builders apply it.
"""

from __future__ import annotations

import dataclasses
import io
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from PIL import Image

from deeplab.datasets import image_parts
from deeplab.errors import DataError

UPRIGHT = 1
JPEG_QUALITY = 95

_TAG = 0x0112
_SHORT, _LONG = 3, 4
_JPEG_EXIF, _PNG_EXIF = b'\xff\xe1', b'eXIf'  # kinds of parts
_EXIF_MARK = b'Exif\0\0'
_KEPT_INFO = ('icc_profile', 'transparency', 'gamma')

Size = tuple[int, int]

# By orientation: what a viewer does with the stored pixels. Source: EXIF 2.32 (CIPA DC-008), 4.6.4 A, Orientation.
_TRANSPOSES = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class _Tag(NamedTuple):
    """An orientation in a file: its value, where its bytes are and how they are packed, and the PNG chunk around it."""

    value: int
    offset: int
    packing: str
    chunk: tuple[int, int] | None = None  # offsets of start and end of the PNG chunk's data; None in a JPEG

    @property
    def turns(self) -> bool:
        """Whether viewers turn the stored pixels; values that are not in the standard do nothing."""
        return self.value in _TRANSPOSES


@dataclasses.dataclass(frozen=True)
class Decision:
    """Which of an image and its mask are rotated or mirrored by their EXIF orientation; the other keeps its pixels.

    Attributes:
      turn_image: whether the image is turned.
      turn_mask: whether the mask is turned.
      is_certain: whether no other choice gives an image and a mask of equal size that agree differently.
    """

    turn_image: bool
    turn_mask: bool
    is_certain: bool

    @property
    def is_kept(self) -> bool:
        """Whether both keep their stored pixels."""
        return not (self.turn_image or self.turn_mask)


def read(content: bytes) -> int:
    """Returns the EXIF orientation of a JPEG or PNG file, 1 to 8; 1 if it has none or an invalid one.

    Only the headers in front of the pixels are read (in a PNG those behind them too).
    """
    tag = next(_tags(content), None)
    return tag.value if tag and tag.turns else UPRIGHT


def of_picture(image: Image.Image) -> int:
    """Returns the EXIF orientation of an image of Pillow, 1 to 8; 1 if it has none or an invalid one."""
    try:
        value = image.getexif().get(_TAG)
        return int(value) if value in _TRANSPOSES else UPRIGHT
    except Exception:  # damaged metadata make Pillow raise anything
        return UPRIGHT


def reset(content: bytes) -> bytes:
    """Returns `content` with every orientation replaced by 1; no other byte changes."""
    tags = [tag for tag in _tags(content) if tag.turns]
    if not tags:
        return content
    changed = bytearray(content)
    for tag in tags:
        struct.pack_into(tag.packing, changed, tag.offset, UPRIGHT)
        if tag.chunk:
            start, end = tag.chunk
            struct.pack_into('>I', changed, end, zlib.crc32(changed[start - 4 : end]))  # of type and data
    return bytes(changed)


def shown_size(size: Size, value: int) -> Size:
    """Returns height and width of an image as viewers display it."""
    return size[::-1] if value >= 5 else size


def decide(image_size: Size, image_value: int, mask_size: Size, mask_value: int) -> Decision | None:
    """Chooses whether to turn image and mask so that their sizes agree.

    Both as a viewer shows them is preferred, then both as stored, then one of each.

    Args:
      image_size: stored height and width of the image.
      image_value: orientation of the image.
      mask_size: stored height and width of the mask.
      mask_value: orientation of the mask.

    Returns:
      The decision; None where the sizes agree in no way.
    """
    fitting = [
        (turn_image, turn_mask)
        for turn_image, turn_mask in ((True, True), (False, False), (True, False), (False, True))
        if (shown_size(image_size, image_value) if turn_image else image_size)
        == (shown_size(mask_size, mask_value) if turn_mask else mask_size)
    ]
    if not fitting:
        return None
    turn_image, turn_mask = fitting[0]
    is_kept = not (turn_image or turn_mask)
    return Decision(turn_image, turn_mask, is_kept or (False, False) not in fitting or image_value == mask_value)


def explanation(image_size: Size, image_value: int, mask_size: Size, mask_value: int) -> str:
    """Explains different sizes of an image and its mask by EXIF orientations; the text continues the sizes."""
    text = ''
    for what, size, value in (('image', image_size, image_value), ('mask', mask_size, mask_value)):
        if value != UPRIGHT:
            height, width = shown_size(size, value)
            text += f'; the {what} has EXIF orientation {value}, so viewers show it as {height} x {width}'
    if not text and image_size == mask_size[::-1]:
        text = '; one is the other turned, as when a program has lost the EXIF orientation of a photo'
    return text


def turned_pixels(pixels: np.ndarray, value: int) -> np.ndarray:
    """Returns pixels [h, w] or [h, w, channels] as viewers display them."""
    if value >= 5:
        pixels = np.swapaxes(pixels, 0, 1)
    rows = -1 if value in (3, 4, 7, 8) else 1
    columns = -1 if value in (2, 3, 6, 7) else 1
    return np.ascontiguousarray(pixels[::rows, ::columns])


def turned(content: bytes, value: int, size: Size | None = None) -> bytes:
    """Returns an image file with its pixels as viewers display them, without an orientation.

    A PNG loses nothing. A JPEG is encoded again, at quality 95 with full color resolution.

    Args:
      content: a whole JPEG or PNG.
      value: orientation to apply, 1 to 8.
      size: smaller height and width of the result, by antialiased bicubic interpolation; None to keep the pixels.

    Raises:
      DataError: It is a PNG of 16 bits a channel with several channels.
    """
    stream = io.BytesIO()
    with Image.open(io.BytesIO(content), formats=('JPEG', 'PNG')) as image:
        if content.startswith(image_parts.PNG_MAGIC) and content[24] == 16 and Image.getmodebands(image.mode) > 1:
            raise DataError(  # Pillow reads such a file with 8 bits
                f'its EXIF orientation is {value}, and a PNG of 16 bits with several channels cannot be rotated '
                'without loss; save it upright, without an orientation'
                if size is None
                else 'a PNG of 16 bits with several channels cannot be resized; save it in the smaller size'
            )
        upright = image if size is None else _resized(image, shown_size(size, value))
        upright = upright if value == UPRIGHT else upright.transpose(_TRANSPOSES[value])
        upright.info = {key: image.info[key] for key in _KEPT_INFO if key in image.info}
        if content.startswith(image_parts.PNG_MAGIC):
            upright.save(stream, 'PNG')
        else:
            profile = image.info.get('icc_profile')
            upright.save(stream, 'JPEG', quality=JPEG_QUALITY, subsampling=0, icc_profile=profile)
    return stream.getvalue()


def _resized(image: Image.Image, size: Size) -> Image.Image:
    """Returns an image of Pillow with fewer pixels; the colors of transparent pixels stay."""
    image.draft(None, (2 * size[1], 2 * size[0]))  # a JPEG decoder skips what the interpolation would average
    if image.mode in ('1', 'P', 'PA'):
        image.info.pop('transparency', None)  # of indices into the palette
        image = image.convert('L' if image.mode == '1' else 'RGB')
    bands = [band.resize(size[::-1], Image.Resampling.BICUBIC) for band in image.split()]
    return Image.merge(image.mode, bands)


def _tags(content: bytes) -> Iterator[_Tag]:
    """Yields the orientations in a file, the effective one first."""
    for kind, start, end in image_parts.parts(content, _JPEG_EXIF, _PNG_EXIF):
        has_mark = content.startswith(_EXIF_MARK, start)
        if kind == _JPEG_EXIF and not has_mark:  # such as XMP, whose segments have the same marker
            continue
        tag = _tag_in(content, start + len(_EXIF_MARK) * has_mark, end)
        if tag is not None:
            yield tag._replace(chunk=(start, end)) if kind == _PNG_EXIF else tag


def _tag_in(content: bytes, start: int, end: int) -> _Tag | None:
    """Returns the orientation in EXIF data, whatever its value. Source: TIFF 6.0, section 2."""
    order = {b'II*\0': '<', b'MM\0*': '>'}.get(content[start : start + 4])
    if order is None or start + 8 > end:
        return None
    directory = start + struct.unpack_from(f'{order}I', content, start + 4)[0]
    if directory + 2 > end:
        return None
    (entries,) = struct.unpack_from(f'{order}H', content, directory)
    for entry in range(directory + 2, min(directory + 2 + 12 * entries, end - 11), 12):
        name, kind, count = struct.unpack_from(f'{order}HHI', content, entry)
        if name == _TAG:
            if kind not in (_SHORT, _LONG) or count != 1:
                return None
            packing = f'{order}{"H" if kind == _SHORT else "I"}'
            (value,) = struct.unpack_from(packing, content, entry + 8)
            return _Tag(value, entry + 8, packing)
    return None
