"""Options of the optimizer and of the learning rate."""

from __future__ import annotations

import dataclasses
import math

from deeplab import common
from deeplab.options.rules import require, require_choice, require_not_negative, require_positive
from deeplab.wording import option

LEARNING_POLICIES = ('poly', 'step', 'cosine', 'exponential', 'polynomial')
SLOW_START_BURNIN_TYPES = ('none', 'linear')
OPTIMIZERS = ('momentum', 'adam', 'adamw', 'rmsprop', 'lars', 'lamb')
DECOUPLED_OPTIMIZERS = ('adamw', 'lars', 'lamb')  # these decay weights in the update, not in the loss


@dataclasses.dataclass(frozen=True)
class LearningRateOptions:
    """How the learning rate follows the step (contract, section 5).

    Attributes:
      policy: one of `LEARNING_POLICIES`; 'polynomial' is another word for 'poly'.
      base: learning rate at the start.
      decay_steps: steps of the policies poly and cosine; None for all that remain after the slow start.
      end: learning rate at the end of poly and cosine.
      power: exponent of the poly policy.
      decay_factor: factor of the policies step and exponential.
      decay_step: steps over which the rate changes by that factor.
      slow_start_steps: steps of slow start before the policy begins.
      slow_start_rate: learning rate of the slow start.
      slow_start_burnin_type: 'none' for a slow start at one rate, 'linear' for one that climbs to `base`.
    """

    policy: str = 'poly'
    base: float = 1e-4
    decay_steps: float | None = None
    end: float = 0.0
    power: float = 0.9
    decay_factor: float = 0.1
    decay_step: int = 2000
    slow_start_steps: int = 0
    slow_start_rate: float = 1e-4
    slow_start_burnin_type: str = 'none'

    def __post_init__(self) -> None:
        require_choice('LearningRateOptions.policy', self.policy, LEARNING_POLICIES)
        require_choice(
            'LearningRateOptions.slow_start_burnin_type', self.slow_start_burnin_type, SLOW_START_BURNIN_TYPES
        )
        if self.policy == 'exponential':  # no power of a negative number is a rate
            require_positive('LearningRateOptions.decay_factor', self.decay_factor)
        require_not_negative('LearningRateOptions.decay_factor', self.decay_factor)
        require_not_negative('LearningRateOptions.base', self.base)
        require_not_negative('LearningRateOptions.end', self.end)
        require_positive('LearningRateOptions.decay_step', self.decay_step)
        require_not_negative('LearningRateOptions.power', self.power)
        require_not_negative('LearningRateOptions.slow_start_steps', self.slow_start_steps)
        require_not_negative('LearningRateOptions.slow_start_rate', self.slow_start_rate)
        if self.decay_steps is not None:
            require_positive('LearningRateOptions.decay_steps', self.decay_steps)


@dataclasses.dataclass(frozen=True)
class OptimizerOptions:
    """Optimiser, its rate, and what it multiplies gradients by.

    Attributes:
      name: one of `OPTIMIZERS`.
      learning_rate: schedule of all optimisers but 'adam'.
      momentum: of 'momentum' (without Nesterov), 'rmsprop' and 'lars'.
      adam_learning_rate: constant rate of 'adam'.
      adam_epsilon: epsilon of 'adam', 'adamw' and 'lamb'.
      rmsprop_decay: share of the mean square gradient that stays in a step of 'rmsprop'.
      rmsprop_epsilon: what 'rmsprop' adds to that mean.
      weight_decay: factor on sum(w ** 2) / 2 of the convolution weights; or on the weights in the update (see
        `decouples_weight_decay`).
      clip_gradient_norm: largest L2 norm of all gradients together, behind every factor; None for any.
      last_layer_gradient_multiplier: factor on the gradients of the last layers.
      last_layers_contain_logits_only: whether the logits alone count as last layers.
      trainable_scopes: variables that train begin with one of these; empty for all. Weight decay and the statistics
        of batch norms follow.
    """

    name: str = 'momentum'
    learning_rate: LearningRateOptions = LearningRateOptions()
    momentum: float = 0.9
    adam_learning_rate: float = 1e-3
    adam_epsilon: float = 1e-8
    rmsprop_decay: float = 0.9
    rmsprop_epsilon: float = 1e-10
    weight_decay: float = 4e-5
    clip_gradient_norm: float | None = None
    last_layer_gradient_multiplier: float = 1.0
    last_layers_contain_logits_only: bool = False
    trainable_scopes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_choice('OptimizerOptions.name', self.name, OPTIMIZERS)
        require_not_negative('OptimizerOptions.adam_learning_rate', self.adam_learning_rate)
        require_not_negative('OptimizerOptions.weight_decay', self.weight_decay)
        require_not_negative('OptimizerOptions.last_layer_gradient_multiplier', self.last_layer_gradient_multiplier)
        require_positive('OptimizerOptions.adam_epsilon', self.adam_epsilon)
        for name in ('momentum', 'rmsprop_decay'):
            value = getattr(self, name)
            require(0.0 <= value < 1.0, f'OptimizerOptions.{name}', value, 'it must be 0 or more and less than 1')
        require_positive('OptimizerOptions.rmsprop_epsilon', self.rmsprop_epsilon)
        norm, field = self.clip_gradient_norm, 'OptimizerOptions.clip_gradient_norm'
        require(
            norm is None or 0.0 < norm < math.inf,
            field,
            norm,
            f'it must be greater than 0, such as 1; omit {option(field)} for no clipping',
        )

    @property
    def decouples_weight_decay(self) -> bool:
        """Whether weights decay in the update; else decay is a term of the loss."""
        return self.name in DECOUPLED_OPTIMIZERS

    @property
    def last_layer_scopes(self) -> tuple[str, ...]:
        """Scopes whose gradients are multiplied, and which are left out when the last layers start anew."""
        return (common.LOGITS_SCOPE,) if self.last_layers_contain_logits_only else common.LAST_LAYER_SCOPES
