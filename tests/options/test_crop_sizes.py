"""Crop sizes of `output_stride * k + 1`."""

import pytest

from deeplab.options import crop_sizes


@pytest.mark.parametrize(
    ('side', 'stride', 'below', 'above'),
    [
        (513, 16, 513, 513),
        (512, 16, 497, 513),
        (514, 16, 513, 529),
        (514, 8, 513, 521),
        (17, 16, 17, 17),
        (3, 16, 17, 17),
        (1, 8, 9, 9),
    ],
)
def test_nearest_sizes(side, stride, below, above):
    assert crop_sizes.below([side], stride) == (below,)
    assert crop_sizes.above((side, side), stride) == (above, above)
    assert crop_sizes.are_aligned((below, above), stride)


def test_every_side_must_be_aligned():
    assert crop_sizes.are_aligned((65, 129), 16)
    assert not crop_sizes.are_aligned((65, 128), 16)
