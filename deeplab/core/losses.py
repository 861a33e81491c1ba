"""Pixel losses (softmax cross entropy, focal loss): pure functions of logits and labels.

All of them see pixels as a flat list. A pixel counts where its label is not `ignore_label`; what is not counted adds
nothing to the loss or its gradient. Losses that measure whole classes are in `region_losses`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf


class PixelLosses(NamedTuple):
    """The loss of every pixel.

    Attributes:
      values: [pixels] float32, weighted; 0 for ignored pixels.
      counted: [pixels] float32, 1 for labelled pixels, 0 for ignored ones.
    """

    values: tf.Tensor
    counted: tf.Tensor


def softmax_cross_entropy(
    logits: tf.Tensor,
    labels: tf.Tensor,
    ignore_label: int,
    label_weights: Sequence[float] | None = None,
    label_smoothing: float = 0.0,
) -> PixelLosses:
    """Softmax cross entropy of each pixel.

    The loss of a pixel with label y is `weight[y] * (log(sum(exp(logits))) - logits[y])`. With label smoothing s its
    truth is no longer 1 for y and 0 elsewhere, but that times `1 - s` plus `s / classes`.

    Args:
      logits: [..., classes] float.
      labels: [...] (or [..., 1]) int32, of as many pixels; class ids or `ignore_label`.
      ignore_label: label of the ignored pixels.
      label_weights: one weight per class, or one for all classes; None for 1.
      label_smoothing: share of the truth that all classes split evenly, at least 0 and less than 1.

    Returns:
      `PixelLosses`, float32 for logits of any type.

    Raises:
      ValueError: if the number of weights is neither 1 nor the number of classes.

    Source: label smoothing is arXiv:1512.00567, section 7.
    """
    pixels = _flattened(logits, labels, ignore_label)
    values = _cross_entropy(pixels.logits, pixels.labels, label_smoothing)  # [pixels]
    return _weighted(values, pixels, label_weights)


def focal(
    logits: tf.Tensor,
    labels: tf.Tensor,
    ignore_label: int,
    label_weights: Sequence[float] | None = None,
    label_smoothing: float = 0.0,
    gamma: float = 2.0,
) -> PixelLosses:
    """Focal loss of each pixel: cross entropy with less weight on pixels that are already classified correctly.

    With p the softmax of the logits, the loss of a pixel with label y is `-weight[y] * (1 - p[y])**gamma * log(p[y])`.
    With label smoothing it is the sum of `-(1 - p[c])**gamma * log(p[c])` over the classes c, each times its share of
    the smoothed truth. gamma 0 is softmax cross entropy.

    Args:
      logits: [..., classes] float.
      labels: [...] (or [..., 1]) int32, of as many pixels; class ids or `ignore_label`.
      ignore_label: label of the ignored pixels.
      label_weights: as in `softmax_cross_entropy`; they are the paper's alpha.
      label_smoothing: as in `softmax_cross_entropy`.
      gamma: focusing parameter, 0 or more.

    Returns:
      `PixelLosses`, float32 for logits of any type.

    Raises:
      ValueError: if the number of weights is neither 1 nor the number of classes.

    Source: arXiv:1708.02002, section 3, for several classes.
    """
    pixels = _flattened(logits, labels, ignore_label)
    if label_smoothing:
        entropies = -tf.nn.log_softmax(pixels.logits)  # [pixels, classes]
        truth = _truth(pixels.labels, pixels.classes, label_smoothing)
        values = tf.reduce_sum(truth * _faded(entropies, gamma), axis=1)  # [pixels]
    else:
        values = _faded(_cross_entropy(pixels.logits, pixels.labels), gamma)  # [pixels]
    return _weighted(values, pixels, label_weights)


class _Pixels(NamedTuple):
    """Flattened pixels: logits [pixels, classes] float32, labels [pixels] int32, 0 for ignored pixels."""

    logits: tf.Tensor
    labels: tf.Tensor
    is_counted: tf.Tensor

    @property
    def classes(self) -> int:
        return int(self.logits.shape[-1])


def _flattened(logits: tf.Tensor, labels: tf.Tensor, ignore_label: int) -> _Pixels:
    classes = logits.shape.as_list()[-1]
    flat_logits = tf.cast(tf.reshape(logits, [-1, classes]), tf.float32)  # [pixels, classes]
    flat_labels = tf.reshape(labels, [-1])  # [pixels]
    is_counted = tf.not_equal(flat_labels, ignore_label)
    known_labels = tf.where(is_counted, flat_labels, tf.zeros_like(flat_labels))
    return _Pixels(flat_logits, known_labels, is_counted)


def _weighted(values: tf.Tensor, pixels: _Pixels, label_weights: Sequence[float] | None) -> PixelLosses:
    """Returns the losses [pixels] times their weights, which are 0 for ignored pixels."""
    counted = tf.cast(pixels.is_counted, tf.float32)
    return PixelLosses(values * _pixel_weights(counted, pixels.labels, pixels.classes, label_weights), counted)


def _truth(labels: tf.Tensor, classes: int, label_smoothing: float) -> tf.Tensor:
    """Returns the wanted probabilities, [pixels, classes] float32."""
    if not label_smoothing:
        return tf.one_hot(labels, classes)
    others = label_smoothing / classes
    return tf.one_hot(labels, classes, on_value=1.0 - label_smoothing + others, off_value=others)


def _cross_entropy(logits: tf.Tensor, labels: tf.Tensor, label_smoothing: float = 0.0) -> tf.Tensor:
    """Softmax cross entropy, [pixels], of [pixels, classes] float32 and labels [pixels] int32; NaN for other labels.

    TensorFlow's own kernel takes each exponential twice, one number at a time; on a CPU these few operations need
    little more than half its time.
    """
    classes = int(logits.shape[-1])

    @tf.custom_gradient
    def cross_entropy(scores: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        shifted = scores - tf.reduce_max(scores, axis=1, keepdims=True)  # [pixels, classes], at most 0
        exponentials = tf.exp(shifted)
        total = tf.reduce_sum(exponentials, axis=1, keepdims=True)  # [pixels, 1]
        truth = _truth(labels, classes, label_smoothing)  # [pixels, classes]
        values = tf.math.log(tf.squeeze(total, axis=1)) - tf.reduce_sum(truth * shifted, axis=1)  # [pixels]
        return values, lambda gradient: (exponentials / total - truth) * gradient[:, tf.newaxis]

    is_class = tf.logical_and(labels >= 0, labels < classes)
    return tf.where(is_class, cross_entropy(logits), tf.constant(float('nan')))


def _faded(entropies: tf.Tensor, gamma: float) -> tf.Tensor:
    """`(1 - exp(-e))**gamma * e` of each e >= 0, of any shape.

    Its gradient is written out because that of a power below 1 is infinite at 0, where this one is finite.
    """

    @tf.custom_gradient
    def faded(entropy: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        wrong = -tf.math.expm1(-entropy)  # 1 - p
        factor = tf.pow(wrong, gamma)

        def differentiate(gradient: tf.Tensor) -> tf.Tensor:
            ratio = tf.where(wrong > 0, tf.math.divide_no_nan(entropy, wrong), tf.ones_like(entropy))
            return gradient * factor * (1.0 + gamma * (1.0 - wrong) * ratio)

        return factor * entropy, differentiate

    return faded(entropies)


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
    """Returns the sum of the losses divided by the number of labelled pixels, scalar float32; 0 if there are none."""
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
