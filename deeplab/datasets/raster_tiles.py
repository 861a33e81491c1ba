"""Records from rasters: whole TIFF files, or tiles of GeoTIFF files, with the parts of their masks."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from absl import logging

from deeplab.datasets import color_tables, file_pairs, folder_splits, images, mask_sources, pairs, rasters
from deeplab.datasets.mask_sources import Masks
from deeplab.datasets.rasters import Place
from deeplab.errors import DataError, UnreadableFileError
from deeplab.names import counted, escaped
from deeplab.options import BuildFolderOptions, RasterOptions
from deeplab.wording import option

_SHOWN = 3  # projections that a message names


@dataclasses.dataclass(frozen=True)
class Tile:
    """Takes a part of a raster as an array in NumPy's format.

    Attributes:
      place: the part.
      options: bands and values.
    """

    place: Place
    options: RasterOptions

    @property
    def key(self) -> str:
        """Identifies the part: with equal keys, the same file becomes the same image."""
        return f'tile {tuple(self.place)} {self.options.bands} {self.options.value_range}'

    def __call__(self, path: str) -> bytes:
        """Returns the image; raises `DataError` if the file cannot be used."""
        with _telling_unreadable(path):
            pixels, _ = rasters.read(path, self.place, self.options)
        return images.encode_array(pixels)


@dataclasses.dataclass(frozen=True)
class TileMask:
    """Takes the part of a mask that belongs to a part of an image; pixels without data are ignored.

    Attributes:
      image: path of the image, whose pixels without data are ignored; None for an image that is no TIFF.
      tile: the part; None for all of the mask.
      ignore_label: id of pixels without data.
    """

    image: str | None
    tile: Tile | None
    ignore_label: int

    @property
    def key(self) -> str:
        """Identifies the part, and the image."""
        part = '' if self.tile is None else self.tile.key
        image = '' if self.image is None else mask_sources.file_state(self.image)
        return f'raster {self.ignore_label} {part} {image}'

    def masks(self, path: str) -> Masks:
        """Returns the class ids of the part."""
        with _telling_unreadable(path):
            ids, is_valid = rasters.read_ids(path, None if self.tile is None else self.tile.place)
        if self.image is not None and self.tile is not None:
            with _telling_unreadable(self.image):
                is_valid &= rasters.read(self.image, self.tile.place, self.tile.options)[1]
        return Masks(images.encode_png(np.where(is_valid, ids, self.ignore_label).astype(np.uint8)))


@contextlib.contextmanager
def _telling_unreadable(path: str) -> Iterator[None]:
    """Raises `UnreadableFileError` instead of another `DataError` if the system cannot read a file."""
    try:
        yield
    except DataError:
        try:
            with open(path, 'rb') as file:
                file.read(1)
        except OSError as error:
            raise UnreadableFileError(f"Cannot read '{escaped(path)}': {error.strerror}.") from None
        raise


def items(
    options: BuildFolderOptions,
    table: color_tables.ColorTable | None,
    tell: folder_splits.Listener = folder_splits.log,
) -> dict[str, list[pairs.SourceFiles]]:
    """Finds images and masks, distributes them over splits, and cuts rasters into tiles.

    All tiles of a raster are in one split. Of a single raster, the lowest rows of tiles are the split val, and tiles
    that overlap them are left out.

    Args:
      options: the folders, the splits and the tiles.
      table: colors of the masks; None for masks of ids alone.
      tell: see `folder_splits.items`.

    Raises:
      DataError: see `folder_splits.items`; or a raster cannot be used.
    """
    has_given_splits = any(each is not None for each in (options.list_folder, options.group_pattern, options.folds))
    is_single = options.tile_size is not None and not has_given_splits and len(file_pairs.find(options).files) == 1
    whole = dataclasses.replace(options, val_fraction=0.0) if is_single else options
    splits = folder_splits.items(whole, table, tell)
    headers: dict[str, rasters.Header] = {}
    tiles = {name: [part for item in split for part in cut(item, options, headers)] for name, split in splits.items()}
    if not headers and options.raster != RasterOptions():
        name = 'bands' if options.raster.bands else 'value_range'
        given = option(f'RasterOptions.{name}', getattr(options.raster, name))
        raise DataError(f"{given} is for TIFF files, and no image in '{options.image_folder}' is one. Omit it.")
    _warn_of_projections(headers)
    if is_single and options.val_fraction != 0:
        fraction = folder_splits.DEFAULT_VAL_FRACTION if options.val_fraction is None else options.val_fraction
        (alone,) = tiles.values()
        tiles = _by_rows(alone, fraction)
    if lost := [name for name, own in tiles.items() if not own]:
        raise DataError(f"Split '{lost[0]}' has no tile with data.")
    return tiles


def cut(
    item: pairs.SourceFiles, options: BuildFolderOptions, headers: dict[str, rasters.Header]
) -> list[pairs.SourceFiles]:
    """Returns the tiles of an item with data; the item itself if neither image nor mask is a TIFF.

    Args:
      item: an image with its mask.
      options: the tiles.
      headers: gets the header of the image.

    Raises:
      DataError: A raster cannot be used; the message names it.
    """
    is_raster, has_raster_mask = rasters.is_raster(item.image), item.label is not None and rasters.is_raster(item.label)
    if options.tile_size is not None and not is_raster:
        given = option('BuildFolderOptions.tile_size', options.tile_size)
        raise DataError(f"{given} is for TIFF files, and '{item.image}' is none. Convert it, or omit the tiles.")
    if not (is_raster or has_raster_mask):
        return [item]
    if isinstance(item.source, mask_sources.FileBeside) or item.planes or options.colors:
        raise DataError(
            f"'{item.image}' or its mask is a TIFF, whose mask must hold class ids in one band: colors, instances and "
            'other planes are for PNG files.'
        )
    if not is_raster:
        return [dataclasses.replace(item, source=TileMask(None, None, options.ignore_label))]
    with pairs.naming(item.image):
        header = headers[item.image] = rasters.read_header(item.image, options.raster)
    rasters.require_one_page(item.image, header)
    if item.label is not None:
        with pairs.naming(item.label):
            of_mask = rasters.read_header(item.label, rasters.ANY_VALUES)
        rasters.require_same_grid(item.image, header, item.label, of_mask)
    size = header.height, header.width
    places = rasters.places(size, options.tile_size or size, options.tile_overlap)
    with pairs.naming(item.image):
        places = rasters.with_data(item.image, places, options.raster) if options.tile_size is not None else places
    return [_part(item, place, options) for place in places]


def _part(item: pairs.SourceFiles, place: Place, options: BuildFolderOptions) -> pairs.SourceFiles:
    tile = Tile(place, options.raster)
    source = None if item.label is None else TileMask(item.image, tile, options.ignore_label)
    name = item.name if options.tile_size is None else f'{item.name}_{place.top:06}_{place.left:06}'
    return dataclasses.replace(item, name=name, source=source, embedded=tile)


def _by_rows(tiles: Sequence[pairs.SourceFiles], fraction: float) -> dict[str, list[pairs.SourceFiles]]:
    """Distributes the tiles of a raster: the lowest rows are val, and tiles that overlap them are left out."""
    places = [tile.embedded.place for tile in tiles if isinstance(tile.embedded, Tile)]
    tops = sorted({place.top for place in places})
    count = min(max(math.ceil(len(tops) * fraction), 1), len(tops))
    first = tops[-count]
    pairs_of = list(zip(tiles, places, strict=True))
    train = [tile for tile, place in pairs_of if place.top + place.height <= first]
    if not train:
        raise DataError(
            f'The raster has {counted(len(tops), "row")} of tiles, too few for train and val. Set a smaller '
            f'{option("BuildFolderOptions.tile_size")}, or {option("BuildFolderOptions.val_fraction", 0)} for no split '
            'val.'
        )
    val = [tile for tile, place in pairs_of if place.top >= first]
    logging.info('The split val is rows %d and below of the raster.', first)
    return {'train': train, 'val': val}


def _warn_of_projections(headers: Mapping[str, rasters.Header]) -> None:
    """Logs a warning if rasters have different projections, or only some have one."""
    examples: dict[str, str] = {}
    for path, header in headers.items():
        examples.setdefault(header.projection, path)
    if len(examples) > 1:
        shown = [f"{projection or 'none'} ('{path}')" for projection, path in list(examples.items())[:_SHOWN]]
        _warn_once(
            f'The rasters have {len(examples)} projections: {", ".join(shown)}. Pixels may differ in size; tiles are '
            'cut as the pixels are stored.'
        )
    elif '' in examples:
        _warn_once(f"'{examples['']}' has no projection, which its records do not need.")


@functools.cache
def _warn_once(text: str) -> None:
    """Logs a warning, although programs open a data set several times."""
    logging.warning('%s', text)
