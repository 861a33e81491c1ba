"""COCO instances: one JSON file for all images, or one for each split, as Roboflow and CVAT export them."""

from __future__ import annotations

import collections
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deeplab.datasets.annotations import rasterizer, reading, run_lengths, writing
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

_BENEATH = -1  # order of crowd regions
_SPLIT = re.compile(r'(?:^|[_-])(train|valid|val|validation|test)(\d{4})?$', re.IGNORECASE)
_NO_PARENT = 'none'  # what Roboflow writes as the supercategory of its placeholder


def _recognizes(document: Document) -> bool:
    return document.has(images=list, categories=list) and isinstance(document.content.get('annotations', []), list)


def _parse(document: Document, annotations: AnnotationSet) -> None:
    """Reads a file.

    Polygons are drawn by pycocotools. Annotations cover each other in the order of the list. Crowd regions lie
    beneath all others, because their outlines are less exact. CVAT marks every mask as a crowd: its masks are as
    exact as its polygons, and keep their place. An annotation is an instance, unless it is a crowd.

    Source: cocodataset.org, "Data format"; cocoSegmentationToSegmentationMap in the COCO toolbox for stuff
      (cocostuffapi), which draws annotations as they are listed; for the masks of CVAT the exporter of COCO
      in its package datumaro, where is_crowd means a mask.
    """
    content = document.content
    with reading.within('categories'):
        names = {entry['id']: reading.text(entry['name']) for entry in reading.objects(content['categories'])}
        categories = {key: names[key] for key in sorted(names)}
    sizes, shapes = {}, collections.defaultdict(list)
    for number, image in enumerate(content['images'], start=1):
        with reading.within(f'image {number}'):
            if image['id'] in sizes:
                raise DataError(f'an earlier image has the same id {image["id"]}')
            sizes[image['id']] = reading.size(image.get('height'), image.get('width'))
    for number, annotation in enumerate(content.get('annotations', []), start=1):
        with reading.within(f'annotation {number}'):
            if (image_id := annotation['image_id']) not in sizes:
                raise DataError(f'unknown image_id {image_id}')
            if (category := annotation['category_id']) not in categories:
                raise DataError(f'unknown category_id {category}')
            geometry = geometry_of(annotation.get('segmentation'), sizes[image_id])
            if geometry is None:
                annotations.left_out['box or keypoints without an outline'] += 1
                continue
            # CVAT marks all masks as crowds; it also writes the attribute occluded.
            is_crowd = bool(annotation.get('iscrowd')) and 'occluded' not in (annotation.get('attributes') or ())
            order = _BENEATH if is_crowd else 0
            shapes[image_id].append(Shape(categories[category], geometry, order, is_crowd=is_crowd))
    if content.get('annotations') and not shapes:
        raise DataError('its annotations are boxes or keypoints without an outline; export them with segmentation')
    annotations.images += [
        _image(image, document, sizes[image['id']], shapes[image['id']]) for image in content['images']
    ]
    annotations.add_labels(_labels(content, categories, shapes))


def _labels(
    content: Mapping[str, Any], categories: Mapping[Any, str], shapes: Mapping[Any, Sequence[Shape]]
) -> list[Label]:
    """Returns the categories by id, without the placeholder that Roboflow puts first: it groups the others."""
    parents = {entry['id']: entry.get('supercategory') for entry in content['categories']}
    groups = set(map(str, parents.values()))
    used = {shape.label for listed in shapes.values() for shape in listed}
    colors = {entry['id']: reading.color(entry.get('color')) for entry in content['categories']}
    return [
        Label(name, colors[key])
        for key, name in categories.items()
        if name in used or parents[key] != _NO_PARENT or name not in groups
    ]


