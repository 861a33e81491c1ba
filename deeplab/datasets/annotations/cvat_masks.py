"""CVAT's segmentation masks 1.1: painted masks, and a table of their colors."""

from __future__ import annotations

import os
import pathlib

from deeplab.datasets import folder_splits
from deeplab.datasets.annotations import reading
from deeplab.datasets.annotations.reading import Document, Format
from deeplab.datasets.annotations.shapes import AnnotatedImage, AnnotationSet, Label, PaintedMask
from deeplab.errors import DataError
from deeplab.files import documents

NAME = 'CVAT segmentation mask 1.1'
TABLE = 'labelmap.txt'
_MASKS = 'SegmentationClass'
_OBJECTS = 'SegmentationObject'  # masks with a color for each object
_BACKGROUND = 'background'


def _recognizes(document: Document) -> bool:
    return document.name == TABLE and os.path.isdir(os.path.join(document.folder, _MASKS))


def _parse(document: Document) -> AnnotationSet:
    """Reads a data set.

    A line of labelmap.txt is `label:red,green,blue:parts:actions`. In masks with one channel, a value is the number of
    the line, from 0 on. The lists ImageSets/Segmentation/SPLIT.txt name the images of each split.

    Source: docs.cvat.ai, "Segmentation Mask".
    """
    annotations = AnnotationSet(NAME)
    for number, line in enumerate(documents.entries_of(document.content), start=1):
        with reading.within(f'line {number}'):
            name, color = line.split(':')[:2]
            annotations.labels.append(Label(reading.text(name), _color(color)))
    if not annotations.labels:
        raise DataError('it has no line LABEL:RED,GREEN,BLUE::')
    indices = {number: _label(label) for number, label in enumerate(annotations.labels)}
    colors = {reading.code_of(label.color): _label(label) for label in annotations.labels if label.color is not None}
    splits = _splits(pathlib.Path(document.folder, 'ImageSets', 'Segmentation'))
    masks = pathlib.Path(document.folder, _MASKS)
    for path in sorted(masks.rglob('*.png')):
        stem = path.relative_to(masks).with_suffix('').as_posix()
        annotations.images.append(
            AnnotatedImage(
                str(path),
                '',
                (stem,),
                (os.path.join(document.folder, 'JPEGImages'),),
                painted=PaintedMask(str(path), colors, indices),
                split=splits.get(stem),
            )
        )
    annotations.not_images = [str(path) for path in pathlib.Path(document.folder, _OBJECTS).rglob('*.png')]
    return annotations


def _label(label: Label) -> str | None:
    """Returns the name of a label; None for background, the color of pixels without a label."""
    return None if label.name == _BACKGROUND else label.name


def _color(value: str) -> tuple[int, int, int]:
    """Returns the color of 'red,green,blue'."""
    color = reading.color([int(part) for part in value.split(',')])
    if color is None:
        raise DataError(f"'{value}' is not a color of three numbers from 0 to 255")
    return color


def _splits(folder: pathlib.Path) -> dict[str, str]:
    """Returns the split of each image that is in a list."""
    # The list of a usual split decides on images that are in several lists.
    lists = sorted(folder.glob('*.txt'), key=lambda path: (bool(folder_splits.usual_split(path.stem)), path.name))
    return {
        name: path.stem
        for path in lists
        if path.stat().st_size
        for name in documents.entries_of(reading.load(str(path)).content)
    }


FORMAT = Format(NAME, f'{TABLE} beside the folder {_MASKS}', _recognizes, _parse)
