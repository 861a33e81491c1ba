"""CVAT for images 1.1: one XML file for all images."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from deeplab.datasets.annotations import rasterizer, reading, run_lengths, writing
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
from deeplab.datasets.annotations.writing import PredictedImage, Writer
from deeplab.errors import DataError

_WITHOUT_AREA = ('polyline', 'points', 'cuboid', 'skeleton', 'tag')
# The attribute that predicted shapes have.
_CONFIDENCE = {'name': 'confidence', 'mutable': 'False', 'input_type': 'number', 'values': '0;1;0.0001'}
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


def _written(image: PredictedImage) -> str:
    """Returns the element of an image as text, without an id."""
    height, width = image.size
    element = ElementTree.Element('image', name=image.path, width=str(width), height=str(height))
    for group, shape in enumerate(image.shapes, start=1):
        common = {'label': shape.label, 'source': 'auto', 'occluded': '0', 'z_order': '0'}
        common |= {'group_id': str(group)} if shape.is_instance and len(shape.parts) > 1 else {}
        if shape.has_holes or not image.is_simplified:
            left, top, columns, rows = writing.box_of(shape)
            counts = ', '.join(map(str, run_lengths.counts_of(shape.covered)))
            place = {'left': str(left), 'top': str(top), 'width': str(columns), 'height': str(rows)}
            children = [ElementTree.SubElement(element, 'mask', common | {'rle': counts} | place)]
        else:
            rings = [';'.join(f'{x:.2f},{y:.2f}' for x, y in part.ring) for part in shape.parts]
            children = [ElementTree.SubElement(element, 'polygon', common | {'points': ring}) for ring in rings]
        for child in children if shape.confidence is not None else ():
            ElementTree.SubElement(child, 'attribute', name='confidence').text = str(shape.confidence)
    return ElementTree.tostring(element, 'unicode')


def _joined(values: Sequence[Any], labels: Sequence[Label]) -> str:
    root = ElementTree.Element('annotations')
    ElementTree.SubElement(root, 'version').text = '1.1'
    listed = ElementTree.SubElement(ElementTree.SubElement(ElementTree.SubElement(root, 'meta'), 'task'), 'labels')
    for label in labels:
        entry = ElementTree.SubElement(listed, 'label')
        ElementTree.SubElement(entry, 'name').text = label.name
        ElementTree.SubElement(entry, 'color').text = '#{:02x}{:02x}{:02x}'.format(*(label.color or (0, 0, 0)))
        attribute = ElementTree.SubElement(ElementTree.SubElement(entry, 'attributes'), 'attribute')
        for tag, text in _CONFIDENCE.items():
            ElementTree.SubElement(attribute, tag).text = text
    for number, value in enumerate(values):
        image = ElementTree.fromstring(value)
        image.set('id', str(number))
        root.append(image)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, 'unicode')


WRITER = Writer('cvat', _written, document=_joined, document_name='cvat.xml')
FORMAT = Format('CVAT for images 1.1', 'XML files of <annotations> with <meta> and <image>', _recognizes, _parse)
