"""Rasters: TIFF and GeoTIFF files of any size with any bands, read in windows by rasterio (the extra `geo`)."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from deeplab.errors import DataError
from deeplab.names import counted
from deeplab.options import RasterOptions
from deeplab.system import packages
from deeplab.wording import option

SUFFIXES = ('.tif', '.tiff')
_WHITE = 65535
_CACHE_BYTES = 128 << 20  # of decoded blocks; GDAL takes a twentieth of the machine's memory otherwise
_AS_THEY_ARE = ('uint8', 'uint16')
_PROBE = 16  # side of the part of a tile that is read first
ANY_VALUES = RasterOptions(value_range=(0, 1))  # for headers of masks, which may have any type

_opening = threading.Lock()


class Place(NamedTuple):
    """A rectangle of pixels: first row, first column, rows and columns."""

    top: int
    left: int
    height: int
    width: int

    @property
    def window(self) -> Any:
        """The rectangle as a window of rasterio."""
        from rasterio.windows import Window

        return Window(self.left, self.top, self.width, self.height)


@dataclasses.dataclass(frozen=True)
class Header:
    """Properties of a raster, read without its pixels.

    Attributes:
      height: rows.
      width: columns.
      channels: number of bands that were chosen.
      bits: 8 or 16 a channel, as it is read.
      projection: coordinate reference system, such as 'EPSG:32633'; '' for none.
      transform: the six numbers that map column and row to coordinates.
      pages: number of images in the file, without overviews.
    """

    height: int
    width: int
    channels: int
    bits: int
    projection: str
    transform: tuple[float, ...]
    pages: int


def is_raster(path: str | os.PathLike[str]) -> bool:
    """Returns whether the name of a file is the name of a TIFF."""
    return os.fspath(path).lower().endswith(SUFFIXES)


def is_installed() -> bool:
    """Returns whether rasterio is installed."""
    return not packages.missing(('rasterio',))


def require() -> None:
    """Raises `OptionError` if rasterio is missing."""
    packages.require(('rasterio',), 'A TIFF with bands', "'deeplab-toolkit[geo]'")


def open_quietly(path: str, mode: str = 'r', **profile: Any) -> Any:
    """Opens a file with rasterio, without its warning of files that have no projection."""
    import rasterio

    with _opening, warnings.catch_warnings():  # the filters of warnings are shared by all threads
        warnings.simplefilter('ignore', rasterio.errors.NotGeoreferencedWarning)
        return rasterio.open(path, mode, **profile)


@contextlib.contextmanager
def opened(path: str) -> Iterator[Any]:
    """Yields the open data set of rasterio.

    Raises:
      DataError: The file cannot be read. The message continues a sentence that names the file.
    """
    require()
    import rasterio

    with rasterio.Env(GDAL_CACHEMAX=_CACHE_BYTES):
        try:
            with open_quietly(path) as dataset:
                yield dataset
        except rasterio.errors.RasterioError as error:
            reason = str(error.__cause__ or error).strip()
            raise DataError(f'it cannot be read as a TIFF ({reason})') from None


def read_header(path: str, options: RasterOptions | None = None) -> Header:
    """Reads size, projection and type of a raster.

    Args:
      path: path of the file.
      options: bands and values; None for the usual ones.

    Raises:
      DataError: It is no TIFF, has not the bands, or has values that need a range. The message continues a sentence
        that names the file.
    """
    options = options or RasterOptions()
    with opened(path) as dataset:
        bands = _bands(dataset, options)
        projection = '' if dataset.crs is None else dataset.crs.to_string()
        pages = max(len(dataset.subdatasets), 1)
        bits = 8 if _type(dataset, bands, options) == np.uint8 else 16
        transform = tuple(dataset.transform)[:6]
        return Header(dataset.height, dataset.width, len(bands), bits, projection, transform, pages)


def read(path: str, place: Place, options: RasterOptions | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Reads a part of a raster.

    Args:
      path: path of the file.
      place: the part, inside the raster.
      options: bands and values; None for the usual ones.

    Returns:
      Pixels [h, w, channels] uint8 or uint16, which are 0 without data; and whether a pixel has data in any of the
      bands, [h, w] bool.

    Raises:
      DataError: See `read_header`.
    """
    options = options or RasterOptions()
    with opened(path) as dataset:
        bands = _bands(dataset, options)
        dtype = _type(dataset, bands, options)
        values = dataset.read(bands, window=place.window)  # [channels, h, w]
        is_valid = dataset.read_masks(bands, window=place.window) > 0
    if values.dtype.kind == 'f':
        is_valid &= np.isfinite(values)
    if options.value_range:
        values = _scaled(values, is_valid, *options.value_range)
    pixels = np.where(is_valid, values, 0).astype(dtype)
    return np.ascontiguousarray(np.moveaxis(pixels, 0, -1)), is_valid.any(axis=0)


