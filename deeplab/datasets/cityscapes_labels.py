"""Masks of Cityscapes' train ids and instances from its masks of ids or its polygons.

Source: the description of the annotations that is published with the data set (cityscapes-dataset.com): objects are
listed from the background to the foreground, later ones hide earlier ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from deeplab.datasets import images, mask_sources
from deeplab.datasets.annotations import reading
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
THINGS = range(11, 19)  # classes with instances
_INSTANCES = 1000  # values of instances in *_instanceIds.png are id * 1000 + number; others are ids
_WITHOUT_ID = ('license plate',)  # such objects are not drawn
_GROUP = 'group'  # ends the label of several objects that are outlined together, such as cargroup
_LARGEST_SIDE = 1 << 14


def train_id(label_id: int) -> int:
    """Returns the class of an id; 255 for ignored ids."""
    return EVALUATED.index(label_id) if label_id in EVALUATED else IGNORED


def id_table() -> mask_sources.IdTable:
    """Returns the train id of each id in *_labelIds.png; ids that Cityscapes does not have are refused."""
    table = {number: train_id(number) for number in range(len(NAMES))}
    return mask_sources.IdTable({**table, IGNORED: IGNORED})  # 255: -1, the id of license plates, in 8 bits


def instance_table() -> np.ndarray:
    """Returns the instance id, from 1 on within a class, of each value in *_instanceIds.png: [65536] uint16.

    Groups of things, whose value is an id alone, and objects of ignored classes are no instances.
    """
    table = np.zeros(1 << 16, np.uint16)
    for label_id in (EVALUATED[thing] for thing in THINGS):
        table[label_id * _INSTANCES : (label_id + 1) * _INSTANCES] = np.arange(1, _INSTANCES + 1)
    return table


class FromPolygons:
    """Makes masks of train ids, and of instances if these are wanted, from polygons, the files *_polygons.json."""

    def __init__(self, with_instances: bool = False) -> None:
        self._with_instances = with_instances
        self.key = 'cityscapes polygons' + ' with instances' * with_instances

    def masks(self, path: str) -> mask_sources.Masks:
        """Returns the masks."""
        content = mask_sources.contents(path)
        try:
            annotation = documents.parse_json(content.decode('utf-8-sig'))
        except (documents.DocumentError, UnicodeDecodeError) as error:
            reason = error if isinstance(error, documents.DocumentError) else 'is not text in UTF-8'
            raise DataError(f'it {reason}' if content else 'it is empty') from None
        class_ids, instance_ids = drawn(annotation)
        instances = images.encode_png(instance_ids) if self._with_instances else None
        return mask_sources.Masks(images.encode_png(class_ids), instances)


def drawn(annotation: Any) -> tuple[np.ndarray, np.ndarray]:
    """Returns the masks of an annotation: train ids [imgHeight, imgWidth] uint8, and instances, uint16.

    The things are numbered from 1 on in the order of the list; groups of things are no instances.

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
    image, instances = Image.new('L', (sides[0], sides[1]), IGNORED), Image.new('I', (sides[0], sides[1]))
    drawer, instance_drawer = ImageDraw.Draw(image), ImageDraw.Draw(instances)
    count = 0
    for number, thing in enumerate(annotation['objects']):
        if not isinstance(thing, Mapping):
            raise DataError(f'its object {number} is not a JSON object')
        label_id = None if thing.get('deleted') else _id_of(thing.get('label'), number)
        if label_id is not None:
            with reading.within(f'the polygon of its object {number}'):
                corners = reading.points(thing.get('polygon'))
                if len(corners) < 2:
                    raise DataError(f'it has {len(corners)} points, and needs at least two')
            points, class_id = list(map(tuple, corners.tolist())), train_id(label_id)
            is_instance = class_id in THINGS and thing['label'] in NAMES
            count += is_instance
            drawer.polygon(points, fill=class_id)
            instance_drawer.polygon(points, fill=count if is_instance else 0)
    return np.asarray(image), np.asarray(instances).astype(np.uint16)


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
