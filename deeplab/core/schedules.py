"""Learning rates as pure functions of the step. No TensorFlow; `utils/train_utils.py` has the same in a graph."""

from __future__ import annotations

from deeplab.errors import OptionError
from deeplab.options import LearningRateOptions

BURNIN_TYPES = ('none', 'linear')


def check_burnin_type(burnin: str) -> None:
    """Raises `OptionError` unless `burnin` is one of `BURNIN_TYPES`."""
    if burnin not in BURNIN_TYPES:
        raise OptionError(f'slow_start_burnin_type={burnin} is not allowed: it must be one of none, linear.')


def poly_steps(options: LearningRateOptions, number_of_steps: int) -> float:
    """Steps over which the poly policy decays: `decay_steps`, or all that follow the slow start (1 at least)."""
    if options.decay_steps:
        return float(options.decay_steps)
    return float(max(number_of_steps - options.slow_start_steps, 1))


def learning_rate(
    step: int, options: LearningRateOptions, number_of_steps: int, slow_start_burnin_type: str = 'none'
) -> float:
    """The learning rate at `step`.

    With `s = max(step - slow_start_steps, 0)` and `total = poly_steps(...)`:

      poly: (base - end) * (1 - min(s, total) / total) ** power + end
      step: base * decay_factor ** (s // decay_step)

    The first `slow_start_steps` steps run at `slow_start_rate`; with the burn-in 'linear' they climb from there to
    `base` instead.

    Args:
      step: steps done before, 0 or more.
      options: policy and its numbers.
      number_of_steps: length of the whole training, in steps.
      slow_start_burnin_type: 'none' or 'linear'.

    Returns:
      the rate, 0 or more.

    Raises:
      OptionError: if the burn-in type is unknown.

    Source: arXiv:1606.00915, section 4.1 (poly).
    """
    check_burnin_type(slow_start_burnin_type)
    if step < options.slow_start_steps:
        if slow_start_burnin_type == 'none':
            return options.slow_start_rate
        return options.slow_start_rate + (options.base - options.slow_start_rate) * step / options.slow_start_steps
    since_start = step - options.slow_start_steps
    if options.policy == 'step':
        return float(options.base * options.decay_factor ** (since_start // options.decay_step))
    total = poly_steps(options, number_of_steps)
    left = 1 - min(since_start, total) / total
    return float((options.base - options.end) * left**options.power + options.end)
