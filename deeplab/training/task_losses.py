"""The losses of one clone: the loss of --loss for the classes of pixels, and the terms of other tasks."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from deeplab import common, input_preprocess, model
from deeplab.core import channels_first, scale_losses, shapes
from deeplab.errors import OptionError
from deeplab.options import LossOptions, TrainOptions
from deeplab.registry import TASKS, Task, TaskContext
from deeplab.wording import option

Scalars = dict[str, tf.Tensor]


def build(
    logits: Mapping[str, model.ScaleLogits],
    batch: Mapping[str, tf.Tensor],
    options: TrainOptions,
    context: TaskContext,
    global_step: tf.Tensor | None,
) -> tuple[Scalars, Scalars]:
    """Builds the losses of all tasks.

    Args:
      logits: outputs of the network without activation, by name and scale.
      batch: the samples, by the keys of `common`, with the targets of the tasks.
      options: the training.
      context: what the tasks know of the data set.
      global_step: steps done, for the schedule of hard example mining.

    Returns:
      The losses, whose sum is the loss of the clone, by `OUTPUT_KEY` or `TASK_TERM`; and the terms without their
      weights, by `OUTPUT_KEY/TERM` or `TASK/TERM`, for summaries.

    Raises:
      OptionError: a target has another size than its output, or options of the loss have no effect.
    """
    losses: Scalars = {}
    terms: Scalars = {}
    context = context._replace(loss=options.loss, global_step=global_step)
    for task in TASKS.chosen(options.model):
        of_task = {output.name: logits[output.name] for output in task.outputs(options.model)}
        if task.losses is None:
            _add_losses_of_labels(of_task, batch[common.LABEL], context, losses, terms)
            if not options.model.is_semantic:  # each part of the loss has a term
                terms.update({f'{task.name}/{name}': losses[f'{name}_{common.MERGED_LOGITS}'] for name in of_task})
            continue
        maps = _maps(task, of_task, batch, options)
        targets = _targets(task, batch, maps)
        with tf.name_scope(task.name):
            made = task.losses(maps, targets, context)
        for name, term in made.items():
            terms[f'{task.name}/{name}'] = term.value
            losses[f'{task.name}_{name}'] = tf.multiply(term.value, term.weight, name=f'{task.name}_{name}/value')
    return losses, terms


def check(options: TrainOptions) -> None:
    """Raises `OptionError` if the loss of classes is set, but no task of the network uses it."""
    tasks = TASKS.chosen(options.model)
    is_used = any(task.losses is None or task.takes_loss_options for task in tasks)
    if options.loss != LossOptions() and not is_used:
        changed = options.loss.formula != LossOptions.formula
        name = 'LossOptions.formula' if changed else 'LossOptions.label_weights'
        raise OptionError(
            f'{option("ModelOptions.task", options.model.task)} uses its own losses, so {option(name)} and the other '
            'loss options have no effect. Omit them.'
        )


def _add_losses_of_labels(
    logits: Mapping[str, model.ScaleLogits], labels: tf.Tensor, context: TaskContext, losses: Scalars, terms: Scalars
) -> None:
    """Adds the loss of --loss of each output and scale."""
    for output, scales_to_logits in logits.items():
        for key, loss in scale_losses.losses_of_scales(
            scales_to_logits, labels, context.ignore_label, context.loss, context.global_step, scope=output
        ).items():
            losses[f'{output}_{key}'] = loss.value
            if len(loss.terms) > 1:
                terms.update({f'{output}_{key}/{name}': value for name, value in loss.terms.items()})


def _maps(
    task: Task, logits: Mapping[str, model.ScaleLogits], batch: Mapping[str, tf.Tensor], options: TrainOptions
) -> dict[str, tf.Tensor]:
    """Returns the outputs of a task by name, [n, h, w, channels], at the size that its losses take."""
    size = shapes.spatial_size(batch[common.IMAGE])
    maps = {}
    for output in task.outputs(options.model):
        values = logits[output.name][common.MERGED_LOGITS]
        if task.upsamples:
            # Its gradient is repeatable, and faster.
            resized = channels_first.resize_bilinear(values, size)  # [channels, n, h, w]
            values = model.scaled_lengths(tf.transpose(resized, [1, 2, 3, 0]), output, shapes.spatial_size(values))
        maps[output.name] = values
    return maps


def _targets(task: Task, batch: Mapping[str, tf.Tensor], maps: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns the targets of a task by name.

    Raises:
      OptionError: a target with the name of an output has another size.
    """
    targets = input_preprocess.targets_of(task, batch)
    for name in maps.keys() & targets.keys():
        made, needed = targets[name].shape.as_list(), maps[name].shape.as_list()
        if made[1:3] != needed[1:3]:
            raise OptionError(
                f"The target '{name}' of the task '{task.name}' has the shape {made}, its output {needed}: height and "
                'width must be equal. Make the target in the size of the output, or set upsamples in the task.'
            )
    return targets
