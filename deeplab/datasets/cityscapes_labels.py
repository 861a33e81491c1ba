"""Masks of Cityscapes' train ids from its masks of ids or its polygons.

Source: the description of the annotations that is published with the data set (cityscapes-dataset.com): objects are
listed from the background to the foreground, later ones hide earlier ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from deeplab.datasets import images, mask_sources
from deeplab.errors import DataError
from deeplab.files import documents

IGNORED = 255
# Names of the labels by id.
NAMES = (
    'unlabeled, ego vehicle, rectification border, out of roi, static, dynamic, ground, road, sidewalk, parking, rail '
    'track, building, wall, fence, guard rail, bridge, tunnel, pole, polegroup, traffic light, traffic sign, '
    'vegetation, terrain, sky, person, rider, car, truck, bus, caravan, trailer, train, motorcycle, bicycle'
).split(', ')
# Ids of the classes 0 to 18; pixels of other ids are ignored.
EVALUATED = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
_WITHOUT_ID = ('license plate',)  # such objects are not drawn
_GROUP = 'group'  # ends the label of several objects that are outlined together, such as cargroup
_LARGEST_SIDE = 1 << 14


def train_id(label_id: int) -> int:
    """Returns the class of an id; 255 for ignored ids."""
    return EVALUATED.index(label_id) if label_id in EVALUATED else IGNORED


class FromIds:
    """Makes masks of train ids from masks of ids, the files *_labelIds.png."""

    key = 'cityscapes ids'

    def mask(self, path: str) -> bytes:
        """Returns the mask of train ids, as a PNG; ids that Cityscapes does not have are refused."""
        table = {number: train_id(number) for number in range(len(NAMES))}
        table[IGNORED] = IGNORED  # -1, the id of license plates, in 8 bits
        return mask_sources.IdTable(table).mask(path)


class FromPolygons:
    """Makes masks of train ids from polygons, the files *_polygons.json."""

    key = 'cityscapes polygons'

    def mask(self, path: str) -> bytes:
        """Returns the mask of train ids, as a PNG."""
        content = mask_sources.contents(path)
        try:
            annotation = documents.parse_json(content.decode('utf-8-sig'))
        except (documents.DocumentError, UnicodeDecodeError) as error:
            reason = error if isinstance(error, documents.DocumentError) else 'is not text in UTF-8'
            raise DataError(f'it {reason}' if content else 'it is empty') from None
        return images.encode_png(drawn(annotation))


def drawn(annotation: Any) -> np.ndarray:
    """Returns the mask of train ids of an annotation: [imgHeight, imgWidth] uint8.

    Args:
      annotation: the content of a file *_polygons.json.

    Raises:
      DataError: It is not such an annotation.
    """
    if not isinstance(annotation, Mapping) or not isinstance(annotation.get('objects'), list):
        raise DataError("it has no list 'objects', so it is not an annotation of Cityscapes")
    sides: list[Any] = [annotation.get(name) for name in ('imgWidth', 'imgHeight')]
    if not all(type(side) is int and 0 < side <= _LARGEST_SIDE for side in sides):
        raise DataError(
            f'its imgWidth and imgHeight are {sides[0]!r} and {sides[1]!r}; they must be whole numbers from 1 to '
            f'{_LARGEST_SIDE}'
        )
    image = Image.new('L', (sides[0], sides[1]), IGNORED)
    drawer = ImageDraw.Draw(image)
    for number, thing in enumerate(annotation['objects']):
        if not isinstance(thing, Mapping):
            raise DataError(f'its object {number} is not a JSON object')
        label_id = None if thing.get('deleted') else _id_of(thing.get('label'), number)
        if label_id is not None:
            drawer.polygon(_points(thing.get('polygon'), number), fill=train_id(label_id))
    return np.asarray(image)


def _id_of(label: Any, number: int) -> int | None:
    """Returns the id of an object's label; None if the object is not drawn."""
    name = label if isinstance(label, str) else ''
    if name not in NAMES and name.endswith(_GROUP):
        name = name.removesuffix(_GROUP)
    if name in _WITHOUT_ID:
        return None
    if name not in NAMES:
        raise DataError(f'its object {number} has the label {label!r}, which is not one of Cityscapes')
    return NAMES.index(name)


def _points(polygon: Any, number: int) -> list[tuple[float, float]]:
    """Returns the corners of an object's polygon."""
    good = isinstance(polygon, list) and len(polygon) >= 2
    for point in polygon if good else ():
        is_pair = isinstance(point, list) and len(point) == 2
        good = good and is_pair and all(type(part) in (int, float) and math.isfinite(part) for part in point)
    if not good:
        raise DataError(f'the polygon of its object {number} is not a list of at least two points [x, y]')
    return [(x, y) for x, y in polygon]
