"""Splits of data sets: the descriptor and the TFRecord shards of a split."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
from collections.abc import Iterable

from deeplab.datasets import descriptor as descriptor_lib
from deeplab.datasets import folders
from deeplab.errors import DataError
from deeplab.wording import option

# SPLIT-00000-of-00004.tfrecord, with any extension.
SHARD_NAME = re.compile(r'(?P<split>.+)-(?P<number>\d+)-of-(?P<total>\d+)(?P<suffix>\..*)?')
_UNFINISHED = ('.partial', '.tmp', '.temp', '.part')


@dataclasses.dataclass(frozen=True)
class SegmentationDataset:
    """A split whose shards exist.

    Attributes:
      descriptor: description of the data set.
      split: name of the split.
      directory: folder of the shards.
      shards: their paths, sorted by name.
    """

    descriptor: descriptor_lib.DatasetDescriptor
    split: str
    directory: str
    shards: tuple[str, ...]


def get_dataset(name: str, split: str, directory: str) -> SegmentationDataset:
    """Finds the shards of a split.

    Args:
      name: data set, as for `descriptor.load`.
      split: name of the split. It need not be listed in the descriptor, but its shards must exist.
      directory: folder of the shards, `SPLIT-*`.

    Returns:
      The split.

    Raises:
      OptionError: The data set is unknown.
      DataError: The folder is missing or empty, it has no shard of the split, or the shards are not complete.
    """
    dataset = descriptor_lib.load(name)
    folder = pathlib.Path(directory)
    if not os.path.isdir(folder):
        what = 'is not a folder' if os.path.exists(folder) else 'does not exist'
        fix = f'Set {option("DatasetOptions.directory")} to the folder of the records.'
        raise DataError(f"The data set's folder '{directory}' {what}. {fix}")
    try:
        files = sorted(path.name for path in folder.iterdir() if _may_be_shard(path))
    except OSError as error:
        raise DataError(f"The data set's folder '{directory}' cannot be read: {error.strerror}.") from None
    shards = [file for file in files if _is_of_split(file, split)]
    if not shards:
        raise DataError(_no_shard_message(dataset, split, directory, files))
    _check_complete(shards, split, directory)
    return SegmentationDataset(dataset, split, str(directory), tuple(str(folder / shard) for shard in shards))


def split_names(directory: str) -> list[str]:
    """Returns the names of the splits whose shards are in a folder, sorted.

    Raises:
      OSError: The folder cannot be read.
    """
    return _splits(path.name for path in pathlib.Path(directory).iterdir() if _may_be_shard(path))


def _may_be_shard(path: pathlib.Path) -> bool:
    return not path.name.startswith('.') and not path.name.endswith(_UNFINISHED) and path.is_file()


def _is_of_split(file: str, split: str) -> bool:
    """Returns whether `file` is `SPLIT-*`, and not a shard of another split whose name has this one as a prefix."""
    numbered = SHARD_NAME.fullmatch(file)
    return numbered['split'] == split if numbered else file.startswith(f'{split}-')


def _no_shard_message(dataset: descriptor_lib.DatasetDescriptor, split: str, directory: str, files: list[str]) -> str:
    message = f"There is no shard '{split}-*' in '{directory}'. " if split else 'The name of the split is empty. '
    there = _splits(files)
    if there:
        message += f'Splits with shards there: {", ".join(there)}.'
    else:
        message += _what_is_there(pathlib.Path(directory))
    if dataset.splits:
        message += f" Splits of '{dataset.name}': {', '.join(dataset.splits)}."
    return message


def _splits(files: Iterable[str]) -> list[str]:
    """Returns the names of the splits whose shards exist."""
    return sorted({match['split'] for file in files if (match := SHARD_NAME.fullmatch(file))})


def _what_is_there(folder: pathlib.Path) -> str:
    """Describes the content of a folder without a shard, with the fix."""
    content = folders.summary(folder)
    entries = sorted(folder.iterdir())
    for inner in (path for path in entries if path.is_dir()):
        with contextlib.suppress(OSError):
            if splits := _splits(path.name for path in inner.iterdir() if _may_be_shard(path)):
                fix = option('DatasetOptions.directory', str(inner))
                return f'{content} Its folder {inner.name} contains shards of {", ".join(splits)}: set {fix}.'
    if left := [path.name for path in entries if path.name.endswith(_UNFINISHED) and path.is_file()]:
        content += f' Unfinished files such as {left[0]} are ignored: their build is still running or was interrupted.'
    return (
        f'{content} No file is a shard (SPLIT-00000-of-00004.tfrecord). Build the records first, or set '
        f'{option("DatasetOptions.directory")}.'
    )


def _check_complete(shards: list[str], split: str, directory: str) -> None:
    """Raises `DataError` unless the numbered shards are one complete set."""
    matches = [match for shard in shards if (match := SHARD_NAME.fullmatch(shard))]
    totals = sorted({match['total'] for match in matches})
    if len(totals) > 1:
        raise DataError(
            f"'{directory}' contains several sets of shards of split '{split}': {split}-*-of-{totals[0]} and "
            f'{split}-*-of-{totals[1]}. Keep one of them; otherwise images are used twice.'
        )
    present = {int(match['number']) for match in matches}
    for match in matches[:1]:
        width, suffix = len(match['number']), match['suffix'] or ''
        missing = [
            f'{split}-{number:0{width}d}-of-{match["total"]}{suffix}'
            for number in range(int(match['total']))
            if number not in present
        ]
        if missing:
            more = f' and {len(missing) - 3} more' if len(missing) > 3 else ''
            raise DataError(
                f"Split '{split}' in '{directory}' is not complete: {', '.join(missing[:3])}{more} missing. "
                'Copy or build it again.'
            )
