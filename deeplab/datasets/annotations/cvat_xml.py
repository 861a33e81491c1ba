"""CVAT for images 1.1: one XML file for all images."""

from __future__ import annotations

import os
from xml.etree import ElementTree

from deeplab.datasets.annotations import rasterizer, reading, run_lengths
from deeplab.datasets.annotations.reading import Document, Format
from deeplab.datasets.annotations.shapes import (
    AnnotatedImage,
    AnnotationSet,
    Bitmap,
    Ellipse,
    Geometry,
    Label,
    Polygon,
    Shape,
)
from deeplab.errors import DataError

_WITHOUT_AREA = ('polyline', 'points', 'cuboid', 'skeleton', 'tag')
# Attributes of shapes that are numbers.
_NUMBERS = {
    'box': ('xtl', 'ytl', 'xbr', 'ybr'),
    'ellipse': ('cx', 'cy', 'rx', 'ry'),
    'mask': ('left', 'top', 'width', 'height'),
}


def _recognizes(document: Document) -> bool:
    root = document.content
    return isinstance(root, ElementTree.Element) and root.tag == 'annotations' and root.find('meta') is not None


def _parse(document: Document, annotations: AnnotationSet) -> None:
    """Reads a file.

    Whole coordinates are corners of pixels. What has a higher z_order covers what has a lower one; among equals, what
    stands later covers what stands earlier. `occluded` does not change the area. Rotations are clockwise, in degrees,
    about the center. Shapes of one label with the same group_id are one instance; 0 stands for no group.

    Source: docs.cvat.ai, "XML annotation format"; cvat-ai/cvat issue 6686 for the order in exported masks; polygons
      differ from pycocotools, with which CVAT exports masks, by single pixels at the edge; group_id is written by
      cvat/apps/dataset_manager/formats/cvat.py.
    """
    root = document.content
    if root.find('image') is None and root.find('track') is not None:
        raise DataError("it is 'CVAT for video 1.1', which has tracks instead of images; export 'CVAT for images 1.1'")
    for element in root.iter('image'):
        name = element.get('name') or ''
        with reading.within(f"image '{name}'"):
            annotations.images.append(_image(element, document, annotations))
    annotations.add_labels(
        Label(name.strip(), reading.color(label.findtext('color')))
        for label in root.iterfind('meta//labels/label')
        if (name := label.findtext('name')) and not label.findtext('parent')
        if label.findtext('type') not in _WITHOUT_AREA
    )


def _image(element: ElementTree.Element, document: Document, annotations: AnnotationSet) -> AnnotatedImage:
    shapes = []
    for number, child in enumerate(element, start=1):
        if child.tag in _WITHOUT_AREA:
            annotations.left_out[f'{child.tag} without an area'] += 1
            continue
        with reading.within(f'{child.tag} {number}'):
            if (geometry := _geometry(child)) is None:
                annotations.left_out[f'{child.tag} without an area'] += 1
            else:
                order = reading.number(child.get('z_order') or 0)
                group = reading.group(child.get('group_id'), none='0')
                shapes.append(Shape(reading.text(child.get('label')), geometry, order, group))
    name, subset = reading.text(element.get('name')), element.get('subset')
    folders = [os.path.join(document.folder, 'images'), document.folder]
    if subset:
        folders.insert(0, os.path.join(document.folder, 'images', subset))
    return AnnotatedImage(
        document.path,
        f"image '{name}'",
        (name,),
        tuple(folders),
        reading.size(element.get('height'), element.get('width')),
        tuple(shapes),
        split=subset,
    )


def _geometry(element: ElementTree.Element) -> Geometry | None:
    values = {key: reading.number(element.get(key)) for key in _NUMBERS.get(element.tag, ())}
    rotation = reading.number(element.get('rotation') or 0)
    if element.tag == 'box':
        left, top, right, bottom = values.values()
        return rasterizer.box(left, top, right - left, bottom - top, rotation, about_center=True)
    if element.tag == 'ellipse':
        if min(values['rx'], values['ry']) <= 0:
            return None
        x, y, radius_x, radius_y = values.values()
        return Ellipse(x, y, radius_x, radius_y, rotation)
    if element.tag == 'polygon':
        pairs = [pair.split(',') for pair in reading.text(element.get('points')).split(';')]
        ring = reading.points([[float(part) for part in pair] for pair in pairs])
        return Polygon((ring,)) if reading.has_area(ring) else None
    if element.tag == 'mask':
        left, top, width, height = (reading.whole(value) for value in values.values())
        counts = reading.text(element.get('rle'))
        return Bitmap(lambda: run_lengths.alternating(list(map(int, counts.split(','))), height, width), left, top)
    raise DataError(f"'{element.tag}' is not an annotation that is known here")


FORMAT = Format('CVAT for images 1.1', 'XML files of <annotations> with <meta> and <image>', _recognizes, _parse)
