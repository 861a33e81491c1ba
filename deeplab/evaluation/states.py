"""What accumulators of metrics have counted, as bytes: exact, and without code that would run when they are read."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from deeplab.errors import DataError, OptionError

_HEADER = 'header'  # JSON: facts about the state, and the values that are no arrays
_SEPARATOR = '/'  # between the names of an accumulator and of an attribute

Values = dict[str, Any]


def dump(header: Mapping[str, Any], accumulators: Mapping[str, Any]) -> bytes:
    """Returns the state of accumulators, as an npz file.

    Args:
      header: facts about it, JSON values.
      accumulators: the accumulators by name, see `registry.metrics.Accumulator`.

    Raises:
      OptionError: an accumulator, as of a plugin, does not say what its state is.
    """
    values = {
        f'{name}{_SEPARATOR}{attribute}': value
        for name, accumulator in accumulators.items()
        for attribute, value in _values_of(accumulator, name).items()
    }
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    rest = {name: value for name, value in values.items() if name not in arrays}
    # Numbers of NumPy, as accumulators of plugins may have, become Python's without rounding.
    text = json.dumps({'facts': header, 'values': rest}, default=lambda number: number.item())
    arrays[_HEADER] = np.frombuffer(text.encode(), np.uint8)
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **arrays)
    return content.getvalue()


def load(content: bytes) -> tuple[Values, dict[str, Values]]:
    """Returns the header of a state, and the values of each accumulator by name.

    Raises:
      DataError: the content is no state, or is damaged.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            header = json.loads(arrays[_HEADER].tobytes())
            values = header['values'] | {name: arrays[name] for name in arrays.files if name != _HEADER}
    except (zipfile.BadZipFile, ValueError, KeyError, OSError, EOFError, TypeError) as error:
        raise DataError(
            f'This is not the state of an evaluation, or it is damaged ({error}). Run that part again.'
        ) from None
    by_name: dict[str, Values] = {}
    for name, value in values.items():
        accumulator, _, attribute = name.partition(_SEPARATOR)
        by_name.setdefault(accumulator, {})[attribute] = value
    return header['facts'], by_name


def restore(accumulator: Any, values: Mapping[str, Any]) -> None:
    """Gives a new accumulator the values of a state."""
    for attribute in accumulator.accumulated:
        current = getattr(accumulator, attribute)
        if hasattr(current, 'accumulated'):
            start = f'{attribute}{_SEPARATOR}'
            inner = {name.removeprefix(start): value for name, value in values.items() if name.startswith(start)}
            restore(current, inner)
        elif current is not None:
            value = values[attribute]
            is_joined = isinstance(current, list) and isinstance(value, np.ndarray)
            setattr(accumulator, attribute, [value] if is_joined else value)


def _values_of(accumulator: Any, name: str) -> Values:
    """Returns arrays and JSON values by name of the attribute; of an object in it, with both names."""
    if not hasattr(accumulator, 'accumulated'):
        raise OptionError(
            f"'{name}' cannot be evaluated in parts: its accumulator does not name what it counts. Add the attribute "
            '`accumulated` to its class (docs/extending.md), or evaluate all images at once.'
        )
    values: Values = {}
    for attribute in accumulator.accumulated:
        value = getattr(accumulator, attribute)
        if hasattr(value, 'accumulated'):
            values |= {f'{attribute}{_SEPARATOR}{inner}': each for inner, each in _values_of(value, name).items()}
        elif value is not None:
            is_of_arrays = isinstance(value, list) and any(isinstance(each, np.ndarray) for each in value)
            values[attribute] = np.concatenate(value) if is_of_arrays else value
    return values
