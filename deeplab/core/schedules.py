"""The learning rate at a step: the slow start, then the learning policy; or the rate of a range test."""

from __future__ import annotations

import tensorflow as tf

from deeplab.options import LearningRateOptions, RateTestOptions
from deeplab.registry import LEARNING_POLICIES


def learning_rate(step: tf.Tensor | int, options: LearningRateOptions, number_of_steps: int) -> tf.Tensor:
    """Returns the learning rate at `step`.

    The first `slow_start_steps` steps run at `slow_start_rate`; with the burn-in 'linear' they climb from there to
    `base` instead. Afterwards the learning policy gives the rate, from its own step 0 on (`core/learning_policies/`).
    With the burn-in 'minimum' the policy begins at once, and `base * step / slow_start_steps` is the limit of its rate.

    Args:
      step: steps done before, scalar integer, 0 or more.
      options: policy and its numbers.
      number_of_steps: length of the whole training, in steps.

    Returns:
      the rate, scalar float32, 0 or more.
    """
    step = tf.cast(step, tf.int64)
    policy = LEARNING_POLICIES.get(options.policy)
    is_limit = options.slow_start_burnin_type == 'minimum'
    delay = 0 if is_limit else options.slow_start_steps
    rate = policy.function(
        tf.maximum(step - delay, 0),
        options.base,
        float(max(number_of_steps - delay, 1)),
        **options.settings_of(policy),
    )
    if not options.slow_start_steps:
        return rate
    if is_limit:
        return tf.minimum(rate, options.base * tf.cast(step, tf.float32) / options.slow_start_steps)
    slow = tf.constant(options.slow_start_rate, tf.float32)
    if options.slow_start_burnin_type == 'linear':
        slow += (options.base - options.slow_start_rate) * tf.cast(step, tf.float32) / options.slow_start_steps
    return tf.where(step < options.slow_start_steps, slow, rate)


def growing(step: tf.Tensor | int, options: RateTestOptions) -> tf.Tensor:
    """Returns the learning rate of a range test, from `lowest` at step 0 to `highest` at the last step.

    Args:
      step: steps done before, scalar integer, 0 or more.
      options: the range, the number of steps, and how the rate grows between them.

    Returns:
      the rate, scalar float32.

    Source: arXiv:1506.01186, section 3.3 (linear growth).
    """
    done = tf.cast(step, tf.float32) / (options.steps - 1)  # 0 to 1
    if options.growth == 'linear':
        return options.lowest + (options.highest - options.lowest) * done
    return options.lowest * tf.pow(options.highest / options.lowest, done)
