"""The checkpoint of an export: found, and compared with the network."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import tensorflow as tf

from deeplab.core import checkpoints


def find_checkpoint(path: str) -> str:
    """Returns the checkpoint at `path`, or the newest complete one in a folder.

    Raises:
      CheckpointError: there is none, or the path is one of a checkpoint's files.
    """
    if not os.path.isdir(path):
        return checkpoints.check_path(path)
    return checkpoints.require_newest(path)


def check_fit(
    path: str, variables: Sequence[tf.Variable | tf.Tensor], num_classes: int, names: Mapping[str, str] | None = None
) -> None:
    """Compares a checkpoint with the network to be exported.

    Args:
      path: path of the checkpoint.
      variables: all variables of the network, or placeholders with their names.
      num_classes: number of its classes.
      names: names of variables in the checkpoint, by the variables' names; None for the same names.

    Raises:
      CheckpointError: it has another number of classes (the message gives both), or lacks variables, or has them in
        other shapes.
    """
    checkpoints.require_all(path, variables, names, num_classes)
