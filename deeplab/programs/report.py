"""Report of one or more training runs, as one HTML file that needs no network.

`python deeplab/programs/report.py RUN ...`, `python -m deeplab.report` and `deeplab report` are one program.
"""

from __future__ import annotations

if __name__ == '__main__':  # `python -m deeplab.report`; first, so that help does not wait for TensorFlow
    from deeplab import start

    start.run_program('report')

import contextlib
import dataclasses
import datetime
import functools
import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from absl import logging

import deeplab
from deeplab import names
from deeplab.datasets.descriptor import bit_shift_palette
from deeplab.errors import CheckpointError, OptionError
from deeplab.evaluation import split_images
from deeplab.files import output_files, run_manifests
from deeplab.inference import network_source
from deeplab.options import ReportedRun, ReportOptions
from deeplab.pictures import drawing
from deeplab.reporting import content, inference, page, pictures, run_files, task_content
from deeplab.reporting.choice import Groups
from deeplab.reporting.run_files import Run
from deeplab.system import memory
from deeplab.utils import save_annotation

_MARK = b'<meta name="generator" content="deeplab report">'
_PATH = 'ReportOptions.path'
_FIGURES_FORMAT = 'deeplab report 1'
_FIGURES_MARK = b'{"format": "deeplab report'


@dataclasses.dataclass(frozen=True)
class ReportResult:
    """Result of a run of the program.

    Attributes:
      path: the HTML file; the figures are beside it, at `figures_path(path)`.
      images: number of images on it.
      megabytes: its size, in 10^6 bytes.
      miou: mean IoU of each run; None without records and metrics files.
      report: where the page is, for the user.
      status: exit status: 1 if compare found a greater loss of mean IoU than is allowed.
    """

    path: str
    images: int
    megabytes: float
    miou: tuple[float | None, ...]
    report: str
    status: int = 0


def run(options: ReportOptions) -> ReportResult:
    """Writes the page.

    Raises:
      UserError: Data set, network or checkpoint are missing or do not match, a package is missing, or the file cannot
        be written.
    """
    output_files.require_folder(os.path.dirname(options.path) or '.', _PATH)
    page.require_paths([each.path for each in options.runs])
    output_files.require_own(options.path, _PATH, 'a page of deeplab report', functools.partial(_has_mark, _MARK))
    own = figures_path(options.path)
    output_files.require_own(own, _PATH, 'a file of deeplab report', functools.partial(_has_mark, _FIGURES_MARK))
    with memory.explained('report'), contextlib.ExitStack() as stack:
        library = page.charts_library()
        runs = _runs(options, stack)
        groups = content.chosen(runs, options.images)
        of_tasks = task_content.chosen(runs, options.images)
        data = _content(options, runs, groups, of_tasks)
        used = len(library) + len(page.as_json(data))
        most_bytes = pictures.share(len(groups) + sum(map(len, of_tasks.values())), used)
        drawn = itertools.chain(_pictures(runs, groups, most_bytes), _task_pictures(runs, of_tasks, most_bytes))
        output_files.write(options.path, _PATH, page.render(data, drawn, library))
        output_files.write(figures_path(options.path), _PATH, json.dumps(_figures(data)))
    return _result(options, runs, data, len({*groups, *itertools.chain(*of_tasks.values())}))


def figures_path(path: str) -> str:
    """Returns the path of the figures of a page: report.json beside report.html."""
    return f'{os.path.splitext(path)[0]}.json'


def _has_mark(mark: bytes, path: str) -> bool:
    """Returns whether a file was written by this program, and may be replaced."""
    with open(path, 'rb') as file:
        return mark in file.read(4096)


