"""Inspection of encoded images and masks without TensorFlow: completeness, size, ids.

What passes here is what `example.decode` takes. An image is a JPEG, a PNG, or an array in NumPy's format (.npy), which
alone can hold any number of channels.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import math
import re
import struct
from collections.abc import Iterator

import numpy as np
from PIL import Image, UnidentifiedImageError

from deeplab.datasets import image_parts, orientation
from deeplab.errors import DataError

ARRAY_MAGIC = b'\x93NUMPY'
_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}  # by color type; a palette holds colors
_PNG_GRAY = 0
_GRAY_STEPS = (1, 255, 85, 1, 17, 1, 1, 1, 1)  # by bits a pixel, 0 to 8: what decoders multiply a gray sample by
_ARRAY_LENGTH_BYTES = {b'\1\0': 2, b'\2\0': 4, b'\3\0': 4}  # of the header's length, by version of NumPy's format
_LONGEST_ARRAY_TEXT = 10_000  # bytes; NumPy reads no longer one either
_ARRAY_FIELDS = {
    'descr': r'(\[.*\]|[\'"][^\'"]+[\'"])',
    'fortran_order': r'(True|False)\b',
    'shape': r'\(([\d\s,L]{0,200})\)',  # Python 2 wrote 3L
}
_NUMBER_TYPE = re.compile(r'[<>|=]?(?P<kind>[biufc])(?P<bytes>[1-9]\d?)')
_KIND_NAMES = {'b': 'bool', 'i': 'int', 'u': 'uint', 'f': 'float', 'c': 'complex'}


@dataclasses.dataclass(frozen=True)
class Header:
    """Properties of an image, read from its header.

    Attributes:
      format: 'jpeg', 'png' or 'npy'.
      height: rows.
      width: columns.
      channels: channels that are stored; 3 for a palette.
      bits: 16 or 8 a channel; 8 for fewer, too.
      orientation: EXIF orientation, 1 to 8; height and width are not turned by it.
    """

    format: str
    height: int
    width: int
    channels: int = 3
    bits: int = 8
    orientation: int = orientation.UPRIGHT

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.height, self.width

    def reads_as(self, channels: int) -> bool:
        """Returns whether `example.decode` can decode it to an image of that many channels.

        Every JPEG and PNG can become three channels: gray is repeated, alpha is dropped. Otherwise the image must store
        that many channels, except that a gray PNG may also have alpha, which is dropped.
        """
        if self.format == 'npy' or channels not in (1, 3):
            return self.channels == channels
        return channels == 3 or self.channels == 1 or (self.format == 'png' and self.channels == 2)


@dataclasses.dataclass(frozen=True)
class Mask:
    """A decoded mask.

    Attributes:
      mode: Pillow's name for how the file stores pixels: 'L' single channel of 8 bits, 'P' palette, 'RGB', 'I;16'...
      height: rows.
      width: columns.
      counts: [256] int64, pixels of each id (index into the palette, or sample as it is stored, also where it has fewer
        than 8 bits); None where the file has several channels or 16 bits.
      orientation: EXIF orientation, 1 to 8; height and width are not turned by it.
      palette: red, green and blue of each index, three bytes together; empty without a palette.
    """

    mode: str
    height: int
    width: int
    counts: np.ndarray | None
    orientation: int = orientation.UPRIGHT
    palette: bytes = b''

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.height, self.width

    @property
    def is_palette(self) -> bool:
        """Whether the values are indices into a list of colors."""
        return self.mode == 'P'

    @property
    def id_colors(self) -> bytes:
        """Id, red, green and blue of each id that occurs and has a color in the palette: four bytes for each."""
        used = () if self.counts is None else np.flatnonzero(self.counts[: len(self.palette) // 3]).tolist()
        return b''.join(bytes([number]) + self.palette[3 * number : 3 * number + 3] for number in used)

    @property
    def channels(self) -> int:
        """Number of channels that the file stores."""
        return Image.getmodebands(self.mode)


def is_jpeg(content: bytes) -> bool:
    """Returns whether a file begins as a JPEG does; it may be damaged."""
    return content.startswith(image_parts.JPEG_MAGIC + b'\xff')


def content_format(content: bytes) -> str:
    """Detects the format from the first bytes: 'jpeg', 'png' or 'npy'.

    Raises:
      DataError: It is none of them.
    """
    if is_jpeg(content):
        return 'jpeg'
    if content.startswith(image_parts.PNG_MAGIC):
        return 'png'
    if content.startswith(ARRAY_MAGIC):
        return 'npy'
    raise DataError('it is empty' if not content else 'it is neither JPEG nor PNG')


def read_header(content: bytes) -> Header:
    """Reads size and format of an image without decoding it.

    Args:
      content: the image's file.

    Raises:
      DataError: It is no image that is known here, or cut within its header.
    """
    image_format = content_format(content)
    if image_format == 'npy':
        return _array_header(content)[0]
    with _opened(content) as image:
        return _header(image, content, image_format)


def wrong_kind(header: Header, channels: int, bits: int) -> str:
    """Returns the rule (`data_rules`) that an image breaks in a data set of so many channels and bits; '' for none."""
    if not header.reads_as(channels):
        return 'image_channels'
    is_plain = (channels, bits) == (3, 8)
    if header.format == 'npy' and is_plain and header.bits == 8:
        return 'array'
    # PNG images of three channels are converted to 8 bits, as the original does.
    if header.bits > bits and not (is_plain and header.format == 'png'):
        return 'image_bits'
    return ''


def read_whole(content: bytes, decodes: bool = True) -> Header:
    """Reads size and format of an image, which must be complete.

    Args:
      content: the image's file.
      decodes: whether to decode all of it; otherwise its last bytes must exist.

    Raises:
      DataError: It is no image that is known here, truncated or, if it is decoded, otherwise broken.
    """
    image_format = content_format(content)
    if image_format == 'npy':
        return _require_values(content)[0]
    with _opened(content) as image:
        header = _header(image, content, image_format)
        if decodes:
            image.draft('L', (1, 1))  # of a JPEG, all is read, but few pixels are computed: half the time
            image.load()
        if decodes or not (image_format == 'jpeg' and content.endswith(b'\xff')):
            _require_end(content)  # decoders do without a JPEG's very last byte
    return header


def read_array(content: bytes) -> np.ndarray:
    """Returns the image in a file of NumPy's format.

    Args:
      content: [h, w, channels], or [h, w] for one channel, of uint8 or uint16 in any byte order.

    Returns:
      [h, w, channels] uint8 or uint16.

    Raises:
      DataError: It is something else, or cut.
    """
    header, is_column_wise, kind, start = _require_values(content)
    shape = (header.height, header.width, header.channels)
    values = np.frombuffer(content, kind, math.prod(shape), start)
    values = values.reshape(shape[::-1]).T if is_column_wise else values.reshape(shape)
    return np.ascontiguousarray(values, np.uint8 if kind.itemsize == 1 else np.uint16)


def _require_values(content: bytes) -> tuple[Header, bool, np.dtype, int]:
    """Returns the result of `_array_header`; raises `DataError` if values are missing."""
    header, is_column_wise, kind, start = _array_header(content)
    missing = start + header.height * header.width * header.channels * kind.itemsize - len(content)
    if missing > 0:
        raise DataError(f'it cannot be decoded (array file is truncated, {missing} bytes are missing)')
    return header, is_column_wise, kind, start


def _array_header(content: bytes) -> tuple[Header, bool, np.dtype, int]:
    """Reads the header of a file in NumPy's format: size, order of the axes, type, offset of the values."""
    text, start = _array_text(content)
    # NumPy's reader evaluates the text as Python. Damaged text makes it raise or warn of nearly anything.
    written, order, sizes = (_array_field(text, name, pattern) for name, pattern in _ARRAY_FIELDS.items())
    shape = [int(size) for size in re.findall(r'\d+', sizes)]
    if len(shape) not in (2, 3) or 0 in shape:
        raise DataError(f'it is an array of shape {shape}; an image is [height, width, channels]')
    written = written.strip('\'"')
    kind = _NUMBER_TYPE.fullmatch(written)
    if kind is None or kind['kind'] != 'u' or int(kind['bytes']) > 2:
        name = f'{_KIND_NAMES[kind["kind"]]}{8 * int(kind["bytes"])}' if kind else repr(written)
        raise DataError(f'it is an array of {name}; an image is uint8 or uint16')
    dtype = np.dtype(kind[0])
    header = Header('npy', shape[0], shape[1], shape[2] if len(shape) == 3 else 1, 8 * dtype.itemsize)
    return header, order == 'True', dtype, start


