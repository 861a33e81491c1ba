"""Soft Tversky loss."""

from __future__ import annotations

from deeplab.core.lazy import tf
from deeplab.registry import REGIONS, Loss, Parameter, register


def tversky(
    probabilities: tf.Tensor, truth: tf.Tensor, tversky_alpha: float = 0.3, tversky_beta: float = 0.7
) -> tf.Tensor:
    """Soft Tversky loss: `1 - T / (T + alpha * F + beta * M)` of each class.

    With p the probabilities and g the truth: T, the true positives, is the sum of `p * g`; F, the false positives, the
    sum of `p * (1 - g)`; M, the false negatives, the sum of `(1 - p) * g`.

    Args:
      probabilities: [classes, pixels] float32.
      truth: [classes, pixels] float32, 0 or 1.
      tversky_alpha: weight of false positives, 0 or more.
      tversky_beta: weight of false negatives, greater than 0: above `tversky_alpha` for classes that are missed too
        often.

    Returns:
      [classes] float32.

    Source: arXiv:1706.05721, section 2.
    """
    labeled = tf.reduce_sum(truth, axis=1)  # [classes]
    hits = tf.reduce_sum(probabilities * truth, axis=1)
    false_alarms = tf.reduce_sum(probabilities, axis=1) - hits
    total = hits + tversky_alpha * false_alarms + tversky_beta * (labeled - hits)
    return 1.0 - tf.math.divide_no_nan(hits, total)


register(
    Loss(
        name='tversky',
        summary='Soft Tversky loss.',
        function=tversky,
        of=REGIONS,
        parameters=(
            Parameter('tversky_alpha', 0.3, 'Weight of false positives in the Tversky loss.', range='[0, inf)'),
            Parameter('tversky_beta', 0.7, 'Weight of false negatives in the Tversky loss.', range='(0, inf)'),
        ),
        source='arXiv:1706.05721, section 2',
    )
)
