"""Registries of optimizers and of learning policies: how the learning rate changes after the slow start."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from deeplab.registry.records import Record, Registry


@dataclasses.dataclass(frozen=True)
class UsualRates:
    """The learning rates with which an optimizer is known to work; training warns about others.

    Attributes:
      usual: one to try.
      least: lowest one without a warning.
      most: highest one without a warning; None for no limit.
      batch_size: batch size that they are for, if they grow in proportion to it; None if they do not depend on it.
    """

    usual: float
    least: float = 0.0
    most: float | None = None
    batch_size: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimizer(Record):
    """An optimizer, a value of --optimizer.

    Attributes:
      function: `function(learning_rate, decays, **parameters)` returns a `tf.compat.v1.train.Optimizer`. learning_rate:
        scalar float32; decays: factor of the weight decay of each variable that decays, by name, for optimizers that
        decouple it.
      decouples_weight_decay: whether the optimizer itself decays the weights; otherwise weight decay is a term of the
        loss.
      learning_rate_parameter: name of the parameter that is its constant learning rate, which the function takes as
        learning_rate; empty if it follows the learning rate schedule.
      usual_rates: learning rates that are known to work; None if unknown.
      normalizes_gradients: whether a constant factor of a variable's gradients has almost no effect on its updates.
    """

    function: Callable[..., Any]
    decouples_weight_decay: bool = False
    normalizes_gradients: bool = False
    learning_rate_parameter: str = ''
    usual_rates: UsualRates | None = None

    def __post_init__(self) -> None:
        own = self.learning_rate_parameter
        if own and own not in (parameter.name for parameter in self.parameters):
            raise ValueError(f"The optimizer '{self.name}' has no parameter '{own}', its learning_rate_parameter.")

    @property
    def rate_field(self) -> str:
        """'Class.field' of the option that sets its learning rate."""
        own = self.learning_rate_parameter
        return f'OptimizerOptions.{own}' if own else 'LearningRateOptions.base'


OPTIMIZERS: Registry[Optimizer] = Registry('optimizer', 'OptimizerOptions.name', 'deeplab.core.optimizers')


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearningPolicy(Record):
    """A learning rate schedule, a value of --learning_policy.

    Attributes:
      function: `function(step, base, total_steps, **parameters)` returns the learning rate, scalar float32, 0 or more.
        step: steps after the slow start, scalar int64; base: initial learning rate; total_steps: all steps after the
        slow start, a float of at least 1, which a training resumed for longer exceeds.
      check: called with the `LearningRateOptions` that name the policy, if they are valid otherwise; raises
        `OptionError` if it cannot use them. None for no check.
    """

    function: Callable[..., Any]
    check: Callable[[Any], None] | None = None


LEARNING_POLICIES: Registry[LearningPolicy] = Registry(
    'learning policy', 'LearningRateOptions.policy', 'deeplab.core.learning_policies'
)
