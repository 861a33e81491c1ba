"""Lovasz-softmax loss."""

from __future__ import annotations

import contextlib

from deeplab.core.lazy import tf
from deeplab.registry import REGIONS, Loss, register

ERROR_STEP = 2.0**-16  # errors of pixels nearer than that count as equal


def lovasz(probabilities: tf.Tensor, truth: tf.Tensor) -> tf.Tensor:
    """Lovasz-softmax: the convex closure of `1 - IoU` of each class, at the errors `|g - p|` of its pixels.

    The errors of a class are sorted from the largest to the smallest. Each is multiplied by what the loss `1 - IoU`
    grows by when its pixel goes wrong after all before it; the sum is the loss. It equals `1 - IoU` where every
    probability is 0 or 1.

    Errors are sorted into `1 / ERROR_STEP` bins instead of one by one, which takes a fifth of the time. Those of one
    bin count as equal: their order, on which the loss hardly depends, is then any, and the average over the orders of
    the pixels beside the class is taken. The loss is at most `ERROR_STEP` below that of the full order. Memory is
    about 30 bytes for each pixel and class that occurs: 200 MB for 8 crops of 241x321 with 11 classes.

    Args:
      probabilities: [classes, pixels] float32.
      truth: [classes, pixels] float32, 0 or 1.

    Returns:
      [classes] float32.

    Source: arXiv:1705.08790, sections 2 and 3 (whole batch, classes that are present).
    """
    labeled = tf.reduce_sum(truth, axis=1)  # [classes]
    with _not_compiled():
        present = tf.where(labeled > 0)  # [occurring, 1] int64
        truth_here = tf.gather_nd(truth, present)  # [occurring, pixels]
        errors = tf.abs(truth_here - tf.gather_nd(probabilities, present))  # 0 for ignored pixels
        slopes = tf.stop_gradient(_slopes(tf.stop_gradient(errors), truth_here))
        return tf.scatter_nd(present, tf.reduce_sum(errors * slopes, axis=1), tf.shape(labeled, tf.int64))


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
    `I / (U * (U + b))`. These differences are written out, as those of neighboring values would be lost in rounding.
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


register(
    Loss(
        name='lovasz',
        summary='Lovasz-softmax: a surrogate of IoU that is computed from the sorted errors of the pixels.',
        function=lovasz,
        of=REGIONS,
        source='arXiv:1705.08790, sections 2 and 3',
    )
)
