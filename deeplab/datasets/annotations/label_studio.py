"""Label Studio: one JSON file of all tasks."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import re
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

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
from deeplab.datasets.annotations.writing import PredictedImage, Writer
from deeplab.errors import DataError
from deeplab.options import IMAGE_FORMATS

_AREAS = ('brush', 'bitmask', 'polygon', 'rectangle', 'ellipse')
_DATA_URL = 'data:image/png;base64,'
_NOT_SHAPES = ('labels', 'choices', 'textarea', 'relation', 'rating', 'taxonomy', 'number')
_UPLOAD = re.compile(r'^[0-9a-f]{8}-(?=.)')  # what Label Studio puts before the name of an uploaded file


def _recognizes(document: Document) -> bool:
    tasks = _tasks(document)
    return (
        bool(tasks)
        and all(isinstance(task, Mapping) for task in tasks)
        and all(isinstance(task.get('data'), Mapping) and _annotations(task) is not None for task in tasks)
    )


def _tasks(document: Document) -> list[Any]:
    """Returns the list of tasks in a file, also if it holds a single task."""
    content = document.content
    return content if isinstance(content, list) else [content] if isinstance(content, Mapping) else []


def _annotations(task: Mapping[str, Any]) -> list[Any] | None:
    """Returns the annotations of a task, which older versions call completions; None if it has no such list."""
    annotations = task.get('annotations', task.get('completions'))
    return annotations if isinstance(annotations, list) else None


def _parse(document: Document, annotations: AnnotationSet) -> None:
    """Reads a file.

    Coordinates are percentages of original_width and original_height. Later results cover earlier ones. Of several
    annotations of a task, the one that is marked as ground truth counts, or else the newest; canceled ones do not.
    A region is an instance; a region that was put beneath another one of its label is a part of it (`parentID`).
    Relations have no meaning for instances.

    Source: labelstud.io, "Label Studio JSON format of annotated tasks", and the tags BrushLabels, PolygonLabels,
      RectangleLabels, EllipseLabels and BitmaskLabels; HumanSignal/label-studio issue 3674 for parentID.
    """
    for number, task in enumerate(_tasks(document), start=1):
        with reading.within(f'task {task.get("id", number)}'):
            valid = [entry for entry in _annotations(task) or [] if not entry.get('was_cancelled')]
            if not valid:
                annotations.left_out['task without an annotation'] += 1
                continue
            if len(valid) > 1:
                annotations.left_out['additional annotation of a task'] += len(valid) - 1
            annotations.images.append(_image(task, max(valid, key=_rank), document, annotations))


def _rank(annotation: Mapping[str, Any]) -> tuple[bool, str]:
    """Returns the sort key of a task's annotations, of which the last is used."""
    date = annotation.get('updated_at') or annotation.get('created_at') or ''
    return bool(annotation.get('ground_truth')), str(date)


def _image(
    task: Mapping[str, Any], annotation: Mapping[str, Any], document: Document, annotations: AnnotationSet
) -> AnnotatedImage:
    results = annotation['result']
    sizes = {
        reading.size(result.get('original_height'), result.get('original_width'))
        for result in results
        if result.get('original_width')
    }
    if len(sizes) > 1:
        raise DataError(f'its results state different sizes of the image: {sorted(map(str, sizes))}')
    labels = {result.get('id'): result for result in results if result.get('type') == 'labels'}
    size, shapes = next(iter(sizes), None), []
    regions: dict[str, tuple[str, str]] = {}
    for number, result in enumerate(results, start=1):
        kind = str(result.get('type', '')).removesuffix('labels')
        if result.get('type') in _NOT_SHAPES:
            continue
        if kind not in _AREAS:
            annotations.left_out[f'{result.get("type")} without an area'] += 1
            continue
        with reading.within(f'result {number}'):
            if (label := _label(result, labels.get(result.get('id')))) is None:
                annotations.left_out[f'{kind} without a label'] += 1
            elif (geometry := _geometry(kind, result, size)) is None:
                annotations.left_out[f'{kind} without an area'] += 1
            else:
                region = reading.group(result.get('id')) or f'result {number}'
                regions[region] = label, reading.group(result.get('parentID')) or ''
                shapes.append(Shape(label, geometry, group=region))
    names = tuple(dict.fromkeys(_names(task)))
    if not names:
        raise DataError("its 'data' does not name an image")
    joined = tuple(dataclasses.replace(shape, group=_uppermost(str(shape.group), regions)) for shape in shapes)
    stored = next(filter(_UPLOAD.match, (name.rpartition('/')[2] for name in names)), None)
    uploaded = stored and _UPLOAD.sub('', stored)
    place = f"image '{names[0]}'"
    return AnnotatedImage(document.path, place, names, (document.folder,), size, joined, uploaded=uploaded)


def _uppermost(region: str, regions: Mapping[str, tuple[str, str]]) -> str:
    """Returns the uppermost region above a region that is reached by regions of its label alone.

    `regions` has label and parent of each region; '' stands for no parent.
    """
    passed = {region}
    label, parent = regions[region]
    while parent in regions and parent not in passed and regions[parent][0] == label:
        region, parent = parent, regions[parent][1]
        passed.add(region)
    return region


