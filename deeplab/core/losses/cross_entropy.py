"""Softmax cross entropy, and the focal loss, which modulates it."""

from __future__ import annotations

from collections.abc import Callable

from deeplab.core.lazy import tf
from deeplab.registry import PLANES, Loss, Parameter, register

LABEL_SMOOTHING = Parameter(
    'label_smoothing',
    0.0,
    'Label smoothing: fraction of the target probability that is spread evenly over all classes.',
    range='[0, 1)',
)


def softmax(logits: tf.Tensor, labels: tf.Tensor, label_smoothing: float = 0.0) -> tf.Tensor:
    """Softmax cross entropy of each pixel.

    The loss of a pixel with label y is `log(sum(exp(logits))) - logits[y]`. With label smoothing s, the target
    probability of y is `1 - s + s / classes` instead of 1, and of each other class `s / classes` instead of 0.

    Args:
      logits: [classes, pixels] float32.
      labels: [pixels] int32, class ids.
      label_smoothing: fraction of the target probability that all classes share evenly, 0 or more and less than 1.

    Returns:
      [pixels] float32; NaN for labels that are no class ids.

    Source: label smoothing is arXiv:1512.00567, section 7.
    """
    classes = int(logits.shape[0])
    is_class = tf.logical_and(labels >= 0, labels < classes)
    ids = tf.where(is_class, labels, 0)

    def cross_entropy(scores: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        shifted = scores - tf.reduce_max(scores, axis=0)  # [classes, pixels], at most 0
        exponentials = tf.exp(shifted)
        total = tf.reduce_sum(exponentials, axis=0)  # [pixels]
        wanted = (1.0 - label_smoothing) * _values_of_class(shifted, ids)  # [pixels]
        if label_smoothing:
            wanted += label_smoothing * tf.reduce_mean(shifted, axis=0)

        def differentiate(gradient: tf.Tensor) -> tf.Tensor:
            return (exponentials * (1.0 / total) - target_probabilities(ids, classes, label_smoothing)) * gradient

        return tf.math.log(total) - wanted, differentiate

    return tf.where(is_class, tf.custom_gradient(cross_entropy)(logits), tf.constant(float('nan')))


def _values_of_class(values: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Returns the value of one class for each pixel: [classes, pixels] and ids [pixels] to [pixels]."""
    pixels = tf.size(ids, tf.int64)
    return tf.gather(tf.reshape(values, [-1]), tf.cast(ids, tf.int64) * pixels + tf.range(pixels))


def target_probabilities(labels: tf.Tensor, classes: int, label_smoothing: float) -> tf.Tensor:
    """Returns the target probabilities of labels [pixels] int32: [classes, pixels] float32."""
    if not label_smoothing:
        return tf.one_hot(labels, classes, axis=0)
    others = label_smoothing / classes
    return tf.one_hot(labels, classes, on_value=1.0 - label_smoothing + others, off_value=others, axis=0)


def focal(logits: tf.Tensor, labels: tf.Tensor, label_smoothing: float = 0.0, focal_gamma: float = 2.0) -> tf.Tensor:
    """Focal loss of each pixel: cross entropy with less weight on pixels that are already classified correctly.

    With p the softmax of the logits, the loss of a pixel with label y is `-(1 - p[y])**gamma * log(p[y])`. With label
    smoothing it is the sum of `-(1 - p[c])**gamma * log(p[c])` over the classes c, each times its target probability.
    gamma 0 is softmax cross entropy. Label weights are the paper's alpha.

    Args:
      logits: [classes, pixels] float32.
      labels: [pixels] int32, class ids.
      label_smoothing: as in `softmax`.
      focal_gamma: focusing parameter, 0 or more.

    Returns:
      [pixels] float32.

    Source: arXiv:1708.02002, section 3, for several classes.
    """
    if not label_smoothing:
        return _modulated(softmax(logits, labels), focal_gamma)
    entropies = tf.reduce_logsumexp(logits, axis=0) - logits  # [classes, pixels]
    target = target_probabilities(labels, int(logits.shape[0]), label_smoothing)
    return tf.reduce_sum(target * _modulated(entropies, focal_gamma), axis=0)


def _modulated(entropies: tf.Tensor, gamma: float) -> tf.Tensor:
    """Multiplies cross entropies by the modulating factor: `(1 - exp(-e))**gamma * e` of each e >= 0, of any shape.

    The gradient is written out: a power below 1 has an infinite gradient at 0, but the product's gradient is finite.
    """

    def modulated(entropy: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        wrong = -tf.math.expm1(-entropy)  # 1 - p
        factor = tf.pow(wrong, gamma)

        def differentiate(gradient: tf.Tensor) -> tf.Tensor:
            ratio = tf.where(wrong > 0, tf.math.divide_no_nan(entropy, wrong), tf.ones_like(entropy))
            return gradient * factor * (1.0 + gamma * (1.0 - wrong) * ratio)

        return factor * entropy, differentiate

    result: tf.Tensor = tf.custom_gradient(modulated)(entropies)
    return result


register(
    Loss(
        name='softmax',
        summary='Softmax cross entropy.',
        function=softmax,
        of=PLANES,
        parameters=(LABEL_SMOOTHING,),
        source='arXiv:1512.00567, section 7 (label smoothing)',
    )
)
register(
    Loss(
        name='focal',
        summary='Focal loss: cross entropy with less weight on pixels that are already classified correctly.',
        function=focal,
        of=PLANES,
        parameters=(
            LABEL_SMOOTHING,
            Parameter(
                'focal_gamma',
                2.0,
                'Focusing parameter gamma of the focal loss: the larger it is, the less weight well-classified pixels '
                'have.',
                range='[0, inf)',
            ),
        ),
        source='arXiv:1708.02002, section 3',
    )
)
