"""Drawn GeoTIFF files: four bands of 16 bits with fields, water and a corner without data, and their masks."""

from __future__ import annotations

import pathlib

import numpy as np

PROJECTION = 'EPSG:32633'
LEFT, TOP, PIXEL = 500_000.0, 5_400_000.0, 0.5  # meters
NO_DATA = 0
_COLORS = np.array([[600, 700, 500, 2500], [300, 500, 900, 200], [1500, 1400, 1300, 1800]])  # of classes, by band


def ids(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Returns class ids [h, w] uint8: rectangles of two classes on a background."""
    random = np.random.default_rng(seed)
    drawn = np.zeros((height, width), np.uint8)
    for number in range(12):
        top, left = random.integers(0, (height, width))
        rows, columns = random.integers(8, (max(height // 3, 9), max(width // 3, 9)))
        drawn[top : top + rows, left : left + columns] = 1 + number % 2
    return drawn


def bands(classes: np.ndarray, seed: int = 0) -> np.ndarray:
    """Returns the bands [4, h, w] uint16 of class ids; the upper left corner has no data."""
    noise = np.random.default_rng(seed).integers(0, 100, (4, *classes.shape))
    values = (np.moveaxis(_COLORS[classes], -1, 0) + noise).astype(np.uint16)
    values[:, : classes.shape[0] // 4, : classes.shape[1] // 4] = NO_DATA
    return values


def write(path: pathlib.Path, values: np.ndarray, **profile: object) -> pathlib.Path:
    """Writes bands [count, h, w] to a GeoTIFF, with other settings of rasterio if given; returns its path."""
    import rasterio

    from deeplab.datasets import rasters

    path.parent.mkdir(parents=True, exist_ok=True)
    count, height, width = values.shape
    settings = {
        'driver': 'GTiff',
        'crs': PROJECTION,
        'transform': rasterio.Affine(PIXEL, 0, LEFT, 0, -PIXEL, TOP),
        **profile,
    }
    settings |= {'height': height, 'width': width, 'count': count, 'dtype': values.dtype}
    with rasters.open_quietly(str(path), 'w', **settings) as raster:
        raster.write(values)
    return path


def pair(folder: pathlib.Path, name: str, height: int, width: int, seed: int = 0) -> tuple[pathlib.Path, pathlib.Path]:
    """Draws images/NAME.tif and masks/NAME.tif; returns their paths."""
    classes = ids(height, width, seed)
    image = write(folder / 'images' / f'{name}.tif', bands(classes, seed), nodata=NO_DATA)
    return image, write(folder / 'masks' / f'{name}.tif', classes[np.newaxis])
