"""COCO's JSON files of instances and panoptic segments as masks of class ids."""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import os
from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deeplab.datasets import descriptor, images, mask_sources
from deeplab.datasets.annotations import coco, rasterizer, reading
from deeplab.errors import DataError
from deeplab.names import shown
from deeplab.options.rules import require_classes

IGNORED = 255
ALL, THINGS, STUFF = 'all', 'things', 'stuff'
_REST = {'panoptic': 'other', 'instances': 'background'}  # the class of pixels that belong to no category


@dataclasses.dataclass(frozen=True)
class Annotations:
    """The annotations in a JSON file.

    Attributes:
      path: the file.
      digest: digest of its content.
      categories: the categories, in the order of the file.
      images: id and file name of each image, and its height and width if given.
      of_image: annotations of each image, by the image's id.
    """

    path: str
    digest: str
    categories: tuple[Mapping[str, Any], ...]
    images: tuple[Mapping[str, Any], ...]
    of_image: Mapping[Any, Sequence[Mapping[str, Any]]]


def load(path: str, kind: str) -> Annotations:
    """Reads a JSON file.

    Args:
      path: the file.
      kind: 'panoptic' or 'instances'.

    Raises:
      DataError: It cannot be read, or is no such file.
    """
    content = mask_sources.contents(path)
    try:
        parsed = json.loads(content, object_hook=_compact)
        categories = tuple(
            {**entry, 'id': int(entry['id']), 'name': str(entry['name'])} for entry in parsed['categories']
        )
        of_image: dict[Any, list[Mapping[str, Any]]] = defaultdict(list)
        for entry in parsed['annotations']:
            of_image[entry['image_id']].append(entry)
            if kind not in entry:
                raise KeyError(kind)
        listed = tuple({**entry, 'id': entry['id'], 'file_name': str(entry['file_name'])} for entry in parsed['images'])
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"'{path}' is not JSON: {error}.") from None
    except (KeyError, TypeError, ValueError):
        raise DataError(
            f"'{path}' is not a file of COCO {kind}: it needs lists of images, annotations and categories, and each "
            f'annotation {"segments_info" if kind == "panoptic" else "a segmentation"}.'
        ) from None
    if not categories or not listed:
        raise DataError(f"'{path}' has {len(categories)} categories and {len(listed)} images; it needs some of both.")
    _require_unique(path, 'categories with the id', [entry['id'] for entry in categories])
    _require_unique(path, 'images with the id', [entry['id'] for entry in listed])
    _require_unique(path, 'images named', [os.path.basename(entry['file_name']) for entry in listed])
    return Annotations(path, mask_sources.digest(content), categories, listed, of_image)


def _require_unique(path: str, what: str, values: Sequence[Any]) -> None:
    value, count = collections.Counter(map(str, values)).most_common(1)[0]
    if count > 1:
        raise DataError(
            f"'{path}' has {count} {what} {shown(value)}, which must be unique. Remove all but one of them."
        )


def _compact(entry: dict[str, Any]) -> dict[str, Any]:
    """Returns the values of an object that are needed; files of COCO have a million objects."""
    if 'segments_info' in entry:
        segments = [
            (segment['id'], segment['category_id'], bool(segment.get('iscrowd'))) for segment in entry['segments_info']
        ]
        return {'image_id': entry['image_id'], 'file_name': str(entry['file_name']), 'panoptic': segments}
    if 'segmentation' in entry and 'category_id' in entry:
        region = entry['segmentation']
        if isinstance(region, list):
            region = [array('d', polygon) for polygon in region]
        kept = {name: entry.get(name) for name in ('image_id', 'category_id', 'iscrowd')}
        return {**kept, 'area': float(entry.get('area') or 0), 'instances': region}
    return entry


@dataclasses.dataclass(frozen=True)
class Classes:
    """The classes that categories become.

    Attributes:
      ids: the class of each category.
      rest: the class of pixels with a category that is not among them, or none; None if these are ignored.
      dataset: the description of the classes.
    """

    ids: Mapping[int, int]
    rest: int | None
    dataset: descriptor.DatasetDescriptor

    @functools.cached_property
    def key(self) -> str:
        """Identifies the classes."""
        return f'{sorted(self.ids.items())} {self.rest}'


def classes(annotations: Annotations, kind: str, wanted: str) -> Classes:
    """Returns the classes: contiguous ids in the order of the categories.

    Args:
      annotations: the file.
      kind: 'panoptic' or 'instances'.
      wanted: 'all', or only 'things' or 'stuff', with a class 0 for the rest. Instances are things, with a class 0 for
        the background.

    Raises:
      DataError: There is no such category, or there are too many.
    """
    chosen = [
        category
        for category in annotations.categories
        if wanted == ALL or bool(category.get('isthing', 1)) == (wanted == THINGS)
    ]
    first = int(kind == 'instances' or wanted != ALL)
    count = len(chosen) + first
    if not chosen:
        raise DataError(f"'{annotations.path}' has 0 categories of {wanted}; it needs at least one.")
    fix = 'Remove categories and their annotations from the file, or merge some.'
    require_classes(f"'{annotations.path}'", count, fix, DataError, most=IGNORED)
    names = [_REST[kind]] * first + [category['name'] for category in chosen]
    if len(set(names)) < count:
        names = [f'{name} {number}' if names.count(name) > 1 else name for number, name in enumerate(names)]
    colors = [(0, 0, 0)] * first + [category.get('color') for category in chosen]
    ids = {category['id']: number for number, category in enumerate(chosen, first)}
    can_be_written = not first and all(0 <= category_id <= IGNORED for category_id in ids)
    dataset = descriptor.DatasetDescriptor(
        name=f'coco_{kind}' if wanted == ALL else f'coco_{kind}_{wanted}',
        num_classes=count,
        class_names=names,
        palette=None if None in colors else colors,
        eval_ids=list(ids) if can_be_written else None,
        things=[ids[category['id']] for category in chosen if bool(category.get('isthing', 1))],
    )
    return Classes(ids, 0 if first else None, dataset)