def _array_text(content: bytes) -> tuple[str, int]:
    """Returns the text that describes an array in NumPy's format, and the offset of its end."""
    version = content[len(ARRAY_MAGIC) : len(ARRAY_MAGIC) + 2]
    start = len(ARRAY_MAGIC) + 2 + _ARRAY_LENGTH_BYTES.get(version, 0)
    if version not in _ARRAY_LENGTH_BYTES or len(content) < start:
        raise DataError('its header is invalid (it is cut, or has an unknown version)')
    end = start + int.from_bytes(content[len(ARRAY_MAGIC) + 2 : start], 'little')
    if end > min(len(content), _LONGEST_ARRAY_TEXT):
        raise DataError(f'its header is invalid (it has {end:,} bytes; the file has {len(content):,})')
    return content[start:end].decode('latin1'), end


def _array_field(text: str, name: str, pattern: str) -> str:
    field = re.search(rf'[\'"]{name}[\'"]\s*:\s*{pattern}', text)
    if field is None:
        raise DataError(f'its header is invalid ({name} is missing or damaged)')
    return field[1]


def read_mask(content: bytes) -> Mask:
    """Decodes a mask: size, kind and number of pixels of each id.

    Args:
      content: the mask's file.

    Raises:
      DataError: It is not a PNG, truncated or otherwise broken.
    """
    mask_format = content_format(content)
    if mask_format == 'npy':
        raise DataError("it is an array in NumPy's format; masks are PNG")
    if mask_format != 'png':
        raise DataError(
            'it is a JPEG, whose compression changes ids at every edge; export it as PNG from the program in which it '
            'was drawn, or leave its image out, since converting the JPEG does not restore the ids'
        )
    with _loaded(content) as image:
        counts = _counts(image, content) if image.mode in ('1', 'L', 'P') else None
        palette = bytes(image.getpalette() or ()) if image.mode == 'P' else b''
        return Mask(image.mode, image.height, image.width, counts, orientation.read(content), palette)


