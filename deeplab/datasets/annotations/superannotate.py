"""SuperAnnotate: classes.json, and a JSON file for each image, with a painted mask in pixel projects."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from deeplab.datasets.annotations import rasterizer, reading
from deeplab.datasets.annotations.reading import Document, Format
from deeplab.datasets.annotations.shapes import (
    AnnotatedImage,
    AnnotationSet,
    Ellipse,
    Geometry,
    Label,
    PaintedMask,
    Polygon,
    Shape,
)
from deeplab.errors import DataError

_CLASSES = 'classes.json'
_ENDS = ('___pixel.json', '___objects.json', '.json')  # the first two are of older exports
_MASK_END = '___save.png'
_BLEND_END = '___fuse.png'


def _is_classes(document: Document) -> bool:
    return document.name == _CLASSES and document.lists_objects('name', 'color')


def _recognizes(document: Document) -> bool:
    return _is_classes(document) or document.has(instances=list, metadata=dict)


def _parse(document: Document, annotations: AnnotationSet) -> None:
    """Reads a file.

    In a pixel project, an instance has the colors of its parts in the mask IMAGE___save.png; other colors are not
    labeled. In a vector project whole coordinates are corners of pixels, and later instances cover earlier ones.
    Instances of one class with the same groupId are parts of one; 0 stands for no group.

    Source: doc.superannotate.com, "Pixel Project - Export annotation format" and "Vector JSON".
    """
    if _is_classes(document):
        with reading.within('classes'):
            annotations.add_labels(
                Label(reading.text(entry['name']), reading.color(entry['color']))
                for entry in document.content
                if entry.get('type', 'object') != 'tag'
            )
        return
    # The name of the image is the file's name without its end. No file states the folder of the image.
    name = document.name.removesuffix(next((end for end in _ENDS if document.name.endswith(end)), ''))
    mask = os.path.join(document.folder, name + _MASK_END)
    instances = document.content['instances']
    painted, shapes = None, []
    if any('parts' in instance for instance in instances) or os.path.isfile(mask):
        colors, numbers = _part_colors(instances)
        painted = PaintedMask(mask, colors, allows_others=True, instances=numbers)
    else:
        for number, instance in enumerate(instances, start=1):
            with reading.within(f'instance {number}'):
                if (geometry := _geometry(instance)) is None:
                    annotations.left_out[f'{instance.get("type")} without an area'] += 1
                else:
                    shapes.append(Shape(reading.text(instance['className']), geometry, group=_group(instance)))
    metadata = document.content['metadata']
    size = reading.size(metadata.get('height'), metadata.get('width'))
    folders = (document.folder, os.path.join(document.folder, 'images'))
    annotations.images.append(AnnotatedImage(document.path, '', (name,), folders, size, tuple(shapes), painted))
    annotations.not_images += [os.path.join(document.folder, name + end) for end in (_MASK_END, _BLEND_END)]


def _part_colors(instances: Sequence[Mapping[str, Any]]) -> tuple[dict[int, str], dict[int, int]]:
    """Returns the label of each color in a mask, and the number of its instance, from 1 on."""
    labels: dict[int, str] = {}
    numbers: dict[int, int] = {}
    joined: dict[tuple[str, str | int], int] = {}
    for number, instance in enumerate(instances, start=1):
        with reading.within(f'instance {number}'):
            for part in instance.get('parts', ()):
                if (color := reading.color(part['color'])) is None:
                    raise DataError(f'{part["color"]!r} is not a color')
                label, code = reading.text(instance['className']), reading.code_of(color)
                labels[code] = label
                numbers[code] = joined.setdefault((label, _group(instance) or number), len(joined) + 1)
    return labels, numbers


def _group(instance: Mapping[str, Any]) -> str | None:
    return reading.group(instance.get('groupId'), none='0')


def _geometry(instance: Mapping[str, Any]) -> Geometry | None:
    kind = instance.get('type')
    if kind == 'polygon':
        ring = reading.points(instance['points'])
        holes = tuple(reading.points(hole) for hole in instance.get('exclude') or ())
        return Polygon((ring,), holes) if reading.has_area(ring) else None
    if kind == 'rbbox':
        corners = [[reading.number(instance['points'][f'{axis}{corner}']) for axis in 'xy'] for corner in range(1, 5)]
        return Polygon((reading.points(corners),))
    if kind == 'bbox':
        left, right = sorted(reading.number(instance['points'][key]) for key in ('x1', 'x2'))
        top, bottom = sorted(reading.number(instance['points'][key]) for key in ('y1', 'y2'))
        return rasterizer.box(left, top, right - left, bottom - top)
    if kind == 'ellipse':
        x, y, radius_x, radius_y = (reading.number(instance[key]) for key in ('cx', 'cy', 'rx', 'ry'))
        rotation = reading.number(instance.get('angle') or 0)
        return Ellipse(x, y, radius_x, radius_y, rotation) if min(radius_x, radius_y) > 0 else None
    return None


FORMAT = Format(
    'SuperAnnotate JSON',
    'JSON files with "instances" and "metadata", one for each image, and classes.json',
    _recognizes,
    _parse,
)
