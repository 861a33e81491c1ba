"""Registry of learning policies: how the learning rate changes after the slow start."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from deeplab.registry.records import Record, Registry


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
