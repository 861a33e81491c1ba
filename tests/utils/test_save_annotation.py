import os

import numpy as np
import pytest
from PIL import Image

from deeplab.errors import DataError
from deeplab.utils import get_dataset_colormap, save_annotation

LABEL = np.array([[0, 1, 2], [10, 255, 3]], np.int64)


def read(path):
    with Image.open(path) as image:
        return image.mode, np.asarray(image)


def test_colors(tmp_path):
    path = save_annotation.save_annotation(LABEL, str(tmp_path), '000001_prediction', colormap_type='cityscapes')
    assert path == str(tmp_path / '000001_prediction.png')
    mode, pixels = read(path)
    assert mode == 'RGB'
    np.testing.assert_array_equal(pixels, get_dataset_colormap.label_to_color_image(LABEL, 'cityscapes'))


def test_raw_ids(tmp_path):
    mode, pixels = read(save_annotation.save_annotation(LABEL, str(tmp_path), 'raw', add_colormap=False))
    assert mode == 'L'
    np.testing.assert_array_equal(pixels, LABEL)


def test_normalized_and_scaled_values(tmp_path):
    label = np.array([[-1.0, 0.0, 3.0]])
    path = save_annotation.save_annotation(label, str(tmp_path), 'a', False, True, True)
    assert read(path)[1].tolist() == [[0, 63, 255]]
    path = save_annotation.save_annotation(np.full((1, 2), 7.0), str(tmp_path), 'b', False, True, True)
    assert read(path)[1].tolist() == [[0, 0]]


@pytest.mark.parametrize(('value', 'shown'), [(256, '0 to 256'), (-1, '-1 to 0')])
def test_values_that_would_wrap_are_refused(tmp_path, value, shown):
    with pytest.raises(DataError, match=f'^The label image has values from {shown}, '):
        save_annotation.save_annotation(np.array([[0, value]]), str(tmp_path), 'a', add_colormap=False)
    assert os.listdir(tmp_path) == []


def test_nothing_half_written(tmp_path, monkeypatch):
    def fail(source, target):
        assert os.path.exists(source)
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(os, 'replace', fail)
    with pytest.raises(DataError, match="^Cannot write '.*a.png': No space left on device.$"):
        save_annotation.save_annotation(LABEL, str(tmp_path), 'a')
    assert os.listdir(tmp_path) == []


def test_missing_folder(tmp_path):
    with pytest.raises(DataError, match="^Cannot write '.*no/a.png': No such file or directory.$"):
        save_annotation.save_annotation(LABEL, str(tmp_path / 'no'), 'a')


@pytest.mark.parametrize(
    ('channels', 'shape'), [(1, (2, 3)), (2, (2, 3)), (3, (2, 3, 3)), (4, (2, 3, 3)), (7, (2, 3, 3))]
)
def test_what_a_picture_shows_of_channels(channels, shape):
    pixels = np.arange(6 * channels).reshape(2, 3, channels)
    shown = save_annotation.viewable(pixels)
    assert shown.shape == shape
    np.testing.assert_array_equal(shown.reshape(2, 3, -1), pixels[..., : 3 if channels >= 3 else 1])


def test_a_disk_that_is_full(tmp_path, full_disk):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    with full_disk(1000), pytest.raises(DataError, match=r"Cannot write '.*a\.png': File too large\."):
        save_annotation.save_image(noise, str(tmp_path), 'a')
    assert list(tmp_path.iterdir()) == []
