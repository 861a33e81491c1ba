"""Cross-validation: trainings without each fold in turn, their evaluation, a table, a page and all predictions.

`python -m deeplab.cross_validate` and `deeplab cross_validate` are one program.
"""

from __future__ import annotations

if __name__ == '__main__':  # `python -m deeplab.cross_validate`; first, so that help does not wait for TensorFlow
    from deeplab import start

    start.run_program('cross_validate')

import dataclasses
import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from deeplab import eval as eval_program
from deeplab import input_preprocess, names, train, vis
from deeplab.datasets import segmentation_dataset
from deeplab.datasets.segmentation_dataset import DataSource
from deeplab.errors import OptionError
from deeplab.evaluation import evaluation_rounds, fold_figures, runner, task_results
from deeplab.files import cross_validation, folder_lock, output_files, run_manifests
from deeplab.files.cross_validation import CrossValidation, Fold
from deeplab.options import (
    CrossValidateOptions,
    EvalOptions,
    ResizeOptions,
    VisOptions,
    WaitOptions,
    split_of_fold,
)
from deeplab.reporting import fold_page, page
from deeplab.training import resume_changes, run_manifest
from deeplab.wording import option

_OUTPUT_DIR = 'CrossValidateOptions.output_dir'
PAGE = 'report.html'
PREDICTIONS = 'predictions'  # a folder for each fold in it
_ONCE = WaitOptions(interval_secs=0, max_rounds=1, timeout_secs=0)


@dataclasses.dataclass(frozen=True)
class CrossValidationResult:
    """Result of a run of the program.

    Attributes:
      validation: the finished folds, and figures over all of them if all are finished.
      report: the table, for the user.
      status: exit status; not 0 if a signal stopped a training.
    """

    validation: CrossValidation
    report: str
    status: int = 0


def run(options: CrossValidateOptions) -> CrossValidationResult:
    """Trains without each fold in turn and evaluates on it; finished folds are skipped, an interrupted one continues.

    Raises:
      UserError: the records have no folds, the folder has a cross-validation of other records or with other options,
        or what train, eval and vis raise.
    """
    folder = options.output_dir
    output_files.require_folder(folder, _OUTPUT_DIR)
    page.require_library()  # before the trainings, which take long
    with folder_lock.held(folder, 'cross_validate', _OUTPUT_DIR):
        return _run(options)


def _run(options: CrossValidateOptions) -> CrossValidationResult:
    done = _begun(options)
    total, started, trained = done.number_of_folds, time.monotonic(), 0
    whole = tuple(fold for fold in done.folds if evaluation_rounds.read_json(fold.metrics or ''))
    for fold in done.folds:
        if fold not in whole:
            logging.warning("'%s' is missing or damaged: fold %d is evaluated again.", fold.metrics, fold.number)
    done = dataclasses.replace(done, folds=whole)
    finished = {fold.number for fold in whole}
    for number in range(1, total + 1):
        if number in finished:
            logging.info('Fold %d of %d is finished.', number, total)
            continue
        logging.info('Fold %d of %d: training without it.', number, total)
        training = train.run(options.of_fold(number))
        if training.status:
            report = f'Stopped in fold {number} of {total}; the same command continues. {training.report}'
            return CrossValidationResult(done, report, training.status)
        assert training.checkpoint is not None
        fold = _evaluated(options, number, training.checkpoint)
        done = dataclasses.replace(done, folds=tuple(sorted([*done.folds, fold], key=lambda each: each.number)))
        _write(done)
        trained += 1
        seconds = time.monotonic() - started
        left = (total - len(done.folds)) * seconds / trained
        miou = '-' if fold.miou is None else f'{fold.miou:.4f}'
        remaining = f'; about {names.duration(left)} left' if left else ''
        logging.info(
            'Fold %d of %d: mean IoU %s, %s in all%s.', number, total, miou, names.duration(seconds), remaining
        )
    contents = [evaluation_rounds.read_json(fold.metrics or '') for fold in done.folds]
    done = dataclasses.replace(done, results=fold_figures.of_folds(contents))
    _write(done)
    return CrossValidationResult(done, _report(options, done))


def _begun(options: CrossValidateOptions) -> CrossValidation:
    """Returns the cross-validation in the folder, begun or resumed.

    Raises:
      DataError: the records have no folds.
      OptionError: the folder has a cross-validation of other records, or with other options.
    """
    source = DataSource(options.train.dataset)
    directory = source.split(split_of_fold(1)).directory
    folds = segmentation_dataset.folds_in(directory)
    parts = [source.split(split_of_fold(fold)).open_records() for fold in folds]
    digests = [str(part.facts()['digest']) for part in parts]
    records = {
        'split': ','.join(map(split_of_fold, folds)),
        'digest': hashlib.sha256('\n'.join(digests).encode()).hexdigest(),
        'images': sum(map(len, parts)),
    }
    described = run_manifest.options_as_json(options.train)
    if described['validation']['every'] == described['number_of_steps']:  # not given, see `TrainOptions.fold`
        described['validation']['every'] = None
    settings = {'options': described, 'records': records}
    begun = cross_validation.load(options.output_dir)
    if begun is None:
        begun = CrossValidation(options.output_dir, len(folds), settings=settings)
        with output_files.writing_to(options.output_dir, _OUTPUT_DIR):
            os.makedirs(options.output_dir, exist_ok=True)
        _write(begun)
        return begun
    _require_same(options, begun, settings)
    return begun


