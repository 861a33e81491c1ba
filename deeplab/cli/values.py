"""The values of one command line, by flag name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from absl import flags  # noqa: TID251 (this is the one file that may)

from deeplab import options
from deeplab.cli.words import (
    UsageError,
)


class Values:
    """The values of one command line, by flag name; a thin read-only view of absl's FlagValues.

    Attributes:
      words: the line itself, behind the program's name.
      notes: lines for the log, once there is one.
    """

    def __init__(self, values: flags.FlagValues, words: Sequence[str] = ()) -> None:
        self._values = values
        self.words = tuple(words)
        self.notes: list[str] = []

    def __getitem__(self, name: str) -> Any:
        return self._values[name].value

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def given(self, name: str) -> bool:
        """Whether the flag stands on the line."""
        return bool(self._values[name].present)

    def if_given(self, name: str) -> Any:
        """Its value, or None when it does not stand on the line."""
        return self[name] if self.given(name) else None

    def path(self, name: str) -> Any:
        """A path; `~`, which a shell leaves alone behind `=`, is the home folder."""
        value = self[name]
        return os.path.expanduser(value) if value else None

    def numbers(self, name: str) -> Any:
        """Several numbers as a tuple, or None where they are not set."""
        return None if self[name] is None else tuple(self[name])

    def size(self, name: str) -> Any:
        """Height and width, or None where they are not set, or set to nothing."""
        size = self.numbers(name) or None
        if size is not None and len(size) == 1:
            raise UsageError(
                f'--{name}={size[0]} is one number, but a size is height and width: write --{name}={size[0]},{size[0]}.'
            )
        options.check_size(name, size)
        return size

    def names(self, name: str) -> tuple[str, ...]:
        """Names with commas between them; none where they are not set."""
        return tuple(part.strip() for part in (self[name] or '').split(',') if part.strip())

    def above_zero(self, name: str) -> Any:
        """A number, or None where it is 0 or less, which means "not set"."""
        return self[name] if self[name] > 0 else None
