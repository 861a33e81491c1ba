"""Validation during training: the figures of a split every so many steps, the best checkpoint, early stopping.

A validation writes TRAIN_LOGDIR/eval/metrics-STEP.json last, after the best checkpoint in TRAIN_LOGDIR/best, so a run
that is killed at any moment has either completed a validation or repeats it. A resumed run reads the best figure and
the patience from these files. A further file with both could contradict them: after a kill, with another checkpoint to
resume from, and where a user has moved best/.

Synchronous workers share the images of a validation. Each evaluates its part with its own weights, which are the same,
and sends the state of its metrics to worker 0, which does the rest alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import glob
import os
import re
import shutil
import signal
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from absl import logging

from deeplab import names
from deeplab.core import checkpoints, quantization
from deeplab.datasets import label_checks
from deeplab.datasets.segmentation_dataset import DataSource, SegmentationDataset
from deeplab.deployment import worker_group
from deeplab.errors import CheckpointError, DataError
from deeplab.evaluation import best_figure, evaluation_rounds, runner, split_parts
from deeplab.evaluation.best_figure import MIOU, BestFigure
from deeplab.files import output_files, writing
from deeplab.files.run_manifests import BEST_FOLDER, EVAL_FOLDER
from deeplab.inference import task_calibration
from deeplab.inference.network import InferenceNetwork
from deeplab.options import ModelOptions, NasOptions, PredictionOptions, TrainOptions
from deeplab.options.parts import Part
from deeplab.system import memory
from deeplab.system.interrupts import Interrupts
from deeplab.training import replicas, resume_changes
from deeplab.training.metrics_file import MetricsHook
from deeplab.training.train_hooks import ProgressHook, passes_multiple
from deeplab.training.train_loop import Hook, StepResult
from deeplab.wording import option

BATCH_SIZE = 1  # images may be as large as the crop allows, and training keeps its memory meanwhile

_OTHER_NAME = '-in_training'  # if eval has written metrics of the same step to the folder
_FIGURES = re.compile(rf'metrics-(\d+)({_OTHER_NAME})?\.json')
_STATE = 'validation/{step}/{task}'  # message of a synchronous worker: the state of its part's metrics
_PREDICTION = PredictionOptions()
# The settings in metrics-STEP.json, as the user knows them; figures of different settings are not compared.
_SETTINGS = {
    'best_metric': 'ValidationOptions.best_metric',
    'split': 'ValidationOptions.split',
    'crop_size': 'ValidationOptions.crop_size',
    'output_stride': 'ModelOptions.output_stride',
    'min_resize_value': 'ResizeOptions.min_value',
    'max_resize_value': 'ResizeOptions.max_value',
    'resize_factor': 'ResizeOptions.factor',
    'moving_average': 'moving averages',
    'quantized': 'fake quantization',
    'records': 'validation records',
}
# The values of files that lack these settings.
_IF_MISSING = {'moving_average': False, 'quantized': False, 'best_metric': str(MIOU)}


def find_split(options: TrainOptions, source: DataSource) -> SegmentationDataset | None:
    """Returns the validation split, or None without validation; reads no records, which `ValidationHook` does.

    Raises:
      DataError: the split does not exist.
      OptionError: validations do not have the figure that is to tell which checkpoint is best.
    """
    if not options.validation.is_on:
        return None
    try:
        split = source.split(options.validation.split)
    except DataError as error:
        raise DataError(f'{option("ValidationOptions.split", options.validation.split)}: {error}') from None
    best_figure.check(_figure_of(options), options.model, split.descriptor)
    return split


def _figure_of(options: TrainOptions) -> BestFigure | None:
    """Returns the figure that tells which checkpoint is best; None if there is none, which `find_split` refuses."""
    return best_figure.of_network(options.model, options.validation.best_metric)


def folders(options: TrainOptions) -> list[str]:
    """Returns the folders that validations write to; none without validation."""
    subfolders = (EVAL_FOLDER, BEST_FOLDER) if options.validation.is_on else ()
    return [os.path.join(options.train_logdir, name) for name in subfolders]


def is_pending(options: TrainOptions, checkpoint: str | None, step: int) -> bool:
    """Returns whether the checkpoint of `step`, with which an earlier run ended, is still to be validated."""
    if checkpoint is None or not step or not options.validation.is_on:
        return False
    # An 8-bit network cannot be validated before a step has measured its ranges.
    has_ranges = options.model.quantize_delay_step is None or any(
        map(quantization.is_range, checkpoints.entries(checkpoint))
    )
    return has_ranges and step not in _earlier(options, settings_of(options), step)


def settings_of(options: TrainOptions, split: runner.Split | None = None) -> dict[str, Any]:
    """Returns the settings of a validation, as metrics-STEP.json has them.

    Args:
      options: the training, with validation.
      split: the validation split; None before it is read, for the settings that do not depend on it.
    """
    crop_size = options.validation.crop_size if split is None else split.crop_size
    settings: dict[str, Any] = {
        'split': options.validation.split,
        'moving_average': options.moving_average_decay is not None,
        'quantized': options.model.quantize_delay_step is not None,
        'output_stride': options.model.output_stride,
        'min_resize_value': options.resize.min_value,
        'max_resize_value': options.resize.max_value,
        'resize_factor': options.resize.factor,
    }
    if (figure := _figure_of(options)) not in (None, MIOU):
        settings['best_metric'] = str(figure)
    if crop_size is not None:
        settings['crop_size'] = list(crop_size)
    if split is not None:
        settings['records'] = split.reader.index.facts()['digest']
    return settings


def setting_changes(content: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Returns how the settings of an earlier validation differ, as `NAME: THEN -> NOW`; none if they are the same.

    Args:
      content: content of a metrics-STEP.json. Settings that it lacks were not written then and are not compared.
      settings: the settings now.
    """
    changes = []
    for key, now in {'best_metric': str(MIOU), **settings}.items():
        then = content.get(key, _IF_MISSING.get(key, now))
        if then != now:
            name = option(_SETTINGS[key]) if '.' in _SETTINGS[key] else _SETTINGS[key]
            changes.append(f'{name}: {resume_changes.shown(then)} -> {resume_changes.shown(now)}')
    return changes


