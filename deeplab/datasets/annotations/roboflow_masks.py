"""Roboflow's semantic segmentation masks: masks beside the images of each split, and a table of their values."""

from __future__ import annotations

import csv
import os
import pathlib

from deeplab.datasets.annotations import reading
from deeplab.datasets.annotations.reading import Document, Format
from deeplab.datasets.annotations.shapes import AnnotatedImage, AnnotationSet, Label, PaintedMask
from deeplab.files import documents

NAME = 'Roboflow semantic segmentation masks'
TABLE = '_classes.csv'
_MASK_END = '_mask.png'
_VALUE = 'pixel value'  # title of the first column; the table of a classification has another one
_BACKGROUND = 'background'


def _recognizes(document: Document) -> bool:
    return document.name == TABLE and document.content.lower().lstrip('\ufeff "').startswith(_VALUE)


def _parse(document: Document) -> AnnotationSet:
    """Reads the folder of a split.

    A line of _classes.csv is `value, class`. The mask of IMAGE.jpg is IMAGE_mask.png, of one channel.

    Source: roboflow.com/formats, "Semantic Segmentation Masks".
    """
    annotations = AnnotationSet(NAME)
    indices: dict[int, str | None] = {}
    rows = csv.reader(documents.entries_of(document.content)[1:], skipinitialspace=True)
    for number, row in enumerate(rows, start=1):
        with reading.within(f'class {number}'):
            value = reading.mask_value(row[0], indices)
            name = reading.text(row[1])
            indices[value] = None if name == _BACKGROUND else name
            annotations.labels.append(Label(name))
    folder = pathlib.Path(document.folder)
    for path in sorted(folder.glob(f'*{_MASK_END}')):
        name = path.name.removesuffix(_MASK_END)
        mask = PaintedMask(str(path), indices=indices)
        split = os.path.basename(os.path.abspath(document.folder))
        annotations.images.append(AnnotatedImage(str(path), '', (name,), (document.folder,), painted=mask, split=split))
    return annotations


FORMAT = Format(NAME, f'{TABLE} with "Pixel Value" beside masks *{_MASK_END}', _recognizes, _parse)
