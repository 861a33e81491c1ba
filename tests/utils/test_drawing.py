"""Drawing: colors, masks over images, files that are complete or absent."""

import numpy as np
import pytest
from PIL import Image

from deeplab.utils import drawing

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
