"""What accumulators of metrics have counted: arrays and lists by name, to be written and merged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from deeplab.errors import OptionError


def state_of(accumulator: Any, name: str) -> dict[str, Any]:
    """Returns the attributes that an accumulator names in `accumulated`; see `registry.metrics.Accumulator`.

    Args:
      accumulator: the accumulator.
      name: its name, for messages.

    Raises:
      OptionError: an accumulator, as of a plugin, does not say what its state is.
    """
    if not hasattr(accumulator, 'accumulated'):
        raise OptionError(
            f"'{name}' cannot be evaluated in parts: its accumulator does not name what it counts. Add the attribute "
            '`accumulated` to its class (docs/extending.md), or evaluate all images at once.'
        )
    state = {}
    for attribute in accumulator.accumulated:
        value = getattr(accumulator, attribute)
        if hasattr(value, 'accumulated'):
            value = state_of(value, name)
        elif isinstance(value, list) and any(isinstance(each, np.ndarray) for each in value):
            value = np.concatenate(value)
        state[attribute] = value
    return state


def restore(accumulator: Any, state: Mapping[str, Any]) -> None:
    """Gives a new accumulator the values of a state."""
    for attribute, value in state.items():
        current = getattr(accumulator, attribute)
        if hasattr(current, 'accumulated'):
            restore(current, value)
        else:
            is_joined = isinstance(current, list) and isinstance(value, np.ndarray)
            setattr(accumulator, attribute, [value] if is_joined else value)
