"""Data of a report page, as JSON values: runs, classes, differences, the chosen images."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from deeplab import names
from deeplab.core.metrics import ConfusionMatrix, Metrics
from deeplab.evaluation.differences import Interval, paired
from deeplab.evaluation.image_results import ImageResults
from deeplab.reporting import choice, evaluation_files, run_files, task_content
from deeplab.reporting.inference import Pass, Task
from deeplab.reporting.run_files import Run

_MOST_EXAMPLES = 3  # images named for each cell of the confusion matrix
_MOST_CELLS = 4000  # cells with such names: those with most pixels
_MOST_CONFUSIONS = 100
# What a run has on the page, without anything.
_EMPTY: dict[str, Any] = {
    **dict.fromkeys(('notes', 'facts', 'points', 'evaluations', 'settings', 'scores', 'figures', 'classes'), ()),
    'repeat': '',
    'examples': {},
    'calibration': None,
    'confusion': None,
    'miou': None,
}


def short_names(paths: Sequence[str]) -> list[str]:
    """Returns names for runs: the ends of their paths, as long as is needed to tell them apart."""
    split = [os.path.abspath(path).split(os.sep) for path in paths]
    for length in range(1, max(map(len, split)) + 1):
        shortened = [names.shown(os.sep.join(parts[-length:])) for parts in split]
        if len(set(shortened)) == len(shortened):
            return shortened
    return [f'{i}: {names.shown(path)}' for i, path in enumerate(paths, start=1)]


def classes(class_names: Sequence[str], colors: np.ndarray) -> list[dict[str, Any]]:
    """Returns name and color of each class; there may be more colors, [n, 3]."""
    rows = zip(class_names, colors.tolist(), strict=False)
    return [{'name': names.printable(str(name)), 'color': color} for name, color in rows]


def of_run(run: Run, class_names: Sequence[str]) -> dict[str, Any]:
    """Returns the data of one run."""
    data: dict[str, Any] = _EMPTY | {
        'name': run.name,
        'notes': run.notes,
        'facts': [[label, names.printable(text)] for label, text in run_files.facts(run.manifest)],
        'repeat': names.printable(run_files.repeat_line(run)),
        'points': list(run.points),
        'evaluations': [_evaluation(each, class_names) for each in run.curve.evaluations if has_classes(each)],
    }
    return data | (_of_newest_file(run, class_names) if run.result is None else _of_pass(run.result))


def has_classes(evaluation: evaluation_files.Evaluation) -> bool:
    """Returns whether a metrics file has an IoU, or no figures of tasks that do without."""
    content = evaluation.content
    return content.get('miou') is not None or not task_content.tasks_in([evaluation])


def _evaluation(evaluation: evaluation_files.Evaluation, class_names: Sequence[str]) -> dict[str, Any]:
    by_name = evaluation.content['class_iou']
    return {
        'step': evaluation.step,
        'split': evaluation.settings['split'],
        'miou': run_files.number(evaluation.content.get('miou')),
        'class_iou': [run_files.number(by_name.get(name)) for name in class_names],
    }


def _of_newest_file(run: Run, class_names: Sequence[str]) -> dict[str, Any]:
    """Returns the figures of the newest metrics file, which have no intervals."""
    nothing: dict[str, Any] = {'miou': None, 'figures': [], 'classes': [], 'confusion': None}
    newest = next(reversed(run.curve.evaluations), None)
    if newest is None or not has_classes(newest):
        return nothing
    confusion = newest.content.get('confusion_matrix')
    try:
        matrix = np.asarray(confusion, np.int64)
    except (TypeError, ValueError, OverflowError):
        return nothing
    if matrix.shape != (len(class_names), len(class_names)):
        return nothing
    figures = of_matrix(matrix)
    return figures | {
        'settings': [[name.capitalize(), text] for name, text in run.curve.shown(('split', 'crop size'))],
        'figures': [['From', newest.source], ['Step', str(newest.step)], *figures['figures']],
    }


def of_matrix(matrix: np.ndarray) -> dict[str, Any]:
    """Returns the figures of a confusion matrix, [label, prediction] int64, without intervals."""
    figures = ConfusionMatrix.of_counts(matrix).result()
    return {
        'miou': [figures.miou, None, None],
        'figures': _accuracies(figures),
        'classes': _class_rows(figures, [Interval(iou, None, None) for iou in figures.class_iou]),
        'confusion': matrix.tolist(),
    }


def of_images(images: ImageResults) -> dict[str, Any]:
    """Returns the figures of images, without intervals and without a run."""
    matrix = images.confusion()
    scores = [run_files.number(float(score)) for score in images.scores()]
    return _EMPTY | of_matrix(matrix) | {'scores': scores, 'examples': _examples(images, matrix)}


def _of_pass(result: Pass) -> dict[str, Any]:
    facts = {
        'figures': _figures(result),
        'settings': [[label, names.printable(text)] for label, text in _settings(result.task)],
    }
    if not result.has_classes:
        return {'miou': None, 'classes': [], 'confusion': None} | facts
    images, evaluated = result.images, result.round
    of_all, interval = evaluated.metrics, evaluated.further['intervals']
    matrix = np.asarray(of_all.confusion_matrix, np.int64)
    low, high = (evaluated.of_classes['intervals'][end] for end in ('low', 'high'))
    ious = [Interval(*parts) for parts in zip(of_all.class_iou, low, high, strict=True)]
    return facts | {
        'miou': [of_all.miou, interval['miou low'], interval['miou high']],
        'classes': _class_rows(of_all, ious),
        'confusion': matrix.tolist(),
        'scores': [run_files.number(float(score)) for score in images.scores()],
        'examples': _examples(images, matrix),
        'calibration': _calibration(result),
    }


def _figures(result: Pass) -> list[list[str]]:
    """Returns what was predicted how fast, and the accuracies of classes, as pairs of a label and a text."""
    task, images, evaluated = result.task, result.images, result.round
    crop_size = task.evaluation.split.crop_size
    return [
        ['Checkpoint', names.printable(task.source.path)],
        *([['Step', str(task.step)]] if task.step is not None else []),
        ['Images', f'{len(images)} ({len(images) / max(evaluated.seconds, 1e-9):.1f} images/s)'],
        *([['Crop size', '{} x {}'.format(*crop_size)]] if task.evaluation.windows is None else []),
        *(_accuracies(evaluated.metrics) if result.has_classes else []),
        *([['Engine', evaluated.engine.text().removeprefix('Engine: ')]] if evaluated.engine else []),
    ]


def _settings(task: Task) -> list[tuple[str, str]]:
    """Returns how the figures were obtained, as pairs of a label and a text."""
    options = task.options
    rows = [('Data set', task.evaluation.split.descriptor.name), ('Split', options.dataset.split)]
    rows += task.source.settings(options)
    if options.windows is not None:
        sizes = {'window': options.windows.window, 'stride': options.windows.window_stride}
        texts = [f'{name} {size[0]} x {size[1]}' for name, size in sizes.items() if size is not None]
        rows.append(('Windows', ', '.join(texts) or 'of the default size'))
    return rows


def _calibration(result: Pass) -> dict[str, Any] | None:
    """Returns the expected calibration error and its bins; None without probabilities."""
    figures = result.round.further.get('calibration')
    if figures is None:
        return None
    return {'ece': figures['ece'], 'bins': json.loads(result.round.documents['calibration.json'])['bins']}


def _accuracies(figures: Metrics) -> list[list[str]]:
    if figures.pixel_accuracy is None:
        return [['Pixels', 'none are labeled']]
    return [
        ['Pixel accuracy', f'{figures.pixel_accuracy:.2%}'],
        ['Mean accuracy', f'{figures.mean_accuracy:.2%}'],
        ['Labeled pixels', f'{np.sum(figures.confusion_matrix):,}'],
    ]


def _class_rows(figures: Metrics, ious: Sequence[Interval]) -> list[dict[str, Any]]:
    labels = np.sum(figures.confusion_matrix, axis=1)
    shares = labels / max(labels.sum(), 1)
    columns = ious, figures.class_accuracy, figures.class_precision, shares.tolist()
    return [
        {'iou': list(iou), 'recall': recall, 'precision': precision, 'share': share}
        for iou, recall, precision, share in zip(*columns, strict=True)
    ]


def _examples(images: ImageResults, matrix: np.ndarray) -> dict[str, list[list[int]]]:
    """Returns the images with most pixels of each pair of label and prediction, for the pairs with most pixels."""
    flat = matrix.reshape(-1)
    shown = np.zeros(len(flat), bool)
    shown[np.argsort(-flat, kind='stable')[:_MOST_CELLS]] = True
    numbers = np.repeat(np.arange(len(images)), [len(pairs) for pairs in images.pairs])
    pairs, pixels = np.concatenate(images.pairs), np.concatenate(images.pair_pixels)
    examples: dict[str, list[list[int]]] = {}
    for place in np.lexsort((numbers, -pixels, pairs)):
        cell = examples.setdefault(str(pairs[place]), []) if shown[pairs[place]] else None
        if cell is not None and len(cell) < _MOST_EXAMPLES:
            cell.append([int(numbers[place]), int(pixels[place])])
    return examples


def differences(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Returns the paired differences from the first run, of those with classes."""
    passes = [(number, run.of_classes) for number, run in enumerate(runs) if run.of_classes is not None]
    if len(passes) < 2:
        return []
    (first_number, first), *others = passes
    first_counts, first_scores = first.images.counts(), first.images.scores()
    rows = []
    for number, other in others:
        miou, ious = paired(first_counts, other.images.counts())
        change = other.images.scores() - first_scores
        rows.append(
            {
                'run': number,
                'first': first_number,
                'miou': list(miou),
                'classes': [list(each) for each in ious],
                'better': int((change > 0).sum()),
                'worse': int((change < 0).sum()),
                'equal': int((change == 0).sum()),
            }
        )
    return rows


