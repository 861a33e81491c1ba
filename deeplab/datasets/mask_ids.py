"""Which ids a mask may hold, and how masks went wrong that hold others."""

from __future__ import annotations

import dataclasses

import numpy as np

# From here on, other ids say that an image program made them, rather than a list of classes.
_FEWEST_SMOOTHED = 16
_SMALLEST_GREY_STEP = 10
_SHOWN = 5  # grey levels that a message names


@dataclasses.dataclass(frozen=True)
class MaskIds:
    """The ids that masks may hold.

    Attributes:
      num_classes: 0 to num_classes - 1 are classes.
      ignore_label: id of pixels that count nowhere.
    """

    num_classes: int
    ignore_label: int

    def outside(self, counts: np.ndarray) -> np.ndarray:
        """The ids of a mask that are neither classes nor `ignore_label`, ascending.

        Args:
          counts: [256], pixels of each id.
        """
        found = np.flatnonzero(counts)
        return found[(found >= self.num_classes) & (found != self.ignore_label)]

    def mend(self, counts: np.ndarray) -> str | None:
        """How masks that hold ids outside the classes went wrong, and what to do about it.

        It goes on from "mend the masks, ". Where another num_classes is as likely the mend, nothing is said.

        Args:
          counts: [256], pixels of each id in the masks, all of them if they are known.

        Returns:
          The words; None where the ids show no pattern.
        """
        ids = [int(i) for i in np.flatnonzero(counts)]
        if 255 in ids and set(ids) <= {0, 255}:
            return 'which hold no ids but 0 and 255: write 1 for the object (mask // 255)'
        if self._begin_with_1(ids):
            rest = f' from all but {self.ignore_label}, which is ignored' if self.ignore_label in ids else ''
            return f'whose ids begin with 1 and must begin with 0: subtract 1{rest}'
        for levels in (ids, [i for i in ids if i != self.ignore_label]):
            if len(levels) <= self.num_classes and _are_grey_levels(levels):
                shown = ', '.join(map(str, levels[:_SHOWN])) + (', ...' if len(levels) > _SHOWN else '')
                return (
                    f'which look like pictures, a grey level for each class ({shown}): write the ids 0 to '
                    f'{self.num_classes - 1} in their place'
                )
        if len(self.outside(counts)) >= max(_FEWEST_SMOOTHED, self.num_classes):
            return (
                f'which hold {len(ids)} ids, as if they had been smoothed, or once been a JPEG: resize masks by '
                'nearest neighbour, and save them as PNG'
            )
        return None

    def _begin_with_1(self, ids: list[int]) -> bool:
        """Whether these are the ids 1 to num_classes, some of which may not occur."""
        classes = [i for i in ids if i != self.ignore_label]
        return 0 not in ids and self.num_classes > 1 and [*classes[:1], *classes[-1:]] == [1, self.num_classes]


def _are_grey_levels(ids: list[int]) -> bool:
    """Whether the ids go from 0 up in equal steps, to a rounding error, that are too large for numbers of classes."""
    if len(ids) < 2 or ids[0] != 0:
        return False
    step = ids[-1] / (len(ids) - 1)
    return step >= _SMALLEST_GREY_STEP and all(abs(id_ - place * step) < 1 for place, id_ in enumerate(ids))
