"""Pixel losses: label weights, ignored pixels, the mean of all pixels and of the hardest ones.

The functions of `core/losses` see pixels as a flat list. Ignored pixels are excluded from the loss and its gradient.
Losses of whole classes are in `region_losses`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from deeplab.core.channels_first import LabeledLogits
from deeplab.registry import PIXELS, Loss


class PixelLosses(NamedTuple):
    """The loss of every pixel.

    Attributes:
      values: [pixels] float32, weighted; 0 for ignored pixels.
      counted: [pixels] float32, 1 for labeled pixels, 0 for ignored ones.
    """

    values: tf.Tensor
    counted: tf.Tensor


def pixel_losses(
    record: Loss, labeled: LabeledLogits, label_weights: Sequence[float] | None = None, **parameters: float
) -> PixelLosses:
    """Computes the loss of each pixel.

    Args:
      record: the loss, of pixels.
      labeled: the batch.
      label_weights: one weight per class, or one for all classes; None for 1.
      **parameters: of the record.

    Raises:
      ValueError: if the number of weights is neither 1 nor the number of classes.
    """
    logits = tf.transpose(labeled.logits) if record.of == PIXELS else labeled.logits
    values = record.function(logits, labeled.labels, **parameters)  # [pixels]
    counted = tf.cast(labeled.is_counted, tf.float32)
    return PixelLosses(values * _pixel_weights(counted, labeled.labels, labeled.classes, label_weights), counted)


def _pixel_weights(
    counted: tf.Tensor, labels: tf.Tensor, classes: int, label_weights: Sequence[float] | None
) -> tf.Tensor:
    """Returns the weight of each pixel, [pixels] float32; 0 for ignored pixels."""
    weights = tuple(label_weights or (1.0,))
    if len(weights) not in (1, classes):
        raise ValueError(f'There are {len(weights)} label weights for {classes} classes; give one, or one per class.')
    if len(weights) == 1:
        return counted if weights[0] == 1.0 else counted * weights[0]
    return counted * tf.gather(tf.constant(weights, tf.float32), labels)


def mean_of_counted(losses: PixelLosses) -> tf.Tensor:
    """Returns the sum of the losses divided by the number of labeled pixels, scalar float32; 0 if there are none."""
    return tf.math.divide_no_nan(tf.reduce_sum(losses.values), tf.reduce_sum(losses.counted))


def mean_of_hardest(losses: PixelLosses, share: tf.Tensor | float) -> tf.Tensor:
    """Returns the mean of the hardest pixels.

    The `int(share * pixels)` largest losses are kept, where `pixels` includes ignored ones; their sum is divided by
    the number of kept losses that are not 0.

    Args:
      losses: losses of a clone's whole batch.
      share: share of the pixels to keep, greater than 0 and at most 1.

    Returns:
      scalar float32; 0 if no kept loss is above 0.

    Source: arXiv:1604.03540, section 4.2, applied to pixels instead of regions.
    """
    pixels = tf.cast(tf.size(losses.values), tf.float32)
    kept = tf.cast(pixels * share, tf.int32)
    hardest, _ = tf.nn.top_k(losses.values, k=kept, sorted=False)  # [kept]
    not_zero = tf.reduce_sum(tf.cast(tf.not_equal(hardest, 0.0), tf.float32))
    return tf.math.divide_no_nan(tf.reduce_sum(hardest), not_zero)


def mining_share(global_step: tf.Tensor, last_share: float, mining_step: int) -> tf.Tensor | float:
    """Returns the share of pixels of hard example mining: from 1 linearly to `last_share` at `mining_step`.

    Args:
      global_step: scalar integer.
      last_share: final share, greater than 0 and at most 1.
      mining_step: step at which the final share is reached; 0 for the start.

    Returns:
      the share, a float (tensor).
    """
    if mining_step == 0:
        return last_share
    progress = tf.minimum(1.0, tf.cast(global_step, tf.float32) / mining_step)
    return last_share * progress + (1.0 - progress)
