"""Options of the optimizer and of the learning rate."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from deeplab import common
from deeplab.options.fields import Options, declared
from deeplab.options.parameters import OptionsWithSettings, Settings
from deeplab.registry.networks import HEADS
from deeplab.registry.optimizers import LEARNING_POLICIES, OPTIMIZERS
from deeplab.wording import option


@dataclasses.dataclass(frozen=True)
class LearningRateOptions(OptionsWithSettings, registries=(LEARNING_POLICIES,)):
    """The learning rate schedule.

    `settings` has the parameters of all learning policies, such as `power`.
    """

    policy: str = declared(
        'poly',
        lambda: f'Learning rate schedule. {LEARNING_POLICIES.summaries()}',
        flag='learning_policy',
        choices=LEARNING_POLICIES.names,
    )
    base: float = declared(0.0001, 'Initial learning rate.', flag='base_learning_rate', range='[0, inf)')
    slow_start_steps: int = declared(
        0,
        'Number of slow start (warmup) steps before the schedule begins.',
        flag='slow_start_step',
        range='[0, inf)',
    )
    slow_start_rate: float = declared(
        0.0001,
        'Learning rate of the slow start.',
        flag='slow_start_learning_rate',
        range='[0, inf)',
    )
    slow_start_burnin_type: str = declared(
        'none',
        'none: the learning rate of the slow start is constant; linear: it rises to {base}; minimum: a limit on the '
        'schedule, which begins at once, rises from 0 to {base}.',
        choices=('none', 'linear', 'minimum'),
    )
    settings: Settings = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check = LEARNING_POLICIES.get(self.policy).check
        if check is not None:
            check(self)


def _optimizer_meaning() -> str:
    """Returns the meaning of the optimizer, with the registered optimizers that differ from the others."""
    records = OPTIMIZERS.records()
    constant = [record.name for record in records if record.learning_rate_parameter]
    has = (
        'has a constant learning rate of its own' if len(constant) == 1 else 'have constant learning rates of their own'
    )
    decoupled = [record.name for record in records if record.decouples_weight_decay]
    return (
        f'The optimizer. {_and(constant)} {has}; all others follow the learning rate options below. {_and(decoupled)} '
        'decouple weight decay from the loss.'
    )


def _and(names: Sequence[str]) -> str:
    """Returns 'a, b and c'."""
    return ' and '.join(filter(None, (', '.join(names[:-1]), *names[-1:])))


@dataclasses.dataclass(frozen=True)
class OptimizerOptions(OptionsWithSettings, registries=(OPTIMIZERS,)):
    """The optimizer, its learning rate, and the treatment of gradients.

    `settings` has the parameters of all optimizers, such as `momentum`.

    Attributes:
      learning_rate: learning rate schedule of all optimizers without a constant learning rate of their own.
    """

    name: str = declared('momentum', _optimizer_meaning, flag='optimizer', choices=OPTIMIZERS.names)
    learning_rate: LearningRateOptions = LearningRateOptions()
    weight_decay: float = declared(4e-05, 'Weight decay of the convolution weights.', range='[0, inf)')
    clip_gradient_norm: float | None = declared(
        None,
        'Clip the global L2 norm of the gradients to this value. Not set: no clipping.',
        range='(0, inf)',
    )
    last_layer_gradient_multiplier: float = declared(
        1.0,
        'Multiplier for the gradients of the last layers (all after the backbone).',
        range='[0, inf)',
    )
    last_layers_contain_logits_only: bool = declared(
        False,
        'Treat only the logits as last layers, for {last_layer_gradient_multiplier} and '
        '{TrainOptions.initialize_last_layer}.',
    )
    trainable_scopes: tuple[str, ...] = declared(
        (),
        'Comma-separated prefixes of the variables to train, such as logits,aspp. All others are frozen, including '
        'their batch norm statistics. Not set: all variables train.',
    )
    settings: Settings = ()

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


@dataclasses.dataclass(frozen=True)
class RateTestOptions(Options):
    """A learning rate range test, which replaces a training run.

    Source: arXiv:1506.01186, section 3.3.
    """

    is_on: bool = declared(
        False,
        'Learning rate range test instead of training: the rate grows with each step until the loss diverges. Writes '
        'the loss curve to {TrainOptions.train_logdir}, suggests a learning rate, and keeps no weights.',
        flag='find_learning_rate',
    )
    steps: int = declared(
        100,
        'Number of steps from the lowest to the highest rate.',
        flag='find_steps',
        range='[10, inf)',
        needs=('is_on',),
    )
    lowest: float = declared(
        1e-05, 'Learning rate of the first step.', flag='find_lowest', range='(0, inf)', needs=('is_on',)
    )
    highest: float = declared(
        10.0, 'Learning rate of the last step.', flag='find_highest', range='(0, inf)', needs=('is_on',)
    )
    growth: str = declared(
        'exponential',
        'How the learning rate grows: exponential, by the same factor in each step; or linear, as in the paper.',
        flag='find_growth',
        choices=('exponential', 'linear'),
        needs=('is_on',),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        rule = f'it must be more than {option("RateTestOptions.lowest", self.lowest)}'
        self._require(self.highest > self.lowest, 'highest', rule)
