"""The syntax of command lines: flags and their values, with messages for common mistakes.

Flags are written as for absl, which the original uses. This module does not depend on any program.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import itertools
import json
import math
import os
import pathlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from deeplab.errors import OptionError
from deeplab.wording import one_of

_CURLY_QUOTES = '“”„‟‘’‚‛«»″′'
_LONG_DASHES = '–—−‐‑'
_CHECKPOINT_SUFFIX = re.compile(r'\.(index|meta|data-\d{5}-of-\d{5})$')
_AROUND_NUMBERS = ',[](){}'
_NUMBERS = ('integer', 'float')
_BOOLEANS = ('true', 't', '1', 'false', 'f', '0')  # in any case, as absl reads them


TASK_FLAG = 'network_task'  # of the field ModelOptions.task


class UsageError(OptionError):
    """An invalid command line."""


@dataclasses.dataclass(frozen=True)
class Flag:
    """One flag.

    Attributes:
      name: its name, without dashes.
      kind: 'string', 'integer', 'float', 'boolean', 'enum', 'list' (of integers), 'repeated integer',
        'repeated float' or 'repeated string'.
      default: its value if it is not given; None for "not set".
      meaning: its text in the help, one or two sentences.
      choices: allowed values of an enum.
      word: a word that a repeated flag accepts instead of numbers; None for none.
      fields: the option fields that it sets, 'Class.field' of deeplab.options (see `links`).
      is_path: whether the value is a path, in which ~ is the home folder.
      is_optional: whether its field may be "not set", as a default of None says, although the flag has another default.
    """

    name: str
    kind: str
    default: Any
    meaning: str
    choices: tuple[str, ...] = ()
    word: str | None = None
    fields: tuple[str, ...] = ()
    is_path: bool = False
    is_optional: bool = False

    @property
    def can_be_unset(self) -> bool:
        """Whether an empty text means "not set"."""
        return self.default is None or self.is_optional

    @property
    def holds_numbers(self) -> bool:
        """Whether the value is a list of numbers."""
        return self.kind in ('list', 'repeated integer', 'repeated float')

    def parsed(self, text: str) -> Any:
        """Returns the value of one occurrence of the flag; a list for a flag that may be repeated.

        An empty text is "not set" if `can_be_unset`.

        Raises:
          ValueError: the flag does not accept the text.
        """
        if not text and self.can_be_unset and self.kind not in ('list', 'string', 'repeated string'):
            return None
        if self.holds_numbers:
            if self.word is not None and text == self.word:
                return [text]
            number = float if self.kind == 'repeated float' else int
            return [parse_number(part, number) for part in text.split(',')] if text.strip() else []
        if self.kind == 'repeated string':
            return [text]
        if self.kind == 'boolean':
            if text.lower() not in _BOOLEANS:
                raise ValueError(text)
            return text.lower() in ('true', 't', '1')
        if self.kind == 'enum' and text not in self.choices:
            raise ValueError(text)
        return parse_number(text, {'integer': int, 'float': float}[self.kind]) if self.kind in _NUMBERS else text

    def expected(self, value: str) -> str:
        """Returns the values that the flag accepts, for the message that it does not accept `value`; not for texts."""
        kinds = {
            'integer': 'it must be a whole number, such as 8',
            'float': 'it must be a number, such as 0.5',
            'boolean': 'it must be true or false',
            'enum': one_of(value, self.choices),
            'list': 'it must be comma-separated whole numbers, such as 513,513',
            'repeated integer': f'pass one whole number at a time, such as --{self.name}=6 --{self.name}=12',
            'repeated float': f'pass one number at a time, such as --{self.name}=0.5 --{self.name}=1.0',
        }
        return kinds[self.kind] + (f', or --{self.name}={self.word}' if self.word else '')


Entry = Flag | Callable[[], Iterable[Flag]]


class Group:
    """Flags under one heading of the help, `title`."""

    def __init__(self, title: str, *entries: Entry) -> None:
        """Creates a group of flags, and of functions that return flags, which are called whenever `flags` is read."""
        self.title = title
        self.entries = entries

    @property
    def flags(self) -> tuple[Flag, ...]:
        """The flags, in order."""
        return tuple(each for entry in self.entries for each in ([entry] if isinstance(entry, Flag) else entry()))


def parse_number(text: Any, number: type) -> Any:
    """Returns `text` as an int or a finite float; raises ValueError."""
    value = number(text)
    if not math.isfinite(value):
        raise ValueError(f'{value} is not finite')
    return value


def read_words(
    words: Sequence[str],
    program: str,
    known: Mapping[str, Flag],
    owners: Callable[[str], Sequence[str]],
    positional: str = '',
) -> list[tuple[str, str]]:
    """Returns the names and the texts of the flags on a command line, in order.

    Args:
      words: the command line without the program's name.
      program: the program's name.
      known: the program's flags by name.
      owners: returns the programs that have a flag of a given name.
      positional: the flag whose value the first word that is no flag is, as FILE in `deeplab checkpoint FILE`; all such
        words are, if it is a 'repeated string'. Empty for none.

    Raises:
      UsageError: for the first syntax error; without one, for all unknown flags; without these, for the first value.
        The message has the fix.
    """
    read = list(_read_words(words, known))
    if positional:
        places = [i for i, word in enumerate(read) if word.flag is None and word.is_value]
        for i in places if known[positional].kind == 'repeated string' else places[:1]:
            read[i] = _Word(read[i].text, known[positional], read[i].text)
    _refuse_unknown(read, program, known, owners)
    repeats = any(word.flag is not None and word.flag.name == 'from' for word in read)
    for word in read:
        if word.flag is not None and word.value is not None:
            check_value(word.flag, word.value, repeats)
    _refuse_mixed(read, known)
    return [(word.flag.name, word.value or '') for word in read if word.flag is not None]


def without_undefined(words: Sequence[str], known: Mapping[str, Flag]) -> list[str]:
    """Returns the words without --undefok, and without the flags that it names and the program does not have."""
    end = list(words).index('--') if '--' in words else len(words)
    rest = list(words[:end])
    named: set[str] = set()
    kept = []
    while rest:
        word = rest.pop(0)
        name, equals, value = word.lstrip('-').partition('=')
        if not word.startswith('-') or name != 'undefok':
            kept.append(word)
            continue
        if not equals and not rest:
            raise UsageError('--undefok has no value: write --undefok=NAME,NAME.')
        named.update(part.strip().lstrip('-') for part in (value if equals else rest.pop(0)).split(','))
    named = (named | {f'no{name}' for name in named}) - set(known)
    kept = [word for word in kept if not (word.startswith('-') and word.lstrip('-').partition('=')[0] in named)]
    return [*kept, *words[end:]]


def normalized(words: Sequence[str], known: Mapping[str, Flag]) -> list[tuple[str, str]]:
    """Returns the flags and their values as strings, in order, and other words as (word, '').

    Raises:
      UsageError: for a syntax error.
    """
    return [(word.flag.name, word.value or '') if word.flag else (word.text, '') for word in _read_words(words, known)]


@dataclasses.dataclass(frozen=True)
class _Word:
    """A flag with its value, or another word (flag is None), as given on the command line; `is_literal`: after `--`."""

    text: str
    flag: Flag | None = None
    value: str | None = None
    is_literal: bool = False

    @property
    def is_value(self) -> bool:
        """Whether the word cannot be a flag."""
        return self.is_literal or not self.text.startswith('-')


def _read_words(words: Sequence[str], known: Mapping[str, Flag]) -> Iterator[_Word]:
    """Yields flags with their values, split as absl splits them; raises `UsageError` for a syntax error.

    The original's --task of train is the number of a machine; a task of the network, --network_task, has a name.
    """
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == '--':
            yield from (_Word(text, is_literal=True) for text in rest)
            return
        _check_signs(word)
        if not word.startswith('-') or not word.strip('-'):
            yield _Word(word)
            continue
        name, equals, value = word[2 if word.startswith('--') else 1 :].partition('=')
        text = value if equals else ''.join(rest[:1])
        if name == 'task' and TASK_FLAG in known and text and not ('task' in known and text.lstrip('-').isdecimal()):
            name = TASK_FLAG
        flag = _find_flag(name, known)
        if flag is None:
            # A word after an unknown flag without `=` is probably its value.
            if not equals and rest and not rest[0].startswith('-'):
                rest.pop(0)
            yield _Word(f'--{name}')
            continue
        _check_spaces(name, equals, value, rest)
        if equals:
            if flag.name != name:
                raise UsageError(f'--{name} takes no value: write --{flag.name}=true or --{flag.name}=false.')
        elif flag.kind == 'boolean':
            value = 'true' if flag.name == name else 'false'
        else:
            value = _next_value(flag, rest, known)
        yield _Word(word, flag, value)


def _check_signs(word: str) -> None:
    """Raises `UsageError` for dashes and quotes that word processors and web pages use instead of - and "."""
    if word[0:1] and word[0] in _LONG_DASHES:
        fix = '--' + word.lstrip(_LONG_DASHES + '-')
        raise UsageError(f'{word} begins with a typographic dash: write {fix} with two hyphens.')
    value = word.partition('=')[2] if word.startswith('-') else word
    if value and (value[0] in _CURLY_QUOTES or value[-1] in _CURLY_QUOTES):
        fix = ''.join('"' if sign in _CURLY_QUOTES else sign for sign in word)
        raise UsageError(f'{word} contains curly quotes: write {fix} with straight quotes, or without quotes.')


