"""Segments in the COCO panoptic format: the colors of an image's PNG file, and the entries of the JSON file.

The id of a segment is 1 + class id + 256 * instance id, and 0 for void. The color of its pixels is the id: red + 256 *
green + 65536 * blue. So red is the class id plus 1, and green + 256 * blue the instance id.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def segment_ids(class_ids: np.ndarray, instance_ids: np.ndarray, ignore_label: int) -> np.ndarray:
    """Returns the ids of the segments, [h, w] int32.

    Args:
      class_ids: [h, w] integers from 0 to 255.
      instance_ids: [h, w] integers, within a class from 1; 0 for stuff.
      ignore_label: class id of void pixels.
    """
    ids = 1 + class_ids.astype(np.int32) + 256 * instance_ids.astype(np.int32)
    ids[class_ids == ignore_label] = 0
    return ids


def as_colors(ids: np.ndarray) -> np.ndarray:
    """Returns the ids of segments, [h, w], as colors, [h, w, 3] uint8."""
    return np.stack([ids & 255, ids >> 8 & 255, ids >> 16], axis=-1).astype(np.uint8)


def annotation(
    ids: np.ndarray,
    path: str,
    categories: Sequence[int] | None = None,
    scores: Mapping[tuple[int, int], float | None] | None = None,
) -> dict[str, Any]:
    """Returns the entry of an image.

    The id of the image is the name of its file without the ending, a number if the name is one, as in COCO.

    Args:
      ids: ids of the segments, [h, w].
      path: path of its PNG file in their folder.
      categories: category of each class; None for the class ids.
      scores: scores of instances by class id and instance id.
    """
    name = os.path.splitext(path)[0]
    segments = []
    areas = np.bincount(ids.ravel(), minlength=1)
    for id_ in (np.flatnonzero(areas[1:]) + 1).tolist():
        class_id, instance_id = (id_ - 1) % 256, (id_ - 1) // 256
        segment = {
            'id': id_,
            'category_id': class_id if categories is None else categories[class_id],
            'area': int(areas[id_]),
            'iscrowd': 0,
        }
        score = (scores or {}).get((class_id, instance_id))
        segments.append(segment if score is None else {**segment, 'score': round(score, 4)})
    image_id = int(name) if name.isdecimal() else name
    return {'image_id': image_id, 'file_name': path, 'segments_info': segments}


def document(
    annotations: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    things: Sequence[int],
    categories: Sequence[int] | None = None,
) -> dict[str, Any]:
    """Returns the content of a JSON file.

    Args:
      annotations: entries of the images.
      names: names of the classes.
      things: ids of the classes that have instances.
      categories: category of each class; None for the class ids.
    """
    ids = range(len(names)) if categories is None else categories
    return {
        'images': [{'id': each['image_id'], 'file_name': each['file_name']} for each in annotations],
        'annotations': list(annotations),
        'categories': [
            {'id': id_, 'name': name, 'isthing': int(class_id in things)}
            for class_id, (id_, name) in enumerate(zip(ids, names, strict=True))
        ],
    }
