"""Region losses of classes: overlap of predicted and labeled regions.

The functions of `core/losses` take `regions_of(labeled)`, whose predicted regions are the probabilities of the softmax.
Ignored pixels are excluded from the loss and its gradient. A batch is one set of pixels: the overlap is measured over
all its images together, like the mean IoU of an evaluation. Only classes that occur among the labels of the batch have
a loss.

Arrays are [classes, pixels], so that sums run over contiguous memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from deeplab.core.channels_first import LabeledLogits


class Regions(NamedTuple):
    """Predicted and true regions of the classes.

    Attributes:
      probabilities: [classes, pixels] float32, softmax over the classes; 0 for ignored pixels.
      truth: [classes, pixels] float32, 1 where the pixel has the class, else 0; 0 for ignored pixels.
    """

    probabilities: tf.Tensor
    truth: tf.Tensor


class ClassLosses(NamedTuple):
    """The loss of every class.

    Attributes:
      values: [classes] float32; 0 for classes that do not occur.
      occurs: [classes] float32, 1 where the class is the label of a pixel, else 0.
    """

    values: tf.Tensor
    occurs: tf.Tensor


def regions_of(labeled: LabeledLogits) -> Regions:
    """Returns the regions of a batch."""
    members = tf.where(labeled.is_counted, labeled.labels, -tf.ones_like(labeled.labels))  # one_hot of -1 is all zeros
    truth = tf.one_hot(members, labeled.classes, axis=0)  # [classes, pixels]
    return Regions(_softmax(labeled.logits, tf.cast(labeled.is_counted, tf.float32)), truth)


def _softmax(scores: tf.Tensor, counted: tf.Tensor) -> tf.Tensor:
    """Returns the softmax of [classes, pixels] over the classes, times `counted`, [pixels].

    TensorFlow's own would transpose there and back. The exponentials and their sum are computed as in
    `losses/softmax.py`, by equal operations: TensorFlow executes these once if both losses are in the formula.
    """

    @tf.custom_gradient
    def softmax(values: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        exponentials = tf.exp(values - tf.reduce_max(values, axis=0))
        result = exponentials * (counted / tf.reduce_sum(exponentials, axis=0))
        return result, lambda gradient: result * (gradient - tf.reduce_sum(gradient * result, axis=0))

    return softmax(scores)


def class_losses(regions: Regions, function: Callable[..., tf.Tensor], **parameters: float) -> ClassLosses:
    """Returns the losses of the classes that have labeled pixels.

    Args:
      regions: of the batch.
      function: of a record of `deeplab.registry.LOSSES`.
      **parameters: of the function.
    """
    occurs = tf.cast(tf.reduce_sum(regions.truth, axis=1) > 0, tf.float32)  # [classes]
    return ClassLosses(function(*regions, **parameters) * occurs, occurs)


def mean_of_classes(losses: ClassLosses, label_weights: Sequence[float] | None = None) -> tf.Tensor:
    """Returns the mean over the classes that occur, scalar float32; 0 if none does.

    Args:
      losses: losses of a clone's whole batch.
      label_weights: how much each class counts in the mean; None, or one number for all classes, for evenly.

    Raises:
      ValueError: if the number of weights is neither 1 nor the number of classes.
    """
    classes = int(losses.values.shape[0])
    weights = tuple(label_weights or (1.0,))
    if len(weights) not in (1, classes):
        raise ValueError(f'There are {len(weights)} label weights for {classes} classes; give one, or one per class.')
    shares = losses.occurs * tf.constant(weights, tf.float32)
    return tf.math.divide_no_nan(tf.reduce_sum(losses.values * shares), tf.reduce_sum(shares))
