"""Program records of the command line, and the table of them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from deeplab.cli import links
from deeplab.cli.logs import LOG
from deeplab.cli.values import Values
from deeplab.cli.words import TASK_FLAG, Flag, Group, UsageError
from deeplab.options.fields import with_names
from deeplab.overview import SUMMARIES
from deeplab.wording import did_you_mean

PLUGINS = Flag(
    'plugins',
    'string',
    None,
    'Comma-separated Python files or modules to import first: what they register, such as a loss or a backbone, is '
    'known by name to all flags. Not set: none.',
)
EVERY_PROGRAM = (Group('Plugins', PLUGINS), LOG)


@dataclasses.dataclass(frozen=True)
class Program:
    """A program of the command line.

    Attributes:
      name: its name, as in `deeplab NAME`.
      example: flags of an example.
      groups: its flags, without the flags that every program has.
      to_options: creates its options from the values of its flags.
      required: names of required flags.
      aliases: other names.
      runs_others: whether its `run` takes a second argument, `run_program`.
      beginning: functions of its options, called before TensorFlow is imported for the run: what needs no TensorFlow.
      prepare: changes the words of the command line before they are parsed.
      positional: name of the flag whose value may be given as a positional argument, as FILE in `deeplab checkpoint
        FILE`, or values if the flag is a 'repeated string'; empty for none.
      package: package of its module.
      common: names of the flags that --help shows beside the required ones, separated by spaces; empty for all but
        the flags of every program. --helpfull shows all.
    """

    name: str
    example: str
    groups: tuple[Group, ...]
    to_options: Callable[[Values], Any]
    required: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    runs_others: bool = False
    positional: str = ''
    package: str = 'deeplab.programs'
    common: str = ''
    beginning: tuple[Callable[[Any], None], ...] = ()
    prepare: Callable[[Sequence[str]], list[str]] = list

    @property
    def module(self) -> str:
        """Name of the module of its `run(options)`; imported when the program runs."""
        return f'{self.package}.{self.name}'

    def begin(self, program_options: Any) -> None:
        """Begins a run, see `beginning`."""
        for function in self.beginning:
            function(program_options)

    @property
    def summary(self) -> str:
        """Its description in the help, one sentence."""
        return SUMMARIES[self.name]

    @property
    def all_groups(self) -> tuple[Group, ...]:
        """Its flags, and the flags that every program has."""
        return (*self.groups, *EVERY_PROGRAM)

    @property
    def flags(self) -> dict[str, Flag]:
        """Its flags by name."""
        by_name: dict[str, Flag] = {}
        for flag in (flag for group in self.all_groups for flag in group.flags):
            by_name.setdefault(flag.name, flag)
        return by_name

    def check_flags(self) -> None:
        """Raises `UsageError` if a parameter of a plugin has the name of another flag."""
        by_name = self.flags
        for flag in (flag for group in self.all_groups for flag in group.flags):
            if flag != by_name[flag.name]:
                raise UsageError(
                    f'A parameter has the name of --{flag.name}, which is a flag of {self.name} already. Rename it.'
                )

    @property
    def flag_names(self) -> dict[str, str]:
        """Names of its flags by the option fields that they set."""
        return links.flag_names(self.flags.values())


# All programs, in the order of the help; `programs` fills it.
PROGRAMS: list[Program] = []


class NamesInMessages(Mapping[str, str]):
    """Names of flags by option fields, for messages of a program (see `wording.flag_names`).

    A message can be about a flag of another program, such as --train_logdir in eval. It has the name that it has there,
    unless the name depends on the program, such as --train_crop_size. The flags of all programs are read, and the
    modules of all registries imported, for the first message.
    """

    def __init__(self, program: Program) -> None:
        """Creates the object for the messages of `program`."""
        self._program = program

    def __getitem__(self, field: str) -> str:
        """Returns the flag of a field."""
        return self._names[field]

    def __iter__(self) -> Iterator[str]:
        """Yields the fields."""
        return iter(self._names)

    def __len__(self) -> int:
        """Returns the number of fields."""
        return len(self._names)

    @functools.cached_property
    def _names(self) -> dict[str, str]:
        names: dict[str, set[str]] = {}
        shared = {id(group): group for other in PROGRAMS for group in other.all_groups}  # each is read once
        for group in shared.values():
            for field, name in links.flag_names(group.flags).items():
                names.setdefault(field, set()).add(name)
        own = self._program.flag_names
        short = {field: 'task' for field, name in own.items() if name == TASK_FLAG}  # see `words`
        return {field: min(choices) for field, choices in names.items() if len(choices) == 1} | own | short


def names_in_messages(program: Program) -> Mapping[str, str]:
    """Returns the names of flags in the messages of a program."""
    return NamesInMessages(program)


def with_flags(flag: Flag, flags: Mapping[str, str]) -> Flag:
    """Returns a flag whose meaning names other options by their flags.

    Args:
      flag: the flag, whose meaning names them by 'Class.field'.
      flags: the names of flags by fields (see `names_in_messages`).
    """
    meaning = with_names(flag.meaning, lambda field: f'--{flags[field]}' if field in flags else field)
    return dataclasses.replace(flag, meaning=meaning)


def owners_of(name: str) -> list[str]:
    """Returns the names of the programs that have a flag of the given name."""
    return [program.name for program in PROGRAMS if name in program.flags]


def find_program(name: str) -> Program:
    """Returns the program of the given name or alias; raises `UsageError` with the known ones."""
    plain = name.replace('-', '_').removesuffix('.py').rpartition('/')[2]
    for program in PROGRAMS:
        if plain == program.name or plain in program.aliases:
            return program
    names = [program.name for program in PROGRAMS]
    if name.startswith('-'):
        raise UsageError(f'{name} stands before the program: write deeplab PROGRAM {name}. Known: {", ".join(names)}.')
    raise UsageError(f"Unknown program '{name}'. {did_you_mean(plain, names)}Known: {', '.join(names)}.")
