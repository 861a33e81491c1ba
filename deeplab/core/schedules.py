"""Learning rate schedules: functions of the step, inside or outside a graph."""

from __future__ import annotations

import math

import tensorflow as tf

from deeplab.options import LearningRateOptions


def decay_steps(options: LearningRateOptions, number_of_steps: int) -> float:
    """Returns the steps over which poly and cosine decay: `decay_steps`, or all after the slow start (at least 1)."""
    if options.decay_steps:
        return float(options.decay_steps)
    return float(max(number_of_steps - options.slow_start_steps, 1))


def learning_rate(step: tf.Tensor | int, options: LearningRateOptions, number_of_steps: int) -> tf.Tensor:
    """Returns the learning rate at `step`.

    With `s = max(step - slow_start_steps, 0)`, `total = decay_steps(...)` and `done = min(s, total) / total`:

      poly, polynomial: (base - end) * (1 - done) ** power + end
      cosine:           (base - end) * (1 + cos(pi * done)) / 2 + end
      step:             base * decay_factor ** (s // decay_step)
      exponential:      base * decay_factor ** (s / decay_step)

    The first `slow_start_steps` steps run at `slow_start_rate`; with the burn-in 'linear' they climb from there to
    `base` instead.

    Args:
      step: steps done before, scalar integer, 0 or more.
      options: policy and its numbers.
      number_of_steps: length of the whole training, in steps.

    Returns:
      the rate, scalar float32, 0 or more.

    Source: arXiv:1606.00915, section 4.1 (poly); arXiv:1608.03983, equation 5 (cosine, without restarts).
    """
    step = tf.cast(step, tf.int64)
    rate = _policy_rate(tf.maximum(step - options.slow_start_steps, 0), options, number_of_steps)
    if not options.slow_start_steps:
        return rate
    slow = tf.constant(options.slow_start_rate, tf.float32)
    if options.slow_start_burnin_type == 'linear':
        slow += (options.base - options.slow_start_rate) * tf.cast(step, tf.float32) / options.slow_start_steps
    return tf.where(step < options.slow_start_steps, slow, rate)


def _policy_rate(since_start: tf.Tensor, options: LearningRateOptions, number_of_steps: int) -> tf.Tensor:
    """Returns the policy's rate `since_start` steps (int64) after the slow start, scalar float32."""
    if options.policy in ('step', 'exponential'):
        if options.policy == 'step':
            drops = tf.cast(since_start // options.decay_step, tf.float32)
        else:
            drops = tf.cast(since_start, tf.float32) / options.decay_step
        return options.base * tf.pow(tf.constant(options.decay_factor, tf.float32), drops)
    total = decay_steps(options, number_of_steps)
    done = tf.minimum(tf.cast(since_start, tf.float32), total) / total
    if options.policy == 'cosine':
        return (options.base - options.end) * 0.5 * (1.0 + tf.cos(math.pi * done)) + options.end
    return (options.base - options.end) * tf.pow(1.0 - done, options.power) + options.end
