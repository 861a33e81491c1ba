"""Soft Jaccard loss (IoU)."""

from __future__ import annotations

from deeplab.core.lazy import tf
from deeplab.core.losses.tversky import tversky
from deeplab.registry import REGIONS, Loss, register


def jaccard(probabilities: tf.Tensor, truth: tf.Tensor) -> tf.Tensor:
    """Soft intersection over union: `1 - sum(p * g) / (sum(p) + sum(g) - sum(p * g))` of each class.

    Args:
      probabilities: [classes, pixels] float32.
      truth: [classes, pixels] float32, 0 or 1.

    Returns:
      [classes] float32.

    Source: Rahman and Wang, Optimizing intersection-over-union in deep neural networks for image segmentation, ISVC
    2016, section 3.
    """
    return tversky(probabilities, truth, tversky_alpha=1.0, tversky_beta=1.0)


register(
    Loss(
        name='jaccard',
        summary='Soft intersection over union (IoU).',
        function=jaccard,
        of=REGIONS,
        source='Rahman and Wang, ISVC 2016, section 3',
    )
)
