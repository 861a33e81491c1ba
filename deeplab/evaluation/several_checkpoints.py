"""Evaluation of several checkpoints one after another: which ones, and their figures side by side."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence

from deeplab.core import checkpoints
from deeplab.evaluation.best_figure import MIOU, BestFigure
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


def best(rounds: Sequence[Round], figure: BestFigure = MIOU) -> Round:
    """Returns the round of the best figure, the first of equal ones."""
    chosen = rounds[0]
    for each in rounds[1:]:
        if figure.is_better(figure.of(each), figure.of(chosen)):
            chosen = each
    return chosen


def as_json(rounds: Sequence[Round], class_names: Sequence[str], figure: BestFigure = MIOU) -> dict[str, object]:
    """Returns the content of checkpoints.json: the figures of each checkpoint, and which one is the best."""
    return {
        'best': best(rounds, figure).checkpoint,
        **({} if figure == MIOU else {'best_metric': str(figure)}),
        'checkpoints': [
            {
                'checkpoint': each.checkpoint,
                'global_step': each.global_step,
                'miou': each.metrics.miou,
                'pixel_accuracy': each.metrics.pixel_accuracy,
                'class_iou': dict(zip(class_names, each.metrics.class_iou, strict=True)),
                **({} if figure == MIOU else {figure.key: figure.of(each)}),
                'metrics': each.path,
            }
            for each in rounds
        ],
    }


def table(rounds: Sequence[Round], figure: BestFigure = MIOU) -> str:
    """Formats the main figures of each checkpoint as a table; the best one is marked."""
    chosen = best(rounds, figure)
    columns: dict[str, list[float | None]] = (
        {} if figure == MIOU else {figure.title: [figure.of(each) for each in rounds]}
    )
    if rounds[0].has_classes:
        columns['mean IoU'] = [each.metrics.miou for each in rounds]
        columns['pixel accuracy'] = [each.metrics.pixel_accuracy for each in rounds]
    lines = ['  '.join(['    step', *columns, 'checkpoint'])]
    for each, *values in zip(rounds, *columns.values(), strict=True):
        shown = ('-' if value is None else f'{value:.4f}' for value in values)
        cells = (f'  {text:>{len(title)}}' for title, text in zip(columns, shown, strict=True))
        mark = ' (best)' if each is chosen else ''
        lines.append(f'{each.global_step:8d}{"".join(cells)}  {each.checkpoint}{mark}')
    return '\n'.join(lines)