def _figures(data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the content of the JSON file: what the page has, without what only a page needs."""
    left_out = ('title', 'pictures', 'notes')
    runs = [{name: value for name, value in run.items() if name != 'examples'} for run in data['runs']]
    return {'format': _FIGURES_FORMAT} | {k: v for k, v in data.items() if k not in left_out} | {'runs': runs}


def _runs(options: ReportOptions, stack: contextlib.ExitStack) -> list[Run]:
    """Reads the files of each run and evaluates it, after all have been checked; `stack` closes the results."""
    runs: list[Run] = []
    tasks: list[tuple[Run, inference.Task]] = []
    short = content.short_names([each.path for each in options.runs])
    for i, (name, reported) in enumerate(zip(short, options.runs, strict=True)):
        run = run_files.read(name, run_manifests.training_folder(reported.path), options.metrics_dirs[i : i + 1])
        task, run.notes = _prepared(reported, run.folder, len(options.runs) > 1)
        beside = run.curve.note_beside(runs[0].curve, short[0]) if runs else None
        run.notes += [note for note in (run.curve.note(), beside) if note is not None]
        runs.append(run)
        tasks += [] if task is None else [(run, task)]
    inference.require_same_records([task for _, task in tasks])
    passes = []
    for run, task in tasks:
        run.result = inference.run(task, stack)
        passes.append(run.result)
    if passes:
        for (run, _), notes in zip(tasks, inference.require_same_labels(passes), strict=True):
            run.notes += notes
    elif not any(run.points or run.curve.evaluations for run in runs):
        raise OptionError(
            f"There is nothing to report in '{options.runs[0].path}': no metrics.jsonl, no metrics-STEP.json, and no "
            f'records to evaluate a checkpoint on. {options.runs[0].no_records}'
        )
    return runs


def _prepared(reported: ReportedRun, folder: str, checks_weights: bool) -> tuple[inference.Task | None, list[str]]:
    """Returns what to predict of a run, or None, and notes for the page, such as why there are no images."""
    if reported.evaluation is None:
        note = f'No images: {reported.no_records}'
        logging.warning('%s: %s', reported.path, note)
        return None, [note]
    try:
        checkpoint = network_source.at(reported.path).best()
    except CheckpointError as error:
        logging.warning('%s', error)
        return None, [f'No images: {error}.']
    evaluation = reported.evaluation
    if reported.network is not None:
        identified = network_source.at(checkpoint).identified(evaluation.model, reported.network)
        evaluation = dataclasses.replace(evaluation, model=identified)
    cache = os.path.join(folder, run_manifests.EVAL_FOLDER)
    task = inference.prepare(checkpoint, evaluation, cache if os.path.isdir(cache) else None, checks_weights)
    return task, list(task.notes)


def _content(
    options: ReportOptions, runs: Sequence[Run], groups: Groups, of_tasks: task_content.Chosen
) -> dict[str, Any]:
    """Returns the data of the page; `groups` and `of_tasks` are the images it shows."""
    first = next((run.result for run in runs if run.result is not None), None)
    if first is not None:
        descriptor = first.task.evaluation.split.descriptor
        class_names = list(descriptor.names)
        colors, ignore_label = descriptor.palette, descriptor.ignore_label
    else:
        evaluations = (each for run in runs for each in run.curve.evaluations)
        class_names = list(next((each.content['class_iou'] for each in evaluations), ()))
        colors, ignore_label = bit_shift_palette(max(len(class_names), 1)), -1
    now = datetime.datetime.now().astimezone().isoformat(' ', 'minutes')
    data: dict[str, Any] = {
        'title': ' compared with '.join(each.name for each in runs) if len(runs) > 1 else f'Report of {runs[0].name}',
        'made': f'Made by deeplab {deeplab.__version__} on {now}.',
        'command': ' '.join(map(names.shell_quoted, options.command)),
        'classes': content.classes(class_names, colors),
        'ignore_label': ignore_label,
        'runs': [content.of_run(each, class_names) for each in runs],
        'differences': content.differences(runs),
        'image_names': [] if first is None else first.images.names,
        'pictures': content.picture_list(runs, groups),
    }
    sections = task_content.sections(runs, of_tasks, len(groups))
    if sections:
        data['tasks'] = sections
        has_figures = any(any(each['classes']) for each in sections)
        if not has_figures and not any(each['classes'] or each['evaluations'] for each in data['runs']):
            data['classes'] = []
    return data


def _pictures(runs: Sequence[Run], groups: Groups, most_bytes: int) -> Iterator[Mapping[str, Any]]:
    """Yields the data of each picture with class ids, which takes at most `most_bytes`."""
    if not groups:
        return
    reading = next(run.of_classes.reading for run in runs if run.of_classes is not None)
    images = list(groups)
    for image, sample in zip(images, split_images.samples(reading.split, reading.steps, images), strict=True):
        photo = drawing.in_rgb(save_annotation.rounded(sample.image))
        predicted = [None if run.of_classes is None else run.of_classes.images.prediction(image) for run in runs]
        yield pictures.encoded(photo, sample.truth, predicted, most_bytes)


def _task_pictures(runs: Sequence[Run], of_tasks: task_content.Chosen, most_bytes: int) -> Iterator[Mapping[str, Any]]:
    passes = [run.result for run in runs if run.result is not None]
    for task, images in of_tasks.items():
        if images:
            first = next(each for each in passes if task in each.tasks.tasks)
            samples = split_images.samples(first.reading.split, first.reading.steps, images)
            for image, sample in zip(images, samples, strict=True):
                yield task_content.picture(task, image, sample, runs, most_bytes)


def _result(options: ReportOptions, runs: Sequence[Run], data: Mapping[str, Any], images: int) -> ReportResult:
    """Returns the result, whose report is a line for each run, the crop size and the path of the page."""
    megabytes = os.path.getsize(options.path) / 1e6
    width = max(len(each['name']) for each in data['runs'])
    lines = [
        f'{each["name"]:{width}}  {", ".join(_main_figures(each["miou"], data.get("tasks", ()), i))}'
        for i, each in enumerate(data['runs'])
    ]
    for difference in data['differences']:
        value, low, high = (None if part is None else 100 * part for part in difference['miou'])
        if value is not None:
            name, first = (data['runs'][difference[key]]['name'] for key in ('run', 'first'))
            interval = '' if low is None else f' ({low:+.2f} to {high:+.2f})'
            lines.append(f'{name} - {first}: {value:+.2f}{interval} percentage points')
    padded = [run.result.round for run in runs if run.result is not None and run.result.round.crop_size is not None]
    lines += dict.fromkeys(each.padding_text() for each in padded)
    lines.append(f'All figures: {figures_path(options.path)}')
    lines.append(f'{options.path} ({names.counted(images, "image")}, {names.byte_size(1e6 * megabytes)})')
    miou = tuple(each['miou'][0] if each['miou'] else None for each in data['runs'])
    return ReportResult(options.path, images, megabytes, miou, '\n'.join(lines))


def _main_figures(miou: Sequence[float | None] | None, tasks: Sequence[Mapping[str, Any]], run: int) -> list[str]:
    """Returns mean IoU, unless the run has only other figures, and the main figure of each further task."""
    figures = [(each['headline'], each['figures'][run].get(each['headline'])) for each in tasks if each['figures'][run]]
    texts = [f'{name} {"-" if value is None else f"{value:.4f}"}' for name, value in figures]
    return texts if texts and miou is None else [_shown(miou), *texts]


def _shown(miou: Sequence[float | None] | None) -> str:
    if miou is None or miou[0] is None:
        return 'mean IoU -'
    interval = '' if miou[1] is None else f' ({miou[1]:.4f} to {miou[2]:.4f})'
    return f'mean IoU {miou[0]:.4f}{interval}'
