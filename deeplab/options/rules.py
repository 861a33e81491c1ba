"""Checks of option fields.

A field is named 'Class.field', so that a message can name the flag that sets it (see `wording`).
"""

from __future__ import annotations

from typing import Any

from deeplab.errors import OptionError, UserError
from deeplab.wording import option

MOST_CLASSES = 256  # masks, raw predictions and histograms of labels have one byte for each pixel


def require(condition: bool, field: str, value: Any, allowed: str) -> None:
    """Raises `OptionError` for a field unless `condition` holds.

    Args:
      condition: whether the value is allowed.
      field: 'Class.field' of an options class.
      value: its value.
      allowed: what is allowed, or what to do; the end of a sentence, without a full stop.
    """
    if not condition:
        raise OptionError(f'{option(field, value)} is not allowed: {allowed}.')


def require_classes(
    where: str,
    count: int,
    fix: str = 'Merge classes, or leave some out.',
    error: type[UserError] = OptionError,
    most: int = MOST_CLASSES,
) -> None:
    """Raises an error for no classes, and for more classes than masks can hold.

    Args:
      where: what has the classes, for the message.
      count: number of classes.
      fix: what to do, a sentence.
      error: type of the error.
      most: largest number; `MOST_CLASSES` - 1 if the last id is the ignore label.
    """
    if not 1 <= count <= most:
        reason = 'masks store a class id in one byte'
        reason += f' and {MOST_CLASSES - 1} means ignored' if most < MOST_CLASSES else ''
        raise error(f'{where}: {count:,} classes are not possible, only 1 to {most}, because {reason}. {fix}')


def require_seed(field: str, seed: int, least: int = -(2**63)) -> None:
    """Raises `OptionError` unless `seed` is an integer of 64 bits that is not less than `least`."""
    require(least <= seed < 2**63, field, seed, f'it must be an integer from {least} to {2**63 - 1}')
