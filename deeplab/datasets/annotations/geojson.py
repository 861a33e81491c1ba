"""GeoJSON (RFC 7946), written only: one file for each image, with its columns and rows as coordinates.

Files of rasters have the coordinates of the map, and name them in the member `crs`, as GDAL does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from deeplab.datasets.annotations import writing
from deeplab.datasets.annotations.writing import PredictedImage, PredictedShape, Writer

_PIXELS = (1, 0, 0, 0, 1, 0)


def _written(image: PredictedImage) -> dict[str, Any]:
    """Returns a collection of features; whole coordinates are corners of pixels, and rows go down."""
    return {'type': 'FeatureCollection', 'features': [feature(shape) for shape in image.shapes]}


def feature(shape: PredictedShape, transform: Sequence[float] = _PIXELS, left: int = 0, top: int = 0) -> dict[str, Any]:
    """Returns the feature of a shape.

    Args:
      shape: the shape.
      transform: the six numbers that map column and row to coordinates, row by row of the matrix.
      left: column of the whole raster at which the columns of the shape begin.
      top: row at which its rows begin.
    """
    matrix = np.reshape(transform, (2, 3))
    origin = matrix @ (left, top, 1)
    rings = ([part.ring, *part.holes] for part in shape.parts)
    polygons = [[_closed(ring @ matrix[:, :2].T + origin, matrix) for ring in polygon] for polygon in rings]
    geometry: dict[str, Any] = {'type': 'MultiPolygon', 'coordinates': polygons}
    if len(polygons) == 1:
        geometry = {'type': 'Polygon', 'coordinates': polygons[0]}
    properties = {'class': shape.label} | ({} if shape.confidence is None else {'confidence': shape.confidence})
    return {'type': 'Feature', 'properties': properties, 'geometry': geometry}


def named_coordinates(projection: str) -> dict[str, Any]:
    """Returns the member that names a coordinate reference system, such as 'EPSG:32633'; empty for ''."""
    authority, _, code = projection.partition(':')
    is_urn = code.isdecimal()
    name = f'urn:ogc:def:crs:{authority}::{code}' if is_urn else projection
    return {'crs': {'type': 'name', 'properties': {'name': name}}} if projection else {}


def _closed(ring: np.ndarray, matrix: np.ndarray) -> list[list[float]]:
    """Returns a ring, [n, 2], with its first point at its end; outer ones run counterclockwise, as RFC 7946 wants."""
    if np.linalg.det(matrix[:, :2]) < 0:  # the map is seen from the other side: rows go down, coordinates up
        ring = ring[::-1]
    return writing.pairs(np.concatenate([ring, ring[:1]]))


WRITER = Writer('geojson', _written, '.geojson')