def geometry_of(segmentation: Any, image_size: tuple[int, int] | None) -> Geometry | None:
    """Returns the area of an annotation; None if it has none.

    Args:
      segmentation: a list of polygons, or an object with run lengths and their size.
      image_size: height and width of the image; None if they are not stated.

    Raises:
      DataError: The coordinates are not numbers, or the run lengths are for an image of another size.
      KeyError, TypeError, ValueError: It has another form (`reading.within`).
      OptionError: It has polygons, and pycocotools is not installed.
    """
    if not segmentation:
        return None
    if isinstance(segmentation, Mapping):
        return _bitmap(segmentation, image_size)
    rings = tuple(ring for part in segmentation if reading.has_area(ring := reading.points(part)))
    if not rings:
        return None
    rasterizer.require_pycocotools()  # now, and not after a part of the masks has been drawn
    return Polygon(rings, filling=Filling.COCO)


def _bitmap(region: Mapping[str, Any], image_size: tuple[int, int] | None) -> Bitmap:
    """Returns the pixels of run lengths down the columns, a list or in COCO's compressed form."""
    height, width = (reading.whole(part) for part in region['size'])
    if image_size is not None and (height, width) != image_size:
        raise DataError(
            f'its run lengths (RLE) are for {height} x {width} pixels (height x width), but its image has '
            f'{image_size[0]} x {image_size[1]}'
        )
    counts = region['counts']

    def decode() -> np.ndarray:
        numbers = run_lengths.of_coco_text(counts) if isinstance(counts, (str, bytes)) else counts
        return run_lengths.alternating(numbers, height, width, by_columns=True)

    return Bitmap(decode)


def _image(
    image: Mapping[str, Any], document: Document, size: tuple[int, int] | None, shapes: Sequence[Shape]
) -> AnnotatedImage:
    """Returns an image, with the folders where exports have it.

    Roboflow puts the file _annotations.coco.json into the folder of each split, beside its images. Others, such as
    CVAT, have annotations/instances_SPLIT.json beside images/ or images/SPLIT/.
    """
    parent = os.path.dirname(document.folder)
    stem = os.path.splitext(document.name)[0]
    match = _SPLIT.search(stem)
    subset = stem.partition('_')[2]
    folders = [document.folder, os.path.join(document.folder, 'images')]
    folders += [os.path.join(parent, 'images', subset)] if subset else []
    folders += [os.path.join(parent, name) for name in ('images', subset) if name]
    with reading.within('images'):
        name = reading.text(image['file_name'])
    split = match[1] if match else os.path.basename(document.folder)
    return AnnotatedImage(document.path, f"image '{name}'", (name,), tuple(folders), size, tuple(shapes), split=split)


def _written(image: PredictedImage) -> dict[str, Any]:
    """Returns an entry of `images`, and its annotations without ids."""
    height, width = image.size
    annotations: list[dict[str, Any]] = []
    for shape in image.shapes:
        segmentation: Any = [part.ring.astype(float).ravel().tolist() for part in shape.parts]
        if shape.has_holes or not image.is_simplified:
            counts = run_lengths.counts_of(shape.in_image(image.size), by_columns=True)
            segmentation = {'size': [height, width], 'counts': run_lengths.coco_text(counts)}
        entry = {'category': shape.label, 'segmentation': segmentation, 'area': shape.area, 'iscrowd': 0}
        entry |= {'bbox': list(writing.box_of(shape))}
        annotations.append(entry if shape.confidence is None else entry | {'score': shape.confidence})
    return {'image': {'file_name': image.path, 'height': height, 'width': width}, 'annotations': annotations}


def _joined(values: Sequence[Any], labels: Sequence[Label]) -> str:
    categories = {label.name: number for number, label in enumerate(labels, start=1)}
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for image_id, value in enumerate(values, start=1):
        images.append({'id': image_id, **value['image']})
        for entry in value['annotations']:
            rest = {key: each for key, each in entry.items() if key != 'category'}
            ids = {'id': len(annotations) + 1, 'image_id': image_id, 'category_id': categories[entry['category']]}
            annotations.append(ids | rest)
    listed = [{'id': number, 'name': name, 'supercategory': ''} for name, number in categories.items()]
    return json.dumps({'images': images, 'annotations': annotations, 'categories': listed})


WRITER = Writer('coco', _written, document=_joined, document_name='coco.json')
FORMAT = Format('COCO JSON', 'JSON files with "images", "annotations" and "categories"', _recognizes, _parse)
