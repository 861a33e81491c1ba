"""Intervals of numbers."""

import pytest

from deeplab.registry import interval


@pytest.mark.parametrize(
    ('text', 'inside', 'outside', 'allowed'),
    [
        ('[0, 1)', (0, 0.5), (-0.1, 1, float('nan')), '0 or more and less than 1'),
        ('(0, 1]', (0.1, 1), (0, 1.1), 'greater than 0 and at most 1'),
        ('(0, inf)', (1e-9, 1e9), (0, -1), 'greater than 0'),
        ('[0, 0.5]', (0, 0.5), (-1e-9, 0.6), 'from 0 to 0.5'),
        ('(-inf, inf)', (-5, 5), (), 'a number'),
    ],
)
def test_intervals(text, inside, outside, allowed):
    found = interval.parse(text)
    assert all(found.has(value) for value in inside)
    assert not any(found.has(value) for value in outside)
    assert found.allowed() == allowed


@pytest.mark.parametrize('text', ['0, 1', '[0 1]', '[a, 1]', '[0, 1'])
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match='interval|float'):
        interval.parse(text)
