"""GeoJSON (RFC 7946): one file for each image, with columns and rows of the image as coordinates; written only."""

from __future__ import annotations

from typing import Any

import numpy as np

from deeplab.datasets.annotations import writing
from deeplab.datasets.annotations.writing import PredictedImage, PredictedShape, Writer


def _written(image: PredictedImage) -> dict[str, Any]:
    """Returns a collection of features; whole coordinates are corners of pixels, and rows go down."""
    return {'type': 'FeatureCollection', 'features': [_feature(shape) for shape in image.shapes]}


def _feature(shape: PredictedShape) -> dict[str, Any]:
    polygons = [[_closed(ring) for ring in (part.ring, *part.holes)] for part in shape.parts]
    geometry: dict[str, Any] = {'type': 'MultiPolygon', 'coordinates': polygons}
    if len(polygons) == 1:
        geometry = {'type': 'Polygon', 'coordinates': polygons[0]}
    properties = {'class': shape.label} | ({} if shape.confidence is None else {'confidence': shape.confidence})
    return {'type': 'Feature', 'properties': properties, 'geometry': geometry}


def _closed(ring: np.ndarray) -> list[list[float]]:
    return writing.pairs(np.concatenate([ring, ring[:1]]))


WRITER = Writer('geojson', _written, '.geojson')