def _earlier(options: TrainOptions, settings: Mapping[str, Any], step: int) -> dict[int, float | None]:
    """Returns the figure by step, in order, of the validations up to `step` with the same settings."""
    figure, value_by_step = _figure_of(options) or MIOU, dict[int, float | None]()
    for path in glob.glob(os.path.join(glob.escape(options.train_logdir), EVAL_FOLDER, 'metrics-*.json')):
        content = evaluation_rounds.read_json(path)
        is_ours = 'split' in content and _FIGURES.fullmatch(os.path.basename(path)) is not None
        if is_ours and content['global_step'] <= step and not setting_changes(content, settings):
            value_by_step[content['global_step']] = figure.in_file(content)
    return dict(sorted(value_by_step.items()))


class Score:
    """The best figure so far, and how many validations came after it."""

    def __init__(self, figure: BestFigure = MIOU) -> None:
        self.figure = figure
        self.best: float | None = None
        self.best_step: int | None = None
        self.since_best = 0

    def add(self, step: int, value: float | None) -> bool:
        """Adds a validation; returns whether it is the best so far."""
        if not self.figure.is_better(value, self.best):
            self.since_best += 1
            return False
        self.best, self.best_step, self.since_best = value, step, 0
        return True

    def __str__(self) -> str:
        """Returns the best figure and its step; what there is instead if nothing determined it in any validation."""
        return 'none, as no labels were found' if self.best is None else f'{_shown(self.best)} at step {self.best_step}'


class _StoppedError(Exception):
    """A signal was received during a validation."""


def _network_of(options: TrainOptions) -> ModelOptions:
    """Returns the network of the validation, as `deeplab eval` builds it, which has no options of training."""
    defaults = NasOptions()
    nas = dataclasses.replace(
        options.model.nas,
        drop_path_keep_prob=defaults.drop_path_keep_prob,
        total_training_steps=defaults.total_training_steps,
    )
    return dataclasses.replace(options.model, crop_size=options.validation.crop_size, nas=nas)


