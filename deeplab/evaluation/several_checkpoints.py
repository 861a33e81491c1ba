"""Evaluation of several checkpoints one after another: which ones, and their figures side by side."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from deeplab import names
from deeplab.core import checkpoints
from deeplab.core.metrics import MEANS
from deeplab.evaluation import fold_figures
from deeplab.evaluation.best_figure import MIOU, BestFigure
from deeplab.evaluation.evaluation_rounds import Round
from deeplab.files import documents, run_manifests

_NOT_FIGURES = ('checkpoint', 'global_step', 'class_iou', 'metrics')  # keys of a checkpoint in checkpoints.json


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


def best(rounds: Sequence[Round], figure: BestFigure) -> Round:
    """Returns the round of the best figure, the first of equal ones."""
    chosen = rounds[0]
    for each in rounds[1:]:
        if figure.is_better(figure.of(each), figure.of(chosen)):
            chosen = each
    return chosen


def as_json(rounds: Sequence[Round], class_names: Sequence[str], figure: BestFigure) -> dict[str, Any]:
    """Returns the content of checkpoints.json: the figures of each checkpoint, and which one is the best.

    If each checkpoint is from a different training run, `mean` and `deviation` have the means of the figures over the
    runs and their standard deviations (n - 1 in the denominator), under the keys of a checkpoint.
    """
    figures = [
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
    ]
    folders = {os.path.abspath(run_manifests.training_folder(each.checkpoint)) for each in rounds}
    return {
        'best': best(rounds, figure).checkpoint,
        **({} if figure == MIOU else {'best_metric': str(figure)}),
        **(_over_runs(figures) if len(folders) == len(rounds) > 1 else {}),
        'checkpoints': figures,
    }


def _over_runs(figures: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns mean and standard deviation of the figures of several runs, in the form of the figures of one."""

    def of_all(statistic: Callable[[Sequence[float | None]], float | None]) -> dict[str, Any]:
        values = {key: statistic([each[key] for each in figures]) for key in figures[0] if key not in _NOT_FIGURES}
        classes = {name: statistic([each['class_iou'][name] for each in figures]) for name in figures[0]['class_iou']}
        return values | {'class_iou': classes}

    return {'mean': of_all(fold_figures.mean), 'deviation': of_all(fold_figures.deviation)}


def as_csv(content: Mapping[str, Any], has_classes: bool) -> str:
    """Returns what `as_json` returns as a table: a row for each checkpoint, then mean and deviation, if any."""
    first = content['checkpoints'][0]
    figures = [key for key in first if key not in _NOT_FIGURES]
    classes = first['class_iou'] if has_classes else {}
    rows = [['checkpoint', 'global_step', *figures, *(f'iou {name}' for name in classes)]]
    for name, each in [*(('', each) for each in content['checkpoints']), *_statistics(content)]:
        ious = map(each['class_iou'].get, classes)
        rows.append([each.get('checkpoint', name), each.get('global_step'), *map(each.get, figures), *ious])
    return documents.csv_text(rows)


def _statistics(content: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(name, content[name]) for name in ('mean', 'deviation') if name in content]


def table(content: Mapping[str, Any], has_classes: bool, figure: BestFigure) -> str:
    """Formats what `as_json` returns: the main figures of each checkpoint, the best one marked.

    Mean and deviation over training runs have rows below, and the IoU of classes a table above.
    """
    columns = {} if figure == MIOU else {figure.key: figure.title}
    columns |= {key: MEANS[key] for key in ('miou', 'pixel_accuracy') if has_classes}
    rows = [['step', *columns.values(), 'checkpoint']]
    for each in content['checkpoints']:
        mark = ' (best)' if each['checkpoint'] == content['best'] else ''
        rows.append([str(each['global_step']), *_shown(map(each.get, columns)), each['checkpoint'] + mark])
    statistics = _statistics(content)
    runs = f'of {len(content["checkpoints"])} training runs'
    rows += [[name, *_shown(map(each.get, columns)), runs] for name, each in statistics]
    lines = [*names.aligned(rows, left=(len(columns) + 1,))]
    if statistics and has_classes:
        ious = [each['class_iou'] for _, each in statistics]
        classes = [[name, *_shown(each[name] for each in ious)] for name in ious[0]]
        lines = [*names.aligned([['IoU of class', *(name for name, _ in statistics)], *classes]), '', *lines]
    return '\n'.join(lines)


def _shown(figures: Iterable[float | None]) -> list[str]:
    return ['-' if figure is None else f'{figure:.4f}' for figure in figures]
