"""Evaluation of one checkpoint on a split, and its output: log lines, summaries, metrics-STEP.json.

eval evaluates checkpoints that appear in a folder; training validates its own.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable

import tensorflow as tf
from absl import logging

from deeplab import common, input_preprocess
from deeplab.core import checkpoints
from deeplab.core.metrics import ConfusionMatrix, Metrics
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.evaluation import runner
from deeplab.options import PredictionOptions, ResizeOptions
from deeplab.utils import files


@dataclasses.dataclass(frozen=True)
class Round:
    """Result of the evaluation of one checkpoint.

    Attributes:
      metrics: the metrics.
      checkpoint: path of the checkpoint.
      global_step: its step.
      images: number of images.
      seconds: how long reading and predicting them took.
      path: the JSON file with all this; empty until the caller has set one.
    """

    metrics: Metrics
    checkpoint: str
    global_step: int
    images: int
    seconds: float
    path: str = ''


def evaluate(
    checkpoint: str,
    network: runner.Network,
    split: runner.Split,
    resize: ResizeOptions,
    master: str = '',
    after_batch: Callable[[], None] = lambda: None,
    use_moving_average: bool = False,
) -> Round:
    """Evaluates one checkpoint on a split.

    Args:
      checkpoint: its path.
      network: the network, which gets the checkpoint's weights.
      split: the split to evaluate on.
      resize: how images are resized before the crop.
      master: address of a TensorFlow server, empty for this process.
      after_batch: called after each batch; what it raises ends the round.
      use_moving_average: whether to evaluate the moving averages (EMA) of the weights instead.

    Raises:
      CheckpointError: The checkpoint does not match the network.
      DataError: An image cannot be decoded.
    """
    predict = network.with_weights_of(checkpoint, use_moving_average)
    step = checkpoints.step_of(checkpoint)
    logging.info("Evaluating '%s' (step %d) on %d images.", checkpoint, step, split.num_images)
    descriptor = split.descriptor
    matrix = ConfusionMatrix(descriptor.num_classes, descriptor.ignore_label)
    steps = input_preprocess.eval_steps(network.crop_size, resize, network.mean_pixel, descriptor.ignore_label)

    def handle(batch: runner.Batch) -> None:
        matrix.update(batch[common.LABEL], batch[runner.PREDICTION])
        after_batch()

    started = time.monotonic()
    reading = runner.Reading(split, steps, network.batch_size, (common.LABEL,))
    runner.run_batches(predict, reading, handle, f'eval step {step}', master)
    seconds = time.monotonic() - started
    logging.info('%d images in %.1f s (%.1f images/s).', split.num_images, seconds, split.num_images / seconds)
    return Round(matrix.result(), checkpoint, step, split.num_images, seconds)


def tagged_figures(metrics: Metrics, prediction: PredictionOptions) -> dict[str, float | None]:
    """Returns the intersections over union by summary tag, the mean first.

    Args:
      metrics: the metrics.
      prediction: its scales and flips are part of the tags, such as `eval/miou_0.5_1.0_flipped_overall`.
    """
    scales = '_'.join(str(float(scale)) for scale in prediction.scales)
    prefix = f'eval/miou_{scales}' + ('_flipped' if prediction.add_flipped_images else '')
    classes = {f'{prefix}_class_{i}': iou for i, iou in enumerate(metrics.class_iou)}
    return {f'{prefix}_overall': metrics.miou} | classes


def log_line(tag: str, value: float | None) -> str:
    """Formats a value as a log line, in the original's format, which scripts parse."""
    return f'{tag}[{"nan" if value is None else f"{value:.9g}"}]'


def add_summaries(writer: tf.compat.v1.summary.FileWriter, figures: dict[str, float | None], step: int) -> None:
    """Writes the values that are not None to an event file.

    Args:
      writer: of the event file.
      figures: by tag.
      step: the checkpoint's.
    """
    values = [
        tf.compat.v1.Summary.Value(tag=tag, simple_value=value) for tag, value in figures.items() if value is not None
    ]
    writer.add_summary(tf.compat.v1.Summary(value=values), step)


def as_json(result: Round, descriptor: DatasetDescriptor) -> dict[str, object]:
    """Returns the content of metrics-STEP.json; the value of a class that does not occur is None."""
    metrics = result.metrics
    names = [descriptor.class_name(i) for i in range(descriptor.num_classes)]
    return {
        'miou': metrics.miou,
        'class_iou': dict(zip(names, metrics.class_iou, strict=True)),
        'pixel_accuracy': metrics.pixel_accuracy,
        'mean_accuracy': metrics.mean_accuracy,
        'frequency_weighted_iou': metrics.frequency_weighted_iou,
        'confusion_matrix': metrics.confusion_matrix,
        'images': result.images,
        'seconds': round(result.seconds, 3),
        'checkpoint': result.checkpoint,
        'global_step': result.global_step,
    }


def write_json(content: dict[str, object], path: str) -> None:
    """Writes a JSON file atomically."""
    with files.written_whole(path) as stream:
        json.dump(content, stream)
