"""Sliding windows: places, weights and blending."""

import numpy as np
import pytest

from deeplab.inference import windows

CASES = [
    (2000, 513, 384, 16),
    (513, 513, 384, 16),
    (520, 513, 384, 16),
    (100, 65, 65, 1),
    (700, 513, 16, 16),
    (40, 17, 16, 8),
]
CASES += [(30, 33, 24, 16), (1, 17, 12, 16), (101, 33, 33, 1), (200, 33, 17, 8)]


@pytest.mark.parametrize(('size', 'window', 'stride', 'alignment'), CASES)
def test_windows_cover_the_image_and_their_weights_add_up_to_one(size, window, stride, alignment):
    axis = windows.axis(size, window, stride, alignment)
    total = np.zeros(size)
    for start, end, weight in zip(axis.starts, axis.ends, axis.weights, strict=True):
        assert start % alignment == 0 and end == min(start + window, size) and len(weight) == end - start
        assert (weight >= 0).all()
        total[start:end] += weight
    assert np.allclose(total, 1, atol=1e-6)
    assert axis.starts[0] == 0 and axis.ends[-1] == size
    assert all(b - a <= stride for a, b in zip(axis.starts, axis.starts[1:], strict=False))


def test_the_last_window_ends_with_the_padded_image():
    """At the border of the image, a tile is padded as the whole image would be."""
    axis = windows.axis(700, 129, 96, 16)
    assert axis.starts[-1] + 129 == 705  # 16 * 44 + 1, the smallest side that the whole image would be padded to


def test_a_weight_is_zero_in_the_outer_quarter_of_an_overlap_and_rises_smoothly():
    weight = windows.axis(1000, 129, 97, 1).weights[1]  # overlaps of 32 pixels
    assert (weight[:8] == 0).all() and (weight[-8:] == 0).all()
    assert (weight[24:-24] == 1).all()
    assert (np.diff(weight[:32]) >= 0).all() and np.diff(weight).max() < 0.11


def blended(whole, rows, columns, spoil=None):
    """What `blend` makes of tiles that are cut out of `whole`; and how often it gives each pixel."""
    result, times = np.zeros_like(whole), np.zeros(whole.shape[:2], int)

    def tiles(places):
        for place in places:
            tile = whole[place].copy()
            if spoil is not None:
                spoil(tile, place)
            yield tile

    def handle(top, left, part):
        place = (slice(top, top + part.shape[0]), slice(left, left + part.shape[1]))
        result[place] = part
        times[place] += 1

    windows.blend(tiles, rows, columns, handle)
    return result, times


@pytest.mark.parametrize('size', [(70, 95), (17, 90), (90, 9), (200, 40)])
@pytest.mark.parametrize('stride', [(8, 16), (25, 25), (33, 33), (32, 24)])
def test_tiles_of_one_picture_give_that_picture_and_each_pixel_once(size, stride):
    whole = np.random.default_rng(0).random((*size, 3), np.float32)
    axes = [windows.axis(side, 33, step, 8) for side, step in zip(size, stride, strict=True)]
    result, times = blended(whole, *axes)
    assert np.allclose(result, whole, atol=1e-6)
    assert (times == 1).all()


def test_wrong_values_at_the_inner_borders_of_tiles_do_not_matter():
    whole = np.random.default_rng(0).random((150, 130, 2), np.float32)
    rows, columns = windows.axis(150, 65, 25, 8), windows.axis(130, 65, 25, 8)  # overlaps of 41, or more

    def spoil(tile, place):
        for axis, side, size in ((0, place[0], 150), (1, place[1], 130)):
            values = np.moveaxis(tile, axis, 0)
            if side.start > 0:
                values[:10] = 9
            if side.stop < size:
                values[-10:] = 9

    assert np.allclose(blended(whole, rows, columns, spoil)[0], whole, atol=1e-5)
