"""Evaluation of one checkpoint on a split, and its output: log lines, summaries, metrics-STEP.json.

eval evaluates checkpoints that appear in a folder; training validates its own.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.evaluation import runner, scoring, task_results
from deeplab.files import documents, writing
from deeplab.options import PredictionOptions
from deeplab.system import overlap
from deeplab.wording import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Round(scoring.Results, runner.CheckpointPass):
    """Result of the evaluation of one checkpoint.

    Attributes:
      path: the JSON file with all this; empty until the caller has set one.
      crop_size: height and width to which the images were padded; None if they kept their sizes.
    """

    path: str = ''
    crop_size: tuple[int, int] | None = None

    def padding_text(self) -> str:
        """Returns the sentence of a report that says the crop size; only for images that were padded."""
        return f'Each image was padded to {option("ModelOptions.crop_size", self.crop_size)}.'


def evaluate(
    checkpoint: str,
    task: runner.Task,
    handle: Callable[[runner.Batch], None] = lambda batch: None,
    keys: Sequence[str] = (),
    handle_results: task_results.Handler = lambda sample, results: None,
) -> Round:
    """Evaluates one checkpoint on a split.

    Args:
      checkpoint: its path, or the path of an export, whose images are read in their own size (`runner.Task.windows`).
      task: network, split and metrics.
      handle: called with each batch, in a thread, before its metrics are computed; what it raises ends the round.
      keys: what its batches have, besides what the metrics need, by the names in `common`.
      handle_results: called with the results of further tasks for each image, in order.

    Raises:
      CheckpointError: The checkpoint does not match the network.
      DataError: An image cannot be decoded.
    """
    scores, done, crop_size = measure(checkpoint, task, handle, keys, handle_results)
    return Round(**vars(scores.results()), **vars(done), crop_size=crop_size)


def measure(
    checkpoint: str,
    task: runner.Task,
    handle: Callable[[runner.Batch], None] = lambda batch: None,
    keys: Sequence[str] = (),
    handle_results: task_results.Handler = lambda sample, results: None,
) -> tuple[scoring.Scores, runner.CheckpointPass, tuple[int, int] | None]:
    """Returns the metrics of a checkpoint on a split, the pass over the images, and the `Round.crop_size`.

    See `evaluate`, which makes figures of them.
    """
    network = task.network
    scores = scoring.Scores(
        task.split.descriptor,
        task.metrics,
        network.options,
        {} if network.options.is_semantic else task.source_at(checkpoint).calibration(),
        handle_results,
    )

    def count(batch: runner.Batch) -> None:
        handle(batch)
        scores.update(batch)

    background = overlap.Background(count, workers=1, max_calls=2)
    done = runner.run_checkpoint(checkpoint, task, 'eval', (*scores.keys, *keys), background, background.add)
    return scores, done, None if network.options.is_per_image else network.crop_size


def tagged_figures(result: scoring.Results, prediction: PredictionOptions) -> dict[str, float | None]:
    """Returns the intersections over union by summary tag, the mean first; none if there are no classes.

    Args:
      result: the evaluation.
      prediction: its scales and flips are part of the tags, such as `eval/miou_0.5_1.0_flipped_overall`.
    """
    if not result.has_classes:
        return {}
    prefix = _tag('miou', prediction)
    classes = {f'{prefix}_class_{i}': iou for i, iou in enumerate(result.metrics.class_iou)}
    return {f'{prefix}_overall': result.metrics.miou} | classes


def further_tagged_figures(result: scoring.Results, prediction: PredictionOptions) -> dict[str, float | None]:
    """Returns the figures of the further metrics and of tasks by summary tag, such as `eval/panoptic_1.0_pq`.

    Tags of classes follow, such as `eval/boundary_iou_1.0_iou_class_7`.
    """
    tagged: dict[str, float | None] = {}
    for metric, figures in result.further.items():
        tagged |= {f'{_tag(metric, prediction)}_{name}': value for name, value in figures.items()}
    for metric, of_classes in result.of_classes.items():
        for name, values in of_classes.items():
            prefix = f'{_tag(metric, prediction)}_{name}_class'
            tagged |= {f'{prefix}_{i}': value for i, value in enumerate(values)}
    return tagged


def tag_of(key: str, prediction: PredictionOptions) -> str:
    """Returns the summary tag of a `best_figure.BestFigure.key`."""
    task, _, name = key.rpartition('/')
    return f'{_tag(task, prediction)}_{name}' if task else f'{_tag(name, prediction)}_overall'


def _tag(metric: str, prediction: PredictionOptions) -> str:
    """Returns the first part of the summary tags of a metric."""
    scales = '_'.join(str(float(scale)) for scale in prediction.scales)
    return f'eval/{metric}_{scales}' + ('_flipped' if prediction.add_flipped_images else '')


def log_line(tag: str, value: float | None) -> str:
    """Formats a value as a log line, in the original's format, which scripts parse."""
    return f'{tag}[{"nan" if value is None else f"{value:.9g}"}]'


