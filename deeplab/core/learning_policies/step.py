"""Decay by a factor in steps."""

from __future__ import annotations

from deeplab.core.lazy import tf
from deeplab.registry import LearningPolicy, Parameter, register

DECAY_FACTOR = Parameter(
    'decay_factor',
    0.1,
    'Decay factor.',
    range='[0, inf)',
    flag='learning_rate_decay_factor',
)
DECAY_STEP = Parameter(
    'decay_step',
    2000,
    'Steps in which the learning rate decays by that factor.',
    range='(0, inf)',
    flag='learning_rate_decay_step',
)


def staircase(step: tf.Tensor, base: float, total_steps: float, decay_factor: float, decay_step: int) -> tf.Tensor:
    """Returns `base * decay_factor ** (step // decay_step)`, scalar float32.

    decay_step is in steps; for the other arguments see `registry.LearningPolicy`.
    """
    drops = tf.cast(step // decay_step, tf.float32)
    return base * tf.pow(tf.constant(decay_factor, tf.float32), drops)


register(
    LearningPolicy(
        name='step',
        summary='Constant, and multiplied by a factor every so many steps.',
        function=staircase,
        parameters=(DECAY_FACTOR, DECAY_STEP),
    )
)
