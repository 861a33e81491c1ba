"""Intervals of numbers, as in mathematics: `[0, 1)` includes 0 and excludes 1."""

from __future__ import annotations

import functools
import math
import re
from typing import NamedTuple

_TEXT = re.compile(r'([\[(])\s*([^,\s]+)\s*,\s*([^,\s]+)\s*([\])])')


class Interval(NamedTuple):
    """All numbers between two bounds, which may be infinite; `with_least` and `with_most` say whether it has them."""

    least: float
    most: float
    with_least: bool
    with_most: bool

    def has(self, value: float) -> bool:
        """Returns whether `value` is in the interval."""
        above = value > self.least or (self.with_least and value == self.least)
        return above and (value < self.most or (self.with_most and value == self.most))

    def allowed(self) -> str:
        """Returns the allowed values as the end of a sentence, such as '0 or more and less than 1'."""
        if self.with_least and self.with_most and math.isfinite(self.most):
            return f'from {self.least:g} to {self.most:g}'
        parts = []
        if math.isfinite(self.least):
            parts.append(f'{self.least:g} or more' if self.with_least else f'greater than {self.least:g}')
        if math.isfinite(self.most):
            parts.append(f'at most {self.most:g}' if self.with_most else f'less than {self.most:g}')
        return ' and '.join(parts) or 'a number'


@functools.cache
def parse(text: str) -> Interval:
    """Returns the interval that `text` describes, such as '[0, 1)' or '(0, inf)'.

    Raises:
      ValueError: `text` is not an interval.
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not an interval; write it like [0, 1) or (0, inf).")
    return Interval(float(match[2]), float(match[3]), match[1] == '[', match[4] == ']')
