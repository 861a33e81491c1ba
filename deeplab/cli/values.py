"""Values of the flags of one command line."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags  # noqa: TID251 (flags are allowed in this package)

from deeplab.cli.words import Flag, UsageError


class Values:
    """The values of the flags of one command line: a read-only view of absl's FlagValues.

    Attributes:
      words: the command line without the program's name.
      known: the program's flags by name.
      flag_names: the names of those flags by the option fields that they set.
      recipe_flags: what --recipe has set, as --NAME=VALUE.
      notes: messages to log once logging has started.
      warnings: warnings to log then.
    """

    def __init__(
        self, values: flags.FlagValues, words: Sequence[str], known: Mapping[str, Flag], flag_names: Mapping[str, str]
    ) -> None:
        self._values = values
        self.words = tuple(words)
        self.known = known
        self.flag_names = flag_names
        self.recipe_flags: list[str] = []
        self.notes: list[str] = []
        self.warnings: list[str] = []

    def __getitem__(self, name: str) -> Any:
        return self._values[name].value

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def given(self, name: str) -> bool:
        """Whether the flag is given, on the command line or by a preset."""
        return bool(self._values[name].present)

    def if_given(self, name: str) -> Any:
        """Returns the value of a flag, or None if the flag is not given."""
        return self[name] if self.given(name) else None

    def path(self, name: str) -> Any:
        """Returns a path, or None if it is empty or not set; `~` is expanded, which shells do not do after `=`."""
        value = self[name]
        return os.path.expanduser(value) if value else None

    def numbers(self, name: str) -> Any:
        """Returns several numbers as a tuple, or None if they are not set."""
        return None if self[name] is None else tuple(self[name])

    def size(self, name: str) -> Any:
        """Returns height and width, or None if they are empty or not set."""
        size = self.numbers(name) or None
        if size is not None and len(size) == 1:
            raise UsageError(
                f'--{name}={size[0]} is one number, but a size is height and width: write --{name}={size[0]},{size[0]}.'
            )
        return size

    def occurrences(self, name: str) -> list[str]:
        """Returns the texts that a flag has on the command line, in order; it may be given several times."""
        found = []
        words = [*self.words, '']
        for word, next_word in itertools.pairwise(words):
            given, equals, text = word.lstrip('-').partition('=')
            if word.startswith('-') and given == name:
                found.append(text if equals else next_word)
        return found

    def names(self, name: str) -> tuple[str, ...]:
        """Returns the names in a comma-separated list; none if it is empty or not set."""
        return tuple(part.strip() for part in (self[name] or '').split(',') if part.strip())

    def texts(self, name: str) -> tuple[str, ...]:
        """Returns the values of a repeated flag of strings; in paths, `~` is expanded."""
        texts = self[name] or ()
        return tuple(os.path.expanduser(text) for text in texts) if self.known[name].is_path else tuple(texts)

    def above_zero(self, name: str) -> Any:
        """Returns a number, or None if it is 0 or less, which means "not set"."""
        return self[name] if self[name] > 0 else None