def add_summaries(writer: tf.compat.v1.summary.FileWriter, figures: dict[str, float | None], step: int) -> None:
    """Writes the values that are not None, which are given by tag, to an event file."""
    values = [
        tf.compat.v1.Summary.Value(tag=tag, simple_value=value) for tag, value in figures.items() if value is not None
    ]
    writer.add_summary(tf.compat.v1.Summary(value=values), step)


def as_json(result: Round, descriptor: DatasetDescriptor) -> dict[str, object]:
    """Returns the content of metrics-STEP.json; figures that nothing determines, as of absent classes, are None."""
    metrics = result.metrics
    names = list(descriptor.names)

    def by_name(values: Sequence[float | None]) -> dict[str, float | None]:
        return dict(zip(names, values, strict=True))

    of_classes = {
        metric: {name: by_name(values) for name, values in figures.items()}
        for metric, figures in result.of_classes.items()
    }
    return {
        'miou': metrics.miou,
        'class_iou': by_name(metrics.class_iou),
        'pixel_accuracy': metrics.pixel_accuracy,
        'mean_accuracy': metrics.mean_accuracy,
        'frequency_weighted_iou': metrics.frequency_weighted_iou,
        'mean_precision': metrics.mean_precision,
        'mean_dice': metrics.mean_dice,
        'class_accuracy': by_name(metrics.class_accuracy),
        'class_precision': by_name(metrics.class_precision),
        'class_dice': by_name(metrics.class_dice),
        **({'confusion_matrix': metrics.confusion_matrix} if result.has_classes else {}),
        'images': result.images,
        'seconds': round(result.seconds, 3),
        'checkpoint': result.checkpoint,
        'global_step': result.global_step,
        **({'metrics': result.further} if result.further else {}),
        **({'class_metrics': of_classes} if of_classes else {}),
        **(result.engine.as_json() if result.engine else {}),
    }


def read_json(path: str) -> dict[str, Any]:
    """Returns the content of a metrics file; empty if it is not one."""
    try:
        content = documents.load(path)
    except (OSError, documents.DocumentError):
        return {}
    return content if isinstance(content, dict) and {'miou', 'global_step'} <= content.keys() else {}


def free_path(folder: str, name: str, own_key: str, ending: str) -> str:
    """Returns the path for a metrics file that overwrites no metrics of another program.

    eval and validation during training can write to the same folder. The metrics of this program have the key
    `own_key`, which others lack; if others have the name, `ending` is added to it.
    """
    path = os.path.join(folder, name)
    content = read_json(path)
    return path if not content or own_key in content else f'{path.removesuffix(".json")}{ending}.json'


def write_json(content: dict[str, object], path: str) -> None:
    """Writes a JSON file atomically."""
    writing.write(path, json.dumps(content))
