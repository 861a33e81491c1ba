"""Types of flags that absl does not have: several numbers in both dialects."""

from __future__ import annotations

from typing import Any

from absl import flags  # noqa: TID251 (this is the one file that may)

from deeplab.cli.words import (
    Flag,
    parse_number,
)


class _NumbersParser(flags.ArgumentParser[list[Any]]):
    """Numbers with commas between them."""

    def __init__(self, number: type, word: str | None = None) -> None:
        super().__init__()
        self._number = number
        self._word = word

    def parse(self, argument: Any) -> list[Any]:
        """Returns the list of numbers in `argument`: a text, or (the default) numbers already; or of the word in it."""
        if self._word is not None and argument == self._word:
            return [argument]
        parts = argument.split(',') if isinstance(argument, str) and argument.strip() else argument or ()
        return [parse_number(part, self._number) for part in parts]


class _NumbersFlag(flags.Flag[list[Any]]):
    """A flag for several numbers, in both dialects: `--f=6 --f=12` and `--f=6,12`.

    Single numbers add up. A list replaces what stood before where `replaces` is set, as absl's own list flags do.
    """

    def __init__(self, flag: Flag) -> None:
        self._replaces = flag.kind == 'list'
        parser = _NumbersParser(float if flag.kind == 'repeated float' else int, flag.word)
        super().__init__(parser, flags.CsvListSerializer(','), flag.name, flag.default, flag.meaning)

    def parse(self, argument: Any) -> None:
        """Takes in one occurrence of the flag."""
        numbers = self._parse(argument) or []
        replaces = not self.present or (self._replaces and len(numbers) > 1)
        self.value = numbers if replaces else [*(self.value or ()), *numbers]
        self.present += 1


def define(flag: Flag, values: flags.FlagValues) -> None:
    """Defines `flag` on `values`."""
    if flag.holds_numbers:
        flags.DEFINE_flag(_NumbersFlag(flag), flag_values=values)
    elif flag.kind == 'enum':
        flags.DEFINE_enum(flag.name, flag.default, flag.choices, flag.meaning, flag_values=values)
    else:
        define = getattr(flags, f'DEFINE_{flag.kind}')
        define(flag.name, flag.default, flag.meaning, flag_values=values)
