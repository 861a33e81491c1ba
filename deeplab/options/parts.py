"""A part of the items of a program, for several jobs that share the work."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from deeplab.errors import DataError
from deeplab.options.fields import Options, declared

_FORM = re.compile(r'(\d+)/(\d+)')


@dataclasses.dataclass(frozen=True, order=True)
class Part:
    """One of several parts of consecutive items.

    Attributes:
      number: number of the part, from 1.
      count: number of parts.
    """

    number: int
    count: int

    def __str__(self) -> str:
        """Returns the part as options state it."""
        return f'{self.number}/{self.count}'

    @property
    def label(self) -> str:
        """The part of file names that tells the parts from each other, such as 'part-03-of-16'."""
        digits = len(str(self.count))
        return f'part-{self.number:0{digits}}-of-{self.count}'

    def of(self, items: int) -> slice:
        """Returns the places of its items; parts differ by at most one item, and follow each other.

        Raises:
          DataError: there are more parts than items.
        """
        if items < self.count:
            raise DataError(
                f'Part {self} is not possible: there are more parts than items ({items}). Use at most {items} parts.'
            )
        return slice((self.number - 1) * items // self.count, self.number * items // self.count)


@dataclasses.dataclass(frozen=True)
class PartOptions(Options):
    """Which part of the work is the program's own."""

    part: str | None = declared(
        None,
        'The part of the work of this job, such as 3/16: the third of 16 parts of consecutive items. `deeplab merge` '
        'joins the results of all parts. Not set: everything.',
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(
            self.part is None or self.chosen is not None,
            'part',
            'give the number of the part, from 1, and the number of parts, such as 3/16',
        )

    @property
    def chosen(self) -> Part | None:
        """The part; None for everything."""
        match = _FORM.fullmatch(self.part or '')
        part = Part(*map(int, match.groups())) if match else Part(0, 0)
        return part if 1 <= part.number <= part.count else None


def require_all(parts: Sequence[Part], what: str) -> None:
    """Raises `DataError` unless the parts are all parts of one whole, each once.

    Args:
      parts: the parts, in any order.
      what: what they are parts of, for the message.
    """
    counts = sorted({part.count for part in parts})
    if len(counts) > 1:
        shown = ' and '.join(map(str, counts))
        raise DataError(f'{what} has parts of {shown} parts. Merge the parts of one division, and remove the others.')
    for number in range(1, counts[0] + 1 if counts else 1):
        part = Part(number, counts[0])
        if part not in parts:
            raise DataError(f'{what} lacks part {part}. Run the command with that part, then merge again.')
        if parts.count(part) > 1:
            raise DataError(f'{what} has part {part} twice. Remove one of them.')