class ValidationHook(Hook):
    """Evaluates the checkpoint that the loop writes when a validation is due.

    Attributes:
      score: the validations so far, also by earlier runs in the folder.
      split: the validation split.
    """

    def __init__(
        self,
        options: TrainOptions,
        dataset: SegmentationDataset,
        bar: ProgressHook,
        metrics: MetricsHook | None,
        group: worker_group.WorkerGroup | None = None,
    ) -> None:
        """Checks the split and builds the network; the bar shows each figure, the metrics file gets a line of it.

        Other synchronous workers than worker 0 have no metrics file.

        Raises:
          UserError: the split is missing or damaged, or has an image larger than the validation crop size; or a metric
            has no state, which synchronous workers send.
        """
        self._options = options
        self._bar = bar
        self._metrics = metrics
        self._group = group
        self._reason_of_chief: str | None = None
        self._logdir = os.path.join(options.train_logdir, EVAL_FOLDER)
        network = _network_of(options)
        self._best_folder = os.path.join(options.train_logdir, BEST_FOLDER)
        self.split = runner.open_split(
            dataset,
            network,
            options.resize,
            True,
            self._logdir if self._is_chief else None,
            True,
            'ValidationOptions.crop_size',
        )
        self._settings = settings_of(options, self.split)
        if self._is_chief:
            self._warn_of_labels()
        network = dataclasses.replace(network, crop_size=self.split.crop_size)
        self._task = runner.Task(
            InferenceNetwork(network, _PREDICTION, BATCH_SIZE),
            self.split,
            options.resize,
            use_moving_average=self._settings['moving_average'],
        )
        if group is not None:
            split_parts.require_states(self._task)
        self._value_by_step: dict[int, float | None] = {}
        self._last_step = self._previous_step = 0
        self._unmeasured_step: int | None = None  # before which no step has measured the ranges of 8 bits
        self.score = Score(_figure_of(options) or MIOU)
        logging.info(
            'Validating on %s of split %s, %d x %d pixels, every %s.',
            names.counted(self.split.num_images, 'image'),
            options.validation.split,
            *self.split.crop_size,
            names.counted(options.validation.every or 0, 'step'),
        )

    @property
    def _is_chief(self) -> bool:
        return self._options.clones.is_chief

    def _warn_of_labels(self) -> None:
        """Warns of masks that make every metric meaningless, unless an earlier run or the training check has."""
        options = self._options
        earlier = _earlier(options, settings_of(options), options.number_of_steps)
        if options.validation.split == options.dataset.split or earlier or not self.split.has_labels:
            return
        split, checked = str(options.validation.split), self.split.check_result
        pixels, ignored = checked.class_pixels, checked.ignored_pixels
        for line in label_checks.validation_labels(self.split.descriptor, pixels, ignored, split):
            logging.warning('%s', line)

    def check_memory(self, training: memory.Need) -> None:
        """Compares the memory of the training and a validation with what is free, before the first step.

        Raises:
          OutOfMemoryError: the validation cannot fit.
        """
        need = self._task.network.memory_need()
        if need is not None:
            of_split = option('ValidationOptions.split', self._options.validation.split)
            images = 'images of {} x {} pixels'.format(*self.split.crop_size)
            memory.check_validation(need, training, f'Validations of {of_split} with {images}')

    def begin(self, session: tf.compat.v1.Session, step: int) -> None:
        """Reads the metrics of earlier runs; another worker gets them from worker 0."""
        if self._is_chief:
            self._value_by_step = _earlier(self._options, self._settings, step)
        first = self._first_in_score() if self._is_chief else None
        for validated, value in self._value_by_step.items():
            if first is not None and validated >= first:
                self.score.add(validated, value)
        if self._group is not None:
            news = [list(self._value_by_step.items()), self.stop_reason()]
            earlier, self._reason_of_chief = replicas.of_chief(self._group, 'validated', news)
            self._value_by_step = dict(earlier)
        if self._settings['quantized'] and not quantization.are_measured(session):
            self._unmeasured_step = step
        # A validation that was due and interrupted is due again, even if the step is beyond the multiple.
        self._last_step, self._previous_step = step, max(self._value_by_step, default=step - 1)
        self._show()

    def _first_in_score(self) -> int | None:
        """Returns the first step whose validation the score includes.

        It is the step of the checkpoint in best/: the metrics of earlier steps may be better, if the user has removed
        their best/. It is 0 if the run resumes from an earlier step. It is None if best/ has no valid checkpoint, or a
        figure of other settings, about which a warning is logged: the next validation is then the first in the score.
        """
        best = checkpoints.newest(self._best_folder)
        if best is None:
            return None
        try:
            step = checkpoints.step_of(best)
        except CheckpointError:
            return None
        figures = evaluation_rounds.read_json(os.path.join(self._best_folder, f'metrics-{step}.json'))
        changes = setting_changes(figures, self._settings) if figures else []
        if changes:
            with self._bar.hidden():
                logging.warning(
                    'The %s of the best checkpoint so far was measured with other settings (%s) and cannot be '
                    'compared. The comparison starts anew: the next validation replaces the content of %s, and early '
                    'stopping counts from it. Copy that folder first if you need it.',
                    self.score.figure.title,
                    '; '.join(changes),
                    self._best_folder,
                )
            return None
        return step if step in self._value_by_step else 0

    def after_step(self, result: StepResult, fetched: dict[str, Any]) -> None:
        """Records the step, which may be several steps further if other replicas train too."""
        self._previous_step, self._last_step = self._last_step, result.step

    def needs_checkpoint(self, step: int) -> bool:
        """Returns whether a validation is due: every so many steps, and at the last one."""
        every = self._options.validation.every
        assert every is not None
        is_multiple = passes_multiple(self._previous_step, step, every)
        is_due = step > 0 and (is_multiple or step >= self._options.number_of_steps)
        return is_due and step not in self._value_by_step and step != self._unmeasured_step

    def after_checkpoint(self, path: str, step: int, interrupts: Interrupts) -> None:
        """Validates a checkpoint, unless a signal interrupts it."""
        with self._bar.hidden():
            with memory.explained(memory.VALIDATION):
                result = self._evaluate(path, step, interrupts)
            if result is not None:
                with output_files.writing_to(self._options.train_logdir, 'TrainOptions.train_logdir'):
                    self._publish(result)
                # Other replicas may have advanced the step before the checkpoint was written; its metrics have its own.
                self._value_by_step[step] = self.score.figure.of(result)
            if self._group is not None:
                self._share_news(self._group, step)
            if step not in self._value_by_step:
                logging.warning('The validation of step %d was interrupted; the next run repeats it.', step)
                interrupts.received = interrupts.received or signal.SIGTERM  # of another worker
                return
            gc.collect()  # graphs are reference cycles, and this one holds all weights as constants
        self._show()

    def _evaluate(self, path: str, step: int, interrupts: Interrupts) -> evaluation_rounds.Round | None:
        """Evaluates a checkpoint, of synchronous workers together with the others.

        Returns the figures; None if a signal has interrupted it, and for other workers than worker 0.
        """

        def stop_early(batch: runner.Batch) -> None:
            if self._group is not None:
                self._group.check()
            if interrupts.received is not None:
                raise _StoppedError

        group, state = self._group, b''
        if group is None:
            with contextlib.suppress(_StoppedError):
                return evaluation_rounds.evaluate(path, self._task, stop_early)
            return None
        number_of_parts = min(group.size, self.split.num_images)
        with contextlib.suppress(_StoppedError):
            if group.task < number_of_parts:
                part = Part(group.task + 1, number_of_parts)
                state = split_parts.evaluate(path, self._task, part, stop_early)
        group.put(_STATE.format(step=step, task=group.task), state)
        if group.task:
            return None
        states = [group.get(_STATE.format(step=step, task=task)) for task in range(number_of_parts)]
        return split_parts.merged(states) if all(states) else None

    def _share_news(self, group: worker_group.WorkerGroup, step: int) -> None:
        """Tells the other workers the figure of a validation, and whether training ends."""
        figures = {str(step): self._value_by_step[step]} if step in self._value_by_step else {}
        news = replicas.of_chief(group, f'validated/{step}', [figures, self.stop_reason()])
        self._value_by_step |= {int(validated): value for validated, value in news[0].items()}
        self._reason_of_chief = news[1]

    def stop_reason(self) -> str | None:
        """Returns why training should end; None to continue."""
        if not self._is_chief:
            return self._reason_of_chief
        patience = self._options.validation.early_stop
        if patience is None or self.score.since_best < patience:
            return None
        return (
            f'{self.score.figure.title} has not improved in {self.score.since_best} validations '
            f'({option("ValidationOptions.early_stop", patience)}); the best was {self.score}'
        )

    def report(self) -> str:
        """Returns a sentence about the best checkpoint, with a leading space; empty if there is none."""
        if self.score.best_step is None:
            return ''
        return f' Best {self.score.figure.title} {self.score}: {self._best_folder}'

    def _publish(self, result: evaluation_rounds.Round) -> None:
        """Writes a validation to best/ if it is the best, to the log, the loggers, and last its metrics file."""
        step, figure = result.global_step, self.score.figure
        value = figure.of(result)
        content = evaluation_rounds.as_json(result, self.split.descriptor) | self._settings
        is_best = self.score.add(step, value)
        if task_calibration.is_for_validation(self._options.validation.split or ''):
            task_calibration.save(result.checkpoint, result.calibration)
        if is_best:
            keep_copy(result.checkpoint, self._best_folder, content)
        figures = evaluation_rounds.tagged_figures(result, _PREDICTION)
        figures |= evaluation_rounds.further_tagged_figures(result, _PREDICTION)
        figures[tag := evaluation_rounds.tag_of(figure.key, _PREDICTION)] = value
        logging.info('%s', evaluation_rounds.log_line(tag, value))
        if is_best:
            logging.info('This is the best so far; its checkpoint is kept in %s.', self._best_folder)
        else:
            logging.info('The best so far is %s.', self.score)
        output_files.make_folder(self._logdir)
        assert self._metrics is not None, 'worker 0 has a metrics file'
        self._metrics.loggers.validation(step, figures)
        self._metrics.add_validation(step, _by_key(result) | {figure.key: value}, self._settings)
        path = evaluation_rounds.free_path(self._logdir, f'metrics-{step}.json', 'split', _OTHER_NAME)
        evaluation_rounds.write_json(content, path)
        self._value_by_step[step] = value

    def _show(self) -> None:
        if self._value_by_step:
            latest = next(reversed(self._value_by_step.values()))
            self._bar.note = f'{self.score.figure.title} {_shown(latest)} (best {_shown(self.score.best)})'


