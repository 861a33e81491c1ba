"""Evaluation of checkpoints on a split: mean intersection over union (mIoU) and other metrics.

`python deeplab/eval.py --flag=...`, `python -m deeplab.eval` and `deeplab eval` are one program.
"""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and usage errors do not wait for TensorFlow
    import os
    import sys

    if not __package__:  # run as a file: replace the folder of this file by the folder of the package
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    from deeplab import start

    sys.exit(start.main(['eval', *sys.argv[1:]]))

import dataclasses
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from deeplab.core.metrics import MEANS
from deeplab.datasets import label_checks
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.datasets.segmentation_dataset import DataSource
from deeplab.errors import CheckpointError
from deeplab.evaluation import (
    best_figure,
    evaluation_rounds,
    runner,
    scoring,
    several_checkpoints,
    split_parts,
    waiting,
)
from deeplab.files import folder_lock, output_files, part_folders, run_manifests, writing
from deeplab.inference import ensemble, model_source, network_source, opening, task_calibration
from deeplab.inference.network import InferenceNetwork, memory_size
from deeplab.inference.run_weights import WeightsChoice
from deeplab.options import EngineOptions, EvalOptions, ModelOptions, PredictionOptions, ResizeOptions, WindowOptions
from deeplab.options.parts import Part
from deeplab.registry import TASKS
from deeplab.system import memory

_LOGDIR = 'EvalOptions.eval_logdir'
_STATE = 'metrics.state'  # of a part
_DEFAULT_SPLIT = 'val'  # of the command line
_OUTPUT = r'\w+-.+\.(json|csv)'  # names of the files that are written


@dataclasses.dataclass(frozen=True)
class EvalResult:
    """Result of a run of the program.

    Attributes:
      rounds: one for each checkpoint, in order.
      report: the last round as a table, for the user; of several checkpoints the best one, and the main figures of
        each.
    """

    rounds: tuple[evaluation_rounds.Round, ...]
    report: str


def run(options: EvalOptions) -> EvalResult:
    """Evaluates each new checkpoint until the limits in `options.wait` are reached, or several given ones.

    Args:
      options: the checkpoints, the network and the split.

    Returns:
      The metrics of every round; they are in the log, in metrics-STEP.json and in event files too.

    Raises:
      UserError: Data set, network or checkpoint are missing or do not match, or another eval writes to the folder.
    """
    size = memory_size('eval', options.model, options.batch_size)
    folder = options.part.folder(options.eval_logdir)
    with folder_lock.held(folder, 'eval', _LOGDIR), memory.explained('eval', size=size):
        return _run(options)


def _run(options: EvalOptions) -> EvalResult:
    opening.check(options.engine)  # before the records, which may take long
    source = _ensemble(options) if options.ensemble else network_source.at(options.checkpoint_dir)
    if options.further_checkpoint_dirs and not options.ensemble:
        for path in (options.checkpoint_dir, *options.further_checkpoint_dirs):
            network_source.at(path).check_among_several()
    options = source.applied(options)
    split = _open_split(options)
    crop_size: tuple[int, int] | None = split.crop_size
    if options.windows is not None:  # images keep their sizes unless a crop size is given
        crop_size = None if options.fits_crop_size else options.model.crop_size
    options = dataclasses.replace(options, model=dataclasses.replace(options.model, crop_size=crop_size))
    runner.warn_of_flips(options.prediction, options.model)
    labels: list[str] = []
    if split.has_labels:
        checked = split.check_result
        labels = label_checks.ignored_class(split.descriptor)
        labels += label_checks.validation_labels(
            split.descriptor, checked.class_pixels, checked.ignored_pixels, options.dataset.split
        )
    for line in labels:
        logging.warning('%s', line)
    writing.remove_leftovers(output_files.make_folder(options.eval_logdir), _OUTPUT)
    task = _task(options, split)
    if not options.master and options.engine == EngineOptions():
        task.network.check_memory('eval')
    if options.ensemble:
        task = dataclasses.replace(task, source=source)
        evaluated = _evaluate(source.path, options, task)
        return EvalResult((evaluated,), report(evaluated, split.descriptor))
    choice = _choice(options)
    if options.further_checkpoint_dirs or options.all_checkpoints:
        return _of_several(options, task, choice)
    if (part := options.part.chosen) is not None:
        (checkpoint,) = waiting.rounds(options.checkpoint_dir, dataclasses.replace(options.wait, max_rounds=1))
        return EvalResult((), _evaluate_part(checkpoint, part, options, task, choice))
    newest = waiting.rounds(options.checkpoint_dir, options.wait)
    rounds = [_evaluate(checkpoint, options, task, choice) for checkpoint in newest]
    return EvalResult(tuple(rounds), report(rounds[-1], split.descriptor) if rounds else '')


