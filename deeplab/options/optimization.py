"""Options of the optimizer and of the learning rate."""

from __future__ import annotations

import dataclasses
import math

from deeplab import common
from deeplab.options.parameters import Settings, with_parameters
from deeplab.options.rules import require, require_choice, require_not_negative
from deeplab.registry.learning_policies import LEARNING_POLICIES
from deeplab.registry.networks import HEADS
from deeplab.registry.optimizers import OPTIMIZERS
from deeplab.wording import option

SLOW_START_BURNIN_TYPES = ('none', 'linear')


@with_parameters(LEARNING_POLICIES)
@dataclasses.dataclass(frozen=True)
class LearningRateOptions:
    """The learning rate schedule.

    The parameters of all learning policies are keywords and attributes as well, such as `power`.

    Attributes:
      policy: name of a registered learning policy.
      base: initial learning rate.
      slow_start_steps: number of slow start (warmup) steps before the schedule begins.
      slow_start_rate: learning rate of the slow start.
      slow_start_burnin_type: 'none' for a constant learning rate of the slow start, 'linear' for one that rises to
        `base`.
      settings: parameters of the learning policies that differ from their defaults.
    """

    policy: str = 'poly'
    base: float = 1e-4
    slow_start_steps: int = 0
    slow_start_rate: float = 1e-4
    slow_start_burnin_type: str = 'none'
    settings: Settings = ()

    def __post_init__(self) -> None:
        require_choice('LearningRateOptions.policy', self.policy, LEARNING_POLICIES.names())
        require_choice(
            'LearningRateOptions.slow_start_burnin_type', self.slow_start_burnin_type, SLOW_START_BURNIN_TYPES
        )
        require_not_negative('LearningRateOptions.base', self.base)
        require_not_negative('LearningRateOptions.slow_start_steps', self.slow_start_steps)
        require_not_negative('LearningRateOptions.slow_start_rate', self.slow_start_rate)
        check = LEARNING_POLICIES.get(self.policy).check
        if check is not None:
            check(self)


@with_parameters(OPTIMIZERS)
@dataclasses.dataclass(frozen=True)
class OptimizerOptions:
    """The optimizer, its learning rate, and the treatment of gradients.

    The parameters of all optimizers are keywords and attributes as well, such as `momentum`.

    Attributes:
      name: name of a registered optimizer.
      learning_rate: learning rate schedule of all optimizers without a constant learning rate of their own.
      weight_decay: weight of sum(w ** 2) / 2 over the convolution weights in the loss; or weight decay in the update
        (see `decouples_weight_decay`).
      clip_gradient_norm: global L2 norm to which gradients are clipped, after all multipliers; None for no clipping.
      last_layer_gradient_multiplier: multiplier of the gradients of the last layers.
      last_layers_contain_logits_only: whether the last layers are the logits only.
      trainable_scopes: prefixes of the variables to train; empty for all. Other variables are not decayed either, and
        their batch norm statistics are frozen.
      settings: parameters of the optimizers that differ from their defaults.
    """

    name: str = 'momentum'
    learning_rate: LearningRateOptions = LearningRateOptions()
    weight_decay: float = 4e-5
    clip_gradient_norm: float | None = None
    last_layer_gradient_multiplier: float = 1.0
    last_layers_contain_logits_only: bool = False
    trainable_scopes: tuple[str, ...] = ()
    settings: Settings = ()

    def __post_init__(self) -> None:
        require_choice('OptimizerOptions.name', self.name, OPTIMIZERS.names())
        require_not_negative('OptimizerOptions.weight_decay', self.weight_decay)
        require_not_negative('OptimizerOptions.last_layer_gradient_multiplier', self.last_layer_gradient_multiplier)
        norm, field = self.clip_gradient_norm, 'OptimizerOptions.clip_gradient_norm'
        require(
            norm is None or 0.0 < norm < math.inf,
            field,
            norm,
            f'it must be greater than 0, such as 1; omit {option(field)} for no clipping',
        )

    @property
    def decouples_weight_decay(self) -> bool:
        """Whether weight decay is part of the update; otherwise it is a term of the loss."""
        return OPTIMIZERS.get(self.name).decouples_weight_decay

    @property
    def constant_learning_rate(self) -> float | None:
        """Learning rate of an optimizer that does not follow the schedule; None for one that does."""
        parameter = OPTIMIZERS.get(self.name).learning_rate_parameter
        return getattr(self, parameter) if parameter else None

    @property
    def last_layer_scopes(self) -> tuple[str, ...]:
        """Scopes of the last layers."""
        return (common.LOGITS_SCOPE,) if self.last_layers_contain_logits_only else HEADS.last_layer_scopes()
