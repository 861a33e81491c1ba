"""Soft losses of the overlap of predicted and true regions: Tversky, Jaccard, dice."""

from __future__ import annotations

import functools

from deeplab.core.lazy import tf
from deeplab.registry import REGIONS, Loss, Parameter, register


def tversky(
    probabilities: tf.Tensor, truth: tf.Tensor, tversky_alpha: float = 0.3, tversky_beta: float = 0.7
) -> tf.Tensor:
    """Soft Tversky loss: `1 - T / (T + alpha * F + beta * M)` of each class; soft Jaccard if both weights are 1.

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


def dice(probabilities: tf.Tensor, truth: tf.Tensor) -> tf.Tensor:
    """Soft dice: `1 - 2 * sum(p * g) / (sum(p**2) + sum(g**2))` of each class; arguments and result as in `tversky`.

    Source: arXiv:1606.04797, section 3.
    """
    labeled = tf.reduce_sum(truth, axis=1)  # [classes]; of zeros and ones the squares are the same
    overlap = tf.reduce_sum(probabilities * truth, axis=1)
    total = tf.reduce_sum(tf.square(probabilities), axis=1) + labeled
    return 1.0 - tf.math.divide_no_nan(2.0 * overlap, total)


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
register(
    Loss(
        name='jaccard',
        summary='Soft intersection over union (IoU).',
        # 1 - sum(p * g) / (sum(p) + sum(g) - sum(p * g)); Rahman and Wang, Optimizing intersection-over-union in deep
        # neural networks for image segmentation, ISVC 2016, section 3.
        function=functools.partial(tversky, tversky_alpha=1.0, tversky_beta=1.0),
        of=REGIONS,
        source='Rahman and Wang, ISVC 2016, section 3',
    )
)
register(Loss(name='dice', summary='Soft Dice.', function=dice, of=REGIONS, source='arXiv:1606.04797, section 3'))
