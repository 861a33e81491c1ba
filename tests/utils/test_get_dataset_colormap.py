import re

import numpy as np
import pytest

from deeplab.errors import DataError, OptionError
from deeplab.utils import get_dataset_colormap


def test_labels_are_painted():
    label = np.array([[0, 1], [2, 255]])
    colors = get_dataset_colormap.label_to_color_image(label)
    assert colors.tolist() == [[[0, 0, 0], [128, 0, 0]], [[0, 128, 0], [224, 224, 192]]]


@pytest.mark.parametrize('dtype', [np.uint8, np.int32, np.int64])
def test_own_colormap_paints_ignored_pixels_black(dtype):
    label = np.array([[1, 0, 255]]).astype(dtype)
    colors = get_dataset_colormap.label_to_color_image(label, np.array([[1, 2, 3], [4, 5, 6]], np.uint8))
    assert colors.tolist() == [[[4, 5, 6], [1, 2, 3], [0, 0, 0]]]


def test_sizes_of_the_colormaps():
    assert get_dataset_colormap.create_label_colormap().shape == (512, 3)
    assert get_dataset_colormap.create_label_colormap('cityscapes').shape == (256, 3)
    assert get_dataset_colormap.create_label_colormap('ade20k').shape == (151, 3)


def test_a_colormap_may_be_changed_without_harm():
    get_dataset_colormap.create_ade20k_label_colormap()[:] = 9
    assert get_dataset_colormap.create_ade20k_label_colormap()[0].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ('label', 'colormap', 'message'),
    [
        (
            np.array([[2]]),
            np.zeros((2, 3), np.uint8),
            'The label image has the id 2; the color map has colors for 0 to 1.',
        ),
        (np.array([[-1]]), 'pascal', 'The label image has the id -1; the color map has colors for 0 to 511.'),
        (np.array([[512]]), 'pascal', 'The label image has the id 512; the color map has colors for 0 to 511.'),
        (
            np.zeros((1, 2, 2), int),
            'pascal',
            'A label image is an array [height, width] of integers, not int64 [1, 2, 2].',
        ),
        (np.zeros((1, 2)), 'pascal', 'A label image is an array [height, width] of integers, not float64 [1, 2].'),
    ],
)
def test_bad_labels(label, colormap, message):
    with pytest.raises(DataError, match=f'^{re.escape(message)}$'):
        get_dataset_colormap.label_to_color_image(label, colormap)


def test_names_of_the_original():
    for name in ('pascal', 'cityscapes', 'ade20k', 'mapillary_vistas'):
        assert getattr(get_dataset_colormap, f'get_{name}_name')() == name
        colors = get_dataset_colormap.create_label_colormap(dataset=name)
        painted = get_dataset_colormap.label_to_color_image(np.array([[3]]), dataset=name)
        np.testing.assert_array_equal(painted[0, 0], colors[3])
        assert colors.dtype == painted.dtype == (np.uint8 if name == 'cityscapes' else np.int64)  # colors * 2
    assert get_dataset_colormap.bit_get(6, 0) == 0 and get_dataset_colormap.bit_get(6, 2) == 1
    np.testing.assert_array_equal(get_dataset_colormap.bit_get(np.array([5, 2]), 1), [0, 1])
    np.testing.assert_array_equal(get_dataset_colormap.bit_get(5, np.arange(4)), [1, 0, 1, 0])


def test_unknown_colormap():
    with pytest.raises(
        OptionError, match="^Unknown color map 'rainbow'. Known: pascal, cityscapes, ade20k, mapillary_vistas.$"
    ):
        get_dataset_colormap.label_to_color_image(np.zeros((1, 1), int), 'rainbow')
