"""One pass of a checkpoint or an export over a split, with results of each image."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from deeplab import common, names
from deeplab.datasets import example, images
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.datasets.segmentation_dataset import DataSource
from deeplab.errors import CheckpointError, DataError
from deeplab.evaluation import evaluation_rounds, runner, task_results
from deeplab.evaluation.image_results import ImageResults
from deeplab.inference import network_source, opening
from deeplab.inference.network import InferenceNetwork
from deeplab.inference.network_source import NetworkSource
from deeplab.inference.run_weights import WeightsChoice
from deeplab.options import EngineOptions, EvalOptions
from deeplab.reporting.task_images import TaskImages
from deeplab.wording import option
from deeplab.zoo import cache

_OF_IMAGES = (common.IMAGE_NAME, common.HEIGHT, common.WIDTH)


class Task(NamedTuple):
    """What a pass needs, checked.

    Attributes:
      source: a checkpoint or an export.
      options: how the images are read and predicted.
      evaluation: network, images and metrics; its windows are None for images of the crop size.
      step: step of the checkpoint; None for an export that does not name it.
      notes: sentences for the page.
    """

    source: NetworkSource
    options: EvalOptions
    evaluation: runner.Task
    step: int | None
    notes: Sequence[str] = ()


class Pass(NamedTuple):
    """The result of a checkpoint or an export.

    Attributes:
      task: what was predicted, and how.
      round: metrics of all images, with calibration and intervals.
      images: results of each image.
      reading: how the images were read.
      tasks: results of further tasks of each image.
    """

    task: Task
    round: evaluation_rounds.Round
    images: ImageResults
    reading: runner.Reading
    tasks: TaskImages

    @property
    def has_classes(self) -> bool:
        """Whether class ids were predicted and compared."""
        return task_results.has_classes(self.task.evaluation.network.options)


def prepare(path: str, options: EvalOptions, cache_dir: str | None, checks_weights: bool) -> Task:
    """Checks whatever can be checked before the first image is predicted.

    Args:
      path: of a checkpoint or an export.
      options: network and split; of an export, the split, windows and threads alone.
      cache_dir: folder that caches the check of the records; None for no cache.
      checks_weights: whether to check that the checkpoint fits the network, which otherwise `run` finds at its start.

    Raises:
      UserError: Data set, network or checkpoint are missing or do not match.
    """
    source = network_source.at(path)
    options, notes = source.reported(options)
    opening.check(source.own_engine or options.engine)
    runner.warn_of_flips(options.prediction, options.model)
    model = dataclasses.replace(options.model, crop_size=None) if options.windows else options.model
    data = DataSource(options.dataset).split()
    split = runner.open_split(data, model, options.resize, True, cache_dir, chooses_crop=True)
    uses_averages = WeightsChoice(options.use_moving_average, 'EvalOptions.use_moving_average').takes_averages(path)
    options = dataclasses.replace(options, use_moving_average=uses_averages)
    windows = options.windows or source.own_windows
    network = InferenceNetwork(
        options.model if windows else dataclasses.replace(model, crop_size=split.crop_size),
        options.prediction,
        options.batch_size,
        with_probabilities=source.has_probabilities,
        of_labels_only=True,
        resize=options.resize,
    )
    if options.engine == EngineOptions():
        network.check_memory('report')
    if checks_weights:
        source.require_weights(network, uses_averages)
    metrics: tuple[str, ...] = ('calibration', 'intervals') if source.has_probabilities else ('intervals',)
    if not options.model.is_semantic:  # whose outputs are not probabilities of labels
        metrics = ('intervals',) if task_results.has_classes(options.model) else ()
    evaluation = runner.Task(
        network,
        split,
        options.resize,
        dataclasses.replace(options, metrics=metrics).metric_parameters,
        use_moving_average=uses_averages,
        engine=options.engine,
        cache_dirs=(os.path.join(cache.folder(), 'engines'),),  # if the folder of the checkpoint cannot be written
        windows=windows,
    )
    return Task(source, options, evaluation, source.step(), notes)


def run(task: Task, stack: contextlib.ExitStack) -> Pass:
    """Predicts every image of the split. `stack` closes the results of the images.

    Raises:
      UserError: An image cannot be read, or the checkpoint does not match the network.
    """
    evaluation, path = task.evaluation, task.source.path
    descriptor, network = evaluation.split.descriptor, evaluation.network.options
    has_classes = task_results.has_classes(network)
    calibration = {} if network.is_semantic else task.source.calibration()
    images = stack.enter_context(ImageResults(descriptor.num_classes, descriptor.ignore_label))
    tasks = stack.enter_context(TaskImages(descriptor, network, calibration))

    def handle(batch: runner.Batch) -> None:
        if has_classes:
            _require_classes(path, batch[runner.PREDICTION], descriptor)
        _add(images, batch, has_classes)

    evaluated = evaluation_rounds.evaluate(path, evaluation, handle, _OF_IMAGES, tasks.add)
    reading = runner.reading_of(evaluation.split, evaluation.network, evaluation.resize, (), evaluation.windows)
    return Pass(task, evaluated, images, reading, tasks)


def _require_classes(path: str, labels: np.ndarray, descriptor: DatasetDescriptor) -> None:
    """Raises `CheckpointError` for a label that is no class, as of an export that does not state its classes."""
    if labels.max(initial=0) >= descriptor.num_classes:
        raise CheckpointError(
            f"'{path}' predicts the id {labels.max()}, but the data set '{descriptor.name}' has "
            f'{descriptor.num_classes} classes'
        )


def _add(images: ImageResults, batch: runner.Batch, has_classes: bool) -> None:
    """Adds a batch to the results of the images, without its padding."""
    for i, name in enumerate(batch[common.IMAGE_NAME]):
        height, width = int(batch[common.HEIGHT][i]), int(batch[common.WIDTH][i])
        predictions = batch[runner.PREDICTION][i, :height, :width]
        predictions = np.broadcast_to(predictions, (height, width))  # of a classifier, one for the image
        labels = batch[common.LABEL][i, :height, :width, 0] if has_classes else None
        images.add(names.shown(name), labels, predictions)


def require_same_records(tasks: Sequence[Task]) -> None:
    """Raises `DataError` unless all tasks have the same images, masks and classes, before they are predicted.

    Masks of different sizes are left to `require_same_labels`: images may have been resized for the records.
    """
    for other in tasks[1:]:
        first = tasks[0]
        (images, classes), (other_images, other_classes) = (
            (each.evaluation.split.num_images, each.evaluation.split.descriptor.num_classes) for each in (first, other)
        )
        if (images, classes) != (other_images, other_classes):
            what = f'{names.counted(images, "image")} of {classes} classes and {other_images:,} of {other_classes}'
            raise _not_comparable(first.source.path, other.source.path, what)
        differing = []
        for one, another in _pairs_of_records(first.evaluation.split, other.evaluation.split):
            if one.image_name != another.image_name:
                pair = f"'{names.shown(one.image_name)}' and '{names.shown(another.image_name)}'"
                what = f'different images, or on the same ones in another order, such as {pair}'
                raise _not_comparable(first.source.path, other.source.path, what)
            if _differ(one.label_bytes, another.label_bytes, classes):
                differing.append(names.shown(one.image_name))
        if differing:
            raise _other_masks(first.source.path, other.source.path, differing)


def _pairs_of_records(first: runner.Split, other: runner.Split) -> Iterator[tuple[example.Example, example.Example]]:
    """Yields the records of two splits of the same number of images; none if they are the same records."""
    one, another = first.reader.index, other.reader.index
    if one.facts()['digest'] == another.facts()['digest'] and np.array_equal(first.records, other.records):
        return
    for numbers in zip(first.records, other.records, strict=True):
        yield example.parse(one.read(int(numbers[0]))), example.parse(another.read(int(numbers[1])))


def _differ(one: bytes | None, another: bytes | None, num_classes: int) -> bool:
    """Returns whether two masks of the same size have different numbers of pixels of a class."""
    if one is None or another is None or one == another:
        return False
    masks = [images.read_mask(content) for content in (one, another)]
    counts = [mask.counts for mask in masks if mask.counts is not None]
    if masks[0].size != masks[1].size or len(counts) < len(masks):
        return False
    return not np.array_equal(counts[0][:num_classes], counts[1][:num_classes])


def require_same_labels(passes: Sequence[Pass]) -> list[list[str]]:
    """Raises `DataError` if an image has other labels in a later pass than in the first.

    Args:
      passes: passes over the same images (`require_same_records`).

    Returns:
      Notes for each pass: whether its images had other sizes than in the first pass, so that their labels cannot be
      compared.
    """
    first = passes[0]
    notes: list[list[str]] = [[]]
    for other in passes[1:]:
        is_resized = np.not_equal(first.images.sizes, other.images.sizes).any(axis=1)
        if first.has_classes and other.has_classes:  # otherwise no labels were counted
            has_other_labels = (first.images.counts()[:, 1] != other.images.counts()[:, 1]).any(axis=1)
            differing = np.flatnonzero(has_other_labels & ~is_resized)
            if len(differing):
                paths = (first.round.checkpoint, other.round.checkpoint)
                raise _other_masks(*paths, [first.images.names[i] for i in differing])
        resized = int(is_resized.sum())
        note = (
            f'{resized:,} of {names.counted(len(other.images), "image")} had another size than for the first run, '
            'because they were resized differently: the runs are compared on the same images, with resized labels.'
        )
        notes.append([note] if resized else [])
    return notes


def _other_masks(first: str, other: str, image_names: Sequence[str]) -> DataError:
    """Returns the error for runs on other masks of the same images."""
    what = f"masks that differ, in {names.counted(len(image_names), 'image')}, such as '{image_names[0]}'"
    return _not_comparable(first, other, what, 'labels')


def _not_comparable(first: str, other: str, what: str, compared: str = 'images') -> DataError:
    """Returns the error for runs that are evaluated on `what`, and not on the same images or labels."""
    name, directory, split = (option(f'DatasetOptions.{field}') for field in ('name', 'directory', 'split'))
    return DataError(
        f"'{first}' and '{other}' are evaluated on {what}: runs are compared on the same {compared}. Pass {name}, "
        f'{directory} and {split} for all of them'
    )
