"""Learning rates that decay: poly, cosine, step and exponential.

Each function returns a scalar float32; for `step`, `base` and `total_steps` see `registry.LearningPolicy`.
"""

from __future__ import annotations

import math
from typing import Any

from deeplab.core.lazy import tf
from deeplab.errors import OptionError
from deeplab.registry import LearningPolicy, Parameter, register
from deeplab.wording import option


def poly(step: tf.Tensor, base: float, total_steps: float, decay_steps: float, end: float, power: float) -> tf.Tensor:
    """Returns `(base - end) * (1 - done) ** power + end`; for `done` see `_fraction_done`.

    Source: arXiv:1606.00915, section 4.1.
    """
    return (base - end) * tf.pow(1.0 - _fraction_done(step, decay_steps or total_steps), power) + end


def cosine(step: tf.Tensor, base: float, total_steps: float, decay_steps: float, end: float) -> tf.Tensor:
    """Returns `(base - end) * (1 + cos(pi * done)) / 2 + end`; for `done` see `_fraction_done`.

    Source: arXiv:1608.03983, equation 5, without restarts.
    """
    return (base - end) * 0.5 * (1.0 + tf.cos(math.pi * _fraction_done(step, decay_steps or total_steps))) + end


def _fraction_done(step: tf.Tensor, total: float) -> tf.Tensor:
    """Returns the fraction of `total` steps that are done, scalar float32, at most 1."""
    return tf.minimum(tf.cast(step, tf.float32), total) / total


def staircase(step: tf.Tensor, base: float, total_steps: float, decay_factor: float, decay_step: int) -> tf.Tensor:
    """Returns `base * decay_factor ** (step // decay_step)`."""
    return base * tf.pow(tf.constant(decay_factor, tf.float32), tf.cast(step // decay_step, tf.float32))


def exponential(step: tf.Tensor, base: float, total_steps: float, decay_factor: float, decay_step: int) -> tf.Tensor:
    """Returns `base * decay_factor ** (step / decay_step)`."""
    return base * tf.pow(tf.constant(decay_factor, tf.float32), tf.cast(step, tf.float32) / decay_step)


def _check_factor(options: Any) -> None:
    """Raises `OptionError` for a factor of 0, whose powers are no learning rates."""
    if options.decay_factor == 0:
        shown = option('LearningRateOptions.decay_factor', options.decay_factor)
        policy = option('LearningRateOptions.policy', options.policy)
        raise OptionError(f'{shown} is not allowed: it must be greater than 0 with {policy}.')


_END = Parameter('end', 0.0, 'Final learning rate.', range='[0, inf)', flag='end_learning_rate')
_POWER = Parameter('power', 0.9, 'Exponent of the poly schedule.', range='[0, inf)', flag='learning_power')
_DECAY_STEPS = Parameter(
    'decay_steps',
    0.0,
    'Length of the schedule, in steps; 0: all steps after the slow start.',
    range='[0, inf)',
)
_DECAY_FACTOR = Parameter('decay_factor', 0.1, 'Decay factor.', range='[0, inf)', flag='learning_rate_decay_factor')
_DECAY_STEP = Parameter(
    'decay_step',
    2000,
    'Number of steps over which the learning rate decays by that factor.',
    range='(0, inf)',
    flag='learning_rate_decay_step',
)

for _name, _summary in (('poly', 'Polynomial decay to the final learning rate.'), ('polynomial', 'The same as poly.')):
    register(
        LearningPolicy(
            name=_name,
            summary=_summary,
            function=poly,
            parameters=(_END, _POWER, _DECAY_STEPS),
            source='arXiv:1606.00915, section 4.1',
        )
    )
register(
    LearningPolicy(
        name='cosine',
        summary='Half a cosine wave from the initial to the final learning rate, without restarts.',
        function=cosine,
        parameters=(_END, _DECAY_STEPS),
        source='arXiv:1608.03983, equation 5',
    )
)
register(
    LearningPolicy(
        name='fixed',
        summary='Constant at the initial learning rate.',
        function=lambda step, base, total_steps: tf.constant(base, tf.float32),
    )
)
register(
    LearningPolicy(
        name='step',
        summary='Constant, but multiplied by a factor after every so many steps.',
        function=staircase,
        parameters=(_DECAY_FACTOR, _DECAY_STEP),
    )
)
register(
    LearningPolicy(
        name='exponential',
        summary='Continuous decay by a factor over every so many steps.',
        function=exponential,
        parameters=(_DECAY_FACTOR, _DECAY_STEP),
        check=_check_factor,
    )
)
