"""Options of the training loss, and its formula such as `softmax+0.5*dice`."""

from __future__ import annotations

import dataclasses
import math

from deeplab.options.rules import require, require_not_negative, require_positive, require_share
from deeplab.wording import option

PIXEL_LOSSES = ('softmax', 'focal')  # these have a loss for each pixel,
REGION_LOSSES = ('dice', 'jaccard', 'lovasz', 'tversky')  # and these for each class


@dataclasses.dataclass(frozen=True)
class LossTerm:
    """One term of a loss: a name of `PIXEL_LOSSES` or `REGION_LOSSES`, and its factor in the sum, above 0."""

    name: str
    weight: float = 1.0


def parse_loss(formula: str) -> tuple[LossTerm, ...]:
    """The terms of a formula such as 'softmax' or '0.7*focal+lovasz', in its order.

    Raises:
      OptionError: if a term is unknown or named twice, or its weight is no number above 0.
    """
    terms: list[LossTerm] = []
    for part in formula.split('+'):
        weight_text, star, name = (text.strip() for text in part.rpartition('*'))
        known = (*PIXEL_LOSSES, *REGION_LOSSES)
        require(
            name in known or weight_text not in known,
            'LossOptions.formula',
            formula,
            f"'{part.strip()}' has its weight at the end; write it first, such as 0.5*{weight_text}",
        )
        require(
            name in known,
            'LossOptions.formula',
            formula,
            f"there is no loss '{name}'. Those that exist are {', '.join(known)}, alone or in a sum such as "
            'softmax+0.5*dice',
        )
        try:
            weight = float(weight_text) if star else 1.0
        except ValueError:
            weight = math.nan
        require(
            0.0 < weight < math.inf,
            'LossOptions.formula',
            formula,
            f"'{weight_text}' is no weight for {name}; a weight is a number greater than 0, such as 0.5*{name}",
        )
        require(
            name not in (term.name for term in terms),
            'LossOptions.formula',
            formula,
            f'{name} appears twice; add its weights',
        )
        terms.append(LossTerm(name, weight))
    return tuple(terms)


@dataclasses.dataclass(frozen=True)
class LossOptions:
    """The loss of one scale (contract, section 5).

    Attributes:
      upsample_logits: whether logits grow to the labels' size (else labels shrink to the logits').
      label_weights: one weight for each class; None for 1. A single weight counts for every class.
      top_k_percent_pixels: share of pixels, the hardest ones, that count in the end; 1 for all.
      hard_example_mining_step: step until which that share falls from 1; 0 for at once.
      formula: what is measured: a name of `PIXEL_LOSSES` or `REGION_LOSSES`, or a sum such as 'softmax+0.5*dice'.
      auto_label_weights: whether label weights follow from the records' label histogram.
      label_smoothing: share of a pixel's truth that all classes split evenly; 0 for none.
      focal_gamma: how fast the focal loss fades where the network is right; 0 is softmax.
      tversky_alpha: what a false alarm costs in the Tversky loss.
      tversky_beta: what a miss costs in it.
    """

    upsample_logits: bool = True
    label_weights: tuple[float, ...] | None = None
    top_k_percent_pixels: float = 1.0
    hard_example_mining_step: int = 0
    formula: str = 'softmax'
    auto_label_weights: bool = False
    label_smoothing: float = 0.0
    focal_gamma: float = 2.0
    tversky_alpha: float = 0.3
    tversky_beta: float = 0.7

    def __post_init__(self) -> None:
        require_share('LossOptions.top_k_percent_pixels', self.top_k_percent_pixels)
        require_not_negative('LossOptions.hard_example_mining_step', self.hard_example_mining_step)
        require(
            all(weight >= 0 for weight in self.label_weights or ()) and any(self.label_weights or (1.0,)),
            'LossOptions.label_weights',
            self.label_weights,
            'weights must be 0 or more, and one of them at least greater than 0',
        )
        require(
            not (self.auto_label_weights and self.label_weights),
            'LossOptions.label_weights',
            self.label_weights,
            f'give either numbers or {option("LossOptions.auto_label_weights", True)}',
        )
        require(
            0.0 <= self.label_smoothing < 1.0,
            'LossOptions.label_smoothing',
            self.label_smoothing,
            'it must be 0 or more and less than 1',
        )
        require_not_negative('LossOptions.focal_gamma', self.focal_gamma)
        require_not_negative('LossOptions.tversky_alpha', self.tversky_alpha)
        require_positive('LossOptions.tversky_beta', self.tversky_beta)
        self._require_terms()

    def _require_terms(self) -> None:
        """Raises `OptionError` for a formula that means nothing, and for a setting that none of its terms reads."""
        names = {term.name for term in self.terms}
        default = {field.name: field.default for field in dataclasses.fields(self)}
        for name, readers in (
            ('top_k_percent_pixels', PIXEL_LOSSES),
            ('label_smoothing', PIXEL_LOSSES),
            ('focal_gamma', ('focal',)),
            ('tversky_alpha', ('tversky',)),
            ('tversky_beta', ('tversky',)),
        ):
            value = getattr(self, name)
            loss = option('LossOptions.formula', self.formula)
            contains_none = 'contains neither' if len(readers) > 1 else 'does not contain it'
            require(
                value == default[name] or not names.isdisjoint(readers),
                f'LossOptions.{name}',
                value,
                f'it applies to {" and ".join(readers)} only, and {loss} {contains_none}. Omit it, or add '
                f'{" or ".join(readers)} to {option("LossOptions.formula")}',
            )

    @property
    def terms(self) -> tuple[LossTerm, ...]:
        """What the formula adds up."""
        return parse_loss(self.formula)
