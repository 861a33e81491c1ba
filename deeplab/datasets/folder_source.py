"""Data sets that are read from folders of images and masks, which their description names instead of records."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from deeplab import wording
from deeplab.datasets import color_tables, description_file, file_pairs, folder_splits, pairs, shard_names
from deeplab.datasets import descriptor as descriptor_lib
from deeplab.errors import DataError, OptionError
from deeplab.files import documents, storage
from deeplab.options import BuildFolderOptions

# The field of the options of build_folder_data that each key of a description sets.
_FIELDS = {
    'images': 'image_folder', 'masks': 'mask_folder', 'mask_suffix': 'mask_suffix', 'lists': 'list_folder',
    'val_fraction': 'val_fraction', 'group_pattern': 'group_pattern', 'seed': 'seed',
    'allow_unmatched': 'allow_unmatched', 'colors': 'colors',
}  # fmt: skip
_KEYS = {f'BuildFolderOptions.{field}': key for key, field in _FIELDS.items()}  # for messages
_PATHS = ('images', 'masks', 'lists', 'colors')
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    'val_fraction': ((int, float), 'a number'),
    'seed': ((int,), 'a whole number'),
    'allow_unmatched': ((bool,), 'true or false'),
}


class FolderSource(NamedTuple):
    """Folders that a description names.

    Attributes:
      description: path of the description.
      options: how images and masks are found, paired and split, as `build_folder_data` does it.
    """

    description: str
    options: BuildFolderOptions


def of_data(name: str, directory: str) -> FolderSource | None:
    """Returns the folders that a data set is read from; None for one that is read from records.

    The description in the folder of the data set decides; if there are neither one nor records, that of the classes.

    Args:
      name: the data set that has the classes, as for `descriptor.load`.
      directory: folder of the data set, or the path of its description.

    Raises:
      OptionError: The description is not usable.
    """
    path = description_file.beside(directory)
    if path is not None and (found := of_description(path)) is not None:
        return found
    if path is None and name.endswith(descriptor_lib.FILE_SUFFIXES) and not _has_shards(directory):
        return of_description(name)
    return None


def of_description(path: str) -> FolderSource | None:
    """Returns the folders that a description names; None if it names none.

    Raises:
      OptionError: The description is not usable.
    """
    try:
        content = documents.load(path)
    except (documents.DocumentError, OSError):  # `descriptor.load` reports it
        return None
    if not isinstance(content, Mapping) or 'images' not in content:
        return None
    if storage.is_remote(path):
        raise OptionError(f'{path}: images and masks are read from local folders only. Build records from them.')
    if 'masks' not in content:
        raise OptionError(f"{path}: 'images' needs 'masks', the folder of their masks.")
    folder = os.path.dirname(path)
    values = {_FIELDS[key]: _value(path, folder, key, content[key]) for key in _FIELDS if content.get(key) is not None}
    try:
        with wording.file_keys(_KEYS):
            return FolderSource(path, BuildFolderOptions(**values))
    except OptionError as error:
        raise OptionError(f'{path}: {error}') from None


def items(
    source: FolderSource, dataset: descriptor_lib.DatasetDescriptor, tell: folder_splits.Listener | None = None
) -> dict[str, list[pairs.Item]]:
    """Finds the images and masks of every split, in the order in which `build_folder_data` writes them.

    Args:
      source: the folders.
      dataset: its colors are those of masks with colors, unless the description names a table of colors.
      tell: is called with each remark about files that are left out; None to log each once in a process, although
        programs open a data set several times.

    Raises:
      DataError: A folder or list is missing, or a file has no partner.
      OptionError: The table of colors cannot be read.
    """
    options = source.options
    for field in ('image_folder', 'mask_folder', 'list_folder'):
        folder = getattr(options, field)
        if folder and not os.path.isdir(folder):
            key = next(key for key, value in _FIELDS.items() if value == field)
            raise DataError(f"'{source.description}' names a folder that does not exist: {key} is '{folder}'.")
    if options.colors:
        table: color_tables.ColorTable | None = color_tables.load(options.colors, dataset.ignore_label)
    else:
        table = color_tables.of_palette(dataset.palette[: dataset.num_classes])
    try:
        with wording.file_keys(_KEYS):
            found = file_pairs.find(options)
            tell = tell or functools.partial(_log_once, source.description)
            folder_splits.tell_unmatched(found, tell)
            return split(found, options, table, tell)
    except DataError as error:
        raise DataError(f'{source.description}: {error}') from None


@functools.cache
def _log_once(description: str, remark: folder_splits.Remark) -> None:
    """Logs a remark about the data set of a description."""
    folder_splits.log(remark)


def find(options: BuildFolderOptions, table: color_tables.ColorTable | None) -> dict[str, list[pairs.Item]]:
    """Finds the images and masks of every split.

    Args:
      options: the folders.
      table: colors of the masks; None for masks of ids alone.

    Raises:
      DataError: A list is missing or names an unknown image, or a file has no partner.
    """
    return split(file_pairs.find(options), options, table)


def split(
    found: file_pairs.Pairs,
    options: BuildFolderOptions,
    table: color_tables.ColorTable | None,
    tell: folder_splits.Listener = folder_splits.log,
) -> dict[str, list[pairs.Item]]:
    """Distributes images and masks over the splits; see `find`."""
    unmatched = [*found.without_mask, *found.without_image]
    splits = folder_splits.split(list(found.files), options, unmatched=unmatched, tell=tell)
    return {
        name: [pairs.Item(*found.files[stem], name=stem, source=table) for stem in stems]
        for name, stems in splits.items()
    }


def _value(path: str, folder: str, key: str, value: Any) -> Any:
    """Returns the value of a key, a path as seen from the description."""
    kinds, text = _KINDS.get(key, ((str,), 'a text'))
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise OptionError(f"{path}: '{key}' is {value!r}, but must be {text}.")
    return os.path.join(folder, os.path.expanduser(value)) if key in _PATHS else value


def _has_shards(directory: str) -> bool:
    """Returns whether a folder holds files of records."""
    try:
        return any('-of-' in name for name in shard_names.candidates(directory))
    except OSError:
        return False