def read_colors(content: bytes, meaning: str) -> np.ndarray:
    """Decodes a PNG whose colors stand for something.

    Args:
      content: the file: red, green and blue of 8 bits, with or without alpha, or a palette.
      meaning: meaning of the colors, for messages.

    Returns:
      [h, w, 3] uint8.

    Raises:
      DataError: It is another kind of image, truncated or otherwise broken.
    """
    header = read_header(content)
    if (header.format, header.bits) != ('png', 8) or header.channels < 3:
        raise DataError(f'it is a {header.format} of {header.channels} channels, not an RGB PNG of {meaning}')
    with _loaded(content) as image:
        return np.asarray(image.convert('RGB'))


def mask_as_gray_png(content: bytes, turn: int = orientation.UPRIGHT, mask: Mask | None = None) -> bytes:
    """Returns the ids of a mask as a PNG of one channel with 8 bits, without an EXIF orientation.

    Args:
      content: a PNG with one channel or a palette. The indices into a palette are the ids, and so are the samples of a
        gray file of 1, 2 or 4 bits. 16 bits are taken where each id is below 256.
      turn: EXIF orientation to apply to the pixels.
      mask: result of `read_mask`, if the caller has it.

    Returns:
      `content` itself where nothing needs to change.

    Raises:
      DataError: The file has several channels, holds ids above 255 or is broken.
    """
    mask = mask or read_mask(content)
    if mask.mode == 'L' and _gray_step(content) == 1 and turn == orientation.UPRIGHT:
        return orientation.reset(content)
    return encode_png(mask_ids(content, turn, mask))


def mask_ids(content: bytes, turn: int = orientation.UPRIGHT, mask: Mask | None = None) -> np.ndarray:
    """Returns the ids of a mask, [h, w] uint8; takes and raises what `mask_as_gray_png` does."""
    ids = _stored_ids(content, mask or read_mask(content))
    if ids.max(initial=0) > 255:
        raise DataError(f'it has 16 bits and contains the id {ids.max()}; the largest id is 255')
    return orientation.turned_pixels(ids.astype(np.uint8, copy=False), turn)


def read_ids(content: bytes) -> np.ndarray:
    """Returns the ids in a PNG as they are stored.

    Args:
      content: the file: gray of up to 16 bits, or with a palette, whose indices are the ids.

    Returns:
      [h, w] int32.

    Raises:
      DataError: It is another kind of file, truncated or otherwise broken.
    """
    return _stored_ids(content, read_mask(content)).astype(np.int32)


def _stored_ids(content: bytes, mask: Mask) -> np.ndarray:
    """Returns the ids in a PNG, whose mask was read: [h, w] of any type."""
    if mask.channels > 1:
        raise DataError(
            f'it has {mask.channels} channels ({mask.mode}), but a mask has one channel of ids; if colors denote '
            'classes, map each color to its id first, or build the records with build_folder_data --colors=FILE'
        )
    step = 1 if mask.mode == '1' else _gray_step(content)  # of mode '1' 0 and 1
    with _opened(content) as image:
        ids = np.asarray(image)
    return ids if step == 1 else ids // step


