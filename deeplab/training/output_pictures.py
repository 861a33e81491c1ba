"""Pictures of the outputs of tasks and of their targets, for the summaries of a training."""

from __future__ import annotations

import math
from collections.abc import Mapping

import tensorflow as tf

from deeplab import common, input_preprocess, model
from deeplab.core import shapes
from deeplab.options import ModelOptions
from deeplab.registry import TASKS, Output, Task

_TARGET = 'target'  # last part of the tags of targets


def pictures(
    maps: Mapping[str, tf.Tensor], batch: Mapping[str, tf.Tensor], options: ModelOptions
) -> dict[str, tf.Tensor]:
    """Draws the outputs of the tasks, except classes of pixels, and the targets with their names.

    Args:
      maps: outputs without activation by name, [n, h', w', channels] float32.
      batch: as many samples by the keys of `common`, with the targets of the tasks.
      options: the network.

    Returns:
      [n, h, w, 1 or 3] float32 of 0 to 255 by name of the output, and by `NAME_target`; both in the same scale.
    """
    size = shapes.spatial_size(batch[common.IMAGE])
    drawn = {}
    for task in TASKS.chosen(options):
        outputs = task.outputs(options)
        for output in outputs:
            if output.name == common.OUTPUT_TYPE:
                continue
            values = shapes.resize_bilinear(maps[output.name], size)  # [n, h, w, channels]
            values = values if output.activation is None else output.activation(values)
            values = model.scaled_lengths(values, output, shapes.spatial_size(maps[output.name]))
            target = _target(task, output, len(outputs) == 1, batch)
            scale = values if target is None else target
            drawn[output.name] = draw(values, scale, output, options.num_classes)
            if target is not None:
                drawn[f'{output.name}_{_TARGET}'] = draw(target, target, output, options.num_classes)
    return drawn


def _target(task: Task, output: Output, is_only: bool, batch: Mapping[str, tf.Tensor]) -> tf.Tensor | None:
    """Returns the target with the name of an output, [n, h, w, channels] float32; None if there is none.

    The target of a task's only output may have another name. It is then the first one with as many channels.
    """
    targets = {
        name: values[..., tf.newaxis] if values.shape.rank == 3 else values
        for name, values in input_preprocess.targets_of(task, batch).items()
    }
    if output.name not in targets and is_only:
        of_same_channels = [values for values in targets.values() if values.shape[-1] == output.channels]
        return tf.cast(of_same_channels[0], tf.float32) if of_same_channels else None
    return tf.cast(targets[output.name], tf.float32) if output.name in targets else None


def draw(values: tf.Tensor, scale: tf.Tensor, output: Output, num_classes: int) -> tf.Tensor:
    """Draws an output or its target.

    One channel is gray. Two channels are a color: the hue is their angle, the brightness their length. As many channels
    as classes show the class of the largest one, ids in gray; of other channels, the mean is gray.

    Args:
      values: [n, h, w, channels] float32; a target of ids may have one channel instead.
      scale: values whose smallest is black and whose largest is white, or has full brightness; the same for an output
        and its target.
      output: the output.
      num_classes: number of classes of the network.

    Returns:
      [n, h, w, 1 or 3] float32 of 0 to 255.
    """
    if output.channels == 2 and values.shape[-1] == 2 and (output.axes or num_classes != 2):
        return _colored(values, scale)
    if output.channels == num_classes > 1:
        ids = values if values.shape[-1] == 1 else tf.cast(tf.argmax(values, axis=3)[..., tf.newaxis], tf.float32)
        return ids * float(max(1, 255 // num_classes))
    low, high = (reduce(_mean(scale)) for reduce in (tf.reduce_min, tf.reduce_max))
    gray = tf.math.divide_no_nan(_mean(values) - low, high - low)
    return 255.0 * tf.clip_by_value(gray, 0.0, 1.0)  # [n, h, w, 1]


def _mean(values: tf.Tensor) -> tf.Tensor:
    """Returns the mean of the channels, [n, h, w, 1]."""
    return tf.reduce_mean(values, axis=3, keepdims=True)


def _colored(values: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    """Draws two channels as a color, [n, h, w, 3]."""
    hue = tf.atan2(values[..., 0], values[..., 1]) / (2.0 * math.pi) + 0.5  # [n, h, w]
    longest = tf.reduce_max(tf.norm(scale, axis=3)) if scale.shape[-1] == 2 else tf.reduce_max(tf.abs(scale))
    length = tf.clip_by_value(tf.math.divide_no_nan(tf.norm(values, axis=3), longest), 0.0, 1.0)
    return 255.0 * tf.image.hsv_to_rgb(tf.stack([hue, tf.ones_like(hue), length], axis=3))
