"""Checkpoints of a training run in its folder, and the one from which it resumes.

Other checkpoints in the folder, such as the initial one, are neither resumed from, nor overwritten, nor removed.
"""

from __future__ import annotations

import os

from absl import logging

from deeplab.core import checkpoints
from deeplab.errors import CheckpointError
from deeplab.wording import option


def of_run(directory: str, initial: str | None = None) -> list[str]:
    """Returns the checkpoints in `directory` from which a training there can resume, newest first.

    First the checkpoints in its state file, then further ones. Two of three signs are enough: the state file lists the
    checkpoint, it has a name `model.ckpt-STEP`, and it is not the initial checkpoint, which may be in the same folder.

    Args:
      directory: folder of the training.
      initial: path of the initial checkpoint, or of its folder; None for none.
    """
    given = _real_path(initial) if initial else None
    listed = checkpoints.listed_in(directory)
    return [
        path
        for path in checkpoints.newest_first(directory)
        if (path in listed) + checkpoints.is_own_name(path) + (_real_path(path) != given) >= 2
    ]


def newest_of_run(directory: str, initial: str | None = None) -> str | None:
    """Returns the newest intact checkpoint of `of_run`; None if there is none.

    Raises:
      CheckpointError: if there are checkpoints of the training, and none can be read.
    """
    paths = of_run(directory, initial)
    if paths and not checkpoints.listed_in(directory):
        logging.warning(
            "The file 'checkpoint' in '%s' is missing or damaged, or the checkpoints in it no longer exist. Resuming "
            'from the files named %s-STEP, none of which will be removed.',
            directory,
            checkpoints.BASENAME,
        )
    return checkpoints.newest_whole(directory, paths)


def require_not_overwritten(directory: str, initial: str | None, resumed_step: int | None, last_step: int) -> None:
    """Raises `CheckpointError` if a training would overwrite its initial checkpoint with one of its own.

    Args:
      directory: folder of the training.
      initial: path of the initial checkpoint, or of its folder; None for none.
      resumed_step: step from which the training resumes; None for a new training.
      last_step: last step of the training.
    """
    if not initial:
        return
    path = _real_path(initial)
    in_folder = os.path.dirname(path) == os.path.realpath(directory) and os.path.exists(f'{path}.index')
    if not in_folder or not checkpoints.is_own_name(path):
        return
    first = 0 if resumed_step is None else resumed_step + 1
    if first <= checkpoints.step_in_name(path) <= last_step:
        raise CheckpointError(
            f'{option("TrainOptions.initial_checkpoint", initial)} is in {option("TrainOptions.train_logdir")} and '
            'would be overwritten by a checkpoint of the same name. Set another '
            f'{option("TrainOptions.train_logdir")}, or move its files'
        )


def _real_path(path: str) -> str:
    """Returns the real path of the checkpoint at `path`, or of the newest in the folder `path`."""
    if os.path.isdir(path):
        path = checkpoints.newest(path) or path
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
