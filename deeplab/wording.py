"""Names of options in messages: the flag on a command line, the field in Python; and values that were probably meant.

Libraries know fields, not flags. A message refers to an option by its class and field,

    f'{option("ModelOptions.crop_size", (5, 7))} is too small'

which reads `--train_crop_size=5,7 is too small` while a program of the command line runs (see `flag_names`) and
`crop_size=(5, 7) is too small` in Python. Options that a file sets are named by its keys (see `file_keys`).
tests/test_wording.py checks that these names are fields.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from deeplab import names

_UNSET: Any = object()
# What a shell splits or replaces in a text without quotes; wildcards stay as they are where no file has such a name.
_MEANT_BY_SHELLS = re.compile(r'[\s\'"`$&;|<>()\\!]')
# Names in other toolkits, see `_letters`, and the names of the same things here.
_SYNONYMS = {'ce': 'softmax', 'crossentropy': 'softmax', 'voc2012': 'pascal_voc_seg'}
_LEAST_LETTERS = 3  # of a name that is searched for in another one
_NAMES_SHOWN = 3

# Flags by 'Class.field' while a program of the command line runs; None in Python. It is not a context variable, because
# the threads of the program need it, too.
_flags: Mapping[str, str] | None = None
# Keys of a file by 'Class.field' while its values are the options.
_keys: contextvars.ContextVar[Mapping[str, str] | None] = contextvars.ContextVar('keys', default=None)


def option(field: str, value: Any = _UNSET) -> str:
    """Returns the name of an option, and its value if given, as the reader of a message would write it.

    Args:
      field: 'Class.field' of an options class, such as 'ModelOptions.crop_size'.
      value: value of the option; None is an empty value on a command line.

    Returns:
      The flag, such as '--train_crop_size=513,513', if a program of the command line runs and the field has a flag;
      otherwise the field, such as 'crop_size=(513, 513)'. Without a value '--train_crop_size' or 'crop_size'. Within
      `file_keys` the key of a field that has one, in quotes, such as "'seed: 3'".
    """
    key = (_keys.get() or {}).get(field)
    if key is not None:
        return f"'{key}'" if value is _UNSET else f"'{key}: {json.dumps(value)}'"
    flag = None if _flags is None else _flags.get(field)
    if flag is None:
        name = field.rpartition('.')[2]
        return name if value is _UNSET else f'{name}={value!r}'
    name, space, owner = flag.partition(' ')
    return f'--{flag}' if value is _UNSET else f'--{name}={_as_typed(value)}{space}{owner}'


def did_you_mean(value: str, names: Iterable[str]) -> str:
    """Returns a question such as 'Did you mean resnet_v1_50? ' for a value that is not one of `names`.

    Capitals and signs do not count; a name that contains the value, or the other way round, is near, and so is a name
    with a similar spelling, or with the same meaning elsewhere. Empty if no name is near.
    """
    plain = {name: _letters(name) for name in names}
    given = _letters(value)
    near = [name for name, text in plain.items() if text == given or name == _SYNONYMS.get(given)]
    if not near and len(given) >= _LEAST_LETTERS:
        near = [name for name, text in plain.items() if given in text]
        # A name in the value must be half of it: mobilenet_v9 contains lenet.
        shortest = max(_LEAST_LETTERS, len(given) / 2)
        near = near or [name for name, text in plain.items() if len(text) >= shortest and text in given]
        near = sorted(near, key=lambda name: abs(len(plain[name]) - len(given)))[:_NAMES_SHOWN]
    if not near:
        similar = difflib.get_close_matches(given, plain.values(), n=1)
        near = [name for name, text in plain.items() if text in similar][:1]
    return f'Did you mean {" or ".join(near)}? ' if near else ''


def one_of(value: str, names: Sequence[str]) -> str:
    """Returns the end of the message 'VALUE is not allowed: ', with the names that are allowed, without a full stop."""
    question = did_you_mean(value, names)
    return f'{question[:1].lower()}{question[1:]}{"It" if question else "it"} must be one of {", ".join(names)}'


def _letters(text: str) -> str:
    """Returns the letters and digits of a name in lower case."""
    return re.sub(r'[^a-z0-9]', '', text.lower())


def is_set_by_flag(field: str) -> bool:
    """Returns whether a program of the command line runs and `field` has a flag."""
    return _flags is not None and field in _flags


@contextlib.contextmanager
def flag_names(flags: Mapping[str, str]) -> Iterator[None]:
    """Makes messages name options by flags within the `with` block.

    Args:
      flags: names of flags, without dashes, by 'Class.field'; behind a space may follow whose flag it is.
    """
    global _flags
    before, _flags = _flags, flags
    try:
        yield
    finally:
        _flags = before


@contextlib.contextmanager
def file_keys(keys: Mapping[str, str]) -> Iterator[None]:
    """Makes messages of this thread name options by the keys of the file that sets them within the `with` block.

    Args:
      keys: keys by 'Class.field'.
    """
    token = _keys.set(keys)
    try:
        yield
    finally:
        _keys.reset(token)


def current_flag_names() -> Mapping[str, str] | None:
    """Returns the mapping of `flag_names`, for a process that continues the work of this one; None in Python."""
    return None if _flags is None else dict(_flags)


def add_flag_names(flags: Mapping[str, str]) -> None:
    """Adds names of flags within the `with` block of `flag_names`, for fields that have none; does nothing outside."""
    global _flags
    if _flags is not None:
        _flags = collections.ChainMap(_flags, flags)  # type: ignore[arg-type]  # neither is changed


def as_text(value: Any) -> str:
    """Returns the value of a flag as a command line has it, without quotes for a shell; "not set" is empty."""
    if value is None:
        return ''
    if isinstance(value, (list, tuple)):
        return ','.join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_typed(value: Any) -> str:
    """Returns `value` as it is written after `--flag=`."""
    text = as_text(value)
    return names.shell_quoted(text) if _MEANT_BY_SHELLS.search(text) or not text.isprintable() else text