def _choice(options: EvalOptions) -> WeightsChoice:
    return WeightsChoice(options.use_moving_average, 'EvalOptions.use_moving_average')


def _ensemble(options: EvalOptions) -> ensemble.EnsembleSource:
    """Returns the ensemble of all given checkpoints, each with its weights or moving averages."""
    networks = ensemble.find([*options.further_checkpoint_dirs, options.checkpoint_dir], options.network)
    choice = _choice(options)
    return ensemble.EnsembleSource(networks, [choice.takes_averages(each.checkpoint) for each in networks])


def _task(options: EvalOptions, split: runner.Split) -> runner.Task:
    """Returns what is evaluated, and how; raises what would be raised after the wait for a checkpoint."""
    metrics: Mapping[str, Mapping[str, Any]] = options.metric_parameters
    if options.takes_all_metrics:
        metrics = scoring.available(split.descriptor, metrics)
    scores = scoring.Scores(split.descriptor, metrics, options.model)
    network = InferenceNetwork(
        options.model,
        options.prediction,
        options.batch_size,
        scores.needs_confidence,
        of_labels_only=True,
        resize=options.resize,
    )
    return runner.Task(
        network,
        split,
        options.resize,
        metrics,
        options.master,
        engine=options.engine,
        cache_dirs=(options.part.folder(options.eval_logdir),),
        windows=options.windows,
    )


def _open_split(options: EvalOptions) -> runner.Split:
    """Opens the split, with the crop size of the options or one that is chosen for its images."""
    data, is_chosen = DataSource(options.dataset).split(), options.fits_crop_size or options.windows is not None
    split = runner.open_fitting_split(data, options.model, options.resize, is_chosen, options.eval_logdir)
    if options.windows is None and split.crop_size != options.model.crop_size:
        logging.info('The crop size is %d,%d, into which every image fits.', *split.crop_size)
    elif options.windows is None and options.fits_crop_size:
        runner.warn_of_padding(split, options.model, options.resize)
    if options.max_images is None:
        return split
    return split.selected(slice(options.max_images))


def _evaluate(
    checkpoint: str, options: EvalOptions, task: runner.Task, choice: WeightsChoice | None = None
) -> evaluation_rounds.Round:
    if choice is not None:  # each network of an ensemble has its own
        options = dataclasses.replace(options, use_moving_average=choice.takes_averages(checkpoint))
        task = dataclasses.replace(task, use_moving_average=bool(options.use_moving_average))
    evaluated = evaluation_rounds.evaluate(checkpoint, task)
    name = figures_file(evaluated.global_step, options)
    path = evaluation_rounds.free_path(options.eval_logdir, name, 'flags', '-by_eval')
    evaluated = dataclasses.replace(evaluated, path=path)
    _publish(evaluated, task.split.descriptor, options.prediction, flags_of_figures(options))
    if task_calibration.is_for_validation(options.dataset.split):
        task.source_at(checkpoint).keep_calibration(evaluated.calibration)
    return dataclasses.replace(evaluated, documents={})  # they may be large, and are written


def _evaluate_part(checkpoint: str, part: Part, options: EvalOptions, task: runner.Task, choice: WeightsChoice) -> str:
    """Evaluates a checkpoint on a part of the split, and writes the state of the metrics; returns the report."""
    options = dataclasses.replace(options, use_moving_average=choice.takes_averages(checkpoint))
    task = dataclasses.replace(task, use_moving_average=bool(options.use_moving_average))
    folder = part_folders.begin(options.eval_logdir, part, 'eval')
    state = split_parts.evaluate(checkpoint, task, part)
    with output_files.writing_to(folder, _LOGDIR):
        writing.write(os.path.join(folder, _STATE), state)
    settings = {
        'name': figures_file(network_source.at(checkpoint).step() or 0, options),
        'flags': flags_of_figures(options),
        'prediction': dataclasses.asdict(options.prediction),
        'class_names': task.split.descriptor.names,
    }
    return part_folders.finish(folder, part, 'eval', settings, {})


