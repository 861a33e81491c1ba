"""Pictures of planes and targets, pixel by pixel."""

import numpy as np
import pytest

from deeplab import common
from deeplab.datasets import planes
from deeplab.datasets.planes import Plane
from deeplab.pictures import drawing, plane_pictures

IMAGE = np.full((4, 6, 3), 100, np.uint8)
PALETTE = ((200, 0, 0), (0, 200, 0))


def test_instances_are_outlined_in_white_and_filled_in_different_colors():
    image = np.full((9, 10, 3), 100, np.uint8)
    ids = np.zeros((9, 10), np.int32)
    ids[1:8, :5], ids[1:8, 5:] = 700, 2
    shown = plane_pictures.instances(image, ids)
    np.testing.assert_array_equal(shown[ids == 0], np.full((20, 3), 100))
    assert (shown[1, :] == 255).all() and (shown[1:8, 4:6] == 255).all()
    assert (shown[3, 1] != shown[3, 8]).any() and (shown[3, 1] != 100).any()


def test_masks_that_overlap_are_mixed():
    values = np.zeros((4, 6, 2), np.uint8)
    values[0, 0], values[1, 0], values[3] = (1, 0), (1, 1), 255
    shown = plane_pictures.masks(IMAGE, values, PALETTE)
    np.testing.assert_array_equal(shown[0, 0], [160, 40, 40])
    np.testing.assert_array_equal(shown[1, 0], [100, 100, 40])
    np.testing.assert_array_equal(shown[2], IMAGE[2])
    np.testing.assert_array_equal(shown[3], drawing.stripes(4, 6)[3])


def test_depth_is_brighter_where_it_is_near_and_gray_where_it_is_invalid():
    shown = plane_pictures.depth(np.array([[1.0, 2.0, 4.0, 0.0]], np.float32)).astype(int)
    assert shown[0, 0].sum() > shown[0, 1].sum() > shown[0, 2].sum()
    np.testing.assert_array_equal(shown[0, 3], [128, 128, 128])
    np.testing.assert_array_equal(plane_pictures.depth(np.zeros((1, 2))), np.full((1, 2, 3), 128))


def test_a_heatmap_shows_the_image_where_it_is_0():
    values = np.zeros((4, 6, 1), np.float32)
    values[2, 3] = 1.0
    shown = plane_pictures.of_target('center', values, IMAGE)['center'].astype(int)
    assert shown[2, 3].sum() > 400 and (shown[0, 0] < 100).all() and (shown[0, 0] == shown[3, 5]).all()


def test_offsets_have_a_color_for_each_direction():
    values = np.zeros((1, 5, 2), np.float32)
    values[0, 1:] = [(3, 0), (-3, 0), (0, 3), (0, 1)]
    shown = plane_pictures.of_target('offset', values, IMAGE)['offset'].astype(int)
    assert (shown[0, 0] == 0).all() and len({tuple(color) for color in shown[0]}) == 5
    assert shown[0, 4].sum() < shown[0, 3].sum()


def test_targets_of_other_sizes_and_channels():
    assert [*plane_pictures.of_target('distance', np.zeros((2, 3, 4)), IMAGE)] == [f'distance {i}' for i in range(4)]
    assert plane_pictures.of_target('score', np.zeros((2, 3)), IMAGE)['score'].shape == (2, 3, 3)
    assert (
        plane_pictures.of_target('count', np.zeros(3), IMAGE)
        == plane_pictures.of_target('none', np.zeros((2, 3, 0)), IMAGE)
        == {}
    )


@pytest.mark.parametrize(
    ('plane', 'shape', 'caption'),
    [
        (planes.INSTANCE, (4, 6, 1), 'instance'),
        (planes.DEPTH, (4, 6, 1), 'depth'),
        (planes.MULTILABEL, (4, 6, 2), 'multilabel'),
        (Plane(f'{common.POINTS_PREFIX}words', 'words', planes.FLOATS, 8), (3, 8), 'words'),
        (Plane(f'{common.POINTS_PREFIX}words', 'words', planes.FLOATS, 8), (0, 8), 'words'),
        (Plane('weights', 'weights', planes.FLOATS), (3, 1), None),
    ],
)
def test_planes_are_drawn_by_their_kind(plane, shape, caption):
    drawn = plane_pictures.of_plane(plane, np.zeros(shape, np.int32), IMAGE, PALETTE)
    assert list(drawn) == ([] if caption is None else [caption])
    assert all(picture.shape == IMAGE.shape and picture.dtype == np.uint8 for picture in drawn.values())


def test_polygons_are_closed():
    square = np.array([[[0, 0], [0, 5], [3, 5], [3, 0]]], np.float32)
    shown = plane_pictures.polygons(IMAGE, square)
    is_line = (shown != 100).any(axis=2)
    assert is_line[0].all() and is_line[:, 0].all() and is_line[:, 5].all() and not is_line[1:3, 1:5].any()
