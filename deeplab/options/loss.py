"""Options of the training loss, and its formula such as `softmax+0.5*dice`."""

from __future__ import annotations

import dataclasses
import math

from deeplab.options.fields import declared
from deeplab.options.parameters import OptionsWithSettings, Settings
from deeplab.options.rules import require
from deeplab.registry.losses import LOSSES
from deeplab.wording import did_you_mean, is_set_by_flag, option


@dataclasses.dataclass(frozen=True)
class LossTerm:
    """One term of a loss: the name of a registered loss, and its weight in the sum, greater than 0."""

    name: str
    weight: float = 1.0


def parse_loss(formula: str) -> tuple[LossTerm, ...]:
    """Returns the terms of a formula such as 'softmax' or '0.7*focal+lovasz', in order.

    Raises:
      OptionError: if a term is unknown or appears twice, or its weight is not a number greater than 0.
    """
    terms: list[LossTerm] = []
    losses = LOSSES.names()
    for part in formula.split('+'):
        weight_text, star, name = (text.strip() for text in part.rpartition('*'))
        require(
            name in losses or weight_text not in losses,
            'LossOptions.formula',
            formula,
            f"'{part.strip()}' has its weight after the loss; write the weight first, such as 0.5*{weight_text}",
        )
        require(
            name in losses,
            'LossOptions.formula',
            formula,
            f"there is no loss '{name}'. {did_you_mean(name, losses)}Allowed: {', '.join(losses)}, or a weighted sum "
            'such as softmax+0.5*dice',
        )
        try:
            weight = float(weight_text) if star else 1.0
        except ValueError:
            weight = math.nan
        rule = f"the weight '{weight_text}' of {name} must be a number greater than 0, such as 0.5*{name}"
        require(0.0 < weight < math.inf, 'LossOptions.formula', formula, rule)
        is_new = name not in (term.name for term in terms)
        require(is_new, 'LossOptions.formula', formula, f'{name} appears twice; add its weights')
        terms.append(LossTerm(name, weight))
    return tuple(terms)


def auto_label_weights_option() -> str:
    """Returns the option for label weights from the class frequencies, for messages."""
    if is_set_by_flag('LossOptions.label_weights'):
        return option('LossOptions.label_weights', 'auto')
    return option('LossOptions.auto_label_weights', True)


@dataclasses.dataclass(frozen=True)
class LossOptions(OptionsWithSettings, registries=(LOSSES,)):
    """The training loss, computed for each scale of the image pyramid.

    `settings` has the parameters of all losses, such as `focal_gamma`.

    Attributes:
      auto_label_weights: whether label weights are computed from the label histogram of the split.
    """

    upsample_logits: bool = declared(
        True,
        'Upsample the logits to the size of the labels; false: downsample the labels.',
    )
    label_weights: tuple[float, ...] | None = declared(
        None,
        'Loss weights of the classes, one flag per class (or a single one for all); auto: weights that are larger for '
        'classes that are rare in the training split. They affect only training.',
        word='auto',
    )
    top_k_percent_pixels: float = declared(
        1.0,
        'Hard example mining: fraction of the pixels, those with the highest loss, that the loss averages over; 1.0: '
        'all pixels.',
        range='(0, 1]',
    )
    hard_example_mining_step: int = declared(
        0,
        'Step at which {top_k_percent_pixels} is reached, falling linearly from 1; 0: from the start.',
        range='[0, inf)',
    )
    formula: str = declared(
        'softmax',
        lambda: (
            f'The training loss: {", ".join(LOSSES.names())}, or a weighted sum of several, such as softmax+0.5*dice.'
        ),
        flag='loss',
    )
    auto_label_weights: bool = False
    label_weights_power: float = declared(
        1.0,
        'Exponent of the weights of {label_weights=auto}, above 0 and at most 1; 0.5: their square roots.',
        range='(0, 1]',
    )
    stride: int = declared(
        1,
        'Compute the loss only at every n-th row and column of pixels; 2 reduces its time and memory to a quarter. 1: '
        'all pixels.',
        flag='loss_stride',
        range='(0, inf)',
    )
    settings: Settings = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(
            all(weight >= 0 for weight in self.label_weights or ()) and any(self.label_weights or (1.0,)),
            'label_weights',
            'weights must be 0 or more, and at least one of them greater than 0',
        )
        self._require(
            not (self.auto_label_weights and self.label_weights),
            'label_weights',
            f'pass either numbers or {auto_label_weights_option()}',
        )
        self._require(
            self.auto_label_weights or self.label_weights_power == 1.0,
            'label_weights_power',
            f'it applies to {auto_label_weights_option()} only. Omit it, or add that',
        )
        self._require(
            self.upsample_logits or self.stride == 1,
            'stride',
            f'{option("LossOptions.upsample_logits", False)} already leaves pixels out. Omit one of them',
        )
        self._require_terms()

    def _require_terms(self) -> None:
        """Raises `OptionError` for an invalid formula, and for a setting that applies to none of its terms."""
        names = {term.name for term in self.terms}
        changed = {name: LOSSES.readers(name) for name in dict(self.settings)}
        if self.top_k_percent_pixels != 1.0:
            changed['top_k_percent_pixels'] = tuple(each.name for each in LOSSES.records() if each.is_of_pixels)
        for name, readers in changed.items():
            loss = option('LossOptions.formula', self.formula)
            self._require(
                not names.isdisjoint(readers),
                name,
                f'it applies to {" and ".join(readers)} only, which {loss} does not contain. Omit it, or add '
                f'{" or ".join(readers)} to {option("LossOptions.formula")}',
            )

    @property
    def terms(self) -> tuple[LossTerm, ...]:
        """The terms of the formula."""
        return parse_loss(self.formula)
