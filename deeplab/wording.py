"""How messages name an option: as the flag that sets it on a command line, as the field in Python.

Libraries know fields, not flags. A message refers to an option by its class and field,

    f'{option("ModelOptions.crop_size", (5, 7))} is too small'

which reads `--train_crop_size=5,7 is too small` while a command line runs a program (see `flag_names`) and
`crop_size=(5, 7) is too small` in Python. tests/test_wording.py checks that every name so used is a field.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

_UNSET: Any = object()

# Flags by 'Class.field' while a command line runs a program; None in Python. Threads of the program see it too, so it
# is not a context variable.
_flags: Mapping[str, str] | None = None


def option(field: str, value: Any = _UNSET) -> str:
    """The option `field` as the reader of a message would write it, with `value` if there is one.

    Args:
      field: 'Class.field' of an options class, such as 'ModelOptions.crop_size'.
      value: its value; None is shown as empty on a command line.

    Returns:
      Such as '--train_crop_size=513,513' on a command line whose program sets the field by a flag; else
      'crop_size=(513, 513)'. Without a value '--train_crop_size', or 'crop_size'.
    """
    flag = (_flags or {}).get(field)
    if flag is None:
        name = field.rpartition('.')[2]
        return name if value is _UNSET else f'{name}={value!r}'
    return f'--{flag}' if value is _UNSET else f'--{flag}={_as_typed(value)}'


def is_set_by_flag(field: str) -> bool:
    """Whether a command line runs that has a flag for `field`."""
    return field in (_flags or {})


@contextlib.contextmanager
def flag_names(flags: Mapping[str, str]) -> Iterator[None]:
    """Lets messages name options by flags until the `with` block ends.

    Args:
      flags: name of the flag, without dashes, by 'Class.field'.
    """
    global _flags
    before, _flags = _flags, flags
    try:
        yield
    finally:
        _flags = before


def _as_typed(value: Any) -> str:
    """`value` as one types it behind `--flag=`."""
    if value is None:
        return ''
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return ','.join(str(part) for part in value)
    return str(value)