def _find_flag(name: str, known: Mapping[str, Flag]) -> Flag | None:
    """Returns the flag of the name (or, for a boolean, noNAME), or None; raises `UsageError` for capital letters."""
    for candidate in (name, name.removeprefix('no')):
        flag = known.get(candidate)
        if flag is not None and (candidate == name or flag.kind == 'boolean'):
            return flag
    if name != name.lower() and _find_flag(name.lower(), known) is not None:
        raise UsageError(f'--{name}: flag names are lower case; write --{name.lower()}.')
    return None


def _check_spaces(name: str, equals: str, value: str, rest: Sequence[str]) -> None:
    """Raises `UsageError` for a space before or after `=`."""
    following = rest[0] if rest else ''
    if not equals and following.startswith('='):
        value = following[1:] or (rest[1] if len(rest) > 1 else 'VALUE')
    elif equals and not value and following and not following.startswith('-'):
        value = following
    else:
        return
    raise UsageError(f"There is a space next to the '=' of --{name}: write --{name}={value} without spaces.")


def _next_value(flag: Flag, rest: list[str], known: Mapping[str, Flag]) -> str:
    """Removes the value of `flag` from `rest` and returns it."""
    following = rest[0].lstrip('-').partition('=')[0] if rest and rest[0].startswith('--') else None
    if not rest or (following and _find_flag(following, known)):
        raise UsageError(f'--{flag.name} has no value: write --{flag.name}=VALUE.')
    return rest.pop(0)