def _require_same(options: CrossValidateOptions, begun: CrossValidation, settings: Mapping[str, Any]) -> None:
    """Raises `OptionError` if a cross-validation was begun with other records or options."""
    changed = resume_changes.changes(options.train, dict(begun.settings), dict(settings), of_new_runs=True)
    if begun.settings['records'].get('split') != settings['records']['split']:
        pair = begun.number_of_folds, len(settings['records']['split'].split(','))
        differing = [f'number of folds: {pair[0]} -> {pair[1]}']
    else:
        differing = [str(each) for each in changed]
    if differing:
        raise OptionError(
            f"'{options.output_dir}' has a cross-validation of other records or with other flags: "
            f'{"; ".join(differing)}. Repeat it with the same ones, or set another {option(_OUTPUT_DIR)}'
        )


def _write(done: CrossValidation) -> None:
    with output_files.writing_to(done.folder, _OUTPUT_DIR):
        cross_validation.write(done)


def _evaluated(options: CrossValidateOptions, number: int, checkpoint: str) -> Fold:
    """Evaluates the network without a fold on it, and writes what it predicts.

    The last checkpoint is taken: the best one was chosen by its figure on the fold, which is too good for that reason.
    """
    training = options.of_fold(number)
    split = split_of_fold(number)
    dataset = dataclasses.replace(training.dataset, split=split)
    model = training.model
    if not model.is_per_image:
        model = dataclasses.replace(model, crop_size=None)  # the smallest that holds every image of the fold
    logdir = os.path.join(training.train_logdir, run_manifests.EVAL_FOLDER)
    common: dict[str, Any] = {
        'dataset': dataset,
        'checkpoint_dir': checkpoint,
        'resize': training.resize,
        'wait': _ONCE,
    }
    (evaluated,) = eval_program.run(EvalOptions(model=model, eval_logdir=logdir, fits_crop_size=True, **common)).rounds
    model = dataclasses.replace(model, crop_size=evaluated.crop_size or model.crop_size)
    raw = task_results.has_classes(model)
    predictions = _predictions(options.output_dir, number)
    common |= {'also_save_raw_predictions': raw, 'uses_eval_ids': False}  # for the page; classes may share an id
    vis.run(VisOptions(model=model, vis_logdir=predictions, save=options.save, **common))
    flags = evaluation_rounds.read_json(evaluated.path).get('flags', {})
    uses_averages = bool(flags.get('use_moving_average'))
    miou = evaluated.metrics.miou
    return Fold(number, split, training.train_logdir, checkpoint, uses_averages, miou, evaluated.path)


def _predictions(folder: str, number: int) -> str:
    """Returns the folder for what the network without a fold predicts of it."""
    return os.path.join(folder, PREDICTIONS, split_of_fold(number))


def _report(options: CrossValidateOptions, done: CrossValidation) -> str:
    """Writes the page; returns the table and where everything is."""
    folder, results = options.output_dir, done.results
    table = fold_figures.table(results)
    path = os.path.join(folder, PAGE)
    descriptor = DataSource(options.train.dataset).descriptor
    command = ' '.join(map(names.shell_quoted, options.command))
    folds = _images(options, done) if results['classes'] else []
    text = fold_page.render(done, folds, descriptor, options.images, command)
    output_files.write(path, _OUTPUT_DIR, text, table)
    images = names.counted(sum(results['images']), 'image')
    of_all = results['figures'].get('mean IoU')
    lines = [table]
    if of_all is not None and of_all['mean'] is not None:
        deviation = '' if of_all['deviation'] is None else f' (deviation {of_all["deviation"]:.4f})'
        lines.append(
            f'{done.number_of_folds} folds, {images}: mean IoU {of_all["mean"]:.4f}{deviation}, pooled '
            f'{of_all["pooled"]:.4f}'
        )
    lines.append(f'Predictions of each image without its fold: {os.path.join(folder, PREDICTIONS)}')
    lines.append(f'All networks together: --ensemble --checkpoint_dir={folder}')
    lines.append(f'All figures: {os.path.join(folder, cross_validation.FILE)}')
    lines.append(f'{path} ({names.byte_size(os.path.getsize(path))})')
    return '\n'.join(lines)


def _images(options: CrossValidateOptions, done: CrossValidation) -> Sequence[fold_page.FoldImages]:
    """Returns the images of all folds with the files of their predictions."""
    folds = []
    for fold in done.folds:
        training = options.of_fold(fold.number)
        dataset = DataSource(dataclasses.replace(training.dataset, split=fold.split)).split()
        resize = ResizeOptions() if vis.undoes_resize(training.resize) else training.resize
        model = dataclasses.replace(training.model, crop_size=None)
        split = runner.open_split(dataset, model, resize, True, fold.train_logdir, chooses_crop=True)
        masks = os.path.join(_predictions(options.output_dir, fold.number), vis.RAW_PREDICTIONS)
        files = [os.path.join(masks, f'{name}.png') for name in vis.file_names(split.stored_names())]
        # Images keep their sizes: nothing is padded with a mean pixel.
        steps = input_preprocess.eval_steps(None, resize, (), split.descriptor.ignore_label, planes=split.reader.planes)
        folds.append(fold_page.FoldImages(split, steps, files))
    return folds
