"""Predictions as annotations of labeling tools: the shapes of an image, for the writers of the formats."""

from __future__ import annotations

import json
import os
from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from deeplab.core import connected_components
from deeplab.datasets.annotations import formats, outlines, writing
from deeplab.datasets.annotations.shapes import Label
from deeplab.files import writing as files
from deeplab.inference.inputs import InputFile
from deeplab.inference.prediction import NO_CLASS, Prediction
from deeplab.options import ANNOTATION_FORMATS, AnnotationOptions

_DIGITS = 4  # of confidences
_INSTANCES = 1 << 16  # ids of instances are smaller


def of_kinds(kinds: Sequence[str]) -> dict[str, writing.Writer]:
    """Returns the writers of those kinds of files that are formats of annotations, by kind."""
    return {kind: formats.WRITERS[kind] for kind in kinds if kind in ANNOTATION_FORMATS}


def value_of(
    writer: writing.Writer, item: InputFile, path: str, prediction: Prediction, options: AnnotationOptions
) -> Any:
    """Returns what a format says of an image, as a JSON value.

    Args:
      writer: the format.
      item: the image.
      path: path of the annotation file of the image.
      prediction: its prediction.
      options: how areas become shapes.
    """
    labels, instances = prediction.labels, np.zeros((), np.int64)
    if (result := next((each for each in prediction.results.values() if 'instance_ids' in each), None)) is not None:
        # Pixels of an instance have its class, and its id is one of that class; the labels may have others there.
        instances = result['instance_ids']
        labels = np.where(instances > 0, prediction.kept(result.get('class_ids', labels)), labels)
    ids = labels.astype(np.int64) * _INSTANCES + instances
    class_of = {
        value: prediction.class_names[value // _INSTANCES]
        for value in np.unique(ids).tolist()
        if value // _INSTANCES < min(NO_CLASS, len(prediction.class_names))
    }
    are_instances = frozenset(value for value in class_of if value % _INSTANCES)
    tolerance = writer.tolerance(options)
    shapes = shapes_of(ids, class_of, options, tolerance, prediction.confidence, are_instances)
    height, width = prediction.labels.shape
    named = item.relative
    if writer.is_beside_images:
        named = os.path.relpath(item.path, os.path.dirname(path)).replace(os.sep, '/')
    return writer.image(writing.PredictedImage(named, (height, width), shapes, tolerance > 0))


def shapes_of(
    ids: np.ndarray,
    class_of: Mapping[int, str],
    options: AnnotationOptions,
    tolerance: float,
    confidence: np.ndarray | None = None,
    are_instances: Container[int] = (),
) -> tuple[writing.PredictedShape, ...]:
    """Returns the shapes of a map: each connected area of an id is one, and each instance.

    Args:
      ids: ids of areas, [h, w].
      class_of: name of the class of each id; others are left out.
      options: the smallest area.
      tolerance: of the outlines, in pixels.
      confidence: confidence of each pixel, [h, w], 0 to 1; None if unknown.
      are_instances: ids that are one instance each, also in several parts.
    """
    areas = connected_components.connected_components(ids, np.isin(ids, list(class_of)), at_corners=False)
    id_of = np.zeros(areas.max() + 1, np.int64)
    id_of[areas] = ids
    parts: dict[tuple[int, int], list[outlines.Outline]] = {}
    for outline in outlines.outlines_of(areas, tolerance, options.minimum_area):
        value = int(id_of[outline.number])
        parts.setdefault((value, 0 if value in are_instances else outline.number), []).append(outline)
    shapes = []
    for (value, _), own in parts.items():
        left, top = (min(part.box[side] for part in own) for side in (0, 1))
        right, bottom = (max(part.box[side] + part.box[2 + side] for part in own) for side in (0, 1))
        box = np.s_[top:bottom, left:right]
        covered = np.isin(areas[box], [part.number for part in own])
        mean = None if confidence is None else round(float(confidence[box][covered].mean()), _DIGITS)
        is_instance = value in are_instances
        shapes.append(writing.PredictedShape(class_of[value], tuple(own), covered, left, top, mean, is_instance))
    return tuple(shapes)


def write_image(path: str, value: Any) -> None:
    """Writes the annotation file of an image.

    Raises:
      DataError: it cannot be written.
    """
    with files.explained(path):
        files.write(path, json.dumps(value) + '\n')


class Documents:
    """The files about all images of the formats that have one.

    Attributes:
      paths: path of each file, by kind.
    """

    def __init__(self, folder: str, kinds: Sequence[str], labels: Sequence[Label]) -> None:
        """Creates them; writes nothing yet.

        Args:
          folder: folder of the files.
          kinds: kinds of files that are written.
          labels: classes of the network.
        """
        self.paths = {
            kind: os.path.join(folder, *writer.document_name.split('/'))
            for kind, writer in of_kinds(kinds).items()
            if writer.document is not None
        }
        self._labels = labels

    def write(self, entries: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Writes the files from the values of images by kind and name; returns their paths.

        Raises:
          DataError: one cannot be written.
        """
        for kind, path in self.paths.items():
            document = formats.WRITERS[kind].document
            assert document is not None
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with files.explained(path):
                files.write(path, document([entries[kind][name] for name in sorted(entries[kind])], self._labels))
        return list(self.paths.values())
