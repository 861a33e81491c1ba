"""Totals over the records of a shard or split: ids of the masks, and EXIF orientations by how they were handled."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Any

import numpy as np
from absl import logging

from deeplab.datasets import orientation
from deeplab.datasets.pairs import BuiltRecord


class Totals:
    """Totals over records.

    Attributes:
      counts: [256] int64, pixels of each id in all masks.
    """

    def __init__(self) -> None:
        self.counts = np.zeros(256, np.int64)
        self._numbers: collections.Counter[str] = collections.Counter()

    def add(self, pair: BuiltRecord) -> None:
        """Adds a record."""
        if pair.counts is not None:
            self.counts += pair.counts
        if pair.turns is not None:
            self._numbers['kept'] += pair.turns.is_kept
            self._numbers['turned'] += not pair.turns.is_kept
            self._numbers['certain'] += pair.turns.is_certain and not pair.turns.is_kept
        self._numbers['encoded_again'] += pair.encoded_again

    def merge(self, other: Totals) -> None:
        """Adds other totals."""
        self.counts += other.counts
        self._numbers.update(other._numbers)

    def as_dict(self) -> dict[str, Any]:
        """Returns the totals for a JSON file."""
        ids = {str(i): int(self.counts[i]) for i in np.flatnonzero(self.counts)}
        return {'ids': ids, **{name: number for name, number in self._numbers.items() if number}}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Totals:
        """Returns the totals that `as_dict` gave.

        Raises:
          ValueError, KeyError, TypeError, IndexError: They are not such totals.
        """
        totals = cls()
        for number, pixels in content['ids'].items():
            totals.counts[int(number)] = int(pixels)
        totals._numbers.update({name: int(number) for name, number in content.items() if name != 'ids'})
        return totals

    def log_turns(self, split: str, total: int) -> None:
        """Logs how many images were rotated or mirrored for their EXIF orientation, if any."""
        turned, kept = self._numbers['turned'], self._numbers['kept']
        if not turned + kept:
            return
        unsure = turned - self._numbers['certain']
        logging.info(
            "Split '%s': %d of %d images (or their masks) have an EXIF orientation. %d were turned upright, as image "
            'viewers display them: for %d this follows from the sizes or from equal orientations of image and mask, '
            'for %d the mask is assumed to be upright. %d JPEG files were re-encoded with quality %d. %d keep their '
            'stored pixels, because only these have the size of the mask.',
            split,
            turned + kept,
            total,
            turned,
            self._numbers['certain'],
            unsure,
            self._numbers['encoded_again'],
            orientation.JPEG_QUALITY,
            kept,
        )
        if kept and unsure:
            logging.warning(
                "Split '%s': %d masks match the stored pixels of images with an EXIF orientation. For %d other images "
                'with one (upside down, mirrored or square) the sizes do not show whether the mask matches the stored '
                'or the displayed pixels, and they were turned upright. If their masks are wrong now, save these '
                'images upright and build the records again.',
                split,
                kept,
                unsure,
            )
