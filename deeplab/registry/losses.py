"""Registry of training losses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from deeplab.registry.records import Record, Registry

PIXELS = 'pixels'
PLANES = 'planes'
REGIONS = 'regions'
BATCH = 'batch'


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loss(Record):
    """A training loss, a term of --loss.

    Attributes:
      function: computes it; takes two tensors and the parameters as keywords. All tensors are float32 unless stated
        otherwise, labels are class ids.
      of: its input, which determines the tensors.

    The values of `of`:

    - PIXELS: one loss per pixel; `function(logits [pixels, classes], labels [pixels] int32)` returns [pixels]. Label
      weights, ignored pixels and hard example mining are applied to the result.
    - PLANES: as PIXELS, but with logits [classes, pixels], the layout of all other computations: faster.
    - REGIONS: one loss per class; `function(probabilities [classes, pixels], truth [classes, pixels])` returns
      [classes]. truth is 1 where the pixel has the class, else 0; both are 0 for ignored pixels. The loss is the
      mean, by label weights, of the classes that occur in the batch.
    - BATCH: one loss per batch; `function(logits [n, h, w, classes], labels [n, h, w] int32)` returns a scalar. Ignored
      pixels have the label -1; label weights are not applied.
    """

    function: Callable[..., Any]
    of: str = PIXELS

    def __post_init__(self) -> None:
        kinds = PIXELS, PLANES, REGIONS, BATCH
        if self.of not in kinds:
            raise ValueError(f"The loss '{self.name}' is of '{self.of}'; allowed: {', '.join(kinds)}.")

    @property
    def is_of_pixels(self) -> bool:
        """Whether there is one loss per pixel."""
        return self.of in (PIXELS, PLANES)


LOSSES: Registry[Loss] = Registry('loss', 'LossOptions.formula', 'deeplab.core.losses')