def merge(folder: str, parts: Sequence[part_folders.PartFolder]) -> str:
    """Writes the figures of all parts of an evaluation, as one evaluation would; returns the report.

    Raises:
      DataError: a part is damaged, or they do not belong together.
      OutputError: a file cannot be written.
    """
    evaluated, note = split_parts.merged([part.read(_STATE) for part in parts]), parts[0].settings
    path = evaluation_rounds.free_path(folder, note['name'], 'flags', '-by_eval')
    evaluated = dataclasses.replace(evaluated, path=path)
    classes = note['class_names']
    descriptor = DatasetDescriptor(note['flags']['dataset'], len(classes), class_names=classes, has_masks=False)
    _publish(evaluated, descriptor, PredictionOptions(**note['prediction']), note['flags'])
    source = network_source.at(evaluated.checkpoint)
    if task_calibration.is_for_validation(note['flags']['eval_split']) and source.exists():
        source.keep_calibration(evaluated.calibration)
    return report(evaluated, descriptor)


def _of_several(options: EvalOptions, task: runner.Task, choice: WeightsChoice) -> EvalResult:
    """Evaluates and compares several existing checkpoints, except unreadable ones."""
    directories = [options.checkpoint_dir, *options.further_checkpoint_dirs]
    advice = 'Evaluate them one by one, use deeplab compare, or set these options for all of them'
    given = options.network
    model_source.require_one_description(
        directories, advice, lambda network: _predicting(model_source.changed(network, given)), options.model, given
    )
    rounds: list[evaluation_rounds.Round] = []
    failure = None
    in_order = [*options.further_checkpoint_dirs, options.checkpoint_dir]  # of the command line
    for path, folder in several_checkpoints.find(in_order, options.all_checkpoints):
        logdir = os.path.join(options.eval_logdir, folder) if folder else options.eval_logdir
        output_files.make_folder(logdir)
        try:
            rounds.append(_evaluate(path, dataclasses.replace(options, eval_logdir=logdir), task, choice))
        except CheckpointError as error:
            logging.warning('%s', error)
            failure = failure or error
    if not rounds:
        assert failure is not None  # `find` has found a checkpoint in each folder
        raise failure
    descriptor = task.split.descriptor
    names = list(descriptor.names)
    options = dataclasses.replace(options, use_moving_average=choice.taken)
    path = os.path.join(options.eval_logdir, f'checkpoints{_variant(options)}')
    figure = best_figure.of_network(options.model) or best_figure.MIOU
    content = several_checkpoints.as_json(rounds, names, figure) | {'flags': flags_of_figures(options)}
    best = several_checkpoints.best(rounds, figure)
    text = f'{report(best, descriptor)}\n\n{several_checkpoints.table(content, best.has_classes, figure)}'
    with output_files.writing_to(options.eval_logdir, _LOGDIR, text):
        writing.write(f'{path}.csv', several_checkpoints.as_csv(content, best.has_classes))
        evaluation_rounds.write_json(content, f'{path}.json')
    return EvalResult(tuple(rounds), f'{text}\nAll checkpoints: {path}.json, {path}.csv')


def _predicting(network: ModelOptions) -> ModelOptions:
    """Returns a network without the options that have an effect on training alone."""
    return dataclasses.replace(
        network,
        crop_size=None,
        batch_norm_decay=None,
        quantize_delay_step=None if network.quantize_delay_step is None else 0,
        nas=dataclasses.replace(network.nas, drop_path_keep_prob=1.0, total_training_steps=None),
    )


