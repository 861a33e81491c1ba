"""Options of the training loss, and its formula such as `softmax+0.5*dice`."""

from __future__ import annotations

import dataclasses
import math

from deeplab.options.rules import require, require_not_negative, require_positive, require_share
from deeplab.wording import option

PIXEL_LOSSES = ('softmax', 'focal')  # one loss per pixel
REGION_LOSSES = ('dice', 'jaccard', 'lovasz', 'tversky')  # one loss per class


@dataclasses.dataclass(frozen=True)
class LossTerm:
    """One term of a loss: a name from `PIXEL_LOSSES` or `REGION_LOSSES` and its weight in the sum, greater than 0."""

    name: str
    weight: float = 1.0


def parse_loss(formula: str) -> tuple[LossTerm, ...]:
    """Returns the terms of a formula such as 'softmax' or '0.7*focal+lovasz', in order.

    Raises:
      OptionError: if a term is unknown or appears twice, or its weight is not a number greater than 0.
    """
    terms: list[LossTerm] = []
    for part in formula.split('+'):
        weight_text, star, name = (text.strip() for text in part.rpartition('*'))
        known = (*PIXEL_LOSSES, *REGION_LOSSES)
        require(
            name in known or weight_text not in known,
            'LossOptions.formula',
            formula,
            f"'{part.strip()}' has its weight after the loss; write the weight first, such as 0.5*{weight_text}",
        )
        require(
            name in known,
            'LossOptions.formula',
            formula,
            f"there is no loss '{name}'. Allowed: {', '.join(known)}, or a weighted sum such as softmax+0.5*dice",
        )
        try:
            weight = float(weight_text) if star else 1.0
        except ValueError:
            weight = math.nan
        require(
            0.0 < weight < math.inf,
            'LossOptions.formula',
            formula,
            f"the weight '{weight_text}' of {name} must be a number greater than 0, such as 0.5*{name}",
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
    """The training loss, computed for each scale of the image pyramid.

    Attributes:
      upsample_logits: whether logits are upsampled to the size of the labels; otherwise labels are downsampled.
      label_weights: one weight per class, or a single one for all classes; None for 1.
      top_k_percent_pixels: hard example mining: fraction of the pixels, those with the highest loss, that the loss
        averages over; 1 for all.
      hard_example_mining_step: step at which that fraction is reached, falling linearly from 1; 0 for the first step.
      formula: a name from `PIXEL_LOSSES` or `REGION_LOSSES`, or a weighted sum such as 'softmax+0.5*dice'.
      auto_label_weights: whether label weights are computed from the label histogram of the split.
      label_smoothing: fraction of the target probability that is spread evenly over all classes; 0 for none.
      focal_gamma: focusing parameter of the focal loss; 0 is softmax.
      tversky_alpha: weight of false positives in the Tversky loss.
      tversky_beta: weight of false negatives in the Tversky loss.
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
            'weights must be 0 or more, and at least one of them greater than 0',
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
        """Raises `OptionError` for an invalid formula, and for a setting that applies to none of its terms."""
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
        """The terms of the formula."""
        return parse_loss(self.formula)
