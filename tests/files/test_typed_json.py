"""JSON that keeps types."""

import array
import collections
import dataclasses
from typing import NamedTuple

import numpy as np
import pytest

from deeplab.errors import DataError
from deeplab.files import typed_json


class Pair(NamedTuple):
    one: object
    other: object = None


@dataclasses.dataclass(kw_only=True)
class Facts:
    count: int
    pairs: list


def test_values_keep_their_types():
    value = Facts(
        count=3,
        pairs=[
            Pair((1, 'a'), frozenset({'b', 'c'})),
            Pair(b'\x00\xff', collections.Counter({(1, 2): 3})),
            Pair({('x', 1): [0.1, None, True], 'dict': {}}, array.array('q', [-1, 2**62])),
        ],
    )
    read = typed_json.loads(typed_json.dumps(value), [Facts, Pair])
    assert read == value
    assert type(read.pairs[1].other) is collections.Counter and type(read.pairs[0].one) is tuple


@pytest.mark.parametrize('kind', ['int64', 'uint8', 'float32', 'float64', 'bool'])
def test_arrays_are_exact_and_can_be_changed(kind):
    values = (np.random.default_rng(0).normal(size=(2, 0, 3) if kind == 'bool' else (2, 3)) * 9).astype(kind).T
    read = typed_json.loads(typed_json.dumps([values, values.ravel()[:1].sum()]))
    assert (read[0].dtype, read[0].shape, read[1]) == (values.dtype, values.shape, values.ravel()[:1].sum())
    np.testing.assert_array_equal(read[0], values)
    read[0] += read[0].dtype.type(1)


def test_what_is_damaged_or_has_another_type():
    content = typed_json.dumps(Pair(1))
    for wrong in (content[:-3], content[:-9] + b'?' + content[-8:], b'', b'{}'):
        with pytest.raises(DataError, match='damaged .* Run that part again'):
            typed_json.loads(wrong, [Pair])
    with pytest.raises(DataError, match="'Pair'"):
        typed_json.loads(content)
