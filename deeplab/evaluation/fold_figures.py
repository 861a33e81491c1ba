"""Figures over the folds of a cross-validation: mean, deviation, and the figure of all images together."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deeplab import names
from deeplab.core.metrics import MEANS, ConfusionMatrix

_MEANS = ('miou', 'pixel_accuracy', 'mean_accuracy')


def of_folds(contents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the figures over folds as JSON values.

    The deviation is the standard deviation of the sample (n - 1 in the denominator); a class that is missing in some
    folds has mean and deviation over the others. The pooled figure comes from the sum of the confusion matrices: each
    image counts once, as in one split.

    Args:
      contents: the content of the metrics-STEP.json of each fold.

    Returns:
      `classes` and `figures`: by name a mapping with `mean`, `deviation`, `folds` (a list) and `pooled`, None where
      nothing determines a figure; `images` of each fold; and, if there are classes, `confusion_matrix`, pixels
      [label][prediction].
    """
    first = contents[0]
    has_classes = any(each.get('miou') is not None for each in contents)
    classes, figures, pooled_matrix = {}, {}, {}
    if has_classes:
        matrix = np.sum([np.asarray(each['confusion_matrix'], np.int64) for each in contents], axis=0)
        pooled = ConfusionMatrix.of_counts(matrix).result()
        pooled_matrix = {'confusion_matrix': matrix.tolist()}
        for number, name in enumerate(first['class_iou']):
            values = [each['class_iou'][name] for each in contents]
            classes[name] = _over_folds(values, pooled.class_iou[number])
        figures = {MEANS[key]: _over_folds([each[key] for each in contents], getattr(pooled, key)) for key in _MEANS}
    for task, of_task in first.get('metrics', {}).items():
        for name in of_task:
            values = [each.get('metrics', {}).get(task, {}).get(name) for each in contents]
            figures[f'{task} {name}'] = _over_folds(values)
    return {
        'classes': classes,
        'figures': figures,
        'images': [each['images'] for each in contents],
        **pooled_matrix,
    }


def _over_folds(values: Sequence[float | None], pooled: float | None = None) -> dict[str, Any]:
    return {'mean': mean(values), 'deviation': deviation(values), 'folds': list(values), 'pooled': pooled}


def mean(values: Sequence[float | None]) -> float | None:
    """Returns the mean of the values that are not None; None if all are."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def deviation(values: Sequence[float | None]) -> float | None:
    """Returns the standard deviation of the sample (n - 1 in the denominator); None for fewer than two values."""
    known = [value for value in values if value is not None]
    return statistics.stdev(known) if len(known) > 1 else None


def table(results: Mapping[str, Any]) -> str:
    """Formats what `of_folds` returns: a row for each class, then a row for each figure of all classes."""
    folds = [f'fold{number}' for number in range(1, len(results['images']) + 1)]
    rows = [['class' if results['classes'] else 'figure', 'mean', 'deviation', *folds, 'pooled']]
    rows += [_row(name, values) for name, values in results['classes'].items()]
    further = [_row(name, values) for name, values in results['figures'].items()]
    head, *lines = names.aligned([*rows, *further])
    lines.insert(len(rows) - 1, '-' * len(head))
    return '\n'.join([head, *lines] if results['classes'] else [head, '-' * len(head), *lines[1:]])


def _row(name: str, values: Mapping[str, Any]) -> list[str]:
    figures = (values['mean'], values['deviation'], *values['folds'], values['pooled'])
    return [name, *('-' if figure is None else f'{figure:.4f}' for figure in figures)]
