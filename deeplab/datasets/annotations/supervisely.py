"""Supervisely: meta.json, and a JSON file in ann/ for each image in img/."""

from __future__ import annotations

import base64
import json
import math
import os
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deeplab.datasets.annotations import outlines, rasterizer, reading
from deeplab.datasets.annotations.reading import Document, Format
from deeplab.datasets.annotations.shapes import (
    AnnotatedImage,
    AnnotationSet,
    Bitmap,
    Filling,
    Geometry,
    Label,
    Polygon,
    Shape,
)
from deeplab.datasets.annotations.writing import PredictedImage, Writer
from deeplab.errors import DataError

_META = 'meta.json'
_LARGEST_PNG = 2**28  # bytes that a bitmap may unpack to


def _is_meta(document: Document) -> bool:
    return (
        document.name == _META
        and document.has(classes=list)
        and all(isinstance(entry, Mapping) and 'title' in entry for entry in document.content['classes'])
    )


def _recognizes(document: Document) -> bool:
    return _is_meta(document) or document.has(objects=list, size=dict)


def _parse(document: Document, annotations: AnnotationSet) -> None:
    """Reads a file.

    Whole coordinates are centers of pixels, and areas are drawn with their border; later objects cover earlier ones.
    The border of a hole belongs to the hole. Objects of one class that are bound to each other (`instance`) are parts
    of one instance, and so are the parts of a multipolygon.

    Source: developer.supervisely.com, "Supervisely annotation format"; the SDK draws objects as they are listed
      (annotation.py), polygons by OpenCV's fillPoly, first the outline, then the holes (geometry/polygon.py), and
      oriented boxes and the parts of multipolygons as such polygons (geometry/oriented_bbox.py, multipolygon.py);
      developer.supervisely.com, "Objects binding".
    """
    content = document.content
    if _is_meta(document):
        with reading.within('classes'):
            annotations.add_labels(
                Label(reading.text(entry['title']), reading.color(entry.get('color'))) for entry in content['classes']
            )
        return
    shapes = []
    for number, entry in enumerate(content['objects'], start=1):
        with reading.within(f'object {number}'):
            is_multipolygon = entry.get('geometryType') == 'multipolygon'
            areas = map(_polygon, entry['parts']) if is_multipolygon else [_geometry(entry)]  # one for each part
            geometries = [area for area in areas if area is not None]
            if not geometries:
                annotations.left_out[f'{entry.get("geometryType")} without an area'] += 1
            group = reading.group(entry.get('instance')) or f'object {number}'
            shapes += [Shape(reading.text(entry['classTitle']), geometry, group=group) for geometry in geometries]
    name = os.path.splitext(document.name)[0]
    folder = os.path.dirname(document.folder)
    annotations.images.append(
        AnnotatedImage(
            document.path,
            '',
            (name,),
            (os.path.join(folder, 'img'),),
            reading.size(content['size'].get('height'), content['size'].get('width')),
            tuple(shapes),
            split=os.path.basename(folder),
        )
    )


def _geometry(entry: Mapping[str, Any]) -> Geometry | None:
    kind = entry.get('geometryType')
    if kind == 'bitmap':
        left, top = (reading.whole(part) for part in entry['bitmap']['origin'])
        encoded = entry['bitmap']['data']
        return Bitmap(lambda: _bitmap(encoded), left, top)
    if kind == 'oriented_bbox':
        return _oriented_box(entry)
    if kind == 'polygon':
        return _polygon(entry['points'])
    if kind != 'rectangle':
        return None
    outline = np.round(reading.points(entry['points']['exterior']))
    return rasterizer.whole_pixels(outline) if len(outline) > 1 else None


def _polygon(points: Mapping[str, Any]) -> Polygon | None:
    outline = np.round(reading.points(points['exterior']))
    if not reading.has_area(outline):
        return None
    holes = (np.round(reading.points(hole)) for hole in points.get('interior') or [])
    return Polygon((outline,), tuple(hole for hole in holes if reading.has_area(hole)), Filling.BORDER)


def _oriented_box(entry: Mapping[str, Any]) -> Polygon | None:
    """Returns a rectangle of two opposite corners, rotated clockwise about its center by an angle in radians."""
    points = entry['points']
    corners = reading.points(points['exterior'] if isinstance(points, Mapping) else points)
    if len(corners) != 2:
        return None
    (left, top), (right, bottom) = corners.min(0).tolist(), corners.max(0).tolist()
    angle = math.degrees(reading.number(entry['angle'] or 0))
    (outline,) = rasterizer.box(left, top, right - left, bottom - top, angle, about_center=True).rings
    return Polygon((np.round(outline),), filling=Filling.BORDER)


def _bitmap(encoded: str) -> np.ndarray:
    """Returns the pixels of a PNG in zlib in base64: [h, w] bool."""
    packed = base64.b64decode(encoded, validate=True)
    try:
        content = zlib.decompressobj().decompress(packed, _LARGEST_PNG)
    except zlib.error as error:
        raise DataError(f'it is not compressed with zlib ({error})') from None
    return reading.covered_in_png(content)


def _written(image: PredictedImage) -> dict[str, Any]:
    """Returns the content of the file of an image; `_parse` has the meaning of points."""
    objects = []
    for number, shape in enumerate(image.shapes):
        tags = [] if shape.confidence is None else [{'name': 'confidence', 'value': shape.confidence}]
        common: dict[str, Any] = {'classTitle': shape.label, 'tags': tags}
        if shape.is_instance and len(shape.parts) > 1:
            common['instance'] = f'{number:032x}'
        if image.is_simplified:
            for part in shape.parts:
                exterior = outlines.inner_pixels(part.ring).tolist()
                interior = [outlines.inner_pixels(hole[::-1]).tolist() for hole in part.holes]
                points = {'exterior': exterior, 'interior': interior}
                objects.append(common | {'geometryType': 'polygon', 'points': points})
        else:
            packed = base64.b64encode(zlib.compress(base64.b64decode(shape.png()))).decode('ascii')
            bitmap = {'data': packed, 'origin': [shape.left, shape.top]}
            objects.append(common | {'geometryType': 'bitmap', 'bitmap': bitmap})
    height, width = image.size
    return {'description': '', 'tags': [], 'size': {'height': height, 'width': width}, 'objects': objects}


def _meta(values: Sequence[Any], labels: Sequence[Label]) -> str:
    classes = [
        {'title': label.name, 'shape': 'any', 'color': '#{:02X}{:02X}{:02X}'.format(*(label.color or (0, 0, 0)))}
        for label in labels
    ]
    tags = [{'name': 'confidence', 'value_type': 'any_number', 'color': '#808080'}]
    return json.dumps({'classes': classes, 'tags': tags})


WRITER = Writer(
    'supervisely',
    _written,
    '.json',
    'supervisely/predictions/ann',
    _meta,
    f'supervisely/{_META}',
    keeps_extension=True,
    fills_border=True,
)
FORMAT = Format(
    'Supervisely JSON', 'JSON files with "objects" and "size", one for each image, and meta.json', _recognizes, _parse
)
