"""Painted masks with a table of their classes: CVAT's segmentation masks 1.1, and Roboflow's semantic masks."""

from __future__ import annotations

import csv
import os
import pathlib

from deeplab.datasets import folder_splits, folders
from deeplab.datasets.annotations import reading
from deeplab.datasets.annotations.reading import Document, Format
from deeplab.datasets.annotations.shapes import AnnotatedImage, AnnotationSet, Label, PaintedMask
from deeplab.errors import DataError
from deeplab.files import documents

_CVAT_TABLE, _ROBOFLOW_TABLE = 'labelmap.txt', '_classes.csv'
TABLES = (_CVAT_TABLE, _ROBOFLOW_TABLE)  # text files by which the formats are recognized
_BACKGROUND = 'background'  # name of pixels without a label
# Folders of CVAT: masks with a color for each class, and masks with a color for each object.
_MASKS, _OBJECTS = 'SegmentationClass', 'SegmentationObject'
_MASK_END = '_mask.png'  # of Roboflow
_VALUE = 'pixel value'  # title of Roboflow's first column; the table of a classification has another one


def _recognizes_cvat(document: Document) -> bool:
    return document.name == _CVAT_TABLE and os.path.isdir(os.path.join(document.folder, _MASKS))


def _parse_cvat(document: Document, annotations: AnnotationSet) -> None:
    """Reads a data set.

    A line of labelmap.txt is `label:red,green,blue:parts:actions`. In masks with one channel, a value is the number of
    the line, from 0 on. Each object has a color of its own in the mask of the same name in SegmentationObject. The
    lists ImageSets/Segmentation/SPLIT.txt name the images of each split.

    Source: docs.cvat.ai, "Segmentation Mask".
    """
    labels = []
    for number, line in enumerate(documents.entries_of(document.content), start=1):
        with reading.within(f'line {number}'):
            name, color = line.split(':')[:2]
            labels.append(Label(reading.text(name), _color(color)))
    if not labels:
        raise DataError('it has no line LABEL:RED,GREEN,BLUE::')
    annotations.add_labels(labels)
    indices = {number: _label(label.name) for number, label in enumerate(labels)}
    colors = {reading.code_of(label.color): _label(label.name) for label in labels if label.color is not None}
    splits = _splits(pathlib.Path(document.folder, 'ImageSets', 'Segmentation'))
    masks, images = pathlib.Path(document.folder, _MASKS), os.path.join(document.folder, 'JPEGImages')
    for path in folders.of_extension(masks.rglob('*'), 'png'):
        stem = path.relative_to(masks).with_suffix('').as_posix()
        objects = pathlib.Path(document.folder, _OBJECTS, path.relative_to(masks))
        mask = PaintedMask(str(path), colors, indices, objects=str(objects) if objects.is_file() else None)
        image = AnnotatedImage(str(path), '', (stem,), (images,), painted=mask, split=splits.get(stem))
        annotations.images.append(image)
    annotations.not_images += [str(path) for path in pathlib.Path(document.folder, _OBJECTS).rglob('*.png')]


def _label(name: str) -> str | None:
    return None if name == _BACKGROUND else name


def _color(value: str) -> tuple[int, int, int]:
    """Returns the color of 'red,green,blue'."""
    color = reading.color([int(part) for part in value.split(',')])
    if color is None:
        raise DataError(f"'{value}' is not a color of three numbers from 0 to 255")
    return color


def _splits(folder: pathlib.Path) -> dict[str, str]:
    # The list of a usual split decides on images that are in several lists.
    lists = sorted(folder.glob('*.txt'), key=lambda path: (bool(folder_splits.usual_split(path.stem)), path.name))
    return {
        name: path.stem
        for path in lists
        if path.stat().st_size
        for name in documents.entries_of(reading.load(str(path)).content)
    }


def _recognizes_roboflow(document: Document) -> bool:
    return document.name == _ROBOFLOW_TABLE and document.content.lower().lstrip('\ufeff "').startswith(_VALUE)


def _parse_roboflow(document: Document, annotations: AnnotationSet) -> None:
    """Reads the folder of a split.

    A line of _classes.csv is `value, class`. The mask of IMAGE.jpg is IMAGE_mask.png, of one channel.

    Source: roboflow.com/formats, "Semantic Segmentation Masks".
    """
    labels = []
    indices: dict[int, str | None] = {}
    rows = csv.reader(documents.entries_of(document.content)[1:], skipinitialspace=True)
    for number, row in enumerate(rows, start=1):
        with reading.within(f'class {number}'):
            value = reading.mask_value(row[0], indices)
            name = reading.text(row[1])
            indices[value] = _label(name)
            labels.append(Label(name))
    annotations.add_labels(labels)
    split = os.path.basename(os.path.abspath(document.folder))
    for path in sorted(pathlib.Path(document.folder).glob(f'*{_MASK_END}')):
        name = path.name.removesuffix(_MASK_END)
        mask = PaintedMask(str(path), indices=indices)
        annotations.images.append(AnnotatedImage(str(path), '', (name,), (document.folder,), painted=mask, split=split))


CVAT = Format('CVAT segmentation mask 1.1', f'{_CVAT_TABLE} beside the folder {_MASKS}', _recognizes_cvat, _parse_cvat)
ROBOFLOW = Format(
    'Roboflow semantic segmentation masks',
    f'{_ROBOFLOW_TABLE} with "Pixel Value" beside masks *{_MASK_END}',
    _recognizes_roboflow,
    _parse_roboflow,
)
