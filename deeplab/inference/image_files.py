"""Reading of image files for prediction: any format of Pillow, upright, with the channels of the network.

JPEG, PNG and NumPy files are decoded as in records, so that a network sees the same pixels as in eval.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import stat
import threading
import warnings
from collections.abc import Iterable, Iterator
from typing import IO, Any

import numpy as np
import tensorflow as tf
from absl import logging
from PIL import Image, ImageFile, UnidentifiedImageError

from deeplab.core import sessions
from deeplab.datasets import example, images, orientation, rasters
from deeplab.errors import DataError, reason_of
from deeplab.inference.thread_bound import ThreadBound
from deeplab.options import GEOTIFF, RasterOptions
from deeplab.wording import option

# Pillow refuses more, too. It is three bytes a pixel in memory, or more while an image is decoded.
MOST_PIXELS = 178_956_970
_MOST_BYTES = 1 << 31
# Pillow runs another program (Ghostscript) to draw EPS files.
_REFUSED = ('EPS',)
_SIXTEEN_BITS = ('I;16', 'I;16B', 'I;16L', 'I;16N', 'I')
_PREMULTIPLIED = ('La', 'RGBa')  # their colors are multiplied by their transparency
_OF_SIXTEEN_BITS = np.float32(257.0)  # 65535 / 255, as for records

# Formats whose files TensorFlow decodes, and not Pillow. MPO is a JPEG with further ones behind it.
_DECODED_AS_RECORDS = ('JPEG', 'MPO', 'PNG')

_TIFF = (b'II*\0', b'MM\0*', b'II+\0', b'MM\0+')  # the last two are BigTIFF
_SUBFILE_TYPE, _NO_PAGE = 254, 5  # tag of a TIFF, and its bits of overviews and masks; source: TIFF 6.0, section 8

Source = np.ndarray | str | os.PathLike[str] | Image.Image | bytes | bytearray | memoryview | IO[bytes]
# What is one image although it can be iterated; files are, too.
_SINGLE = (np.ndarray, str, os.PathLike, Image.Image, bytes, bytearray, memoryview)

_opening = threading.Lock()


def suffixes() -> frozenset[str]:
    """Returns the extensions of image files that can be read, such as '.jpg', in lower case."""
    Image.init()
    by_pillow = {
        suffix.lower() for suffix, kind in Image.EXTENSION.items() if kind in Image.OPEN and kind not in _REFUSED
    }
    return frozenset({*by_pillow, '.npy'} - {'.pdf', '.mpg', '.mpeg', '.h5', '.hdf'})


class Reader:
    """Reads image files; several threads may use it at a time.

    Attributes:
      channels: channels of the images that it returns.
      bits: 8; or 16 to keep all bits of files with 16.
      raster: bands and values of TIFF files; if any are set, rasterio reads them, as for records.
    """

    def __init__(self, channels: int = 3, bits: int = 8, raster: RasterOptions | None = None) -> None:
        """Builds the decoder."""
        self.channels, self.bits, self.raster = channels, bits, raster or RasterOptions()
        with tf.Graph().as_default() as graph:
            self._content = tf.compat.v1.placeholder(tf.string, [])
            self._image = example.decode_image(self._content, channels, bits)  # [h, w, channels]
        self._session = ThreadBound(lambda: sessions.open_session(graph))

    def close(self) -> None:
        """Releases the decoder."""
        self._session.close()

    def read(self, path: str | os.PathLike[str]) -> np.ndarray:
        """Returns the image in a file.

        Of an animation it is the first frame, of a TIFF of several pages the first page. Transparency is ignored. Gray
        is repeated for three channels.

        Args:
          path: path of the file.

        Returns:
          [h, w, channels] uint8; with 16 bits float32, 0 to 255.

        Raises:
          DataError: It cannot be read, is no image, is damaged, has other channels or more than `MOST_PIXELS` pixels.
            The message continues a sentence that names the file.
        """
        content, name = _content_of(path), f"'{os.fspath(path)}'"
        if content.startswith(_TIFF) and self.raster.is_set:
            _tell_of_pages(content, name)
            return self._of_raster(os.fspath(path))
        return self.of_content(content, name)

    def of_file(self, file: IO[bytes]) -> np.ndarray:
        """As `read`, for an open binary file, which is read from its beginning; from its position if it cannot seek.

        Raises:
          TypeError: It is open in text mode.
          DataError: See `read`.
        """
        return self.of_content(_content_of_file(file))

    def of_content(self, content: bytes | bytearray | memoryview, name: str = 'A file') -> np.ndarray:
        """As `read`, for the content of a file; `name` is for the log."""
        content = bytes(content)
        _require_readable(len(content))
        if content.startswith(_TIFF):
            self._require_all_bands()
        try:
            kind = images.content_format(content)
        except DataError:
            _tell_of_pages(content, name)
            return self._with_pillow(content)
        with _without_warnings():
            header = images.read_header(content)
        _require_sensible(header.width, header.height)
        if kind == 'npy':
            return self.of_array(images.read_array(content))
        if not header.reads_as(self.channels):
            raise DataError(f'it has {header.channels} channels, but the network expects {self.channels}')
        return orientation.turned_pixels(self._decoded(content), header.orientation)

    def bytes_of(self, path: str | os.PathLike[str]) -> int:
        """Returns how many bytes an image takes when it is read, by its header; the size of the file if that fails."""
        try:
            with open(path, 'rb', opener=_without_waiting) as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    return 0
                with contextlib.suppress(Exception), _opened(file) as image:  # `read` explains what is wrong
                    return image.width * image.height * self.channels * (1 if self.bits == 8 else 4)
                return status.st_size
        except OSError:
            return 0

    def of_array(self, pixels: np.ndarray) -> np.ndarray:
        """Returns an image that was given as an array in the form that `read` returns.

        Args:
          pixels: [h, w] or [h, w, channels], 0 to 255: integers, or floats; uint16 has 0 to 65535.

        Raises:
          DataError: It has another shape or other values.
        """
        image = np.asarray(pixels)
        image = image[..., np.newaxis] if image.ndim == 2 else image
        if image.ndim != 3 or 0 in image.shape or image.dtype.kind not in 'uif':
            raise DataError(
                f'it is an array {image.dtype} {list(np.shape(pixels))}; an image is [height, width, channels] of uint8'
            )
        image = with_channels(image, self.channels)
        if image.dtype == np.uint8:
            return np.ascontiguousarray(image)
        if image.dtype == np.uint16:
            return self._of_sixteen_bits(image)
        low, high = float(image.min()), float(image.max())
        if image.dtype.kind == 'f' and low >= 0 and 0 < high <= 1:
            raise DataError(f'its values are {low:g} to {high:g}; white is 255. Multiply them by 255')
        if not (low >= 0 and high <= 255):
            raise DataError(f'its values are {low:g} to {high:g}; they must be in the range 0 to 255')
        return image.astype(np.uint8 if image.dtype.kind != 'f' else np.float32)

    def _decoded(self, content: bytes) -> np.ndarray:
        try:
            pixels: np.ndarray = self._session.value.run(self._image, {self._content: content})
            return pixels
        except tf.errors.OpError as error:
            raise DataError(f'it cannot be decoded ({reason_of(error)})') from None

    def _of_sixteen_bits(self, values: np.ndarray) -> np.ndarray:
        """Converts uint16 as the decoders of records do."""
        if 0 < (largest := int(values.max())) <= 255:
            logging.warning(
                'An image of 16 bits has values of at most %d, and white is 65535: it is black. Convert it to uint8 if '
                'white is 255.',
                largest,
            )
        return (values >> 8).astype(np.uint8) if self.bits == 8 else values.astype(np.float32) / _OF_SIXTEEN_BITS

    def _of_raster(self, path: str) -> np.ndarray:
        """Returns the chosen bands and values of a TIFF file."""
        header = rasters.read_header(path, self.raster)
        if header.channels not in (1, self.channels):  # a single band is repeated, as gray images are
            saved = option('PredictOptions.save', GEOTIFF)
            raise DataError(
                f'it has {header.channels} bands, but the network expects {self.channels} channels; only {saved} '
                'chooses other bands'
            )
        _require_sensible(header.width, header.height)
        pixels, _ = rasters.read(path, rasters.Place(0, 0, header.height, header.width), self.raster)
        return self.of_array(pixels)

    def _require_all_bands(self) -> None:
        """Raises `DataError` for a TIFF that is not in a file if rasterio, which reads files, must choose its bands."""
        if self.raster.is_set:
            chosen = 'bands' if self.raster.bands else 'value_range'
            raise DataError(
                f'it is a TIFF, and the network was trained with {option(f"RasterOptions.{chosen}")}, which applies to '
                'files only. Pass the path of the file, or an array with the channels of the network'
            )

    def _with_pillow(self, content: bytes) -> np.ndarray:
        """Decodes any other format."""
        if not content:
            raise DataError('it is empty')
        with _explained(), _opened(io.BytesIO(content)) as image:
            _require_sensible(*image.size)
            return self._decoded_by_pillow(image)

    def of_picture(self, image: Image.Image) -> np.ndarray:
        """Returns an image of Pillow in the form that `read` returns, upright by its EXIF orientation.

        A JPEG or PNG that Pillow has opened is decoded from its file, as `read` does it, if the file can still be read
        and nobody has changed the image. Otherwise the pixels are Pillow's.

        Raises:
          DataError: See `of_array`; or it is closed or damaged.
        """
        if image.format == 'TIFF':
            self._require_all_bands()
        content = _unchanged_file(image)
        if content is not None:
            with contextlib.suppress(DataError):  # of a file that Pillow alone can decode
                pixels = self.of_content(content)
                if getattr(image, 'filename', ''):  # which Pillow has opened: loading closes it, the image stays usable
                    with contextlib.suppress(Exception):
                        image.load()
                return pixels
        with _explained():
            return self._decoded_by_pillow(image)

    def _decoded_by_pillow(self, image: Image.Image) -> np.ndarray:
        """Returns the pixels that Pillow has, or decodes, upright."""
        if getattr(image, 'tile', None) and getattr(image, 'fp', None) is None:
            raise DataError('its file was closed before its pixels were read; call its load() before it is closed')
        image.load()  # which turns a TIFF, and reads an orientation behind the pixels of a PNG
        return orientation.turned_pixels(self._pixels_of(image), orientation.of_picture(image))

    def _pixels_of(self, image: Image.Image) -> np.ndarray:
        """Returns the pixels of an image of Pillow as they are stored."""
        if image.mode == 'F':
            raise DataError('it has floating-point values; save it with 8 or 16 bits a channel')
        if image.mode in _SIXTEEN_BITS:
            values = np.asarray(image)
            low, high = values.min(), values.max()
            if low < 0 or high > 65535:
                raise DataError(f'its values are {low} to {high}; they must be in the range 0 to 65535')
            is_small = image.mode == 'I' and high <= 255  # 32 bits do not say what white is
            return self.of_array(values.astype(np.uint8 if is_small else np.uint16))
        if image.mode in _PREMULTIPLIED:
            image = image.convert(image.mode.upper())  # Pillow converts no further in one step
        if self.channels in (1, 3):
            return self.of_array(np.asarray(image.convert('L' if self.channels == 1 else 'RGB')))
        return self.of_array(np.asarray(image))


def is_single(images: Any) -> bool:
    """Returns whether images are a single one, or what is no image at all, rather than several."""
    return isinstance(images, _SINGLE) or is_file(images) or not isinstance(images, Iterable)


def is_file(image: Any) -> bool:
    """Returns whether an image is an open file; files whose contents must be awaited are not."""
    return hasattr(image, 'read') and not inspect.iscoroutinefunction(image.read)


def name_of(image: Any, attribute: str) -> str:
    """Returns the name of an image in messages, from an attribute that may hold the path of its file."""
    path = getattr(image, attribute, '')
    return f"'{path}'" if path and isinstance(path, str) else 'The image'


def with_channels(image: np.ndarray, channels: int) -> np.ndarray:
    """Returns an image [..., c] with the channels of a network: gray is repeated for three, transparency left out.

    Raises:
      DataError: It has other channels.
    """
    given = image.shape[-1]
    if channels == 3 and given in (1, 2, 4):
        image = image[..., :3] if given == 4 else np.repeat(image[..., :1], 3, axis=-1)
    if image.shape[-1] != channels:
        raise DataError(f'it has {given} channels, but the network expects {channels}')
    return image


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Converts what Pillow raises to `DataError`: damaged files make its plugins raise anything."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        raise DataError(f'it cannot be decoded ({str(error).strip() or type(error).__name__})') from None


def _require_readable(size: int) -> None:
    if size > _MOST_BYTES:
        raise DataError(f'it has {size:,} bytes, more than {_MOST_BYTES:,}')


def _content_of(path: str | os.PathLike[str]) -> bytes:
    """Returns the content of a regular file of sensible size."""
    try:
        with open(path, 'rb', opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise DataError('it is not a regular file')
            _require_readable(status.st_size)
            return file.read()
    except OSError as error:
        raise DataError(f'it cannot be read ({error.strerror})') from None


def _content_of_file(file: IO[bytes]) -> bytes:
    """Returns the content of an open binary file, from its beginning if it can seek, as Pillow reads it."""
    try:
        with contextlib.suppress(AttributeError, io.UnsupportedOperation):
            file.seek(0, os.SEEK_END)
            _require_readable(file.tell())
            file.seek(0)
        content: bytes | str = file.read()
    except DataError:
        raise
    except UnicodeDecodeError:
        content = ''
    except (OSError, ValueError) as error:
        raise DataError(f'it cannot be read ({error})') from None
    if not isinstance(content, bytes):
        raise TypeError("a file of an image must be open in binary mode: open(path, 'rb')")
    return content


def _unchanged_file(image: Image.Image) -> bytes | None:
    """Returns the content of the file that Pillow has opened as an image; None if the image may have been changed.

    Pixels that Pillow has not decoded yet cannot have been changed. Others are compared with those in the file.
    """
    if image.format not in _DECODED_AS_RECORDS or not isinstance(image, ImageFile.ImageFile):
        return None
    is_decoded = not image.tile
    try:
        if is_decoded:
            content = _content_of(os.fsdecode(image.filename))
        elif image.fp is not None:
            content = _content_around(image.fp)
        else:
            return None
        with _opened(io.BytesIO(content)) as fresh:
            pairs = zip(_aspects(image, is_decoded), _aspects(fresh, is_decoded), strict=True)
            return content if all(aspect == stored for aspect, stored in pairs) else None
    except Exception:  # the file is closed, missing or damaged, which reading the image explains
        return None


def _content_around(file: IO[bytes]) -> bytes:
    """Returns the content of an open file, whose position does not change."""
    position = file.tell()
    try:
        return _content_of_file(file)
    finally:
        file.seek(position)


def _aspects(image: ImageFile.ImageFile, is_decoded: bool) -> Iterator[object]:
    """Yields what an image and its file have in common unless the image was changed; the pixels, which take long, last.

    Of an image that is not decoded yet, it is how Pillow is going to decode it, such as smaller or in gray.
    """
    yield image.size, image.mode, image.tell()
    yield orientation.of_picture(image)
    yield (image.getpalette(), image.tobytes()) if is_decoded else (image.tile, image.decoderconfig)


def _without_waiting(path: str, flags: int) -> int:
    """Opens a file; does not wait for a writer if it is a pipe."""
    return os.open(path, flags | getattr(os, 'O_NONBLOCK', 0))


def _opened(file: IO[bytes]) -> ImageFile.ImageFile:
    """Opens a file of any format that Pillow decodes itself; reads only its header."""
    Image.init()
    formats = [name for name in Image.ID if name not in _REFUSED]
    with _without_warnings():
        try:
            return Image.open(file, formats=formats)
        except UnidentifiedImageError:
            file.seek(0)
            if file.read(len(_TIFF[0])).startswith(_TIFF):
                saved = option('PredictOptions.save', GEOTIFF)
                raise DataError(f'it is a TIFF that only {saved} can read, or it is damaged') from None
            raise DataError('it is not an image in a known format') from None
        except Image.DecompressionBombError as error:  # worded as for PNG
            raise DataError(f'it is too large ({str(error).partition(", could")[0]})') from None


def _tell_of_pages(content: bytes, name: str) -> None:
    """Logs a warning for a TIFF of several pages; overviews and masks of the first page are no pages."""
    if not content.startswith(_TIFF):
        return
    with contextlib.suppress(Exception), _opened(io.BytesIO(content)) as image:  # decoding tells of damaged files
        pages = 0
        for number in range(getattr(image, 'n_frames', 1)):
            image.seek(number)
            pages += not getattr(image, 'tag_v2', {}).get(_SUBFILE_TYPE, 0) & _NO_PAGE
        if pages > 1:
            logging.warning('%s has %d pages; the first one is taken.', name, pages)


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Lets Pillow open large images without a warning; what is too large is an error."""
    with _opening, warnings.catch_warnings():  # which is not safe for threads
        warnings.simplefilter('ignore', Image.DecompressionBombWarning)
        yield


def _require_sensible(width: int, height: int) -> None:
    if width * height > MOST_PIXELS:
        raise DataError(
            f'it has {width} x {height} = {width * height:,} pixels, more than the limit of {MOST_PIXELS:,}'
        )
