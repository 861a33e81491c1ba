"""The checks that options make of their own fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deeplab.errors import OptionError


def require(condition: bool, flag: str, value: Any, allowed: str) -> None:
    """Raises `OptionError` for `flag` unless `condition` holds."""
    if not condition:
        raise OptionError(f'--{flag}={shown(value)} is not allowed: {allowed}.')


def shown(value: Any) -> str:
    """`value` as a user would write it on a command line."""
    if isinstance(value, (tuple, list)):
        return ','.join(str(v) for v in value)
    return str(value)


def require_choice(flag: str, value: str, choices: Sequence[str]) -> None:
    """Raises `OptionError` unless `value` is one of `choices`."""
    require(value in choices, flag, value, f'it must be one of {", ".join(choices)}')


def require_positive(flag: str, value: float) -> None:
    """Raises `OptionError` unless `value` is greater than 0."""
    require(value > 0, flag, value, 'it must be greater than 0')


def require_not_negative(flag: str, value: float) -> None:
    """Raises `OptionError` for a negative `value`."""
    require(value >= 0, flag, value, 'it must be 0 or more')


def require_share(flag: str, value: float) -> None:
    """Raises `OptionError` unless `value` is in (0, 1]."""
    require(0.0 < value <= 1.0, flag, value, 'it must be greater than 0 and at most 1')


def require_seed(seed: int, least: int = -(2**63)) -> None:
    """Raises `OptionError` unless `seed` is an integer of 64 bits, `least` or more."""
    require(least <= seed < 2**63, 'seed', seed, f'it must be an integer from {least} to {2**63 - 1}')


def check_size(flag: str, size: Sequence[int] | None) -> None:
    """Raises `OptionError` unless `size` is None or two positive integers, height and width."""
    if size is None:
        return
    good = len(size) == 2 and all(isinstance(side, int) and side > 0 for side in size)
    require(good, flag, size, 'a size is two positive integers, height and width, such as 513,513')
