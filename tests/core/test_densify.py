"""Strides and atrous rates for an output stride."""

import pytest

from deeplab.core.densify import densify
from deeplab.errors import OptionError


@pytest.mark.parametrize(
    ('output_stride', 'expected'),
    [
        (16, [(2, 1), (1, 1), (2, 1), (4, 1)]),
        (4, [(2, 1), (1, 1), (2, 1), (1, 1)]),
        (2, [(2, 1), (1, 1), (1, 1), (1, 2)]),
    ],
)
def test_strides_become_rates(output_stride, expected):
    assert densify([2, 1, 2, 4], output_stride) == expected


def test_a_stride_that_is_lost_dilates_the_units_behind_it():
    assert densify([2, 2, 1, 2, 1], 2) == [(2, 1), (1, 1), (1, 2), (1, 2), (1, 4)]


def test_unreachable_stride():
    with pytest.raises(OptionError, match='output_stride=8 cannot be reached.* 4'):
        densify([2, 2], 8)
