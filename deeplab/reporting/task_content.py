"""Data of the sections of a report page about tasks other than `semantic`, and their pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deeplab.evaluation.split_images import Sample
from deeplab.pictures import drawing, plane_pictures
from deeplab.registry import TASKS
from deeplab.reporting import evaluation_files, pictures, run_files
from deeplab.reporting.run_files import Run
from deeplab.reporting.task_images import Legend, headline
from deeplab.utils import save_annotation

Figures = dict[str, float | None]


Chosen = dict[str, list[int]]  # the images of which the page shows the results of a task, by its name


def chosen(runs: Sequence[Run], most: int) -> Chosen:
    """Returns the images that are shown of each task: those with the worst main figure in any run, the worst first.

    Args:
      runs: the runs of the report.
      most: largest number of images of a task.
    """
    images_of = {}
    tasks = [run.result.tasks for run in runs if run.result is not None]
    for name in dict.fromkeys(name for each in tasks for name in each.scores):
        of_task = [each for each in tasks if name in each.scores]
        worst = np.min([each.ranks(name) for each in of_task], axis=0)  # [images]
        order = np.argsort(worst, kind='stable')
        images_of[name] = order[np.isfinite(worst[order])][:most].tolist()
    return images_of


def sections(runs: Sequence[Run], images: Chosen, first_picture: int) -> list[dict[str, Any]]:
    """Returns the data of the section of each task.

    Args:
      runs: the runs of the report.
      images: the images that are shown.
      first_picture: number of the first picture of the first task on the page.
    """
    of_files = [name for each in runs for name in tasks_in(each.curve.evaluations)]
    rows, number = [], first_picture
    for name in dict.fromkeys([*images, *of_files]):
        task = TASKS.get(name)
        shown = images.get(name, [])
        figures = [_figures(name, each) for each in runs]
        # The main figure of each image; empty if the run does not have it.
        scores = [[] if each.result is None else each.result.tasks.scores.get(name, []) for each in runs]
        rows.append(
            {
                'name': name,
                'summary': task.summary,
                'headline': headline(task),
                'figures': [each[0] for each in figures],
                'classes': [each[1] for each in figures],
                'curve': [_curve(name, headline(task), each) for each in runs],
                'scores': scores,
                'pictures': [
                    {
                        'image': image,
                        'picture': number + place,
                        'scores': [each[image] if each else None for each in scores],
                    }
                    for place, image in enumerate(shown)
                ],
            }
        )
        number += len(shown)
    return rows


def tasks_in(evaluations: Sequence[evaluation_files.Evaluation]) -> list[str]:
    """Returns the tasks of which metrics files have figures."""
    named = dict.fromkeys(name for each in evaluations for name in _metrics(each))
    return [name for name in named if name in TASKS.names() and TASKS.get(name).metric is not None]


def _metrics(evaluation: evaluation_files.Evaluation) -> Mapping[str, Any]:
    """Returns the figures of the further metrics of a metrics file, by the name of the metric."""
    metrics = evaluation.content.get('metrics')
    return metrics if isinstance(metrics, Mapping) else {}


def _figures(name: str, run: Run) -> tuple[Figures, dict[str, list[float | None]]]:
    """Returns the figures of a task and its figures of each class: of the pass, or of the newest metrics file."""
    if run.result is not None:
        evaluated = run.result.round
        of_classes = {key: list(values) for key, values in evaluated.of_classes.get(name, {}).items()}
        return dict(evaluated.further.get(name, {})), of_classes
    if not run.curve.evaluations:
        return {}, {}
    figures = _metrics(run.curve.evaluations[-1]).get(name)
    return {key: run_files.number(value) for key, value in figures.items()} if isinstance(figures, Mapping) else {}, {}


def _curve(name: str, figure: str, run: Run) -> list[dict[str, Any]]:
    """Returns the main figure of a task over the steps of a training."""
    rows = []
    for each in run.curve.evaluations:
        figures = _metrics(each).get(name)
        value = run_files.number(figures.get(figure)) if isinstance(figures, Mapping) else None
        if value is not None:
            rows.append({'step': each.step, 'value': value})
    return rows


def picture(name: str, image: int, sample: Sample, runs: Sequence[Run], most_bytes: int) -> dict[str, Any]:
    """Returns the pictures of a task of one image: its truth, then the result of each run.

    Args:
      name: name of the task.
      image: number of the image.
      sample: the image and its truth.
      runs: the runs of the report.
      most_bytes: limit of all its pictures.
    """
    pixels = drawing.in_rgb(save_annotation.rounded(sample.image))
    drawn: plane_pictures.Pictures = {}
    legend: Legend = {}
    for run in runs:
        if run.result is None or name not in run.result.tasks.tasks:
            continue
        drawn = drawn or {'image': pixels, **run.result.tasks.of_truth(name, sample.parts, pixels)}
        if run.result.images.sizes[image] == pixels.shape[:2]:  # not resized in another way than for the first run
            of_run = f'{run.name}: ' if len(runs) > 1 else ''
            of_result, legend = run.result.tasks.of_result(name, image, sample.parts, pixels)
            drawn |= {f'{of_run}{caption}': values for caption, values in of_result.items()}
    return pictures.several_encoded(drawn, most_bytes) | {
        'legend': [[meaning, list(color)] for meaning, color in legend.items()]
    }
