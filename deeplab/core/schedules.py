"""Learning rates as pure functions of the step. No TensorFlow; `utils/train_utils.py` has the same in a graph."""

from __future__ import annotations

import math

from deeplab.options import LearningRateOptions


def decay_steps(options: LearningRateOptions, number_of_steps: int) -> float:
    """Steps over which poly and cosine decay: `decay_steps`, or all that follow the slow start (1 at least)."""
    if options.decay_steps:
        return float(options.decay_steps)
    return float(max(number_of_steps - options.slow_start_steps, 1))


def learning_rate(step: int, options: LearningRateOptions, number_of_steps: int) -> float:
    """The learning rate at `step`.

    With `s = max(step - slow_start_steps, 0)`, `total = decay_steps(...)` and `done = min(s, total) / total`:

      poly, polynomial: (base - end) * (1 - done) ** power + end
      cosine:           (base - end) * (1 + cos(pi * done)) / 2 + end
      step:             base * decay_factor ** (s // decay_step)
      exponential:      base * decay_factor ** (s / decay_step)

    The first `slow_start_steps` steps run at `slow_start_rate`; with the burn-in 'linear' they climb from there to
    `base` instead.

    Args:
      step: steps done before, 0 or more.
      options: policy and its numbers.
      number_of_steps: length of the whole training, in steps.

    Returns:
      the rate, 0 or more.

    Source: arXiv:1606.00915, section 4.1 (poly); arXiv:1608.03983, equation 5 (cosine, without restarts).
    """
    if step < options.slow_start_steps:
        if options.slow_start_burnin_type == 'none':
            return options.slow_start_rate
        return options.slow_start_rate + (options.base - options.slow_start_rate) * step / options.slow_start_steps
    since_start = step - options.slow_start_steps
    if options.policy == 'step':
        return float(options.base * options.decay_factor ** (since_start // options.decay_step))
    if options.policy == 'exponential':
        return float(options.base * options.decay_factor ** (since_start / options.decay_step))
    total = decay_steps(options, number_of_steps)
    done = min(since_start, total) / total
    share = (1 + math.cos(math.pi * done)) / 2 if options.policy == 'cosine' else (1 - done) ** options.power
    return float((options.base - options.end) * share + options.end)