def _publish(
    result: evaluation_rounds.Round,
    descriptor: DatasetDescriptor,
    prediction: PredictionOptions,
    flags: Mapping[str, object],
) -> None:
    """Writes a round to the log, a JSON file and an event file; `flags` are `flags_of_figures`.

    Raises:
      OutputError: A file cannot be written; the error carries the table of the round.
    """
    logdir = os.path.dirname(result.path)
    figures = evaluation_rounds.tagged_figures(result, prediction)
    # Scripts parse the lines of the original; on a terminal, the table at the end has the figures of classes.
    tags_of_log = [*figures][: 1 if sys.stderr.isatty() else None]
    figures |= evaluation_rounds.further_tagged_figures(result, prediction)
    of_tasks = [(name, each) for name in result.further if name in TASKS.names() for each in result.further[name]]
    tags_of_log += [evaluation_rounds.tag_of(f'{task}/{name}', prediction) for task, name in of_tasks]
    for tag in tags_of_log:
        logging.info('%s', evaluation_rounds.log_line(tag, figures[tag]))
    content = evaluation_rounds.as_json(result, descriptor) | {'flags': dict(flags)}
    with output_files.writing_to(logdir, _LOGDIR, report(dataclasses.replace(result, path=''), descriptor)):
        evaluation_rounds.write_json(content, result.path)
    with output_files.writing_to(logdir, _LOGDIR, report(result, descriptor)):
        for name, text in result.documents.items():
            writing.write(document_path(name, result.path), text)
        with tf.Graph().as_default(), tf.compat.v1.summary.FileWriter(logdir) as writer:
            evaluation_rounds.add_summaries(writer, figures, result.global_step)


def document_path(name: str, metrics_path: str) -> str:
    """Returns the path of a document of a metric: per_image-30000.csv beside metrics-30000.json."""
    folder, metrics_name = os.path.split(metrics_path)
    stem, suffix = os.path.splitext(name)
    variant = metrics_name.removeprefix('metrics').removesuffix('.json')
    return os.path.join(folder, f'{stem}{variant}{suffix}')


def flags_of_figures(options: EvalOptions) -> dict[str, object]:
    """Returns the options that determine the metrics, by the names of their flags, for metrics-STEP.json."""
    return {
        'dataset': options.dataset.name,
        'eval_split': options.dataset.split,
        'eval_scales': list(options.prediction.scales),
        'add_flipped_images': options.prediction.add_flipped_images,
        'use_moving_average': options.use_moving_average,
        **({'ensemble': [*options.further_checkpoint_dirs, options.checkpoint_dir]} if options.ensemble else {}),
        'eval_crop_size': options.model.crop_size,
        **_stride_and_rates(options),
        'min_resize_value': options.resize.min_value,
        'max_resize_value': options.resize.max_value,
        'resize_factor': options.resize.factor,
        **({'metrics': options.metric_parameters} if options.metrics else {}),
        **({'max_images': options.max_images} if options.max_images else {}),
        **_changed(options.windows),
        **_changed(options.engine),
    }


def _stride_and_rates(options: EvalOptions) -> dict[str, object]:
    """Returns output stride and atrous rates; nothing for an export or an ensemble, whose networks have their own."""
    if options.ensemble or network_source.at(options.checkpoint_dir).label is not None:
        return {}
    return {'output_stride': options.model.output_stride, 'atrous_rates': list(options.model.aspp.rates)}


def _changed(part: EngineOptions | WindowOptions | None) -> dict[str, object]:
    """Returns the fields of an options object that are not at their defaults, by name."""
    fields = () if part is None else dataclasses.fields(part)
    return {field.name: getattr(part, field.name) for field in fields if getattr(part, field.name) != field.default}


def figures_file(step: int, options: EvalOptions) -> str:
    """Returns the name of the metrics file: metrics-STEP.json, with the options that are not at their defaults.

    So evaluations of one checkpoint with different options do not overwrite each other:
    metrics-30000-test-scales_0.5_1.0-flipped.json.
    """
    return f'metrics-{step}{_variant(options)}.json'


def _variant(options: EvalOptions) -> str:
    """Returns the part of the names of files that states the options that are not at their defaults."""
    parts = ['']
    if options.ensemble:
        parts.append('ensemble')
    elif (label := network_source.at(options.checkpoint_dir).label) is not None:
        parts.append(re.sub(r'[^\w.]', '_', label))
    if options.dataset.split != _DEFAULT_SPLIT:
        parts.append(re.sub(r'[^\w.]', '_', options.dataset.split))
    if _stride_and_rates(options) and options.model.output_stride != _usual_output_stride(options):
        parts.append(f'output_stride_{options.model.output_stride}')
    if not options.prediction.is_single_scale:
        parts.append('_'.join(['scales', *(str(float(scale)) for scale in options.prediction.scales)]))
    if options.prediction.add_flipped_images:
        parts.append('flipped')
    if options.use_moving_average:
        parts.append('moving_average')
    for name, value in _changed(options.windows).items():
        parts.append('_'.join([name, *map(str, value if isinstance(value, tuple) else (value,))]))
    changed = _changed(options.engine)
    parts += [str(changed[name]) for name in ('engine', 'precision') if name in changed]
    resize = (options.resize.min_value, options.resize.max_value, options.resize.factor)
    if options.resize != ResizeOptions():
        parts.append('_'.join(['resized', *('-' if value is None else str(value) for value in resize)]))
    return '-'.join(parts)


