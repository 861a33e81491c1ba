"""Valid ids of masks, and advice for masks with other ids."""

from __future__ import annotations

import dataclasses

import numpy as np

# Masks with at least so many other ids were probably interpolated or compressed by an image program.
_FEWEST_SMOOTHED = 16
_SMALLEST_GRAY_STEP = 10
_SHOWN = 5  # number of gray levels that a message names


@dataclasses.dataclass(frozen=True)
class MaskIds:
    """The ids that masks may contain.

    Attributes:
      num_classes: 0 to num_classes - 1 are classes.
      ignore_label: id of the pixels that are excluded from loss and metrics.
      names: names that were given to the classes, if none is the background, which may have been forgotten.
    """

    num_classes: int
    ignore_label: int
    names: tuple[str, ...] = ()

    def outside(self, counts: np.ndarray) -> np.ndarray:
        """Returns the ids of a mask that are neither classes nor `ignore_label`, ascending.

        Args:
          counts: [256], pixels of each id.
        """
        ids: np.ndarray = np.flatnonzero(counts)
        outside: np.ndarray = ids[(ids >= self.num_classes) & (ids != self.ignore_label)]
        return outside

    def advice(self, counts: np.ndarray) -> str | None:
        """Returns the probable cause of ids outside the classes and the fix.

        The text continues "fix the masks, ". There is none if a wrong num_classes is as likely.

        Args:
          counts: [256], pixels of each id in the masks, in all of them if known.

        Returns:
          The text; None if the ids show no known pattern.
        """
        ids = [int(i) for i in np.flatnonzero(counts)]
        if 255 in ids and set(ids) <= {0, 255}:
            return 'which contain only the ids 0 and 255: write 1 for the object (mask // 255)'
        if self._begin_with_1(ids):
            rest = f' from all except {self.ignore_label}, which is ignored' if self.ignore_label in ids else ''
            return f'whose ids start at 1 and must start at 0: subtract 1{rest}'
        for levels in (ids, [i for i in ids if i != self.ignore_label]):
            if len(levels) <= self.num_classes and _are_gray_levels(levels):
                shown = ', '.join(map(str, levels[:_SHOWN])) + (', ...' if len(levels) > _SHOWN else '')
                return (
                    f'which contain a gray level for each class ({shown}): write the ids 0 to {self.num_classes - 1} '
                    'instead'
                )
        if len(self.outside(counts)) >= max(_FEWEST_SMOOTHED, self.num_classes):
            return (
                f'which contain {len(ids)} ids and were probably interpolated, or saved as JPEG: resize masks by '
                'nearest neighbor, and save them as PNG'
            )
        return None

    def correct_ids(self, counts: np.ndarray) -> dict[int, int]:
        """Returns the right id for each wrong id if the cause is certain; otherwise nothing.

        Args:
          counts: [256], pixels of each id in all masks together.
        """
        ids = [int(i) for i in np.flatnonzero(counts)]
        if ids == [0, 255]:
            return {255: 1} if self.ignore_label == 255 else {}
        classes = [i for i in ids if i != self.ignore_label]
        if self._begin_with_1(ids):
            return {i: i - 1 for i in classes}
        for levels in (ids, classes):
            if len(levels) == self.num_classes and _are_gray_levels(levels):
                return {level: place for place, level in enumerate(levels) if level != place}
        return {}

    def _begin_with_1(self, ids: list[int]) -> bool:
        """Returns whether these are the ids 1 to num_classes, some of which may be missing."""
        classes = [i for i in ids if i != self.ignore_label]
        return 0 not in ids and self.num_classes > 1 and [*classes[:1], *classes[-1:]] == [1, self.num_classes]


def _are_gray_levels(ids: list[int]) -> bool:
    """Returns whether the ids are evenly spaced from 0, up to rounding, in steps too large for class ids."""
    if len(ids) < 2 or ids[0] != 0:
        return False
    step = ids[-1] / (len(ids) - 1)
    return step >= _SMALLEST_GRAY_STEP and all(abs(id_ - place * step) < 1 for place, id_ in enumerate(ids))