class PanopticMasks:
    """Makes masks of the PNG files of panoptic segments: the color of a pixel is the id of its segment."""

    def __init__(self, annotations: Annotations, classes: Classes, with_instances: bool = False) -> None:
        """Keeps the classes of the segments of each file; things are instances if these are wanted."""
        self.key = f'panoptic {annotations.digest} {classes.key}' + ' with instances' * with_instances
        self._classes, self._with_instances = classes, with_instances
        self._category_ids = {annotation['id'] for annotation in annotations.categories}
        self._segments = {
            os.path.basename(annotation['file_name']): annotation['panoptic']
            for listed in annotations.of_image.values()
            for annotation in listed
        }

    def masks(self, path: str) -> mask_sources.Masks:
        """Returns the masks, as PNG files; pixels of segment 0 are ignored.

        The segments of things are numbered from 1 on in the order of the JSON file; crowds are no instances.
        """
        colors = images.read_colors(mask_sources.contents(path), 'segment ids').astype(np.int32)
        ids = colors[..., 0] + (colors[..., 1] << 8) + (colors[..., 2] << 16)
        class_of, instance_of = self._tables(os.path.basename(path))
        segment_ids, places = np.unique(ids, return_inverse=True)
        new = [class_of.get(int(segment), -1) for segment in segment_ids]
        if -1 in new:
            raise DataError(
                f'its segment {segment_ids[new.index(-1)]} is not in segments_info of the JSON file, or has no '
                'category there'
            )
        numbers = [instance_of.get(int(segment), 0) for segment in segment_ids]
        classes, instances = (
            images.encode_png(np.array(values, kind)[places].reshape(ids.shape))
            for values, kind in ((new, np.uint8), (numbers, np.uint16))
        )
        return mask_sources.Masks(classes, instances if self._with_instances else None)

    def _tables(self, name: str) -> tuple[dict[int, int], dict[int, int]]:
        """Returns the class of each segment of a file, -1 for unknown categories, and the number of each instance."""
        things = self._classes.dataset.things or ()
        rest = IGNORED if self._classes.rest is None else self._classes.rest
        class_of, instance_of = {0: IGNORED}, {0: 0}
        for segment, category, is_crowd in self._segments.get(name, ()):
            class_of[segment] = self._classes.ids.get(category, rest) if category in self._category_ids else -1
            if self._classes.ids.get(category) in things and not is_crowd:
                instance_of[segment] = len(instance_of)
        return class_of, instance_of


class InstanceMasks:
    """Draws the instances of one image: crowds first, then larger ones, so that smaller ones stay visible."""

    def __init__(
        self,
        instances: Sequence[Mapping[str, Any]],
        image: Mapping[str, Any],
        classes: Classes,
        with_instances: bool = False,
    ) -> None:
        """Keeps the instances of an image; crowds are drawn, but are no instances."""
        self.key = f'instances {image["file_name"]} {classes.key}' + ' with instances' * with_instances
        self._instances, self._image, self._classes, self._with_instances = instances, image, classes, with_instances

    def masks(self, path: str) -> mask_sources.Masks:
        """Returns the masks, as PNG files; `path`, the JSON file, has been read already.

        Instances are numbered from 1 on in the order in which they are drawn.
        """
        del path
        with reading.within(f'image {self._image["file_name"]}'):
            size = reading.size(self._image.get('height'), self._image.get('width'))
            if size is None:
                raise DataError('it has no height and width')
        drawn, numbers = np.zeros(size, np.uint8), np.zeros(size, np.uint16)
        count = 0
        # Crowds have rough outlines and lie beneath all others.
        ordered = sorted(enumerate(self._instances), key=lambda pair: (not pair[1]['iscrowd'], -pair[1]['area']))
        for number, annotation in ordered:
            if (category := annotation['category_id']) not in self._classes.ids:
                raise DataError(
                    f'an annotation of {self._image["file_name"]} has the category {category}, which is not listed'
                )
            with reading.within(f'annotation {number} of {self._image["file_name"]}'):
                if (geometry := coco.geometry_of(annotation['instances'], size)) is not None:
                    region, _ = rasterizer.region_of(geometry, size)
                    region.fill(drawn, self._classes.ids[category])
                    count += not annotation['iscrowd']
                    region.fill(numbers, 0 if annotation['iscrowd'] else count)
        instances = images.encode_png(numbers) if self._with_instances else None
        return mask_sources.Masks(images.encode_png(drawn), instances)
