"""Values of the flags of one command line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from deeplab.cli.words import Flag, UsageError


class Values:
    """The values of the flags of one command line.

    Attributes:
      line: names and texts of the flags on the command line, in order.
      known: the program's flags by name.
      flag_names: the names of these flags, by the option fields that they set.
      recipe_flags: what --recipe has set, as --NAME=VALUE.
      notes: messages to log once logging has started.
      warnings: warnings to log then.
    """

    def __init__(
        self, line: Sequence[tuple[str, str]], known: Mapping[str, Flag], flag_names: Mapping[str, str]
    ) -> None:
        self.line = tuple(line)
        self.known = known
        self.flag_names = flag_names
        self.recipe_flags: list[str] = []
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self._values: dict[str, Any] = {}  # without the flags that have their defaults
        self._given: set[str] = set()
        for name, text in line:
            self.parse(name, text)

    @property
    def words(self) -> tuple[str, ...]:
        """The command line without the program's name, each flag in the form --NAME=VALUE."""
        return tuple(f'--{name}={text}' for name, text in self.line)

    def __getitem__(self, name: str) -> Any:
        return self._values[name] if name in self._values else self.default(name)

    def __contains__(self, name: str) -> bool:
        return name in self.known

    def default(self, name: str) -> Any:
        """Returns the value of a flag that is not given."""
        flag = self.known[name]
        if isinstance(flag.default, list):
            return [flag.parsed(str(part))[0] for part in flag.default] if flag.holds_numbers else list(flag.default)
        return flag.default

    def parse(self, name: str, text: str) -> None:
        """Gives a flag the value that one occurrence on a command line has; a repeated flag collects them."""
        flag = self.known[name]
        value = flag.parsed(text)
        # Several numbers at once replace earlier ones, as the original's list flags do; so does an empty value.
        is_replaced = self._values.get(name) is None or name not in self._given
        is_replaced = is_replaced or not value or (flag.kind == 'list' and len(value) > 1)
        collects = flag.holds_numbers or flag.kind == 'repeated string'
        self._values[name] = value if is_replaced or not collects else [*self._values[name], *value]
        self._given.add(name)

    def assume(self, name: str, value: Any) -> None:
        """Sets the value of a flag that is not given."""
        self._values[name] = value

    def assumed(self, name: str) -> bool:
        """Returns whether the flag is not given, but `assume` has set it."""
        return name in self._values and name not in self._given

    def given(self, name: str) -> bool:
        """Returns whether the flag is given, on the command line, by a preset or by a recipe."""
        return name in self._given

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

    def names(self, name: str) -> tuple[str, ...]:
        """Returns the names in a comma-separated list; none if it is empty or not set."""
        return tuple(part.strip() for part in (self[name] or '').split(',') if part.strip())

    def texts(self, name: str) -> tuple[str, ...]:
        """Returns the values of a repeated flag of strings; in paths, `~` is expanded."""
        texts = self[name] or ()
        return tuple(os.path.expanduser(text) for text in texts) if self.known[name].is_path else tuple(texts)