def _shown(figure: float | None) -> str:
    return '-' if figure is None else f'{figure:.4f}'


def _by_key(result: evaluation_rounds.Round) -> dict[str, float | None]:
    """Returns the figures of a validation, mIoU and the figures of tasks, by `BestFigure.key`."""
    figures = {'miou': result.metrics.miou} if result.has_classes else {}
    return figures | {f'{task}/{name}': value for task, of in result.further.items() for name, value in of.items()}


def keep_copy(checkpoint: str, folder: str, figures: dict[str, object]) -> None:
    """Copies a checkpoint and its metrics into `folder`, instead of the checkpoint that is there.

    The files are hard links if the file system supports them, so that a copy takes no space while the original exists.
    The `checkpoint` file names the new one when it is complete, and the old one is removed after that: there is always
    one complete checkpoint in the folder, even if this process is killed.

    Args:
      checkpoint: path of a checkpoint.
      folder: destination.
      figures: content of its metrics-STEP.json; the path of the checkpoint is replaced by the copy's.
    """
    output_files.make_folder(folder)
    name = os.path.basename(checkpoint)
    copy = os.path.join(folder, name)
    parts = checkpoints.files_of(checkpoint)
    if os.path.exists(checkpoint + checkpoints.CALIBRATION):
        parts.append(checkpoint + checkpoints.CALIBRATION)
    for file in parts:
        with writing.atomic_path(copy + file.removeprefix(checkpoint)) as temporary:
            _link(file, temporary)
    metrics = os.path.join(folder, f'metrics-{figures["global_step"]}.json')
    evaluation_rounds.write_json({**figures, 'checkpoint': copy}, metrics)
    checkpoints.write_state(folder, [name])
    kept = {'checkpoint', os.path.basename(metrics), *(os.path.basename(file) for file in parts)}
    for other in sorted(set(os.listdir(folder)) - kept):
        if other.startswith((checkpoints.BASENAME, 'checkpoint.')) or _FIGURES.match(other):
            os.remove(os.path.join(folder, other))


def _link(source: str, target: str) -> None:
    """Makes `target` a hard link to `source`, or a copy if links are not supported."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
