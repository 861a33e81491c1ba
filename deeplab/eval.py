"""Evaluates checkpoints on a split: mean intersection over union, and more.

`python deeplab/eval.py --flag=...`, `python -m deeplab.eval` and `deeplab eval` are one program.
"""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and mistakes need not wait for TensorFlow
    import pathlib
    import sys

    if not __package__:  # started by its path: the folder above deeplab/ takes the place of this file's own
        sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])
    from deeplab import start

    sys.exit(start.main(['eval', *sys.argv[1:]]))

import dataclasses

import tensorflow as tf
from absl import logging

from deeplab import folder_lock, unfinished
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.options import EvalOptions
from deeplab.utils import checkpoint_rounds, evaluation_loop, evaluation_rounds, output_files


@dataclasses.dataclass(frozen=True)
class Result:
    """What a run of the program gave.

    Attributes:
      rounds: one for each checkpoint, in order.
      report: the last round as a table, for people.
    """

    rounds: tuple[evaluation_rounds.Round, ...]
    report: str


def run(options: EvalOptions) -> Result:
    """Evaluates each new checkpoint until `options.wait` says that it is enough.

    Args:
      options: what to evaluate on what.

    Returns:
      The figures of every round; they are in the log, in metrics-STEP.json and in event files too.

    Raises:
      UserError: Data set, network or checkpoint are missing or do not fit each other, or another eval writes to the
        folder.
    """
    with folder_lock.held(options.eval_logdir, 'eval', 'eval_logdir'):
        return _run(options)


def _run(options: EvalOptions) -> Result:
    """What `run` does, in a folder of its own."""
    split = evaluation_loop.open_split(
        'eval', options.dataset, options.model, options.resize, needs_labels=True, cache_dir=options.eval_logdir
    )
    evaluation_loop.warn_of_flips(options.prediction)
    unfinished.remove_left(output_files.make_folder(options.eval_logdir), r'metrics-.+\.json')
    network = evaluation_loop.Network(options.model, options.prediction, options.batch_size)
    rounds = []
    for checkpoint in checkpoint_rounds.rounds(options.checkpoint_dir, options.wait):
        rounds.append(
            evaluation_rounds.evaluate(
                checkpoint,
                network,
                split,
                options.resize,
                options.eval_logdir,
                options.master,
                use_moving_average=options.use_moving_average,
            )
        )
        _publish(rounds[-1], split.descriptor, options)
    return Result(tuple(rounds), report(rounds[-1], split.descriptor) if rounds else '')


def _publish(result: evaluation_rounds.Round, descriptor: DatasetDescriptor, options: EvalOptions) -> None:
    """Puts a round into the log, an event file and a JSON file."""
    figures = evaluation_rounds.tagged_figures(result.metrics, options.prediction)
    for tag, value in figures.items():
        logging.info('%s', evaluation_rounds.log_line(tag, value))
    with tf.Graph().as_default(), tf.compat.v1.summary.FileWriter(options.eval_logdir) as writer:
        evaluation_rounds.add_summaries(writer, figures, result.global_step)
    evaluation_rounds.write_json(evaluation_rounds.as_json(result, descriptor), result.path)


def report(result: evaluation_rounds.Round, descriptor: DatasetDescriptor) -> str:
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
