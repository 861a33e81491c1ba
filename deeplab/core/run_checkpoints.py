"""Which checkpoints in a training's folder are the training's own, and which of them it resumes from.

The user may keep other checkpoints there, such as the one to start from: they are neither resumed from, nor
overwritten, nor removed.
"""

from __future__ import annotations

import os

from absl import logging

from deeplab.core import checkpoints
from deeplab.errors import CheckpointError


def of_run(directory: str, initial: str | None = None) -> list[str]:
    """The checkpoints in `directory` from which a training there resumes, newest first.

    They are those that its state file lists, and after them those named as training names its own, `model.ckpt-STEP`.
    The user's initial checkpoint may lie in the same folder: it is not one of them, unless the state file lists it
    under such a name.

    Args:
      directory: the training's folder.
      initial: path of the initial checkpoint, or of its folder; None without one.
    """
    given = _real_path(initial) if initial else None
    listed = [
        path for path in checkpoints.listed_in(directory) if checkpoints.is_own_name(path) or _real_path(path) != given
    ]
    others = [
        path for path in checkpoints.on_disk(directory) if checkpoints.is_own_name(path) and _real_path(path) != given
    ]
    return list(dict.fromkeys([*listed, *sorted(others, key=checkpoints.step_in_name, reverse=True)]))


def newest_of_run(directory: str, initial: str | None = None) -> str | None:
    """The newest whole checkpoint in `directory` from which a training there resumes; None without any; see `of_run`.

    Raises:
      CheckpointError: if there are checkpoints of the training, and none can be read.
    """
    found = of_run(directory, initial)
    if found and not checkpoints.listed_in(directory):
        logging.warning(
            "The file 'checkpoint' in '%s' is missing or damaged, or what it lists is gone. Resuming from the files "
            'named %s-STEP; none of those will be removed.',
            directory,
            checkpoints.BASENAME,
        )
    return checkpoints.first_whole(directory, found)


def require_not_overwritten(directory: str, initial: str | None, resumed_step: int | None, last_step: int) -> None:
    """Raises `CheckpointError` where a training would overwrite its initial checkpoint with one of its own.

    Args:
      directory: the training's folder.
      initial: path of the initial checkpoint, or of its folder; None without one.
      resumed_step: from which the training resumes; None for a new one.
      last_step: with which it ends.
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
            f'--tf_initial_checkpoint={initial} lies in --train_logdir and has the name of a checkpoint that training '
            'will write there, so that it would be overwritten. Set another --train_logdir, or move its files'
        )


def _real_path(path: str) -> str:
    """The checkpoint at `path`, or the newest in the folder `path`, without links and relative parts."""
    if os.path.isdir(path):
        path = checkpoints.newest(path) or path
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
