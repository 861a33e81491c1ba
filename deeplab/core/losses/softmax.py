"""Softmax cross entropy."""

from __future__ import annotations

from collections.abc import Callable

from deeplab.core.lazy import tf
from deeplab.registry import Loss, Parameter, register

LABEL_SMOOTHING = Parameter(
    'label_smoothing',
    0.0,
    'Label smoothing: fraction of the target probability that is spread evenly over all classes.',
    range='[0, 1)',
)


def softmax(logits: tf.Tensor, labels: tf.Tensor, label_smoothing: float = 0.0) -> tf.Tensor:
    """Softmax cross entropy of each pixel.

    The loss of a pixel with label y is `log(sum(exp(logits))) - logits[y]`. With label smoothing s its truth is no
    longer 1 for y and 0 elsewhere, but that times `1 - s` plus `s / classes`.

    TensorFlow's own kernel takes each exponential twice, one number at a time; on a CPU these few operations need
    little more than half its time.

    Args:
      logits: [pixels, classes] float32.
      labels: [pixels] int32, class ids.
      label_smoothing: fraction of the target probability that all classes share evenly, 0 or more and less than 1.

    Returns:
      [pixels] float32; NaN for labels that are no class ids.

    Source: label smoothing is arXiv:1512.00567, section 7.
    """
    classes = int(logits.shape[-1])

    @tf.custom_gradient
    def cross_entropy(scores: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        shifted = scores - tf.reduce_max(scores, axis=1, keepdims=True)  # [pixels, classes], at most 0
        exponentials = tf.exp(shifted)
        total = tf.reduce_sum(exponentials, axis=1, keepdims=True)  # [pixels, 1]
        target = target_probabilities(labels, classes, label_smoothing)
        values = tf.math.log(tf.squeeze(total, axis=1)) - tf.reduce_sum(target * shifted, axis=1)  # [pixels]
        return values, lambda gradient: (exponentials / total - target) * gradient[:, tf.newaxis]

    is_class = tf.logical_and(labels >= 0, labels < classes)
    return tf.where(is_class, cross_entropy(logits), tf.constant(float('nan')))


def target_probabilities(labels: tf.Tensor, classes: int, label_smoothing: float) -> tf.Tensor:
    """Returns the target probabilities of labels [pixels] int32: [pixels, classes] float32."""
    if not label_smoothing:
        return tf.one_hot(labels, classes)
    others = label_smoothing / classes
    return tf.one_hot(labels, classes, on_value=1.0 - label_smoothing + others, off_value=others)


register(
    Loss(
        name='softmax',
        summary='Softmax cross entropy.',
        function=softmax,
        parameters=(LABEL_SMOOTHING,),
        source='arXiv:1512.00567, section 7 (label smoothing)',
    )
)
