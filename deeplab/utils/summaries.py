"""TensorBoard summaries of training, under the tags that the original wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf

from deeplab import common

MOST_IMAGES = 3


def scalar_summaries(
    total_loss: tf.Tensor, learning_rate: tf.Tensor, losses: Mapping[str, tf.Tensor], clone_scope: str = ''
) -> list[tf.Tensor]:
    """Summaries `total_loss`, `learning_rate` and `losses/NAME` for each loss of the first clone.

    Args:
      total_loss: scalar.
      learning_rate: scalar.
      losses: scalars by key.
      clone_scope: the first clone's name scope, which is left out of the tags.
    """
    scalar = tf.compat.v1.summary.scalar
    result = [scalar('total_loss', total_loss), scalar('learning_rate', learning_rate)]
    for loss in losses.values():
        name = loss.op.name.removeprefix(f'{clone_scope}/')
        result.append(scalar(f'losses/{name}', loss))
    return result


def variable_summaries(variables: Sequence[tf.Variable]) -> list[tf.Tensor]:
    """A histogram for each variable, under its own name."""
    return [tf.compat.v1.summary.histogram(variable.op.name, variable) for variable in variables]


def image_summaries(images: tf.Tensor, labels: tf.Tensor, predictions: tf.Tensor, num_classes: int) -> list[tf.Tensor]:
    """Summaries `samples/image`, `samples/label` and `samples/semantic` of the first few samples.

    Args:
      images: [n, h, w, 3], 0 to 255.
      labels: [n, h, w, 1] integer.
      predictions: [n, h, w, 1] integer.
      num_classes: ids are multiplied by max(1, 255 // num_classes), so that they can be told apart.
    """
    factor = max(1, 255 // num_classes)

    def image(tag: str, values: tf.Tensor) -> tf.Tensor:
        pixels = tf.cast(tf.clip_by_value(tf.cast(values[:MOST_IMAGES], tf.int32), 0, 255), tf.uint8)
        return tf.compat.v1.summary.image(f'samples/{tag}', pixels, max_outputs=MOST_IMAGES)

    return [
        image(common.IMAGE, images),
        image(common.LABEL, tf.cast(labels, tf.int32) * factor),
        image(common.OUTPUT_TYPE, tf.cast(predictions, tf.int32) * factor),
    ]
