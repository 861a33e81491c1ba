"""Description files beside records, so that programs need no more than the folder of the records.

Builders write YAML with a JSON value after each key. JSON files and all other YAML files
are read, too.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from absl import logging

from deeplab.datasets import descriptor as descriptor_lib
from deeplab.datasets import label_file
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.errors import DataError
from deeplab.files import documents, storage, writing

FILE_NAME = 'dataset.yaml'
_FILE_NAMES = (FILE_NAME, 'dataset.yml', 'dataset.json')
_REQUIRED = 'num_classes'
# Keys that other files of the name dataset.json or dataset.yaml do not have; without the first, it is named as missing.
_SIGNS = ({_REQUIRED}, {'class_names'}, {'images', 'masks'})
_SIMPLE = ('source', 'license', 'label_divisor', 'depth_scale')  # keys that are written if they have a value
_REMARK = '# The records in this folder. Programs read this file if --dataset is not given.\n'


class SplitFacts(NamedTuple):
    """Facts in a description about the records of a split.

    Attributes:
      images: number of images; None if unknown.
      shards: number of shards; None if unknown.
      digest: digest of the records, see `RecordIndex.digest`; None if unknown.
    """

    images: int | None = None
    shards: int | None = None
    digest: str | None = None


def beside(directory: str) -> str | None:
    """Returns the path of the description in a folder of records or images; None if there is none.

    A file of that name without a key of descriptions is ignored. Without one, it is labels.txt of TF-Slim.

    Args:
      directory: the folder, which need not exist; or the path of a description itself.
    """
    if directory.endswith(descriptor_lib.FILE_SUFFIXES) and storage.is_file(directory):
        return directory
    for name in _FILE_NAMES:
        path = os.path.join(directory, name)
        try:
            content = documents.load(path)
        except FileNotFoundError:
            continue
        except (documents.DocumentError, OSError):
            with contextlib.suppress(OSError):
                if _REQUIRED in storage.read(path).decode('utf-8', 'replace'):  # a broken one
                    return path
            continue
        if isinstance(content, Mapping) and any(keys <= content.keys() for keys in _SIGNS):
            return path
    labels = os.path.join(directory, label_file.FILE_NAME)  # of TF-Slim
    return labels if label_file.is_numbered(labels) else None


def folder_of(directory: str) -> str:
    """Returns the folder of a data set that is given by its folder, or by the path of its description."""
    is_file = directory.endswith(descriptor_lib.FILE_SUFFIXES) and storage.is_file(directory)
    return (os.path.dirname(directory) or '.') if is_file else directory


def split_facts(path: str) -> dict[str, SplitFacts]:
    """Returns the facts in a description about the records of each split; none if it is broken."""
    try:
        splits = documents.load(path).get('splits')
    except (documents.DocumentError, OSError, AttributeError):
        return {}
    facts_by_split = {}
    for name, facts in splits.items() if isinstance(splits, Mapping) else ():
        if isinstance(facts, Mapping):
            facts_by_split[name] = SplitFacts(**{key: facts.get(key) for key in SplitFacts._fields})
        else:
            facts_by_split[name] = SplitFacts(facts)
    return facts_by_split


def differences(path: str, other: DatasetDescriptor) -> list[str]:
    """Returns the differences between the classes of a description and of a data set that is used in its place.

    Raises:
      OptionError: The description is invalid.
    """
    mine = descriptor_lib.load(path)
    texts = []
    for field in ('num_classes', 'ignore_label', 'image_channels', 'image_bits'):
        here, there = getattr(mine, field), getattr(other, field)
        if here != there:
            texts.append(f'{field} {here}, not {there}')
    names, others = mine.class_names, other.class_names
    if not texts and names is not None and others is not None and names != others:
        number = next(i for i, name in enumerate(names) if name != others[i])
        texts.append(f"class {number} is '{names[number]}', not '{others[number]}'")
    return texts


def write(directory: str, description: DatasetDescriptor | None, splits: Mapping[str, SplitFacts]) -> str:
    """Writes a description beside the records; an older description of other classes is renamed.

    Args:
      directory: folder of the records.
      description: the description; None if the classes are unknown. The classes that a builder wrote are kept then,
        and a file that a user wrote is not touched.
      splits: facts about the records of each split; other splits of an older description are kept.

    Returns:
      The path of the file.

    Raises:
      DataError: It cannot be written.
    """
    path = os.path.join(directory, FILE_NAME)
    try:
        if description is None:
            return _update(directory, path, splits)
        content = content_of(description)
        for older in (os.path.join(directory, name) for name in _FILE_NAMES):
            if _differs(older, content):
                os.replace(older, f'{older}.old')
                logging.warning("'%s' described other classes; it is '%s.old' now.", older, older)
            elif older != path and os.path.exists(older):
                os.replace(older, f'{older}.old')  # of an earlier version, and of the same content
        _write(path, content, {**_kept(path, directory), **splits})
    except documents.DocumentError as error:
        raise DataError(f"'{path}' {error}. Fix or remove it.") from None
    except OSError as error:
        raise DataError(f"Cannot write '{path}': {error.strerror}.") from None
    return path


def write_folders(directory: str, description: DatasetDescriptor, folders: Mapping[str, str]) -> str:
    """Writes a description of images and masks that are read without building records; returns its path.

    Args:
      directory: folder of the description, in which there is none.
      description: the classes.
      folders: `images`, `masks` and `lists`, as seen from there.
    """
    path = os.path.join(directory, FILE_NAME)
    writing.write(path, documents.yaml_text({**content_of(description), **folders}))
    return path


def _update(directory: str, path: str, splits: Mapping[str, SplitFacts]) -> str:
    """Updates the facts about splits, unless a user wrote the description; returns the path of the file."""
    if (there := beside(directory)) not in (None, path):
        return str(there)
    content = {}
    if os.path.exists(path):
        if not storage.read(path).startswith(_REMARK.encode()):
            return path
        content = documents.load(path)
    _write(path, content, {**_kept(path, directory), **splits})
    return path


def _write(path: str, content: Mapping[str, Any], splits: Mapping[str, SplitFacts]) -> None:
    table = {
        name: {key: value for key, value in facts._asdict().items() if value is not None}
        for name, facts in splits.items()
    }
    writing.write(path, _REMARK + documents.yaml_text({**content, 'splits': table}))


def _kept(path: str, directory: str) -> dict[str, SplitFacts]:
    """Returns the facts in an older description about splits that still exist."""
    there = set(storage.file_names(directory))
    return {name: facts for name, facts in split_facts(path).items() if any(f.startswith(f'{name}-') for f in there)}


def content_of(description: DatasetDescriptor) -> dict[str, Any]:
    """Returns the fields of a description that have a value, without the splits."""
    content: dict[str, Any] = {
        'name': description.name,
        'num_classes': description.num_classes,
        'ignore_label': description.ignore_label,
        'class_names': list(description.names),
        'palette': description.palette[: description.num_classes].tolist(),
        'image_channels': description.image_channels,
        'image_bits': description.image_bits,
    }
    if description.ignore_label_is_class:
        content['ignore_label_is_class'] = True
    if not description.has_masks:
        content['has_masks'] = False
    for key in ('eval_ids', 'categories', 'things', 'bands', 'value_range'):
        if getattr(description, key) is not None:
            content[key] = list(getattr(description, key))
    content |= {key: value for key in _SIMPLE if (value := getattr(description, key))}
    return content


def _differs(path: str, content: Mapping[str, Any]) -> bool:
    """Returns whether a file exists that is not the same description, apart from the splits."""
    if not os.path.exists(path):
        return False
    try:
        there = documents.load(path)
        if isinstance(there, Mapping) and there.keys() == {'splits'}:  # a builder did not know the classes
            return False
    except (documents.DocumentError, OSError):
        return True
    if not isinstance(there, Mapping):
        return True
    newer = {key: content.get(key) for key in ('things', 'eval_ids')}  # what older descriptions may lack
    usual = {'image_channels': 3, 'image_bits': 8, **newer}
    return {**usual, **there, 'splits': None} != {**usual, **content, 'splits': None}
