"""labelme: one JSON file beside each image."""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Mapping
from typing import Any

from deeplab.datasets.annotations import outlines, rasterizer, reading, writing
from deeplab.datasets.annotations.reading import Document, Format
from deeplab.datasets.annotations.shapes import (
    AnnotatedImage,
    AnnotationSet,
    Bitmap,
    Ellipse,
    Filling,
    Geometry,
    Polygon,
    Shape,
)
from deeplab.datasets.annotations.writing import PredictedImage, Writer
from deeplab.errors import DataError

_VERSION = '5.4.1'  # of labelme, whose format is written
_POLYGONS = (None, '', 'polygon', 'oriented_rectangle', 'rotation', 'quadrilateral')  # forks write the last two
AREAS = (*_POLYGONS, 'rectangle', 'circle', 'mask')  # values of shape_type


def _recognizes(document: Document) -> bool:
    return document.has(shapes=list) and 'imagePath' in document.content


def _parse(document: Document, annotations: AnnotationSet) -> None:
    """Reads a file.

    Whole coordinates are the centers of pixels, and areas are drawn with their border by Pillow's ImageDraw; later
    shapes cover earlier ones. Shapes of one label with the same `group_id` are one instance.

    Source: labelme's shape_to_mask and shapes_to_label (labelme/utils/shape.py), which its labelme2voc uses.
    """
    content = document.content
    shapes = []
    for number, shape in enumerate(content['shapes'], start=1):
        with reading.within(f'shape {number}'):
            geometry = _geometry(shape)
            if geometry is None:
                annotations.left_out[f'{shape.get("shape_type") or "polygon"} without an area'] += 1
            else:
                group = reading.group(shape.get('group_id'))
                shapes.append(Shape(reading.text(shape['label']), geometry, group=group))
    own_name = os.path.splitext(document.name)[0]
    stated = content['imagePath']
    names = (stated, own_name) if isinstance(stated, str) and stated else (own_name,)
    annotations.images.append(
        AnnotatedImage(
            document.path,
            '',
            names,
            (document.folder,),
            reading.size(content.get('imageHeight'), content.get('imageWidth')),
            tuple(shapes),
            embedded=document.path if content.get('imageData') else None,
        )
    )


def _geometry(shape: Mapping[str, Any]) -> Geometry | None:
    kind = shape.get('shape_type')
    if kind not in AREAS:
        return None
    points = reading.points(shape['points'])
    if kind in _POLYGONS:
        return Polygon((points,), filling=Filling.BORDER) if reading.has_area(points) else None
    if len(points) < 2:
        raise DataError(f'its shape_type is {kind}, which has two points, but it has {len(points)}')
    (x0, y0), (x1, y1) = points[:2].tolist()
    if kind == 'rectangle':
        return rasterizer.whole_pixels(points)
    if kind == 'circle':
        radius = math.hypot(x1 - x0, y1 - y0)
        return Ellipse(x0, y0, radius, radius, with_border=True)
    encoded = shape['mask']
    return Bitmap(lambda: reading.covered_in_png(base64.b64decode(encoded, validate=True)), int(x0), int(y0))


def embedded_image(path: str) -> bytes:
    """Returns the image that a file contains.

    Raises:
      DataError: It contains none.
    """
    content = reading.load(path).content
    with reading.within('imageData'):
        return base64.b64decode(content['imageData'], validate=True)


def _written(image: PredictedImage) -> dict[str, Any]:
    """Returns the content of a file; `_parse` has the meaning of points."""
    shapes = []
    for group, shape in enumerate(image.shapes, start=1):
        common: dict[str, Any] = {
            'label': shape.label,
            'group_id': group if shape.is_instance and len(shape.parts) > 1 else None,
            'description': '' if shape.confidence is None else f'confidence {shape.confidence}',
            'flags': {},
        }
        if image.is_simplified and not shape.has_holes:
            for part in shape.parts:
                points = writing.pairs(outlines.inner_pixels(part.ring))
                shapes.append(common | {'points': points, 'shape_type': 'polygon', 'mask': None})
        else:
            left, top, width, height = writing.box_of(shape)
            points = [[left, top], [left + width - 1, top + height - 1]]
            shapes.append(common | {'points': points, 'shape_type': 'mask', 'mask': shape.png()})
    height, width = image.size
    content: dict[str, Any] = {
        'version': '5.4.1',
        'flags': {},
        'shapes': shapes,
        'imagePath': image.path,
        'imageData': None,
    }
    return content | {'imageHeight': height, 'imageWidth': width}


WRITER = Writer('labelme', _written, '.json', is_beside_images=True, fills_border=True)
FORMAT = Format('labelme JSON', 'JSON files with "shapes" and "imagePath", one for each image', _recognizes, _parse)
