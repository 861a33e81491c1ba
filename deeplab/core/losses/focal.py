"""Focal loss."""

from __future__ import annotations

from collections.abc import Callable

from deeplab.core.lazy import tf
from deeplab.core.losses.softmax import LABEL_SMOOTHING, softmax, target_probabilities
from deeplab.registry import PLANES, Loss, Parameter, register


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
        name='focal',
        summary='Focal loss: cross entropy with less weight on pixels that are already classified correctly.',
        function=focal,
        of=PLANES,
        parameters=(
            LABEL_SMOOTHING,
            Parameter(
                'focal_gamma',
                2.0,
                'Focusing parameter gamma of the focal loss: the larger, the less well-classified pixels weigh.',
                range='[0, inf)',
            ),
        ),
        source='arXiv:1708.02002, section 3',
    )
)
