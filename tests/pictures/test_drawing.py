"""Drawing: colors, masks over images, files that are complete or absent."""

import numpy as np
import pytest
from PIL import Image

from deeplab.pictures import drawing

PALETTE = ((10, 20, 30), (200, 100, 50))


def test_ids_without_a_class_get_the_color_of_ignored_pixels():
    colors = drawing.colored(np.array([[0, 1, 2, 255]], np.uint8), PALETTE)
    np.testing.assert_array_equal(colors[0], [*PALETTE, drawing.IGNORED_COLOR, drawing.IGNORED_COLOR])


def test_a_mask_lets_the_image_through_and_stripes_what_does_not_count():
    image = np.full((12, 12, 3), 100, np.uint8)
    ids = np.zeros((12, 12), np.uint8)
    ids[6:, :6], ids[6:, 6:] = 1, 255
    seen = drawing.mask_over(image, ids, PALETTE, 255)
    np.testing.assert_array_equal(seen[0, 0], [46, 52, 58])  # 0.4 * 100 + 0.6 * the color
    np.testing.assert_array_equal(seen[8, 0], [160, 100, 70])
    assert len(np.unique(seen[6:, 6:].reshape(-1, 3), axis=0)) == 2


def test_a_sheet_is_whole_or_not_there(tmp_path, monkeypatch):
    path = tmp_path / 'sheet.png'
    monkeypatch.setattr(drawing.os, 'replace', lambda source, target: (_ for _ in ()).throw(OSError('disk')))
    with pytest.raises(OSError, match='disk'):
        drawing.write(path, Image.new('RGB', (4, 4)))
    assert not path.exists()
    monkeypatch.undo()
    drawing.write(path, Image.new('RGB', (4, 4), (1, 2, 3)))
    with Image.open(path) as written:
        assert written.size == (4, 4) and written.getpixel((0, 0)) == (1, 2, 3)
    assert [entry.name for entry in tmp_path.iterdir()] == ['sheet.png']


COLORS = np.array(PALETTE, np.uint8)


@pytest.mark.parametrize('channels', [1, 3, 5])
def test_an_overlay_blends_each_class_with_its_opacity(channels):
    image = np.full((2, 2, channels), 100, np.uint8)
    ids = np.array([[0, 1], [1, 1]], np.int32)
    np.testing.assert_array_equal(drawing.overlay(image, ids, COLORS, 1.0), COLORS[ids])
    seen = drawing.overlay(image, ids, COLORS, np.array([0.0, 0.25]))
    np.testing.assert_array_equal(seen[0], [[100, 100, 100], [125, 100, 88]])


def test_contours_run_on_both_sides_of_a_border_and_nowhere_else():
    image = np.full((2, 9, 3), 99, np.uint8)
    ids = np.repeat([[0, 1]], [4, 5], axis=1).repeat(2, axis=0)
    white = [255] * 3
    expected = [*[[99] * 3] * 2, white, *PALETTE, white, *[[99] * 3] * 3]
    np.testing.assert_array_equal(drawing.contours(image, ids, COLORS), [expected] * 2)
    np.testing.assert_array_equal(drawing.contours(image, ids * 0, COLORS), image)
    assert drawing.contours(image[:1, :1], ids[:1, :1], COLORS).shape == (1, 1, 3)
    large = np.arange(1200)[np.newaxis] // 600
    row = drawing.contours(np.full((1, 1200, 1), 99, np.uint8), large, COLORS)[0]
    np.testing.assert_array_equal(np.flatnonzero((row != 99).any(axis=1)), [597, 598, 599, 600, 601, 602])


def test_errors_stand_out_and_ignored_pixels_are_neutral():
    image = np.array([[[0], [255], [100], [100]]], np.uint8)
    seen = drawing.errors(image, np.array([[1, 1, 0, 0]]), np.array([[1, 1, 1, 255]], np.uint8), 255)[0]
    np.testing.assert_array_equal(seen, [[140] * 3, [255] * 3, drawing.WRONG, drawing.WITHOUT_TRUTH])


def test_shares_as_gray():
    assert drawing.shades(np.array([[0, 0.5, 1]], np.float32)).tolist() == [[0, 128, 255]]