def read_ids(path: str, place: Place | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Reads class ids in the only band of a raster.

    Args:
      path: path of the file.
      place: the part of it; None for all.

    Returns:
      The ids [h, w] uint8, and whether a pixel has data, [h, w] bool.

    Raises:
      DataError: It is no raster of ids. The message continues a sentence that names the file.
    """
    with opened(path) as dataset:
        if dataset.count != 1:
            raise DataError(f'it has {dataset.count} bands, but a mask has one band of ids')
        window = (place or Place(0, 0, dataset.height, dataset.width)).window
        values = dataset.read(1, window=window)  # [h, w]
        is_valid = dataset.read_masks(1, window=window) > 0
    if values.dtype.kind == 'f':
        is_valid &= np.isfinite(values)
    values = np.where(is_valid, values, 0)
    is_id = (values >= 0) & (values <= 255) & (values == values.astype(np.int64))
    if not is_id.all():
        raise DataError(f'it contains the value {values[~is_id][0]}, but ids are integers from 0 to 255')
    return values.astype(np.uint8), is_valid


def read_stored(path: str, place: Place) -> np.ndarray:
    """Returns the values of the first band as they are stored, [h, w]."""
    with opened(path) as dataset:
        values: np.ndarray = dataset.read(1, window=place.window)
        return values


def with_data(path: str, tiles: Sequence[Place], options: RasterOptions | None = None) -> list[Place]:
    """Returns the tiles that have data in some pixel, as `read` says; raises `DataError` if the file cannot be read."""
    with opened(path) as dataset:
        from rasterio.enums import MaskFlags

        has_floats = any(np.dtype(kind).kind == 'f' for kind in dataset.dtypes)
        if not has_floats and all(MaskFlags.all_valid in flags for flags in dataset.mask_flag_enums):
            return list(tiles)
        bands = _bands(dataset, options or RasterOptions()) if has_floats else None
        # Most tiles have data in their middle: then the rest is not read.
        return [tile for tile in tiles if _has_data(dataset, bands, _middle(tile)) or _has_data(dataset, bands, tile)]


def _has_data(dataset: Any, bands: list[int] | None, place: Place) -> bool:
    """Returns whether some pixel of a place has data; takes the chosen bands of floats, None for integers."""
    if bands is None:
        return bool(dataset.dataset_mask(window=place.window).any())
    is_valid = dataset.read_masks(bands, window=place.window) > 0
    return bool((is_valid & np.isfinite(dataset.read(bands, window=place.window))).any())  # no mask has NaN


def _middle(place: Place) -> Place:
    """Returns a small part of a place, which begins in the middle: blocks of the file often begin there, too."""
    down, right = place.height // 2, place.width // 2
    size = min(_PROBE, place.height - down), min(_PROBE, place.width - right)
    return Place(place.top + down, place.left + right, *size)


def require_one_page(path: str, header: Header) -> None:
    """Raises `DataError` for a file of several pages; the message names the file."""
    if header.pages > 1:
        raise DataError(
            f"'{path}' has {header.pages} pages, and a record has one image. Save each page as a separate file."
        )


def require_same_grid(image: str, of_image: Header, mask: str, of_mask: Header) -> None:
    """Raises `DataError` unless a mask has the pixels of its image.

    Projections and transforms are compared where both files have them.

    Args:
      image: path of the image.
      of_image: its header.
      mask: path of the mask.
      of_mask: its header.
    """
    difference = ''
    if (of_image.height, of_image.width) != (of_mask.height, of_mask.width):
        sizes = (f'{header.height} x {header.width}' for header in (of_mask, of_image))
        difference = '{} pixels (height x width), its image {}'.format(*sizes)
    elif of_image.projection and of_mask.projection:
        if of_image.projection != of_mask.projection:
            difference = f'the projection {of_mask.projection}, its image {of_image.projection}'
        elif not np.allclose(of_image.transform, of_mask.transform, rtol=1e-9, atol=1e-9):
            difference = f'the transform {of_mask.transform}, its image {of_image.transform}'
    if difference:
        raise DataError(
            f"Cannot use '{mask}': it has {difference} ('{image}'). Warp the mask to the grid of the image, "
            'with gdalwarp for example.'
        )


def places(size: tuple[int, int], tile: tuple[int, int], overlap: int = 0) -> list[Place]:
    """Returns the tiles of a raster, row by row.

    The last tile of a row or column ends with the raster, and overlaps its neighbor more. A raster that is smaller than
    a tile is one tile.

    Args:
      size: height and width of the raster.
      tile: height and width of a tile.
      overlap: pixels that neighbors share, less than a tile.
    """
    rows, columns = (_starts(*sides, overlap) for sides in zip(size, tile, strict=True))
    height, width = min(size[0], tile[0]), min(size[1], tile[1])
    return [Place(top, left, height, width) for top in rows for left in columns]


def _starts(size: int, tile: int, overlap: int) -> list[int]:
    last = max(size - tile, 0)
    return [*range(0, last, tile - overlap), last]


def _bands(dataset: Any, options: RasterOptions) -> list[int]:
    """Returns the numbers of the bands to read."""
    if dataset.count == 0:
        raise DataError('it has no bands')
    if not options.bands:
        transparent = [kind.name == 'alpha' for kind in dataset.colorinterp]
        return [number for number, is_alpha in enumerate(transparent, 1) if not is_alpha] or [1]
    if lost := [number for number in options.bands if number > dataset.count]:
        numbers = f'from 1 to {dataset.count}' if dataset.count > 1 else 'band 1'
        raise DataError(
            f'it has {counted(dataset.count, "band")}, and no band {", ".join(map(str, lost))}. Choose {numbers} with '
            f'{option("RasterOptions.bands")}'
        )
    return list(options.bands)


def _type(dataset: Any, bands: list[int], options: RasterOptions) -> type[np.unsignedinteger[Any]]:
    """Returns the type of the pixels as they are read."""
    types = {dataset.dtypes[band - 1] for band in bands}
    if not options.value_range and not types <= set(_AS_THEY_ARE):
        raise DataError(
            f'its values have type {", ".join(sorted(types))}. Set {option("RasterOptions.value_range")} to the values '
            'that become black and white'
        )
    return np.uint8 if types == {'uint8'} and not options.value_range else np.uint16


def _scaled(values: np.ndarray, is_valid: np.ndarray, low: float, high: float) -> np.ndarray:
    share = (np.where(is_valid, values, low).astype(np.float64) - low) / (high - low)
    scaled: np.ndarray = np.round(np.clip(share, 0, 1) * _WHITE)
    return scaled
