"""Hints for flags of other toolkits: the flags that set the same here. To add a hint, add a row to flag_hints.json."""

from __future__ import annotations

import functools
import json
import pathlib
from collections.abc import Collection
from typing import NamedTuple


class Hint(NamedTuple):
    """A hint for some flags that no program has.

    Attributes:
      words: names of the flags, with _ for -, without leading dashes.
      flags: the corresponding flags here; the first one that the program has replaces {flag} in `text`. Empty: the
        hint applies to any program.
      text: end of the message that starts with "Unknown flag --NAME: ".
    """

    words: str
    flags: str
    text: str = 'use {flag}.'


@functools.cache
def table() -> tuple[Hint, ...]:
    """Returns all hints; earlier ones take precedence."""
    rows = json.loads(pathlib.Path(__file__).with_suffix('.json').read_text('utf-8'))
    return tuple(Hint(**row) for row in rows)


def find(name: str, known: Collection[str]) -> str | None:
    """Returns the end of the message about an unknown flag; None if no row applies to it and to the program.

    Args:
      name: name of the flag, as given on the command line, without leading dashes.
      known: the program's flags.
    """
    plain = name.lower().replace('-', '_')
    for word in (plain, plain.removeprefix('no_'), plain.removeprefix('no')):
        for hint in table():
            fitting = [flag for flag in hint.flags.split() if flag in known]
            if word in hint.words.split() and (fitting or not hint.flags):
                return hint.text.format(flag=f'--{fitting[0]}' if fitting else '')
    return None
