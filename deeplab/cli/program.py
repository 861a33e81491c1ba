"""What a program of the command line is, and the table of all of them."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Sequence
from typing import Any

from deeplab.cli import links
from deeplab.cli.values import Values
from deeplab.cli.words import (
    Flag,
    Group,
    UsageError,
)


@dataclasses.dataclass(frozen=True)
class Program:
    """One program.

    Attributes:
      name: how `deeplab NAME` calls it.
      module: where its `run(options)` is; imported when the program runs.
      summary: what it does, in a line.
      example: flags of an example.
      groups: its flags.
      to_options: makes its options of the values of its flags.
      required: names of flags that must be given.
      aliases: other names.
      runs_others: whether its `run` takes a second argument, `run_program`.
      prepare: changes the words of a line before they are read.
      positional: name of the flag whose value may stand alone, as FILE in `deeplab checkpoint FILE`; empty for none.
    """

    name: str
    module: str
    summary: str
    example: str
    groups: tuple[Group, ...]
    to_options: Callable[[Values], Any]
    required: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    runs_others: bool = False
    positional: str = ''
    prepare: Callable[[Sequence[str]], list[str]] = list

    @property
    def flags(self) -> dict[str, Flag]:
        """Its flags by name."""
        return {flag.name: flag for group in self.groups for flag in group.flags}

    @property
    def flag_names(self) -> dict[str, str]:
        """Names of its flags by the option fields that they set."""
        return links.flag_names(self.flags.values())


# Programs of the original that are still to come, and what they will do.
PLANNED = {
    'convert_to_tflite': 'converting an exported network to TensorFlow Lite',
    'eval_coco_format': 'evaluation in the COCO panoptic format',
}


# All programs, in the order of the help; `programs` fills it.
PROGRAMS: list[Program] = []


def register(*programs: Program) -> None:
    """Adds programs to the table."""
    PROGRAMS.extend(programs)


def owners_of(name: str) -> list[str]:
    """Names of the programs that have a flag `name`."""
    return [program.name for program in PROGRAMS if name in program.flags]


def find_program(name: str) -> Program:
    """The program of that name; raises `UsageError` that says which there are."""
    plain = name.replace('-', '_').removesuffix('.py').rpartition('/')[2]
    for program in PROGRAMS:
        if plain == program.name or plain in program.aliases:
            return program
    if plain in PLANNED:
        raise UsageError(f'deeplab {plain} is not built yet: {PLANNED[plain]} is still to come.')
    names = [program.name for program in PROGRAMS]
    near = difflib.get_close_matches(plain.lower(), names, n=1)
    hint = f'Did you mean {near[0]}? ' if near else ''
    raise UsageError(f"Unknown program '{name}'. {hint}Known: {', '.join(names)}.")
