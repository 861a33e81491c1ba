"""Names of shards: which files in a folder may be records of a split."""

from __future__ import annotations

import contextlib
import os
import re

from deeplab.datasets import description_file
from deeplab.errors import StorageError
from deeplab.files import storage

# SPLIT-00000-of-00004.tfrecord, with any extension.
SHARD_NAME = re.compile(r'(?P<split>.+)-(?P<number>\d+)-of-(?P<total>\d+)(?P<suffix>\..*)?')
# DATASET_SPLIT.tfrecord or DATASET_SPLIT_00000-of-00005.tfrecord, as TF-Slim names its records for classification.
_SLIM_NAME = re.compile(r'[^_]+_(?P<split>[^_-]+)(_(?P<number>\d+)-of-(?P<total>\d+))?(?P<suffix>\.tfrecord)')
_SLIM_SUFFIX = '.record'  # SPLIT.record-00000-of-00100
UNFINISHED = ('.partial', '.tmp', '.temp', '.part')
# Files that a training writes, perhaps into the folder of its records: checkpoints, with parts numbered like shards
# (model.ckpt-9.data-00000-of-00001), and event files; and the archives of MNIST, such as train-images-idx3-ubyte.gz.
_OTHERS = re.compile(
    r'(.+[._])?ckpt-\d+\..+|.+\.data-\d+-of-\d+(\.tempstate.*)?|.+\.(index|meta)|(.+\.)?events\.out\.tfevents\..+'
    r'|.+-ubyte\.gz'
)


def candidates(directory: str) -> list[str]:
    """Returns the names of the files in a folder that may be shards, sorted.

    Raises:
      OSError: The folder cannot be read.
      StorageError: A web server does not say what is in the folder.
    """
    there = _on_web_server(directory) if storage.is_on_web_server(directory) else storage.file_names(directory)
    return [
        name for name in there if not (name.startswith('.') or name.endswith(UNFINISHED) or _OTHERS.fullmatch(name))
    ]


def of(split: str, total: int) -> list[str]:
    """Returns the names of all shards of a split, as builders write them."""
    return [f'{split}-{number:05d}-of-{total:05d}.tfrecord' for number in range(total)]


def _on_web_server(directory: str) -> list[str]:
    """Returns the shards whose number the description gives, or else the files that the server lists."""
    path = description_file.beside(directory) or os.path.join(directory, description_file.FILE_NAME)
    facts = description_file.split_facts(path)
    described = [
        name for split, each in facts.items() for name in of(split, each.shards if isinstance(each.shards, int) else 0)
    ]
    names = described
    with contextlib.suppress(OSError):
        names = names or storage.file_names(directory)
    if not any(map(matched, names)):
        raise StorageError(
            f"The web server does not say which shards there are in '{directory}'. Put a {description_file.FILE_NAME} "
            "there with the number of shards of each split, such as 'splits: {train: {shards: 4}}' (builders write "
            'it), or let the server list the folder.'
        )
    return names


def matched(file: str) -> re.Match[str] | None:
    """Returns `split`, `number` and `total` (None for a single file) and `suffix` of a shard; None for another file."""
    return SHARD_NAME.fullmatch(file) or _SLIM_NAME.fullmatch(file)


def split_of(file: str) -> str | None:
    """Returns the split of a shard, by its name or TF-Slim's; None for another file."""
    match = matched(file)
    return None if match is None else match['split'].removesuffix(_SLIM_SUFFIX)


def is_of_split(file: str, split: str) -> bool:
    """Returns whether `file` is `SPLIT-*`, and not a shard of another split with a longer name, such as `SPLIT-a-*`."""
    numbered = SHARD_NAME.fullmatch(file)
    return numbered['split'] == split if numbered else file.startswith(f'{split}-')