def check_value(flag: Flag, value: str, repeats: bool = False) -> None:
    """Raises `UsageError` unless `flag` accepts `value`; `repeats`: whether --from is given, too."""
    shown = f'--{flag.name}={value}'
    nullable = flag.kind != 'string' or flag.name in ('tf_initial_checkpoint', 'dense_prediction_cell_json')
    if nullable and value not in flag.choices and value.strip().lower() in ('none', 'null'):
        fix = f'With --from, write --{flag.name}=' if repeats and flag.can_be_unset else 'Omit the flag'
        raise UsageError(f"{shown} is not allowed: there is no such value. {fix} for 'not set'.")
    if flag.holds_numbers and value.strip()[:1] in ('{', '[', '('):
        inner = [number.strip() for number in value.strip('{}[]() ').split(',')]
        fix = f'--{flag.name}={",".join(inner)}'
        if flag.kind != 'list':
            fix = ' '.join(f'--{flag.name}={number}' for number in inner)
        raise UsageError(f'{shown} is not allowed: write {fix}, without brackets.')
    if flag.name in ('tf_initial_checkpoint', 'checkpoint_dir', 'checkpoint_path'):
        _check_checkpoint(flag, value)
    if not _is_parsable(flag, value):
        raise UsageError(f'{shown} is not allowed: {flag.expected(value)}.')


def _refuse_mixed(words: Sequence[_Word], known: Mapping[str, Flag]) -> None:
    """Raises `UsageError` if a flag has both numbers and the word that replaces them, such as auto."""
    for flag in known.values():
        values = [word.value for word in words if word.flag is flag] if flag.word else []
        if flag.word in values and set(values) != {flag.word}:
            shown = ' '.join(f'--{flag.name}={value}' for value in values)
            raise UsageError(f'{shown} is not allowed: write either --{flag.name}={flag.word} or numbers.')


