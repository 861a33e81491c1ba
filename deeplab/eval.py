"""Evaluates checkpoints on a split: mean intersection over union, and more.

`python deeplab/eval.py --flag=...`, `python -m deeplab.eval` and `deeplab eval` are one program.
"""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and mistakes need not wait for TensorFlow
    import pathlib
    import sys

    if not __package__:  # started as `python deeplab/eval.py`: the folder above deeplab/ takes the place of deeplab/
        sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])
    from deeplab import cli

    sys.exit(cli.main(['eval', *sys.argv[1:]]))

import dataclasses
import json
import os
import time

import tensorflow as tf
from absl import logging

from deeplab import common, input_preprocess
from deeplab.core import checkpoints
from deeplab.core.metrics import ConfusionMatrix, Metrics
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.options import EvalOptions, PredictionOptions
from deeplab.utils import checkpoint_rounds, evaluation_loop


@dataclasses.dataclass(frozen=True)
class Round:
    """What one checkpoint was found to be worth.

    Attributes:
      metrics: the figures.
      checkpoint: path of the checkpoint.
      global_step: its step.
      images: number of images.
      seconds: how long reading and predicting them took.
      path: the JSON file that holds all this.
    """

    metrics: Metrics
    checkpoint: str
    global_step: int
    images: int
    seconds: float
    path: str


@dataclasses.dataclass(frozen=True)
class Result:
    """What a run of the program gave.

    Attributes:
      rounds: one for each checkpoint, in order.
      report: the last round as a table, for people.
    """

    rounds: tuple[Round, ...]
    report: str


def run(options: EvalOptions) -> Result:
    """Evaluates each new checkpoint until `options.wait` says that it is enough.

    Args:
      options: what to evaluate on what.

    Returns:
      The figures of every round; they are in the log, in metrics-STEP.json and in event files too.

    Raises:
      UserError: Data set, network or checkpoint are missing or do not fit each other.
    """
    split = evaluation_loop.open_split(
        'eval', options.dataset, options.model, options.resize, needs_labels=True, cache_dir=options.eval_logdir
    )
    evaluation_loop.warn_of_flips(options.prediction)
    evaluation_loop.make_folder(options.eval_logdir)
    network = evaluation_loop.Network(options.model, options.prediction, options.batch_size)
    rounds = []
    for checkpoint in checkpoint_rounds.rounds(options.checkpoint_dir, options.wait):
        rounds.append(_evaluate(checkpoint, network, split, options))
        _publish(rounds[-1], split.descriptor, options)
    return Result(tuple(rounds), report(rounds[-1], split.descriptor) if rounds else '')


def _evaluate(
    checkpoint: str, network: evaluation_loop.Network, split: evaluation_loop.Split, options: EvalOptions
) -> Round:
    """Runs one checkpoint over the split."""
    predict = network.with_weights_of(checkpoint, options.use_moving_average)
    step = checkpoints.step_of(checkpoint)
    logging.info("Evaluating '%s' (step %d) on %d images.", checkpoint, step, split.num_images)
    descriptor = split.descriptor
    matrix = ConfusionMatrix(descriptor.num_classes, descriptor.ignore_label)
    steps = input_preprocess.eval_steps(
        options.model.crop_size, options.resize, network.mean_pixel, descriptor.ignore_label
    )
    started = time.monotonic()
    evaluation_loop.run_batches(
        predict,
        split,
        steps,
        options.batch_size,
        (common.LABEL,),
        lambda batch: matrix.update(batch[common.LABEL], batch[evaluation_loop.PREDICTION]),
        f'eval step {step}',
        options.master,
    )
    seconds = time.monotonic() - started
    logging.info('%d images in %.1f s (%.1f images/s).', split.num_images, seconds, split.num_images / seconds)
    path = os.path.join(options.eval_logdir, f'metrics-{step}.json')
    return Round(matrix.result(), checkpoint, step, split.num_images, seconds, path)


def tagged_figures(metrics: Metrics, prediction: PredictionOptions) -> dict[str, float | None]:
    """The intersections over union by summary tag, the mean first.

    Args:
      metrics: the figures.
      prediction: its scales and flips are part of the tags, such as `eval/miou_0.5_1.0_flipped_overall`.
    """
    scales = '_'.join(str(float(scale)) for scale in prediction.scales)
    prefix = f'eval/miou_{scales}' + ('_flipped' if prediction.add_flipped_images else '')
    classes = {f'{prefix}_class_{i}': iou for i, iou in enumerate(metrics.class_iou)}
    return {f'{prefix}_overall': metrics.miou} | classes


def _publish(result: Round, descriptor: DatasetDescriptor, options: EvalOptions) -> None:
    """Puts a round into the log, an event file and a JSON file."""
    figures = tagged_figures(result.metrics, options.prediction)
    for tag, value in figures.items():
        logging.info('%s[%s]', tag, 'nan' if value is None else f'{value:.9g}')
    values = [
        tf.compat.v1.Summary.Value(tag=tag, simple_value=value) for tag, value in figures.items() if value is not None
    ]
    with tf.Graph().as_default(), tf.compat.v1.summary.FileWriter(options.eval_logdir) as writer:
        writer.add_summary(tf.compat.v1.Summary(value=values), result.global_step)
    _write_json(as_json(result, descriptor), result.path)


def as_json(result: Round, descriptor: DatasetDescriptor) -> dict[str, object]:
    """A round as it stands in metrics-STEP.json; a class that occurs nowhere has None."""
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


def _write_json(content: dict[str, object], path: str) -> None:
    """Writes a file that is there whole or not at all."""

    def write(temporary: str) -> None:
        with open(temporary, 'w', encoding='utf-8') as file:
            json.dump(content, file)

    checkpoints.write_beside(path, write)


def report(result: Round, descriptor: DatasetDescriptor) -> str:
    """A round as a table: each class with its share of the labelled pixels and its IoU, then the means."""
    metrics = result.metrics
    pixels = [sum(row) for row in metrics.confusion_matrix]
    total = max(sum(pixels), 1)
    names = [descriptor.class_name(i) for i in range(descriptor.num_classes)]
    width = max(len(name) for name in [*names, 'frequency weighted IoU'])
    lines = [f'{"class":{width}}   pixels      IoU']
    for name, count, iou in zip(names, pixels, metrics.class_iou, strict=True):
        lines.append(f'{name:{width}} {count / total:7.2%}  {_shown(iou)}')
    lines.append('-' * len(lines[0]))
    for name, value in (
        ('mean IoU', metrics.miou),
        ('pixel accuracy', metrics.pixel_accuracy),
        ('mean accuracy', metrics.mean_accuracy),
        ('frequency weighted IoU', metrics.frequency_weighted_iou),
    ):
        lines.append(f'{name:{width}}          {_shown(value)}')
    lines.append(
        f'{result.images} images in {result.seconds:.1f} s ({result.images / result.seconds:.1f} images/s), '
        f'checkpoint {result.checkpoint} (step {result.global_step}). All figures: {result.path}'
    )
    return '\n'.join(lines)


def _shown(share: float | None) -> str:
    """A share as a column of the table."""
    return '      -' if share is None else f'{share:7.4f}'