def chosen(runs: Sequence[Run], most: int) -> choice.Groups:
    """Returns the images of which the page shows class ids, with their groups."""
    passes = [run.of_classes for run in runs if run.of_classes is not None]
    if not passes:
        return {}
    scores = np.stack([each.images.scores() for each in passes])  # [runs, images]
    if len(passes) > 1:
        return choice.of_several(scores, most)
    return chosen_of(passes[0].images, most)


def chosen_of(images: ImageResults, most: int) -> choice.Groups:
    """Returns the images of one pass that a page shows, with their groups."""
    return choice.of_one(images.scores(), _confusing(images), most)


def _confusing(images: ImageResults) -> list[int]:
    """Returns the image with most pixels of each frequent confusion, the most frequent first."""
    wrong = images.confusion()
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-wrong.reshape(-1), kind='stable')[:_MOST_CONFUSIONS]
    pairs = [divmod(int(place), images.num_classes) for place in order if wrong.reshape(-1)[place]]
    return [int(images.pixels_of_pair(*pair).argmax()) for pair in pairs]


def picture_list(runs: Sequence[Run], groups: choice.Groups) -> list[dict[str, Any]]:
    """Returns number, groups, size and pairs of labels and predictions of each chosen image."""
    return pictures_of([None if run.of_classes is None else run.of_classes.images for run in runs], groups)


def pictures_of(results: Sequence[ImageResults | None], groups: choice.Groups) -> list[dict[str, Any]]:
    """As `picture_list`, for the results of each run; None for a run without results."""
    rows = []
    for image, of_image in groups.items():
        height, width = next(images.sizes[image] for images in results if images is not None)
        cells = [[] if images is None else images.cells(image) for images in results]
        rows.append({'image': image, 'groups': of_image, 'size': [width, height], 'cells': cells})
    return rows
