"""Names of options in messages: the flag on a command line, the field in Python.

Libraries know fields, not flags. A message refers to an option by its class and field,

    f'{option("ModelOptions.crop_size", (5, 7))} is too small'

which reads `--train_crop_size=5,7 is too small` while a program of the command line runs (see `flag_names`) and
`crop_size=(5, 7) is too small` in Python. Options that a file sets are named by its keys (see `file_keys`).
tests/test_wording.py checks that these names are fields.
"""

from __future__ import annotations

import contextlib
import contextvars
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

_UNSET: Any = object()
# What a shell splits or replaces in a text without quotes; wildcards stay as they are where no file has such a name.
_MEANT_BY_SHELLS = re.compile(r'[\s\'"`$&;|<>()\\!]')

# Flags by 'Class.field' while a program of the command line runs; None in Python. It is not a context variable, because
# the threads of the program need it, too.
_flags: Mapping[str, str] | None = None
# Keys of a file by 'Class.field' while its values are the options.
_keys: contextvars.ContextVar[Mapping[str, str] | None] = contextvars.ContextVar('keys', default=None)


def option(field: str, value: Any = _UNSET) -> str:
    """Returns the name of an option, and its value if given, as the reader of a message would write it.

    Args:
      field: 'Class.field' of an options class, such as 'ModelOptions.crop_size'.
      value: its value; None is an empty value on a command line.

    Returns:
      The flag, such as '--train_crop_size=513,513', if a program of the command line runs and the field has a flag;
      otherwise the field, such as 'crop_size=(513, 513)'. Without a value '--train_crop_size' or 'crop_size'. Within
      `file_keys` the key of a field that has one, in quotes, such as "'seed: 3'".
    """
    key = (_keys.get() or {}).get(field)
    if key is not None:
        return f"'{key}'" if value is _UNSET else f"'{key}: {json.dumps(value)}'"
    flag = (_flags or {}).get(field)
    if flag is None:
        name = field.rpartition('.')[2]
        return name if value is _UNSET else f'{name}={value!r}'
    return f'--{flag}' if value is _UNSET else f'--{flag}={_as_typed(value)}'


def is_set_by_flag(field: str) -> bool:
    """Returns whether a program of the command line runs and `field` has a flag."""
    return field in (_flags or {})


@contextlib.contextmanager
def flag_names(flags: Mapping[str, str]) -> Iterator[None]:
    """Makes messages name options by flags within the `with` block.

    Args:
      flags: names of flags, without dashes, by 'Class.field'.
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
    return _flags


def add_flag_names(flags: Mapping[str, str]) -> None:
    """Adds names of flags within the `with` block of `flag_names`, for fields that have none; does nothing outside."""
    global _flags
    if _flags is not None:
        _flags = {**flags, **_flags}


def _as_typed(value: Any) -> str:
    """Returns `value` as it is written after `--flag=`."""
    if value is None:
        return ''
    if isinstance(value, bool):
        return str(value).lower()
    text = ','.join(str(part) for part in value) if isinstance(value, (tuple, list)) else str(value)
    return shlex.quote(text) if _MEANT_BY_SHELLS.search(text) else text
