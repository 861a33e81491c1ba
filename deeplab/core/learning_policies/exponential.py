"""Exponential decay."""

from __future__ import annotations

from typing import Any

from deeplab.core.lazy import tf
from deeplab.core.learning_policies.step import DECAY_FACTOR, DECAY_STEP
from deeplab.errors import OptionError
from deeplab.registry import LearningPolicy, register
from deeplab.wording import option


def exponential(step: tf.Tensor, base: float, total_steps: float, decay_factor: float, decay_step: int) -> tf.Tensor:
    """Returns `base * decay_factor ** (step / decay_step)`, scalar float32.

    decay_step is in steps; for the other arguments see `registry.LearningPolicy`.
    """
    drops = tf.cast(step, tf.float32) / decay_step
    return base * tf.pow(tf.constant(decay_factor, tf.float32), drops)


def check(options: Any) -> None:
    """Raises `OptionError` for a factor of 0, whose powers are no learning rates."""
    if options.decay_factor == 0:
        shown = option('LearningRateOptions.decay_factor', options.decay_factor)
        policy = option('LearningRateOptions.policy', options.policy)
        raise OptionError(f'{shown} is not allowed: it must be greater than 0 with {policy}.')


register(
    LearningPolicy(
        name='exponential',
        summary='Decay by a factor over every so many steps, a little at each step.',
        function=exponential,
        parameters=(DECAY_FACTOR, DECAY_STEP),
        check=check,
    )
)
