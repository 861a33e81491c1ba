"""The description of a data set that lies beside its records, so that their folder alone is enough to use them."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from absl import logging

from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.errors import DataError
from deeplab.utils import documents, files

FILE_NAME = 'dataset.json'
_FILE_NAMES = (FILE_NAME, 'dataset.yaml', 'dataset.yml')
_REQUIRED = 'num_classes'


def beside(directory: str) -> str | None:
    """Returns the path of the description in a folder of records; None if there is none.

    A file of that name that is not a description, because it has no `num_classes`, does not count.

    Args:
      directory: the folder; need not exist.
    """
    for name in _FILE_NAMES:
        path = os.path.join(directory, name)
        if not os.path.isfile(path):
            continue
        try:
            content = documents.load(path)
        except (documents.DocumentError, OSError):
            return path if _may_be_description(path) else None
        if isinstance(content, Mapping) and _REQUIRED in content:
            return path
    return None


def write(directory: str, description: DatasetDescriptor) -> str:
    """Writes a description beside the records; an older one that says something else about the classes is kept.

    Args:
      directory: folder of the records.
      description: the description.

    Returns:
      The path of the file.

    Raises:
      DataError: It cannot be written.
    """
    path = os.path.join(directory, FILE_NAME)
    content = _content(description)
    try:
        if _differs(path, content):
            os.replace(path, f'{path}.old')
            logging.warning("'%s' described other classes; it is '%s.old' now.", path, path)
        with files.written_whole(path) as stream:
            stream.write(_text(content))
    except OSError as error:
        raise DataError(f"Cannot write '{path}': {error.strerror}.") from None
    return path


def _content(description: DatasetDescriptor) -> dict[str, Any]:
    """Returns the fields of a description that have a value, as a JSON file has them."""
    found: dict[str, Any] = {
        'name': description.name,
        'num_classes': description.num_classes,
        'ignore_label': description.ignore_label,
        'class_names': list(map(description.class_name, range(description.num_classes))),
        'palette': description.palette[: description.num_classes].tolist(),
        'splits': dict(description.splits),
    }
    if (description.image_channels, description.image_bits) != (3, 8):
        found |= {'image_channels': description.image_channels, 'image_bits': description.image_bits}
    if description.ignore_label_is_class:
        found['ignore_label_is_class'] = True
    for key in ('eval_ids', 'categories'):
        if getattr(description, key) is not None:
            found[key] = list(getattr(description, key))
    return found


def _text(content: Mapping[str, Any]) -> str:
    """Returns a JSON text with one line for each key."""
    lines = (f'  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}' for key, value in content.items())
    return '{\n' + ',\n'.join(lines) + '\n}\n'


def _differs(path: str, content: Mapping[str, Any]) -> bool:
    """Returns whether a file exists that is not the same description, apart from the numbers of images."""
    if not os.path.exists(path):
        return False
    try:
        there = documents.load(path)
    except (documents.DocumentError, OSError):
        return True
    if not isinstance(there, Mapping):
        return True
    return {**there, 'splits': None} != {**content, 'splits': None}


def _may_be_description(path: str) -> bool:
    """Returns whether a broken file mentions the one key that every description has."""
    try:
        return _REQUIRED in pathlib.Path(path).read_text('utf-8', 'replace')
    except OSError:
        return False
