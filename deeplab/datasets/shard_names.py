"""Names of shards: which files in a folder may be records of a split."""

from __future__ import annotations

import re

from deeplab.files import storage

# SPLIT-00000-of-00004.tfrecord, with any extension.
SHARD_NAME = re.compile(r'(?P<split>.+)-(?P<number>\d+)-of-(?P<total>\d+)(?P<suffix>\..*)?')
UNFINISHED = ('.partial', '.tmp', '.temp', '.part')
# Files that a training writes, perhaps into the folder of its records: checkpoints, with parts numbered like shards
# (model.ckpt-9.data-00000-of-00001), and event files.
_OF_TRAININGS = re.compile(
    r'(.+[._])?ckpt-\d+\..+|.+\.data-\d+-of-\d+(\.tempstate.*)?|.+\.(index|meta)|(.+\.)?events\.out\.tfevents\..+'
)


def candidates(directory: str) -> list[str]:
    """Returns the names of the files in a folder that may be shards, sorted.

    Raises:
      OSError: The folder cannot be read.
    """
    return [
        name
        for name in storage.file_names(directory)
        if not (name.startswith('.') or name.endswith(UNFINISHED) or _OF_TRAININGS.fullmatch(name))
    ]


def is_of_split(file: str, split: str) -> bool:
    """Returns whether `file` is `SPLIT-*`, and not a shard of another split with a longer name, such as `SPLIT-a-*`."""
    numbered = SHARD_NAME.fullmatch(file)
    return numbered['split'] == split if numbered else file.startswith(f'{split}-')