def _label(result: Mapping[str, Any], further: Mapping[str, Any] | None) -> str | None:
    """Returns the label of a result, which may be in another result of the same id; None for none."""
    for entry in (result, further):
        if entry is None:
            continue
        for key, value in entry['value'].items():
            if key.endswith('labels') and isinstance(value, list) and value:
                return reading.text(value[0])
    return None


def _geometry(kind: str, result: Mapping[str, Any], size: tuple[int, int] | None) -> Geometry | None:
    if size is None:
        raise DataError('original_width and original_height are missing')
    if result.get('image_rotation'):
        raise DataError(
            f'the image was rotated by {result["image_rotation"]} degrees in Label Studio. Rotate the file instead'
        )
    height, width = size
    value = result['value']
    if kind == 'brush':
        if not isinstance(value['rle'], list):
            raise DataError("its 'rle' is not a list of numbers")
        encoded = bytes(value['rle'])  # a list of numbers takes eight times the memory
        return Bitmap(lambda: run_lengths.of_label_studio(encoded, height, width))
    if kind == 'bitmask':
        addresses = [text for text in value.values() if isinstance(text, str) and text.startswith(_DATA_URL)]
        if not addresses:
            raise DataError(f'its bitmask is not stored as {_DATA_URL}...')
        address = addresses[0]
        return Bitmap(lambda: _bitmask(address, size))
    if kind == 'polygon':
        ring = reading.points(value['points']) * (width / 100, height / 100)
        return Polygon((ring,)) if reading.has_area(ring) else None
    x, y = reading.number(value['x']) * width / 100, reading.number(value['y']) * height / 100
    rotation = reading.number(value.get('rotation') or 0)
    if kind == 'rectangle':
        across, down = reading.number(value['width']) * width / 100, reading.number(value['height']) * height / 100
        return rasterizer.box(x, y, across, down, rotation)
    radii = reading.number(value['radiusX']) * width / 100, reading.number(value['radiusY']) * height / 100
    return Ellipse(x, y, *radii, rotation=rotation) if min(radii) > 0 else None


def _bitmask(address: str, size: tuple[int, int]) -> np.ndarray:
    """Returns the pixels of a PNG of the image's size in a data address: [h, w] bool."""
    covered = reading.covered_in_png(base64.b64decode(address.removeprefix(_DATA_URL), validate=True))
    if covered.shape != size:
        raise DataError(
            f'its bitmask is {covered.shape[0]} x {covered.shape[1]}, but its size is {size[0]} x {size[1]}'
        )
    return covered


def _names(task: Mapping[str, Any]) -> Iterator[str]:
    """Yields possible names of a task's image: paths, and names without what Label Studio adds to them."""
    texts = [value for value in task['data'].values() if isinstance(value, str) and value]
    for text in sorted(texts, key=lambda text: not _is_image(text)):
        path = _path(text)
        yield path
        name = path.replace('\\', '/').rpartition('/')[2]
        yield _UPLOAD.sub('', name)
        if _is_image(text):
            break
    if isinstance(task.get('file_upload'), str) and task['file_upload']:
        yield task['file_upload']
        yield _UPLOAD.sub('', task['file_upload'])


def _path(text: str) -> str:
    """Returns the path in an address: of a file, of /data/local-files/?d=PATH, or of an address in the network."""
    parts = urllib.parse.urlsplit(text)
    local = urllib.parse.parse_qs(parts.query).get('d')
    if local:
        return local[0]
    if parts.scheme in ('http', 'https', 's3', 'gs', 'azure-blob', 'file') or parts.path.startswith('/data/'):
        return urllib.parse.unquote(parts.path).lstrip('/')
    return text


def _is_image(text: str) -> bool:
    """Returns whether a text ends as the path of an image does."""
    return os.path.splitext(_path(text))[1][1:].lower() in IMAGE_FORMATS


def _written(image: PredictedImage) -> dict[str, Any]:
    """Returns a task with one annotation."""
    height, width = image.size
    results = []
    for shape in image.shapes:
        common: dict[str, Any] = {'original_width': width, 'original_height': height, 'image_rotation': 0}
        common |= {'to_name': 'image'} | ({} if shape.confidence is None else {'score': shape.confidence})
        if shape.has_holes or len(shape.parts) > 1:
            content = run_lengths.label_studio_content(shape.in_image(image.size))
            value: dict[str, Any] = {'format': 'rle', 'rle': content, 'brushlabels': [shape.label]}
            results.append(common | {'from_name': 'brush', 'type': 'brushlabels', 'value': value})
        else:
            points = shape.parts[0].ring * np.array([100 / width, 100 / height])
            value = {'points': points.tolist(), 'closed': True, 'polygonlabels': [shape.label]}
            results.append(common | {'from_name': 'polygon', 'type': 'polygonlabels', 'value': value})
    results = [{'id': f'{number:010d}', **result} for number, result in enumerate(results)]
    return {'data': {'image': image.path}, 'annotations': [{'result': results}]}


def _joined(values: Sequence[Any], labels: Sequence[Label]) -> str:
    return json.dumps(list(values))


WRITER = Writer('label_studio', _written, document=_joined, document_name='label_studio.json')
FORMAT = Format('Label Studio JSON', 'a JSON list of tasks with "data" and "annotations"', _recognizes, _parse)
