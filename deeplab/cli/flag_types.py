"""absl flag types for several numbers, repeated or comma-separated."""

from __future__ import annotations

from typing import Any

from absl import flags  # noqa: TID251 (flags are allowed in this package)

from deeplab.cli.words import Flag, parse_number


class _NumbersParser(flags.ArgumentParser[list[Any]]):
    """Parses comma-separated numbers."""

    def __init__(self, number: type, word: str | None = None) -> None:
        super().__init__()
        self._number = number
        self._word = word

    def parse(self, argument: Any) -> list[Any]:
        """Returns the numbers in a string, a list of numbers (the default) as it is, or a list of the flag's word."""
        if self._word is not None and argument == self._word:
            return [argument]
        parts = argument.split(',') if isinstance(argument, str) and argument.strip() else argument or ()
        return [parse_number(part, self._number) for part in parts]


class _NumbersFlag(flags.Flag[list[Any]]):
    """A flag for several numbers, written `--f=6 --f=12` or `--f=6,12`.

    Repeated flags append. A flag of kind 'list' with several numbers replaces earlier ones, as absl's list flags do.
    """

    def __init__(self, flag: Flag) -> None:
        self._replaces = flag.kind == 'list'
        parser = _NumbersParser(float if flag.kind == 'repeated float' else int, flag.word)
        super().__init__(parser, flags.CsvListSerializer(','), flag.name, flag.default, flag.meaning)

    def parse(self, argument: Any) -> None:
        """Parses one occurrence of the flag."""
        numbers = self._parse(argument) or []
        replaces = not self.present or (self._replaces and len(numbers) > 1)
        self.value = numbers if replaces else [*(self.value or ()), *numbers]
        self.present += 1


def define(flag: Flag, values: flags.FlagValues) -> None:
    """Defines `flag` on `values`."""
    if flag.holds_numbers:
        flags.DEFINE_flag(_NumbersFlag(flag), flag_values=values)
    elif flag.kind == 'repeated string':
        flags.DEFINE_multi_string(flag.name, flag.default, flag.meaning, flag_values=values)
    elif flag.kind == 'enum':
        flags.DEFINE_enum(flag.name, flag.default, flag.choices, flag.meaning, flag_values=values)
    else:
        define = getattr(flags, f'DEFINE_{flag.kind}')
        define(flag.name, flag.default, flag.meaning, flag_values=values)
