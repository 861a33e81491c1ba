"""Region losses of classes (dice, Jaccard, Lovasz, Tversky): overlap of predicted and labelled regions.

Each is a pure function of `regions_of(logits, labels, ignore_label)`, whose predicted regions are the probabilities of
the softmax. Pixels of `ignore_label` are excluded from the loss and its gradient. A batch is one set of pixels: the
overlap is measured over all its images together, like the mean IoU of an evaluation. Only classes that occur among the
labels of the batch have a loss.

Arrays are [classes, pixels], so that sums run over contiguous memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

ERROR_STEP = 2.0**-16  # errors of pixels nearer than that count as equal in `lovasz`


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


def regions_of(logits: tf.Tensor, labels: tf.Tensor, ignore_label: int) -> Regions:
    """Returns the regions of a batch.

    Args:
      logits: [..., classes] float.
      labels: [...] (or [..., 1]) int32, of as many pixels; class ids or `ignore_label`.
      ignore_label: label of the ignored pixels.

    Returns:
      `Regions`, float32 for logits of any type.
    """
    classes = logits.shape.as_list()[-1]
    scores = tf.transpose(tf.cast(tf.reshape(logits, [-1, classes]), tf.float32))  # [classes, pixels]
    flat_labels = tf.reshape(labels, [-1])  # [pixels]
    is_counted = tf.not_equal(flat_labels, ignore_label)
    known_labels = tf.where(is_counted, flat_labels, -tf.ones_like(flat_labels))  # one_hot of -1 is all zeros
    truth = tf.one_hot(known_labels, classes, axis=0)  # [classes, pixels]
    return Regions(_softmax(scores) * tf.cast(is_counted, tf.float32), truth)


def _softmax(scores: tf.Tensor) -> tf.Tensor:
    """Returns the softmax of [classes, pixels] over the classes. TensorFlow's own would transpose there and back."""

    @tf.custom_gradient
    def softmax(values: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        exponentials = tf.exp(values - tf.reduce_max(values, axis=0))
        result = exponentials / tf.reduce_sum(exponentials, axis=0)
        return result, lambda gradient: result * (gradient - tf.reduce_sum(gradient * result, axis=0))

    return softmax(scores)


def dice(regions: Regions) -> ClassLosses:
    """Soft dice: `1 - 2 * sum(p * g) / (sum(p**2) + sum(g**2))` of each class, p probability, g truth.

    Source: arXiv:1606.04797, section 3.
    """
    probabilities, truth = regions
    labelled = tf.reduce_sum(truth, axis=1)  # [classes]; of zeros and ones the squares are the same
    overlap = tf.reduce_sum(probabilities * truth, axis=1)
    total = tf.reduce_sum(tf.square(probabilities), axis=1) + labelled
    return _where_they_occur(1.0 - tf.math.divide_no_nan(2.0 * overlap, total), labelled)


def tversky(regions: Regions, alpha: float, beta: float) -> ClassLosses:
    """Soft Tversky loss: `1 - T / (T + alpha * F + beta * M)` of each class.

    T is the sum of `p * g`, the hits; F that of `p * (1 - g)`, the false alarms; M that of `(1 - p) * g`, the misses.

    Args:
      regions: of the batch.
      alpha: what a false alarm costs, 0 or more.
      beta: what a miss costs, greater than 0: above `alpha` for classes that are missed too often.

    Source: arXiv:1706.05721, section 2.
    """
    probabilities, truth = regions
    labelled = tf.reduce_sum(truth, axis=1)  # [classes]
    hits = tf.reduce_sum(probabilities * truth, axis=1)
    false_alarms = tf.reduce_sum(probabilities, axis=1) - hits
    total = hits + alpha * false_alarms + beta * (labelled - hits)
    return _where_they_occur(1.0 - tf.math.divide_no_nan(hits, total), labelled)


def jaccard(regions: Regions) -> ClassLosses:
    """Soft intersection over union: `1 - sum(p * g) / (sum(p) + sum(g) - sum(p * g))` of each class.

    Source: Rahman and Wang, Optimizing intersection-over-union in deep neural networks for image segmentation, ISVC
    2016, section 3.
    """
    return tversky(regions, alpha=1.0, beta=1.0)


def lovasz(regions: Regions) -> ClassLosses:
    """Lovasz-softmax: the convex closure of `1 - IoU` of each class, at the errors `|g - p|` of its pixels.

    The errors of a class are sorted from the largest to the smallest. Each is multiplied by what the loss `1 - IoU`
    grows by when its pixel goes wrong after all before it; the sum is the loss. It equals `1 - IoU` where every
    probability is 0 or 1.

    Errors are sorted into `1 / ERROR_STEP` bins instead of one by one, which takes a fifth of the time. Those of one
    bin count as equal: their order, on which the loss hardly depends, is then any, and the average over the orders of
    the pixels beside the class is taken. The loss is at most `ERROR_STEP` below that of the full order. Memory is
    about 30 bytes for each pixel and class that occurs: 200 MB for 8 crops of 241x321 with 11 classes.

    Source: arXiv:1705.08790, sections 2 and 3 (whole batch, classes that are present).
    """
    probabilities, truth = regions
    labelled = tf.reduce_sum(truth, axis=1)  # [classes]
    with _not_compiled():
        present = tf.where(labelled > 0)  # [occurring, 1] int64
        truth_here = tf.gather_nd(truth, present)  # [occurring, pixels]
        errors = tf.abs(truth_here - tf.gather_nd(probabilities, present))  # 0 for ignored pixels
        slopes = tf.stop_gradient(_slopes(tf.stop_gradient(errors), truth_here))
        values = tf.scatter_nd(present, tf.reduce_sum(errors * slopes, axis=1), tf.shape(labelled, tf.int64))
    return _where_they_occur(values, labelled)


def _not_compiled() -> contextlib.AbstractContextManager[None]:
    """A scope that XLA leaves alone, for what has as many rows as classes occur: it compiles known shapes only."""
    if tf.executing_eagerly():
        return contextlib.nullcontext()
    scope: contextlib.AbstractContextManager[None] = tf.xla.experimental.jit_scope(compile_ops=False)
    return scope


def _slopes(errors: tf.Tensor, truth: tf.Tensor) -> tf.Tensor:
    """What each error is multiplied by in the Lovasz loss, [classes, pixels] float32, of two such.

    With I pixels of the class not yet gone wrong and a union of U, a pixel of the class that goes wrong raises the
    loss from `1 - I / U` to `1 - (I - 1) / U`, that is by `1 / U`; b others to `1 - I / (U + b)`, each on average by
    `I / (U * (U + b))`. These differences are written out, as those of neighbouring values would be lost in rounding.
    In a bin the pixels of the class come first.
    """
    steps = round(1 / ERROR_STEP)
    rows = tf.shape(errors)[0]
    # Bin 0 holds the largest errors. Errors of 0, including those of ignored pixels, have the last to
    # themselves.
    bins = tf.clip_by_value(tf.cast((1.0 - errors) * steps, tf.int32), 0, steps)  # clipped for NaN, which is any number
    places = 2 * (bins + (steps + 1) * tf.range(rows)[:, tf.newaxis]) + tf.cast(truth, tf.int32)  # [classes, pixels]
    size = 2 * (steps + 1) * rows
    counts = tf.raw_ops.Bincount(arr=tf.reshape(places, [-1]), size=size, weights=tf.constant([], tf.int32))
    others, members = tf.unstack(tf.reshape(counts, [rows, steps + 1, 2]), axis=2)  # [classes, bins] int32
    intact = tf.cast(tf.cumsum(members, axis=1, reverse=True, exclusive=True), tf.float32)  # I, after the class's own
    union = tf.cast(
        tf.reduce_sum(members, axis=1, keepdims=True) + tf.cumsum(others, axis=1, exclusive=True), tf.float32
    )  # U, before the others
    slopes = tf.stack([intact / (union * (union + tf.cast(others, tf.float32))), 1.0 / union], axis=2)
    return tf.gather(tf.reshape(slopes, [-1]), places)


def _where_they_occur(values: tf.Tensor, labelled: tf.Tensor) -> ClassLosses:
    """`values` of the classes that have labelled pixels, both [classes]."""
    occurs = tf.cast(labelled > 0, tf.float32)
    return ClassLosses(values * occurs, occurs)


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
