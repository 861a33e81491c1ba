"""Polynomial decay, under two names."""

from __future__ import annotations

from deeplab.core.lazy import tf
from deeplab.registry import LearningPolicy, Parameter, register

DECAY_STEPS = Parameter(
    'decay_steps',
    0.0,
    'Length of the schedule, in steps; 0: all steps after the slow start.',
    range='[0, inf)',
)
END = Parameter(
    'end',
    0.0,
    'Final learning rate.',
    range='[0, inf)',
    flag='end_learning_rate',
)


def poly(step: tf.Tensor, base: float, total_steps: float, decay_steps: float, end: float, power: float) -> tf.Tensor:
    """Returns `(base - end) * (1 - done) ** power + end`, where `done = min(step, total) / total`.

    Scalar float32. total is `decay_steps`, or `total_steps` if that is 0; for the other arguments see
    `registry.LearningPolicy`.

    Source: arXiv:1606.00915, section 4.1.
    """
    return (base - end) * tf.pow(1.0 - fraction_done(step, decay_steps or total_steps), power) + end


def fraction_done(step: tf.Tensor, total: float) -> tf.Tensor:
    """Returns the fraction of `total` steps that are done, scalar float32, at most 1."""
    return tf.minimum(tf.cast(step, tf.float32), total) / total


_POWER = Parameter('power', 0.9, 'Power of the poly schedule.', range='[0, inf)', flag='learning_power')
for _name, _summary in (('poly', 'Polynomial decay to the final learning rate.'), ('polynomial', 'The same as poly.')):
    register(
        LearningPolicy(
            name=_name,
            summary=_summary,
            function=poly,
            parameters=(END, _POWER, DECAY_STEPS),
            source='arXiv:1606.00915, section 4.1',
        )
    )
