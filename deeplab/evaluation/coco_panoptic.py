"""Files in the COCO panoptic format: a JSON file with the segments of each image, and a PNG file for each image.

The color of a pixel is the id of its segment, red + 256 * green + 65536 * blue. Id 0, unless it is listed, is void.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from absl import logging
from PIL import Image

from deeplab.core.segment_overlaps import Segmentation
from deeplab.errors import DataError
from deeplab.files import documents
from deeplab.names import listed, shown
from deeplab.options import CocoFormatOptions
from deeplab.wording import option

_IDS = 1 << 24
_MODES = ('RGB', 'RGBA')
_MOST_NAMED = 3


@dataclasses.dataclass(frozen=True)
class Annotation:
    """The segments of an image: their ids, their categories, and which of them are crowds; and the PNG file of it."""

    path: str
    ids: tuple[int, ...]
    categories: tuple[int, ...]
    crowds: tuple[bool, ...]


@dataclasses.dataclass(frozen=True)
class Annotations:
    """A JSON file: images by id; names and kinds of the categories by id, empty if the file has no categories."""

    images: Mapping[Any, Annotation]
    names: Mapping[int, str]
    is_thing: Mapping[int, bool]


def load(path: str, folder: str, options: CocoFormatOptions, with_categories: bool = True) -> Annotations:
    """Reads a JSON file.

    Args:
      path: path of the JSON file.
      folder: folder of the PNG files.
      options: number of categories, and of segments of one category.
      with_categories: whether the categories are read.

    Raises:
      DataError: It cannot be read, or is not in the COCO panoptic format.
    """
    try:
        content = documents.load(path)
    except FileNotFoundError:
        raise DataError(f'There is no file {shown(path)}.') from None
    except documents.DocumentError as error:
        raise DataError(f'{shown(path)} {error}.') from None
    if not os.path.isdir(folder):
        raise DataError(f'There is no folder {shown(folder)}, which should hold the PNG files of {shown(path)}.')
    images: dict[Any, Annotation] = {}
    try:
        for entry in content['annotations']:
            image = entry['image_id']
            if image in images:
                raise DataError(f'{shown(path)} has two annotations of image {image}.')
            images[image] = _annotation(entry, folder, f'{shown(path)}, image {image}', options)
        categories = content.get('categories', ()) if with_categories else ()
        names = {int(category['id']): str(category['name']) for category in categories}
        is_thing = {int(category['id']): bool(category['isthing']) for category in categories}
    except DataError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DataError(
            f'{shown(path)} is not in the COCO panoptic format ({type(error).__name__}: {shown(str(error))}). It needs '
            'annotations (image_id, file_name, segments_info with id and category_id) and categories (id, name, '
            'isthing).'
        ) from None
    return Annotations(images, names, is_thing)


def _annotation(entry: Any, folder: str, where: str, options: CocoFormatOptions) -> Annotation:
    name = os.path.normpath(entry['file_name'])
    if os.path.isabs(name) or name.split(os.sep)[0] == os.pardir:
        raise DataError(f"{where}: file_name '{shown(name)}' is not inside the folder of the PNG files.")
    segments = entry['segments_info']
    ids = tuple(int(segment['id']) for segment in segments)
    categories = tuple(int(segment['category_id']) for segment in segments)
    crowds = tuple(bool(segment.get('iscrowd', 0)) for segment in segments)
    if len(set(ids)) < len(ids):
        raise DataError(f'{where}: two segments have id {Counter(ids).most_common(1)[0][0]}.')
    if not all(0 <= id_ < _IDS for id_ in ids):
        raise DataError(f'{where}: segment ids must be from 0 to {_IDS - 1}, as colors have no more.')
    if not all(0 <= category < options.num_categories for category in categories):
        wrong = next(category for category in categories if not 0 <= category < options.num_categories)
        setting = option('CocoFormatOptions.num_categories', options.num_categories)
        raise DataError(f'{where}: category_id {wrong} is not less than {setting}.')
    for category, count in Counter(categories).most_common(1):
        if count > options.max_instances_per_category:
            setting = option('CocoFormatOptions.max_instances_per_category', options.max_instances_per_category)
            raise DataError(f'{where}: category {category} has {count} segments, more than {setting}.')
    return Annotation(os.path.join(folder, name), ids, categories, crowds)


def pairs(truth: Annotations, prediction: Annotations) -> list[tuple[Annotation, Annotation]]:
    """Returns true and predicted annotations of each image of the truth.

    Raises:
      DataError: An image has no prediction.
    """
    missing = [image for image in truth.images if image not in prediction.images]
    if missing:
        raise DataError(
            f'{len(missing)} of {len(truth.images)} images of the ground truth have no prediction (image_id '
            f'{listed(list(map(str, missing)), _MOST_NAMED)}). Add an annotation for each; segments_info may be empty.'
        )
    further = len(prediction.images.keys() - truth.images.keys())
    if further:
        logging.warning('Predictions of %d images are not evaluated: the ground truth has no such image_id.', further)
    return [(annotation, prediction.images[image]) for image, annotation in truth.images.items()]


def read(annotation: Annotation, ignored_label: int, is_truth: bool) -> Segmentation:
    """Reads the PNG file of an image.

    Segments of category `ignored_label` are crowds in the truth, and void in predictions, so that they have no figures.

    Raises:
      DataError: It cannot be read, or has a segment that is not listed.
    """
    ids = _ids(annotation.path)  # [h, w]
    numbers = np.zeros(_IDS, np.int32)  # its pages need memory only where ids are
    is_listed = np.zeros(_IDS, bool)
    is_listed[[0, *annotation.ids]] = True
    is_ignored = [category == ignored_label for category in annotation.categories]
    kept = [i for i, ignored in enumerate(is_ignored) if is_truth or not ignored]
    numbers[[annotation.ids[i] for i in kept]] = np.arange(1, len(kept) + 1)
    if not is_listed[ids].all():
        wrong = int(ids[~is_listed[ids]][0])
        color = f'{wrong & 255}, {wrong >> 8 & 255}, {wrong >> 16}'
        raise DataError(
            f'{shown(annotation.path)} has pixels of segment {wrong} (color {color}), which segments_info does not '
            'list.'
        )
    return Segmentation(
        index=numbers[ids],
        categories=np.array([-1, *(annotation.categories[i] for i in kept)]),
        ids=np.array([0, *(annotation.ids[i] for i in kept)]),
        is_crowd=np.array([False, *(annotation.crowds[i] or is_ignored[i] for i in kept)]),
    )


def _ids(path: str) -> np.ndarray:
    """Returns the segment ids of the pixels of a PNG file, [h, w] int32."""
    try:
        with Image.open(path, formats=['PNG']) as image:
            mode = image.mode
            colors = np.asarray(image, np.uint8) if mode in _MODES else None  # [h, w, 3 or 4]
    except FileNotFoundError:
        raise DataError(f'There is no file {shown(path)}, which the JSON file names.') from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f'{shown(path)} cannot be read: {shown(str(error))}.') from None
    if colors is None:
        raise DataError(f'{shown(path)} is of mode {mode}; the segment ids of COCO are colors of an RGB image.')
    red, green, blue = (colors[..., i].astype(np.int32) for i in range(3))
    return red | green << 8 | blue << 16
