"""Lovasz-softmax loss."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from deeplab.core.lazy import tf
from deeplab.registry import REGIONS, Loss, register

ERROR_STEP = 2.0**-12  # errors of pixels nearer than that count as equal
BINS = round(1 / ERROR_STEP) + 1  # of the errors from 0 to 1, with one for 0 alone
MOST_CLASSES = 32  # with more classes, only classes in the batch are computed


def lovasz(probabilities: tf.Tensor, truth: tf.Tensor) -> tf.Tensor:
    """Lovasz-softmax: the convex closure of `1 - IoU` of each class, at the errors `|g - p|` of its pixels.

    The errors of a class are sorted from the largest to the smallest. Each is multiplied by what the loss `1 - IoU`
    grows by when its pixel goes wrong after all before it; the sum is the loss. It equals `1 - IoU` where every
    probability is 0 or 1.

    Errors are sorted into `1 / ERROR_STEP` bins instead of one by one, which takes much less time. Errors in one bin
    count as equal. The loss hardly depends on their order; it is the average over the orders of the pixels of other
    classes. It is at most `ERROR_STEP` below the loss of fully sorted errors. Memory is about 20 bytes for each
    pixel and class that occurs: 140 MB for 8 crops of 241x321 with 11 classes.

    Args:
      probabilities: [classes, pixels] float32.
      truth: [classes, pixels] float32, 0 or 1.

    Returns:
      [classes] float32.

    Source: arXiv:1705.08790, sections 2 and 3 (whole batch, classes that are present).
    """
    # XLA compiles known shapes only, and there may be as many rows as classes occur.
    is_eager = tf.executing_eagerly()
    with contextlib.nullcontext() if is_eager else tf.xla.experimental.jit_scope(compile_ops=False):
        if int(truth.shape[0]) <= MOST_CLASSES:
            return _losses(probabilities, truth)
        labeled = tf.reduce_sum(truth, axis=1)  # [classes]
        present = tf.where(labeled > 0)  # [occurring, 1] int64
        losses = _losses(tf.gather(probabilities, present[:, 0]), tf.gather(truth, present[:, 0]))  # [occurring]
        return tf.scatter_nd(present, losses, tf.shape(labeled, tf.int64))


def _losses(probabilities: tf.Tensor, truth: tf.Tensor) -> tf.Tensor:
    """Returns the losses of all classes, [classes] float32; arguments as for `lovasz`."""

    def losses(values: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        slopes, at_zero = _slopes(_places(values, truth))
        # The loss is linear within a bin: its value for probabilities of 0, plus the slopes times the probabilities.
        return at_zero + tf.reduce_sum(values * slopes, axis=1), lambda gradient: slopes * gradient[:, tf.newaxis]

    result: tf.Tensor = tf.custom_gradient(losses)(probabilities)
    return result


def _places(probabilities: tf.Tensor, truth: tf.Tensor) -> tf.Tensor:
    """Returns the bin of each pixel's probability, numbered through all classes, [classes, pixels] int32.

    Each class has `2 * BINS` bins, the first half for pixels of other classes and the second for its own. In both, the
    first bin has the largest probabilities. The last bin has only probabilities of 0, which ignored pixels have.
    """
    steps = BINS - 1
    places = tf.cast((truth * BINS + steps) - probabilities * steps, tf.int32)
    first = 2 * BINS * tf.range(tf.shape(places)[0])[:, tf.newaxis]  # [classes, 1]
    return tf.maximum(places, 0) + first  # NaN becomes any number


def _slopes(places: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the slopes of the Lovasz loss in the probabilities.

    With I pixels of the class not yet gone wrong and a union of U, a pixel of the class that goes wrong raises the
    loss from `1 - I / U` to `1 - (I - 1) / U`, that is by `1 / U`; b others to `1 - I / (U + b)`, each on average by
    `I / (U * (U + b))`. The differences are written out: subtracting nearly equal values would lose their digits.
    In a bin the pixels of the class come first.

    Args:
      places: bins of the probabilities, [classes, pixels] int32.

    Returns:
      slope of each probability, [classes, pixels] float32, and the loss if all probabilities are 0, [classes] float32.
    """
    size = 2 * BINS * tf.shape(places)[0]
    counts = tf.raw_ops.Bincount(arr=tf.reshape(places, [-1]), size=size, weights=tf.constant([], tf.int32))
    others, members = tf.unstack(tf.reshape(counts, [-1, 2, BINS]), axis=1)  # [classes, bins] int32
    members = tf.reverse(members, axis=[1])  # as the others: from the largest error to the smallest
    intact = tf.cast(tf.cumsum(members, axis=1, reverse=True, exclusive=True), tf.float32)  # I, after the class's own
    union = tf.cast(
        tf.reduce_sum(members, axis=1, keepdims=True) + tf.cumsum(others, axis=1, exclusive=True), tf.float32
    )  # U, before the others
    # Where the union is still empty, the slopes have no effect: no pixel comes before, or the class has none.
    of_others = tf.math.divide_no_nan(intact, union * (union + tf.cast(others, tf.float32)))
    of_members = tf.math.divide_no_nan(1.0, union)
    table = tf.concat([of_others, -tf.reverse(of_members, axis=[1])], axis=1)  # [classes, 2 * bins]
    slopes = tf.gather_nd(tf.reshape(table, [-1]), places[..., tf.newaxis])  # takes two thirds of the time of gather
    return slopes, tf.reduce_sum(tf.cast(members, tf.float32) * of_members, axis=1)


register(
    Loss(
        name='lovasz',
        summary='Lovasz-softmax: a surrogate for the IoU, computed from the sorted errors of the pixels.',
        function=lovasz,
        of=REGIONS,
        source='arXiv:1705.08790, sections 2 and 3',
    )
)
