"""Rasters predicted block by block, in bounded memory, to GeoTIFF files with the same projection.

Finished blocks are kept in the folder NAME.tif.blocks until the file is complete, so that an interrupted run continues.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tqdm
from absl import logging
from PIL import Image

from deeplab.datasets import images, mask_sources, rasters
from deeplab.datasets.annotations import geojson
from deeplab.datasets.rasters import Place
from deeplab.errors import DataError, OptionError
from deeplab.files import output_files, writing, written_files
from deeplab.inference import annotation_files, any_size, task_decoding
from deeplab.inference.inputs import Failure, InputFile
from deeplab.inference.prediction import NO_CLASS
from deeplab.inference.predictor import Predictor
from deeplab.names import counted
from deeplab.options import GEOJSON, GEOTIFF, OF_RASTERS, EngineOptions, PredictOptions
from deeplab.system import overlap
from deeplab.wording import option

BLOCK = 2048  # rows and columns of a raster above the size limit for windows that are predicted, and kept, at a time
_ALIGNMENT = 32  # of blocks and margins: a multiple of all output strides
_TILE = 512  # of the files; a block is several
_SETTINGS, _TAG = 'settings.txt', 'DEEPLAB_SETTINGS'


class RasterResult(NamedTuple):
    """The prediction of a raster.

    Attributes:
      header: of the raster.
      counts: [256] int64, pixels of each id; 255 for no data, and for classes that are not kept.
      predicted: number of blocks that this run predicted.
    """

    header: rasters.Header
    counts: np.ndarray
    predicted: int


class RastersResult(NamedTuple):
    """The predictions of all rasters of a run.

    Attributes:
      entries: what predictions.json says of each.
      failures: rasters that could not be predicted.
      seconds: how long it took.
    """

    entries: list[dict[str, Any]]
    failures: list[Failure]
    seconds: float


def check(options: PredictOptions, items: Sequence[InputFile]) -> None:
    """Raises `OptionError` if a package is missing, or a result would replace a file that predict has not written."""
    rasters.require()
    output_files.require_folder(options.output_dir, 'PredictOptions.output_dir')
    written = written_files.WrittenFiles(options.output_dir, 'predict')
    for path in (path for item in items for path in _targets(options, item).values()):
        if not options.overwrite and os.path.lexists(path) and not written.is_own(path):
            raise OptionError(
                f"'{path}' exists and was not written by predict. Choose another folder, or set "
                f'{option("PredictOptions.overwrite", True)}'
            )


def run(predictor: Predictor, items: Sequence[InputFile], options: PredictOptions) -> RastersResult:
    """Predicts rasters; unreadable ones do not stop it.

    Args:
      predictor: the network.
      items: the rasters.
      options: the folder of the results, the bands and their values.

    Raises:
      UserError: The network cannot predict rasters, or a file cannot be written.
    """
    started = time.monotonic()
    _require_fitting(predictor, options.export_path)
    options = dataclasses.replace(options, raster=options.raster.otherwise(predictor.raster))
    written = written_files.WrittenFiles(options.output_dir, 'predict')
    entries, failures = [], []
    for item in items:
        targets = _targets(options, item)
        for path in targets.values():
            output_files.make_folder(os.path.dirname(path))
        try:
            done = predict(predictor, item.path, targets[GEOTIFF], options)
        except DataError as error:
            failures.append(Failure(item.path, str(error)))
            continue
        if GEOJSON in targets:
            _write_areas(targets[GEOTIFF], targets[GEOJSON], done.header, predictor, options)
            written.add(targets[GEOJSON])
        files = {kind: os.path.relpath(path, options.output_dir) for kind, path in targets.items()}
        entries.append(_entry(item, files, done, predictor.class_names))
    return RastersResult(entries, failures, time.monotonic() - started)


def _entry(item: InputFile, files: Mapping[str, str], done: RasterResult, class_names: Sequence[str]) -> dict[str, Any]:
    """Returns what predictions.json says of a raster; shares are of the pixels with a class."""
    total = max(int(done.counts[:NO_CLASS].sum()), 1)
    shares = {name: float(done.counts[number] / total) for number, name in enumerate(class_names)}
    return {
        'path': item.path,
        'files': {kind: path.replace(os.sep, '/') for kind, path in files.items()},
        'height': done.header.height,
        'width': done.header.width,
        'projection': done.header.projection,
        'shares': {name: share for name, share in shares.items() if share},
    }


def _targets(options: PredictOptions, item: InputFile) -> dict[str, str]:
    """Returns the paths of the results of a raster, by kind."""
    suffixes = {GEOTIFF: '.tif', GEOJSON: '.geojson'}
    kinds = [kind for kind in OF_RASTERS if kind in (options.save or ())]
    return {kind: os.path.join(options.output_dir, kind, *item.name.split('/')) + suffixes[kind] for kind in kinds}


def _require_fitting(predictor: Predictor, export_path: str | None) -> None:
    """Raises `OptionError` if a network, of an export if its path is given, cannot predict parts by themselves."""
    save = option('PredictOptions.save', GEOTIFF)
    has_classes = predictor.decoder is None or task_decoding.has_classes(predictor.decoder.options)
    if predictor.window is None or not has_classes:
        raise OptionError(f'{save} needs a network that predicts a class for each pixel.')
    if predictor.resizes:
        fix = 'Train it without resizing.'
        if export_path is not None:
            bounds = f'{option("ResizeOptions.min_value")} and {option("ResizeOptions.max_value")}'
            fix = f'Export it without {bounds}, or pass its checkpoint.'
        raise OptionError(
            f'{save} predicts blocks of {BLOCK} x {BLOCK} pixels in the resolution of the raster, but the network '
            f'resizes its images. {fix}'
        )


def predict(predictor: Predictor, source: str, target: str, options: PredictOptions) -> RasterResult:
    """Predicts a raster and writes the class ids; blocks of an interrupted run with the same settings are kept.

    Args:
      predictor: the network.
      source: path of the raster.
      target: path of the GeoTIFF, which is replaced as a whole. Its id 255 means no data.
      options: bands, values and blocks.

    Raises:
      DataError: The raster cannot be read, or does not fit the network; or a file cannot be written.
    """
    header = rasters.read_header(source, options.raster)
    if header.channels not in (1, predictor.channels):  # a single band is repeated, as gray images are
        raise DataError(
            f'it has {header.channels} bands, but the network expects {predictor.channels} channels. Choose bands '
            f'with {option("RasterOptions.bands")}'
        )
    _tell_of(source, header)
    blocks = _blocks(header, predictor)
    folder = f'{target}.blocks'
    settings = _settings(predictor, source, options, max(BLOCK, blocks[0].height, blocks[0].width))
    wanted: list[Place] = []
    if _is_complete(target, settings):
        logging.info("'%s' is complete, with the same network and settings.", target)
    else:
        with writing.explained(folder):
            finished = _begin(folder, settings)
            wanted = [block for block in blocks if _name(block) not in finished]
            if finished:
                logging.info("Continuing '%s': %d of %d blocks exist.", source, len(blocks) - len(wanted), len(blocks))
            _predict_blocks(predictor, source, header, wanted, folder, options)
            _join(header, blocks, folder, target, predictor, settings)
            writing.remove(folder)
    # Before what takes long: the next run refuses to replace a file that is not listed.
    written_files.WrittenFiles(options.output_dir, 'predict').add(target)
    return RasterResult(header, _counts(target, blocks), len(wanted))


def _tell_of(source: str, header: rasters.Header) -> None:
    if header.pages > 1:
        logging.warning("'%s' has %s; the first one is predicted.", source, counted(header.pages, 'page'))
    if not header.projection:
        logging.warning("'%s' has no projection, and neither has its result.", source)


def _settings(predictor: Predictor, source: str, options: PredictOptions, side: int) -> str:
    """Returns a digest of what the class ids depend on; `side` is the size of the blocks."""
    execution = options.predictor.execution
    if execution.calibration_dir is None:  # engines differ by rounding alone, but 8 bits by more
        execution = EngineOptions()
    usual = dataclasses.replace(options.predictor, execution=execution, batch_size=1)
    weights = predictor.digest()
    values = (side, mask_sources.file_state(source), weights, options.raster, usual, sorted(options.network.items()))
    return mask_sources.digest(repr(values).encode('utf-8', 'surrogateescape'))


def _begin(folder: str, settings: str) -> set[str]:
    """Makes the folder of the blocks; returns the names of those that exist with the same settings."""
    path = os.path.join(folder, _SETTINGS)
    with contextlib.suppress(OSError), open(path, encoding='utf-8') as file:
        if file.read() == settings:
            return {name for name in os.listdir(folder) if name.endswith('.png')}
    writing.remove(folder)
    output_files.make_folder(folder)
    writing.write(path, settings)
    return set()


def _name(place: Place) -> str:
    return f'{place.top:07}_{place.left:07}.png'


def _predict_blocks(
    predictor: Predictor,
    source: str,
    header: rasters.Header,
    places: list[Place],
    folder: str,
    options: PredictOptions,
) -> None:
    """Predicts blocks with a margin around each, and writes their class ids."""
    assert predictor.window is not None
    margin = -(-max(predictor.window) // 2 // _ALIGNMENT) * _ALIGNMENT

    def read(place: Place) -> tuple[Place, Place, np.ndarray, np.ndarray]:
        around = _around(place, margin, header)
        return place, around, *rasters.read(source, around, options.raster)

    blocks = contextlib.closing(overlap.map_in_order(read, places, 1, 1))
    with blocks as pixels, tqdm.tqdm(total=len(places), desc='blocks', unit='block', disable=None) as bar:
        for place, around, image, is_valid in pixels:
            top, left = place.top - around.top, place.left - around.left
            own = slice(top, top + place.height), slice(left, left + place.width)
            labels = np.full((place.height, place.width), NO_CLASS, np.uint8)
            if is_valid[own].any():
                # All blocks in windows if the raster is too large without: a smaller block would see another context.
                whole = header.height, header.width
                (prediction,) = predictor.predict([predictor.read(image)], part_of=whole)
                labels = np.where(is_valid[own], prediction.labels[own], labels)
            writing.write(os.path.join(folder, _name(place)), images.encode_png(labels, 1))
            bar.update()


def _blocks(header: rasters.Header, predictor: Predictor) -> list[Place]:
    """Returns the blocks of a raster, row by row; those at its end are smaller.

    A raster that is predicted without windows is one block: with parts of it, a network would see another context. A
    larger limit for images without windows does not make larger blocks.
    """
    fits = header.height * header.width <= any_size.WHOLE_PIXELS
    if fits and predictor.is_whole((header.height, header.width)):
        return [Place(0, 0, header.height, header.width)]
    return [
        Place(top, left, min(BLOCK, header.height - top), min(BLOCK, header.width - left))
        for top in range(0, header.height, BLOCK)
        for left in range(0, header.width, BLOCK)
    ]


def _around(place: Place, margin: int, header: rasters.Header) -> Place:
    """Returns a block with its margin, as far as the raster has it; it begins at a multiple of the alignment."""
    top, left = (max(start - margin, 0) // _ALIGNMENT * _ALIGNMENT for start in (place.top, place.left))
    bottom = min(place.top + place.height + margin, header.height)
    right = min(place.left + place.width + margin, header.width)
    return Place(top, left, bottom - top, right - left)


def _join(
    header: rasters.Header, blocks: list[Place], folder: str, target: str, predictor: Predictor, settings: str
) -> None:
    """Writes the GeoTIFF from its blocks."""
    colors = {number: (*map(int, color), 255) for number, color in enumerate(predictor.colors)}
    with writing.atomic_path(target) as temporary, _created(temporary, header) as file:
        file.write_colormap(1, colors)
        file.update_tags(**{_TAG: settings, 'CLASSES': ','.join(predictor.class_names)})
        for block in blocks:
            with Image.open(os.path.join(folder, _name(block))) as picture:
                labels = np.asarray(picture)
            if (labels != NO_CLASS).any():  # otherwise the file has no bytes for it
                file.write(labels, 1, window=block.window)


def _write_areas(
    source: str, target: str, header: rasters.Header, predictor: Predictor, options: PredictOptions
) -> None:
    """Writes the areas of a predicted GeoTIFF as polygons, block by block; areas are cut where blocks meet."""
    class_of, annotation = dict(enumerate(predictor.class_names)), options.annotation
    collection = json.dumps({'type': 'FeatureCollection', **geojson.named_coordinates(header.projection)})
    places = tqdm.tqdm(_blocks(header, predictor), desc='areas', unit='block', disable=None)
    with writing.explained(target), writing.atomic_path(target) as path, open(path, 'w', encoding='utf-8') as file:
        separator = '\n'
        file.write(f'{collection.removesuffix("}")}, "features": [')
        for place in places:
            ids = rasters.read_stored(source, place).astype(np.int64)
            for shape in annotation_files.shapes_of(ids, class_of, annotation, annotation.polygon_tolerance):
                own = geojson.feature(shape, header.transform, place.left, place.top)
                file.write(separator + json.dumps(own))
                separator = ',\n'
        file.write('\n]}\n')


def _counts(path: str, blocks: list[Place]) -> np.ndarray:
    """Returns the number of pixels of each id in a GeoTIFF: [256] int64."""
    counts = np.zeros(256, np.int64)
    for block in blocks:
        counts += np.bincount(rasters.read_stored(path, block).ravel(), minlength=256)
    return counts


def _is_complete(path: str, settings: str) -> bool:
    """Returns whether a GeoTIFF is a result with these settings."""
    if not os.path.isfile(path):  # GDAL would log that as an error
        return False
    with contextlib.suppress(DataError), rasters.opened(path) as dataset:
        return bool(dataset.tags().get(_TAG) == settings)
    return False


def _created(path: str, header: rasters.Header) -> Any:
    import rasterio

    profile = {'height': header.height, 'width': header.width, 'count': 1, 'dtype': 'uint8', 'nodata': NO_CLASS}
    profile |= {'driver': 'GTiff', 'tiled': True, 'blockxsize': _TILE, 'blockysize': _TILE, 'compress': 'deflate'}
    profile |= {'BIGTIFF': 'IF_SAFER', 'SPARSE_OK': True}
    profile |= {'crs': header.projection or None, 'transform': rasterio.Affine(*header.transform)}
    return rasters.open_quietly(path, 'w', **profile)
