"""Facts about samples as JSON values, for inspections that several jobs share."""

from __future__ import annotations

import array
import base64
import collections
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from deeplab.checks.edges import Agreement
from deeplab.checks.facts import Case, Facts, ImageSummary

_TUPLES = {kind.__name__: kind for kind in (Agreement, Case, ImageSummary)}


def as_json(facts: Facts) -> dict[str, Any]:
    """Returns facts as JSON values; all numbers are exact."""
    return {field.name: _encoded(getattr(facts, field.name)) for field in dataclasses.fields(facts)}


def of_json(content: Mapping[str, Any]) -> Facts:
    """Returns the facts that `as_json` described."""
    return Facts(**{name: _decoded(value) for name, value in content.items()})


def _encoded(value: Any) -> Any:
    """Returns a value as JSON; a type that JSON lacks is an object with the name of the type."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        content = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {'ndarray': [str(value.dtype), list(value.shape), content]}
    if isinstance(value, array.array):
        return {'array': value.tolist()}
    if isinstance(value, bytes):
        return {'bytes': value.hex()}
    if isinstance(value, frozenset):
        return {'frozenset': sorted(value)}
    if isinstance(value, Mapping):
        kind = 'Counter' if isinstance(value, collections.Counter) else 'dict'
        return {kind: [[_encoded(key), _encoded(each)] for key, each in value.items()]}
    if isinstance(value, (list, tuple)):
        values = [_encoded(each) for each in value]
        return values if isinstance(value, list) else {type(value).__name__: values}
    return value


def _decoded(value: Any) -> Any:
    """Returns the value that `_encoded` described."""
    if isinstance(value, list):
        return [_decoded(each) for each in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == 'ndarray':
        numbers = np.frombuffer(base64.b64decode(content[2]), content[0])
        return numbers.reshape(content[1]).copy()
    if kind in ('dict', 'Counter'):
        pairs = {_decoded(key): _decoded(each) for key, each in content}
        return pairs if kind == 'dict' else collections.Counter(pairs)
    if kind == 'tuple':
        return tuple(map(_decoded, content))
    if kind in _TUPLES:
        return _TUPLES[kind](*map(_decoded, content))
    if kind == 'array':
        return array.array('q', content)
    return bytes.fromhex(content) if kind == 'bytes' else frozenset(content)
