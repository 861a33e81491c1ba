"""The checkpoint of an export: found, and compared with the network."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import tensorflow as tf

from deeplab import common
from deeplab.checks import checkpoint_network
from deeplab.core import checkpoints
from deeplab.errors import NetworkMismatchError
from deeplab.names import counted
from deeplab.wording import option

_MOST_LINES = 10  # of variables that are missing, and of those that differ


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
      path: of the checkpoint.
      variables: all variables of the network, or placeholders with their names.
      num_classes: number of its classes.
      names: names of variables in the checkpoint, by the variables' names; None for the same names.

    Raises:
      CheckpointError: it has another number of classes (the message gives both), or lacks variables or has them in
        other shapes (the message lists the first ones).
    """
    held = checkpoints.entries(path)
    names = names or {}
    shapes = {names.get(v.op.name, v.op.name): tuple(v.shape.as_list()) for v in variables}
    missing = [name for name in shapes if name not in held]
    different = [name for name in shapes if name in held and held[name].shape != shapes[name]]
    classes = {held[name].shape[-1] for name in different if _may_count_classes(name, shapes[name], num_classes)}
    lines, details = [], []
    if len(classes) == 1:
        (found,) = classes
        field = 'ModelOptions.outputs_to_num_classes'
        lines.append(
            f"{option(field, num_classes)}, but the checkpoint '{path}' has {found} classes. Set "
            f'{option(field, found)} to export it, or give a checkpoint with {num_classes} classes.'
        )
        different = [name for name in different if not _may_count_classes(name, shapes[name], num_classes)]
    if missing or different:
        lines.append(
            f"The checkpoint '{path}' does not match this network. Set the network options that it was trained with "
            '(model variant, depth multiplier, atrous rates, decoder), or give another checkpoint.'
        )
    if missing:
        details.append(f'It lacks {len(missing)} of {len(shapes)} variables:')
        details += _shortened([f'  {name} {list(shapes[name])}' for name in missing])
    if different:
        details.append(f'It has {counted(len(different), "variable")} in other shapes:')
        differences = [f'  {name} {list(shapes[name])} here, {list(held[name].shape)} there' for name in different]
        details += _shortened(differences)
    if lines:
        kind = checkpoint_network.ClassesMismatchError if len(classes) == 1 else NetworkMismatchError
        raise kind('\n'.join(lines), '\n'.join(details))


def _shortened(lines: list[str]) -> list[str]:
    """Returns the first lines of a list, and how many more there are: what to do must stay on the screen."""
    return lines if len(lines) <= _MOST_LINES else [*lines[:_MOST_LINES], f'  and {len(lines) - _MOST_LINES} more']


def _may_count_classes(name: str, shape: tuple[int, ...], num_classes: int) -> bool:
    """Returns whether the last dimension of a variable is the number of classes, as for logits."""
    scopes = (f'{common.LOGITS_SCOPE}/{common.OUTPUT_TYPE}', f'{common.DECODER_SCOPE}/')
    return name.startswith(scopes) and bool(shape) and shape[-1] == num_classes