def encode_array(values: np.ndarray) -> bytes:
    """Encodes numbers of any shape as a file of NumPy's format."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, values, allow_pickle=False)
    return stream.getvalue()


def size_within(size: tuple[int, int], longer_side: int | None) -> tuple[int, int]:
    """Returns height and width, reduced in proportion so that no side is longer than `longer_side`, unless None."""
    if longer_side is None or max(size) <= longer_side:
        return size
    height, width = (max(1, round(side * longer_side / max(size))) for side in size)
    return height, width


def downsampled(content: bytes, size: tuple[int, int], turn: int = orientation.UPRIGHT) -> bytes:
    """Returns an image file with fewer pixels, by antialiased bicubic interpolation.

    Args:
      content: a whole JPEG, PNG or array; its format stays. A JPEG is encoded again as by `orientation.turned`.
      size: height and width of the result.
      turn: EXIF orientation to apply to the pixels.

    Raises:
      DataError: It is a PNG of 16 bits a channel with several channels.
    """
    if not content.startswith(ARRAY_MAGIC):
        return orientation.turned(content, turn, size)
    values = read_array(content)
    bands = [Image.fromarray(band.astype(np.float32)) for band in np.moveaxis(values, -1, 0)]
    small = np.stack([np.asarray(band.resize(size[::-1], Image.Resampling.BICUBIC)) for band in bands], axis=-1)
    return encode_array(np.clip(np.round(small), 0, np.iinfo(values.dtype).max).astype(values.dtype))


def nearest(values: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Returns values [h, w] at another height and width, by nearest-neighbor interpolation."""
    if values.shape == size:
        return values
    places = (((np.arange(new) + 0.5) * old / new).astype(int) for old, new in zip(values.shape, size, strict=True))
    return values[np.ix_(*places)]


def encode_png(pixels: np.ndarray, level: int = -1) -> bytes:
    """Encodes pixels as a PNG.

    Args:
      pixels: [h, w] (gray) uint8 or uint16, or [h, w, 3] uint8.
      level: how hard to compress, 0 to 9; -1 for the usual.
    """
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, 'PNG', compress_level=level)
    return stream.getvalue()


def _header(image: Image.Image, content: bytes, image_format: str) -> Header:
    """Returns the header of a JPEG or PNG that has been opened."""
    if image_format == 'jpeg':
        channels, bits = Image.getmodebands(image.mode), 8
    else:  # Pillow converts 16 bits to 8 for several channels; the first chunk has the stored depth.
        depth, color_type = content[24], content[25]
        channels, bits = _PNG_CHANNELS.get(color_type, 3), 16 if depth == 16 else 8
    return Header(image_format, image.height, image.width, channels, bits, orientation.read(content))


def _counts(image: Image.Image, content: bytes) -> np.ndarray:
    """Returns the number of pixels of each id: [256]."""
    counts = np.zeros(256, np.int64)
    present = image.histogram()[: 256 : _gray_step(content)]
    counts[: len(present)] = present
    return counts


def _gray_step(content: bytes) -> int:
    """Returns the factor by which decoders scale the samples of a PNG to 8 bits; above 1 for gray of fewer bits."""
    depth, color_type = content[24], content[25]
    return _GRAY_STEPS[depth] if color_type == _PNG_GRAY and depth < len(_GRAY_STEPS) else 1


def require_decodable(pixels: int, what: str) -> None:
    """Raises `DataError` for more pixels than Pillow decodes in one PNG, twice `Image.MAX_IMAGE_PIXELS`."""
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and pixels > 2 * limit:
        most = f'{2 * limit:,}'
        raise DataError(f'{what} have {pixels:,} pixels together, but at most {most} can be read; use smaller images')


@contextlib.contextmanager
def _opened(content: bytes) -> Iterator[Image.Image]:
    """Opens a JPEG or PNG with Pillow, whose errors become a `DataError`."""
    try:
        with Image.open(io.BytesIO(content), formats=('JPEG', 'PNG')) as image:
            yield image
    except DataError:
        raise
    except UnidentifiedImageError:
        raise DataError('its header is invalid') from None
    except Image.DecompressionBombError as error:
        raise DataError(f'it is too large ({str(error).partition(", could")[0]})') from None
    except (OSError, SyntaxError, ValueError, IndexError, struct.error) as error:
        reason = str(error).strip() or type(error).__name__
        raise DataError(f'it cannot be decoded ({reason})') from None


@contextlib.contextmanager
def _loaded(content: bytes) -> Iterator[Image.Image]:
    """Opens and decodes a JPEG or PNG, which must be complete."""
    with _opened(content) as image:
        image.load()
        _require_end(content)
        yield image


def _require_end(content: bytes) -> None:
    """Raises `DataError` for a truncated JPEG or PNG; bytes after the end are allowed."""
    # Pillow lets some files pass whose last bytes are missing, TensorFlow does not.
    last = next(image_parts.parts(content, b'IEND', image_parts.START_OF_SCAN), None)
    is_complete = last is not None and (last[0] == b'IEND' or content.find(image_parts.END_OF_IMAGE, last[2]) >= 0)
    if not is_complete:
        raise DataError('it cannot be decoded (image file is truncated)')
