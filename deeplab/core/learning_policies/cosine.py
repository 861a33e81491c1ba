"""Cosine decay."""

from __future__ import annotations

import math

from deeplab.core.lazy import tf
from deeplab.core.learning_policies.poly import DECAY_STEPS, END, fraction_done
from deeplab.registry import LearningPolicy, register


def cosine(step: tf.Tensor, base: float, total_steps: float, decay_steps: float, end: float) -> tf.Tensor:
    """Returns `(base - end) * (1 + cos(pi * done)) / 2 + end`, where `done = min(step, total) / total`.

    Scalar float32. total is `decay_steps`, or `total_steps` if that is 0; for the other arguments see
    `registry.LearningPolicy`.

    Source: arXiv:1608.03983, equation 5, without restarts.
    """
    done = fraction_done(step, decay_steps or total_steps)
    return (base - end) * 0.5 * (1.0 + tf.cos(math.pi * done)) + end


register(
    LearningPolicy(
        name='cosine',
        summary='Half a cosine from the initial to the final learning rate, without restarts.',
        function=cosine,
        parameters=(END, DECAY_STEPS),
        source='arXiv:1608.03983, equation 5',
    )
)
