"""Hasty's semantic segmentation: masks of one channel, and label_classes.json with the class of each value."""

from __future__ import annotations

import pathlib
from typing import Any

from deeplab.datasets.annotations import reading
from deeplab.datasets.annotations.reading import Document, Format
from deeplab.datasets.annotations.shapes import AnnotatedImage, AnnotationSet, Label, PaintedMask

NAME = 'Hasty semantic segmentation'
_CLASSES = 'label_classes.json'


def _recognizes(document: Document) -> bool:
    entries: Any = document.content
    return (
        document.name == _CLASSES
        and isinstance(entries, list)
        and bool(entries)
        and all(isinstance(entry, dict) and 'png_index' in entry and 'class_name' in entry for entry in entries)
    )


def _parse(document: Document) -> AnnotationSet:
    """Reads a data set: PNG files in a folder for each of Hasty's data sets, whose value 0 is not labeled.

    The folders hold no images; these are found by their names.

    Source: docs.cloudfactory.com, "Semantic Segmentation (png images)".
    """
    found = AnnotationSet(NAME)
    indices: dict[int, str | None] = {}
    for number, entry in enumerate(document.content, start=1):
        with reading.within(f'class {number}'):
            index = reading.mask_value(entry['png_index'], indices)
            indices[index] = name = reading.text(entry['class_name'])
            found.labels.append(Label(name, reading.color(entry.get('color'))))
    indices.setdefault(0, None)
    root = pathlib.Path(document.folder)
    for path in sorted(root.rglob('*.png')):
        relative = path.relative_to(root).with_suffix('')
        mask = PaintedMask(str(path), indices=indices)
        names = (relative.as_posix(), path.stem)
        split = relative.parts[0] if len(relative.parts) > 1 else None
        found.images.append(AnnotatedImage(str(path), '', names, painted=mask, split=split))
    return found


FORMAT = Format(NAME, f'{_CLASSES} with "png_index" beside folders of masks', _recognizes, _parse)