def _usual_output_stride(options: EvalOptions) -> int:
    """Returns the output stride of the training, or the default one if there is no run.json."""
    if options.model.is_per_image:  # it follows from the network
        return options.model.output_stride
    beside = run_manifests.beside(options.checkpoint_dir)
    trained = None if beside is None else run_manifests.option_of(beside[1], 'model', 'output_stride')
    return ModelOptions({}).output_stride if trained is None else trained


def report(result: evaluation_rounds.Round, descriptor: DatasetDescriptor) -> str:
    """Formats a round as a table: each class with its share of the labeled pixels and its figures, then the others."""
    names = list(descriptor.names)
    further = {
        f'{metric} {name}': value for metric, figures in result.further.items() for name, value in figures.items()
    }
    width = max(len(name) for name in [*names, *further, *MEANS.values()])
    lines = [*_class_tables(result, names, width)]
    means = {title: getattr(result.metrics, key) for key, title in MEANS.items() if result.has_classes}
    for name, value in (means | further).items():
        lines.append(f'{name:{width}}          {_shown(value)}')
    lines.append(result.speed_text() + (f' All metrics: {result.path}' if result.path else ''))
    lines += [] if result.crop_size is None else [result.padding_text()]
    if result.engine is not None:
        lines.append(result.engine.text())
    return '\n'.join(lines)


def _class_tables(result: evaluation_rounds.Round, names: Sequence[str], width: int) -> Iterator[str]:
    """Yields the lines of the tables of classes: of the metrics of labels, then of each task; a line ends each."""
    metrics, of_tasks = result.metrics, set(TASKS.names())
    if result.has_classes:
        pixels = [sum(row) for row in metrics.confusion_matrix]
        total = max(sum(pixels), 1)
        columns = {
            'IoU': metrics.class_iou,
            'accuracy': metrics.class_accuracy,
            'precision': metrics.class_precision,
            'Dice': metrics.class_dice,
        }
        for metric, of_classes in result.of_classes.items():
            if metric not in of_tasks:
                columns |= {_title(metric, name): values for name, values in of_classes.items()}
        rows = [f'{name:{width}} {count / total:7.2%}' for name, count in zip(names, pixels, strict=True)]
        yield from _class_table(f'{"class":{width}}  pixels', rows, columns)
    for task, of_classes in result.of_classes.items():
        if task in of_tasks:
            yield from _class_table(f'{task:{width}}', [f'{name:{width}}' for name in names], of_classes)


def _class_table(head: str, rows: Sequence[str], columns: Mapping[str, Sequence[float | None]]) -> Iterator[str]:
    """Yields a table of classes that begins with `head` and `rows`, and a line below it."""
    title_line = head + ''.join(f'  {title:>7}' for title in columns)
    yield title_line
    cells = [[f'  {text:>{len(title)}}' for text in _shown_column(values)] for title, values in columns.items()]
    for row, *texts in zip(rows, *cells, strict=True):
        yield row + ''.join(texts)
    yield '-' * len(title_line)


def _title(metric: str, name: str) -> str:
    """Returns the title of a column: the metric and its figure, unless the metric's name ends with it."""
    return metric if metric.endswith(f'_{name}') else f'{metric} {name}'


def _shown_column(figures: Sequence[float | None]) -> list[str]:
    """Formats the figures of a column; counts, of which some are above 1, have no decimals."""
    numbers = [figure for figure in figures if figure is not None]
    if any(number > 1 for number in numbers) and all(number == int(number) for number in numbers):
        return ['      -' if figure is None else f'{figure:7.0f}' for figure in figures]
    return [_shown(figure) for figure in figures]


def _shown(figure: float | None) -> str:
    """Formats a share, or another figure, as a column of the table."""
    if figure is None:
        return '      -'
    return f'{figure:7.4f}' if abs(figure) < 10 else f'{figure:7.6g}'
