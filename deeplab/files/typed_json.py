"""Values as JSON that keeps types and exact numbers: arrays, bytes, tuples, counters, dataclasses and named tuples.

Unlike pickles, such files run no code when they are read.
"""

from __future__ import annotations

import array
import base64
import collections
import dataclasses
import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from deeplab.errors import DataError


def dumps(value: Any) -> bytes:
    """Returns a value as compressed JSON."""
    return zlib.compress(json.dumps(encoded(value)).encode())


def loads(content: bytes, kinds: Iterable[type] = ()) -> Any:
    """Returns the value that `dumps` wrote; `kinds` are the dataclasses and named tuples that it may contain.

    Raises:
      DataError: the content is no such value, or is damaged.
    """
    try:
        return decoded(json.loads(zlib.decompress(content)), kinds)
    except (zlib.error, ValueError, KeyError, TypeError) as error:
        raise DataError(f'The results of a part are damaged ({error}). Run that part again.') from None


def encoded(value: Any) -> Any:
    """Returns a value as JSON; what JSON lacks is an object with the name of its type."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        content = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {'ndarray': [str(value.dtype), list(value.shape), content]}
    if isinstance(value, array.array):
        return {'array': value.tolist()}
    if isinstance(value, bytes):
        return {'bytes': value.hex()}
    names = getattr(value, '_fields', None)  # of a named tuple
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    if names is not None:
        return {type(value).__name__: {name: encoded(getattr(value, name)) for name in names}}
    if isinstance(value, Mapping):
        kind = 'Counter' if isinstance(value, collections.Counter) else 'dict'
        return {kind: [[encoded(key), encoded(each)] for key, each in value.items()]}
    if isinstance(value, (list, tuple, frozenset)):
        values = [encoded(each) for each in value]
        return values if isinstance(value, list) else {type(value).__name__: values}
    return value


def decoded(value: Any, kinds: Iterable[type] = ()) -> Any:
    """Returns the value that `encoded` described; see `loads`."""
    if isinstance(value, list):
        return [decoded(each, kinds) for each in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == 'ndarray':
        return np.frombuffer(base64.b64decode(content[2]), content[0]).reshape(content[1]).copy()
    if kind in ('dict', 'Counter'):
        pairs = {decoded(key, kinds): decoded(each, kinds) for key, each in content}
        return pairs if kind == 'dict' else collections.Counter(pairs)
    if kind == 'array':
        return array.array('q', content)
    if kind == 'bytes':
        return bytes.fromhex(content)
    if kind in ('tuple', 'frozenset'):
        values = decoded(content, kinds)
        return tuple(values) if kind == 'tuple' else frozenset(values)
    by_name: dict[str, Any] = {each.__name__: each for each in kinds}
    return by_name[kind](**{name: decoded(each, kinds) for name, each in content.items()})
