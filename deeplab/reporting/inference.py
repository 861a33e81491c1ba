"""One pass of a checkpoint over a split, with results of each image; photographs and truth of chosen images."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from deeplab import common, input_preprocess
from deeplab.core import checkpoints, sessions
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.errors import CheckpointError, DataError
from deeplab.evaluation import runner, scoring
from deeplab.inference.network import InferenceNetwork
from deeplab.options import EvalOptions
from deeplab.reporting.image_results import ImageResults
from deeplab.utils import input_generator, names, run_manifests, save_annotation

_METRICS = ('calibration', 'intervals')
_OF_IMAGES = (common.IMAGE_NAME, common.HEIGHT, common.WIDTH)


class Source(NamedTuple):
    """Where the images of a report come from.

    Attributes:
      split: the split.
      steps: preprocessing of each image.
    """

    split: runner.Split
    steps: Sequence[input_preprocess.Step]


class Pass(NamedTuple):
    """The result of a checkpoint.

    Attributes:
      checkpoint: its path.
      step: its step.
      seconds: how long reading and predicting took.
      results: metrics of all images, with calibration and intervals.
      images: results of each image.
      source: where the images come from.
    """

    checkpoint: str
    step: int
    seconds: float
    results: scoring.Results
    images: ImageResults
    source: Source

    @property
    def descriptor(self) -> DatasetDescriptor:
        """Of the data set."""
        return self.source.split.descriptor


def checkpoint_of(path: str) -> str:
    """Returns the checkpoint of a run: the one at `path`, the best one of the folder, or else its newest one.

    Raises:
      CheckpointError: There is none.
    """
    if os.path.isfile(f'{path}.index'):
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


def run(checkpoint: str, options: EvalOptions, cache_dir: str | None) -> Pass:
    """Predicts every image of the split.

    The caller closes the results of the images.

    Args:
      checkpoint: its path.
      options: network and split.
      cache_dir: folder that caches the check of the records; None for no cache.

    Raises:
      UserError: Data set, network or checkpoint are missing or do not match.
    """
    split = runner.open_split(
        'report', options.dataset, options.model, options.resize, True, cache_dir, chooses_crop=True
    )
    runner.warn_of_flips(options.prediction)
    network = InferenceNetwork(
        dataclasses.replace(options.model, crop_size=split.crop_size),
        options.prediction,
        options.batch_size,
        with_probabilities=True,
    )
    network.check_memory('report')
    ignore_label = split.descriptor.ignore_label
    steps = input_preprocess.eval_steps(split.crop_size, options.resize, network.mean_pixel, ignore_label)
    frozen = network.frozen(checkpoint, options.use_moving_average)
    step = checkpoints.step_of(checkpoint)
    logging.info("Predicting %d images with '%s' (step %d).", split.num_images, checkpoint, step)
    scores = scoring.Scores(split.descriptor, dataclasses.replace(options, metrics=_METRICS).metric_parameters)
    reading = runner.Reading(split, steps, options.batch_size, tuple({*scores.keys, *_OF_IMAGES}))
    with contextlib.ExitStack() as stack:
        images = stack.enter_context(ImageResults(split.descriptor.num_classes, ignore_label))

        def handle(batch: runner.Batch) -> None:
            scores.update(batch)
            _add(images, batch)

        started = time.monotonic()
        with scoring.in_background(handle) as submit:
            runner.run_batches(frozen, reading, submit, f'step {step}')
        seconds = time.monotonic() - started
        stack.pop_all()  # the caller closes the results
    return Pass(checkpoint, step, seconds, scores.results(), images, Source(split, steps))


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


def photos(source: Source, images: Sequence[int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields photograph, [h, w, 3] or [h, w] uint8, and truth, [h, w] ids, of some images.

    Args:
      source: where they come from.
      images: their numbers in the split.

    Raises:
      DataError: An image cannot be decoded.
    """
    split = source.split
    records = [split.records[image] for image in images]
    with tf.Graph().as_default():
        pipeline = input_generator.get(split.reader, source.steps, 1, False, records, with_label=True)
        with sessions.open_session() as running, input_generator.explain_input_errors(split.reader):
            running.run(pipeline.initializer)
            for _ in records:
                sample = {key: value[0] for key, value in running.run(pipeline.samples).items()}
                height, width = int(sample[common.HEIGHT]), int(sample[common.WIDTH])
                pixels = np.clip(np.rint(sample[common.IMAGE][:height, :width]), 0, 255).astype(np.uint8)
                yield save_annotation.viewable(pixels), sample[common.LABEL][:height, :width, 0]
