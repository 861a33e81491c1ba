"""Evaluation of several checkpoints one after another: which ones, and their figures side by side."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence

from deeplab.core import checkpoints
from deeplab.evaluation.evaluation_rounds import Round


def find(directories: Sequence[str], takes_all: bool) -> list[tuple[str, str]]:
    """Returns all checkpoints or the newest one of each folder, by step, and single checkpoints.

    With each comes the folder for its metrics, in the program's folder, which is empty for that folder itself.

    Raises:
      CheckpointError: there is none in one of them.
    """
    folders = _folders(directories) if len(directories) > 1 else ['']
    return [
        (path, folder)
        for directory, folder in zip(directories, folders, strict=True)
        for path in _checkpoints(directory, takes_all)
    ]


def _checkpoints(directory: str, takes_all: bool) -> list[str]:
    """Returns all checkpoints in a folder by step, or the newest one; a single checkpoint is itself."""
    newest = checkpoints.check_path(directory)
    if not takes_all or not os.path.isdir(directory):
        return [newest]
    paths = {newest, *checkpoints.on_disk(directory)}
    return sorted(paths, key=lambda path: (checkpoints.step_in_name(path), path))


def _folders(directories: Iterable[str]) -> list[str]:
    """Returns a name for each path: its last part, with a number if an earlier one has it."""
    names: list[str] = []
    for directory in directories:
        name = os.path.basename(os.path.abspath(directory))
        numbered = (f'{name}_{number}' for number in itertools.count(2))
        names.append(next(each for each in itertools.chain([name], numbered) if each not in names))
    return names


def best(rounds: Sequence[Round]) -> Round:
    """Returns the round of the highest mIoU, the first of equal ones."""
    return max(rounds, key=lambda each: -1.0 if each.metrics.miou is None else each.metrics.miou)


def as_json(rounds: Sequence[Round], class_names: Sequence[str]) -> dict[str, object]:
    """Returns the content of checkpoints.json: the figures of each checkpoint, and which one is the best."""
    return {
        'best': best(rounds).checkpoint,
        'checkpoints': [
            {
                'checkpoint': each.checkpoint,
                'global_step': each.global_step,
                'miou': each.metrics.miou,
                'pixel_accuracy': each.metrics.pixel_accuracy,
                'class_iou': dict(zip(class_names, each.metrics.class_iou, strict=True)),
                'metrics': each.path,
            }
            for each in rounds
        ],
    }


def table(rounds: Sequence[Round]) -> str:
    """Formats the mIoU of each checkpoint as a table; the best one is marked."""
    chosen = best(rounds)
    lines = ['    step  mean IoU  pixel accuracy  checkpoint']
    for each in rounds:
        miou, accuracy = (
            '-' if value is None else f'{value:.4f}' for value in (each.metrics.miou, each.metrics.pixel_accuracy)
        )
        mark = ' (best)' if each is chosen else ''
        lines.append(f'{each.global_step:8d}  {miou:>8}  {accuracy:>14}  {each.checkpoint}{mark}')
    return '\n'.join(lines)
