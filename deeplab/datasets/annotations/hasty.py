"""Hasty: one JSON file for all images, and masks of one channel with label_classes.json."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from typing import Any

from deeplab.datasets import folders
from deeplab.datasets.annotations import reading, run_lengths
from deeplab.datasets.annotations.reading import Document, Format
from deeplab.datasets.annotations.shapes import (
    AnnotatedImage,
    AnnotationSet,
    Bitmap,
    Geometry,
    Label,
    PaintedMask,
    Polygon,
    Shape,
)

_CLASSES = 'label_classes.json'  # beside the masks
_NOT_LABELED = ('NEW', 'SKIPPED')  # values of image_status


def _parse_masks(document: Document, annotations: AnnotationSet) -> None:
    """Reads a data set: PNG files in a folder for each of Hasty's data sets, whose value 0 is not labeled.

    The folders hold no images; these are found by their names.

    Source: docs.cloudfactory.com, "Semantic Segmentation (png images)".
    """
    labels: list[Label] = []
    indices: dict[int, str | None] = {}
    for number, entry in enumerate(document.content, start=1):
        with reading.within(f'class {number}'):
            labels.append(_label(entry))
            indices[reading.mask_value(entry['png_index'], indices)] = labels[-1].name
    annotations.add_labels(labels)
    indices.setdefault(0, None)
    root = pathlib.Path(document.folder)
    for path in folders.of_extension(root.rglob('*'), 'png'):
        relative = path.relative_to(root).with_suffix('')
        mask = PaintedMask(str(path), indices=indices)
        names = (relative.as_posix(), path.stem)
        split = relative.parts[0] if len(relative.parts) > 1 else None
        annotations.images.append(AnnotatedImage(str(path), '', names, painted=mask, split=split))


def _parse_json(document: Document, annotations: AnnotationSet) -> None:
    """Reads a file of version 1.0 or 1.1.

    Whole coordinates are corners of pixels, as in Hasty's COCO files. Labels of a higher z_index cover labels of a
    lower one. Images that nobody has labeled are left out.

    Source: docs.cloudfactory.com, "Hasty JSON v1.1"; the run lengths of its package hasty (label_utils.py).
    """
    with reading.within('label_classes'):
        annotations.add_labels(list(map(_label, reading.objects(document.content['label_classes']))))
    for number, image in enumerate(document.content['images'], start=1):
        with reading.within(f'image {number}'):
            status = image.get('image_status')
            if not image.get('labels') and status in _NOT_LABELED:
                annotations.left_out[f'image of the status {status}'] += 1
            else:
                annotations.images.append(_image(image, document, annotations))


def _image(image: Mapping[str, Any], document: Document, annotations: AnnotationSet) -> AnnotatedImage:
    shapes = []
    for number, label in enumerate(reading.objects(image.get('labels') or []), start=1):
        with reading.within(f'label {number}'):
            if (geometry := _geometry(label)) is None:
                annotations.left_out['box without an outline'] += 1
            else:
                order = reading.number(label.get('z_index') or 0)
                shapes.append(Shape(reading.text(label['class_name']), geometry, order))
    name, split = reading.text(image['image_name']), image.get('dataset_name')
    if not isinstance(split, str) or not split:
        split = None
    return AnnotatedImage(
        document.path,
        f"image '{name}'",
        (name,) if split is None else (f'{split}/{name}', name),
        (os.path.join(document.folder, 'images'), document.folder),
        reading.size(image.get('height'), image.get('width')),
        tuple(shapes),
        split=split,
    )


def _geometry(label: Mapping[str, Any]) -> Geometry | None:
    if label.get('mask'):
        left, top, right, bottom = (reading.whole(value) for value in label['bbox'])
        runs = label['mask']
        return Bitmap(lambda: run_lengths.of_starts(runs, bottom - top, right - left), left, top)
    if label.get('polygon'):
        ring = reading.points(label['polygon'])
        return Polygon((ring,)) if reading.has_area(ring) else None
    return None


def _label(entry: Mapping[str, Any]) -> Label:
    """Returns a class, which both formats describe in the same way."""
    return Label(reading.text(entry['class_name']), reading.color(entry.get('color')))


JSON = Format(
    'Hasty JSON',
    'a JSON file with "label_classes" and "images"',
    lambda document: document.has(label_classes=list, images=list),
    _parse_json,
)
MASKS = Format(
    'Hasty semantic segmentation',
    f'{_CLASSES} with "png_index" beside folders of masks',
    lambda document: document.name == _CLASSES and document.lists_objects('png_index', 'class_name'),
    _parse_masks,
)
