"""Soft dice loss."""

from __future__ import annotations

from deeplab.core.lazy import tf
from deeplab.registry import REGIONS, Loss, register


def dice(probabilities: tf.Tensor, truth: tf.Tensor) -> tf.Tensor:
    """Soft dice: `1 - 2 * sum(p * g) / (sum(p**2) + sum(g**2))` of each class, p probability, g truth.

    Args:
      probabilities: [classes, pixels] float32.
      truth: [classes, pixels] float32, 0 or 1.

    Returns:
      [classes] float32.

    Source: arXiv:1606.04797, section 3.
    """
    labeled = tf.reduce_sum(truth, axis=1)  # [classes]; of zeros and ones the squares are the same
    overlap = tf.reduce_sum(probabilities * truth, axis=1)
    total = tf.reduce_sum(tf.square(probabilities), axis=1) + labeled
    return 1.0 - tf.math.divide_no_nan(2.0 * overlap, total)


register(Loss(name='dice', summary='Soft dice.', function=dice, of=REGIONS, source='arXiv:1606.04797, section 3'))
