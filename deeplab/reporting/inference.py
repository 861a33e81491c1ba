"""One pass of a checkpoint or an export over a split, with results of each image."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from absl import logging

from deeplab import common
from deeplab.core import checkpoints
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.errors import CheckpointError, DataError
from deeplab.evaluation import engine_run, runner, scoring
from deeplab.inference import exports, opening
from deeplab.inference.network import InferenceNetwork
from deeplab.inference.opening import Weights
from deeplab.options import EngineOptions, EvalOptions, PredictorOptions, WindowOptions
from deeplab.prediction.predictor import Predictor
from deeplab.reporting import split_images
from deeplab.reporting.image_results import ImageResults
from deeplab.utils import names, run_manifests
from deeplab.zoo import cache

_METRICS = ('calibration', 'intervals')
_EXPORT_METRICS = ('intervals',)  # exports may have no probabilities
Handle = Callable[[runner.Batch], None]

_OF_IMAGES = (common.IMAGE_NAME, common.HEIGHT, common.WIDTH)


class Pass(NamedTuple):
    """The result of a checkpoint or an export.

    Attributes:
      checkpoint: its path.
      step: its step; None for an export.
      seconds: how long reading and predicting took.
      results: metrics of all images, with calibration and intervals.
      images: results of each image.
      source: where the images come from.
      engine: a sentence about what ran the network; empty for TensorFlow in float32.
      crop_size: height and width to which the images were padded; None if they kept their sizes.
    """

    checkpoint: str
    step: int | None
    seconds: float
    results: scoring.Results
    images: ImageResults
    source: split_images.Source
    engine: str = ''
    crop_size: tuple[int, int] | None = None

    @property
    def descriptor(self) -> DatasetDescriptor:
        """Of the data set."""
        return self.source.split.descriptor


def checkpoint_of(path: str) -> str:
    """Returns what to evaluate: the checkpoint or export at `path`, or of a folder the best checkpoint, or the newest.

    Raises:
      CheckpointError: There is none.
    """
    if is_export(path) or os.path.isfile(f'{path}.index'):
        return path
    best = os.path.join(path, run_manifests.BEST_FOLDER)
    found = checkpoints.newest(best) or checkpoints.newest(path)
    if found is None:
        raise CheckpointError(f"There is no checkpoint in '{path}'. Give the log folder of a training, or a checkpoint")
    return found


def folder_of(path: str) -> str:
    """Returns the log folder of a run: `path` itself, or the folder of the checkpoint or of `best`."""
    folder = path if os.path.isdir(path) else os.path.dirname(path) or '.'
    absolute = os.path.abspath(folder)
    return os.path.dirname(absolute) if os.path.basename(absolute) == run_manifests.BEST_FOLDER else folder


def is_export(path: str) -> bool:
    """Returns whether a path is an export of any format."""
    return exports.is_export(path)


def run(path: str, options: EvalOptions, cache_dir: str | None) -> Pass:
    """Predicts every image of the split. The caller closes the results of the images.

    Args:
      path: of a checkpoint or an export.
      options: network and split; of an export, the split alone.
      cache_dir: folder that caches the check of the records; None for no cache.

    Raises:
      UserError: Data set, network or checkpoint are missing or do not match.
    """
    model = dataclasses.replace(options.model, crop_size=None) if options.windows else options.model
    split = runner.open_split('report', options.dataset, model, options.resize, True, cache_dir, chooses_crop=True)
    logging.info("Predicting %d images with '%s'.", split.num_images, path)
    predict_all, of_path = (_of_export, _EXPORT_METRICS) if is_export(path) else (_of_checkpoint, _METRICS)
    scores = scoring.Scores(split.descriptor, dataclasses.replace(options, metrics=of_path).metric_parameters)
    with contextlib.ExitStack() as stack:
        images = stack.enter_context(ImageResults(split.descriptor.num_classes, split.descriptor.ignore_label))

        def handle(batch: runner.Batch) -> None:
            scores.update(batch)
            _add(images, batch)

        started = time.monotonic()
        with scoring.in_background(handle) as submit:
            source, engine = predict_all(path, options, split, (*scores.keys, *_OF_IMAGES), submit)
        seconds = time.monotonic() - started
        stack.pop_all()
    step = None if is_export(path) else checkpoints.step_of(path)
    crop_size = None if is_export(path) or options.windows else split.crop_size
    return Pass(path, step, seconds, scores.results(), images, source, engine, crop_size)


def _of_checkpoint(
    path: str, options: EvalOptions, split: runner.Split, keys: Sequence[str], handle: Handle
) -> tuple[split_images.Source, str]:
    """Predicts the images with a checkpoint; returns how they were read, and what ran the network."""
    opening.check(options.engine)
    runner.warn_of_flips(options.prediction)
    network = InferenceNetwork(
        options.model if options.windows else dataclasses.replace(options.model, crop_size=split.crop_size),
        options.prediction,
        options.batch_size,
        with_probabilities=True,
        of_labels_only=True,
    )
    if options.engine == EngineOptions():
        network.check_memory('report')
    reading = runner.reading_of(split, network, options.resize, keys, options.windows)
    weights = Weights(path, options.use_moving_average)
    cache_dirs = (os.path.join(cache.folder(), 'engines'),)  # if that of the checkpoint cannot be written
    with engine_run.prepared(network, weights, options.engine, cache_dirs, options.windows) as ready:
        runner.run_batches(ready, reading, handle, os.path.basename(path))
    return split_images.Source(split, reading.steps), '' if ready.report.is_default else ready.report.text()


def _of_export(
    path: str, options: EvalOptions, split: runner.Split, keys: Sequence[str], handle: Handle
) -> tuple[split_images.Source, str]:
    """Predicts the images with an export, which takes one image at a time and resizes it itself."""
    source = split_images.unchanged(split)
    predictor_options = PredictorOptions(dataset=options.dataset.name, windows=options.windows or WindowOptions())
    with Predictor.of_export(path, predictor_options, {}) as predictor:
        for sample in split_images.samples(source, range(split.num_images)):
            labels = predictor(sample.image).labels
            if labels.max(initial=0) >= split.descriptor.num_classes:
                raise CheckpointError(
                    f"'{path}' predicts the id {labels.max()}, but the data set '{split.descriptor.name}' has "
                    f'{split.descriptor.num_classes} classes'
                )
            height, width = labels.shape
            handle(
                {
                    common.IMAGE_NAME: np.array([sample.name], object),
                    common.HEIGHT: np.array([height]),
                    common.WIDTH: np.array([width]),
                    common.LABEL: sample.truth[np.newaxis, ..., np.newaxis],
                    runner.PREDICTION: labels[np.newaxis].astype(np.int32),
                }
            )
    return source, ''


def _add(images: ImageResults, batch: runner.Batch) -> None:
    """Adds a batch to the results of the images, without its padding."""
    for i, name in enumerate(batch[common.IMAGE_NAME]):
        height, width = int(batch[common.HEIGHT][i]), int(batch[common.WIDTH][i])
        labels = batch[common.LABEL][i, :height, :width, 0]
        images.add(names.shown(name), labels, batch[runner.PREDICTION][i, :height, :width])


def require_same_images(passes: Sequence[Pass]) -> None:
    """Raises `DataError` unless all passes are over the same images and classes."""
    first = passes[0]
    for other in passes[1:]:
        if other.descriptor.num_classes != first.descriptor.num_classes or other.images.names != first.images.names:
            raise DataError(
                f"'{first.checkpoint}' was evaluated on {len(first.images)} images of "
                f"{first.descriptor.num_classes} classes, '{other.checkpoint}' on {len(other.images)} of "
                f'{other.descriptor.num_classes}: runs are compared on the same images. Give --dataset, '
                '--dataset_dir and --eval_split for all of them'
            )