def _check_checkpoint(flag: Flag, value: str) -> None:
    """Raises `UsageError` if `value` is one of the files of a checkpoint."""
    whole = _CHECKPOINT_SUFFIX.sub('', value)
    if whole == value:
        return
    fix = f'pass its prefix, --{flag.name}={whole}'
    if flag.name == 'checkpoint_dir':
        fix += f', or its folder, --{flag.name}={os.path.dirname(value) or "."}'
    raise UsageError(f'--{flag.name}={value} is one of the files of a checkpoint: {fix}.')


def _is_parsable(flag: Flag, value: str) -> bool:
    """Returns whether the flag accepts a text; an empty one is "not set", if that is possible."""
    if flag.holds_numbers and not value:
        return flag.can_be_unset
    try:
        flag.parsed(value)
    except (ValueError, OverflowError):
        return False
    return True


def _refuse_unknown(
    words: Sequence[_Word], program: str, known: Mapping[str, Flag], owners: Callable[[str], Sequence[str]]
) -> None:
    """Raises `UsageError` for flags that the program does not have, and for words that are not flags."""
    unknown = [word.text.removeprefix('--') for word in words if word.flag is None and word.text.startswith('--')]
    if unknown:
        raise UsageError(' '.join(_unknown_flag(name, program, known, owners(name)) for name in unknown))
    leftover = [word.text for word in words if word.flag is None]
    if leftover:
        raise UsageError(f"Unexpected argument '{' '.join(leftover)}': {_hint_for_leftover(words, known)}.")


def _hint_for_leftover(words: Sequence[_Word], known: Collection[str]) -> str:
    """Returns how to write the first words that are neither flags nor values of flags."""
    first = next(i for i, word in enumerate(words) if word.flag is None)
    name, equals, _ = words[first].text.lstrip('-').partition('=')
    if equals and name in known:
        return f'write --{words[first].text.lstrip("-")}'
    before = words[first - 1] if first else None
    if before is not None and before.flag is not None:
        if before.flag.kind == 'boolean':
            return f'write --{before.flag.name}={words[first].text} with an equals sign'
        if before.flag.holds_numbers:  # 6 12 18 as argparse reads it, or 6, 12, 18 without quotes
            beside = itertools.takewhile(lambda word: word.flag is None, words[first:])
            numbers = [text.strip(_AROUND_NUMBERS) for text in (str(before.value), *(word.text for word in beside))]
            return f'write --{before.flag.name}={",".join(numbers)} without spaces'
    return 'flags are written --flag=value'


def _unknown_flag(name: str, program: str, known: Mapping[str, Flag], owners: Sequence[str]) -> str:
    """Returns the message for an unknown flag, with the flag that was probably meant."""
    text = f'Unknown flag --{name}'
    if (hint := _hint_for(name, known)) is not None:
        return f'{text}: {hint}'
    near = difflib.get_close_matches(name.lower().replace('-', '_'), known, n=1, cutoff=0.7)
    if owners:
        text += f' (it belongs to {", ".join(owners)})'
    if near:
        return f'{text}: did you mean --{near[0]}?'
    return f'{text}: see deeplab {program} --helpfull.'


class Hint(NamedTuple):
    """A hint for flags of other toolkits, which no program has: a row of flag_hints.json.

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
def hints() -> tuple[Hint, ...]:
    """Returns all hints; earlier ones take precedence."""
    rows = json.loads(pathlib.Path(__file__).with_name('flag_hints.json').read_text('utf-8'))
    return tuple(Hint(**row) for row in rows)


def _hint_for(name: str, known: Collection[str]) -> str | None:
    """Returns the end of the message about an unknown flag; None if no hint applies to it and to the program."""
    plain = name.lower().replace('-', '_')
    for word in (plain, plain.removeprefix('no_'), plain.removeprefix('no')):
        for hint in hints():
            fitting = [flag for flag in hint.flags.split() if flag in known]
            if word in hint.words.split() and (fitting or not hint.flags):
                return hint.text.format(flag=f'--{fitting[0]}' if fitting else '')
    return None
