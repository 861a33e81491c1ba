"""Instances over an image: colors and outlines."""

import numpy as np
import pytest

from deeplab.pictures import instance_overlay

COLORS = np.array([(128, 64, 128), (0, 0, 142), (90, 90, 90)], np.uint8)
IMAGE = np.full((6, 8, 3), 100, np.uint8)


@pytest.mark.parametrize('color', [*COLORS, (0, 0, 0), (255, 255, 255)])
def test_colors_of_a_class_differ(color):
    varied = np.array([instance_overlay.instance_color(color, number) for number in range(1, 13)], int)
    assert np.array_equal(instance_overlay.instance_color(color, 0), color)
    distances = np.abs(varied[:, None] - varied[None]).sum(axis=2) + 1000 * np.eye(12, dtype=int)
    assert distances.min() > 12 and np.diagonal(distances, 1).min() > 60  # neighbors have consecutive numbers
    assert varied.min() >= 0 and varied.max() <= 255


def test_touching_instances_have_an_outline():
    class_ids = np.zeros((6, 8), np.uint8)
    class_ids[1:5, 1:7] = 1
    class_ids[5, 7] = 255
    instance_ids = np.zeros((6, 8), np.uint16)
    instance_ids[1:5, 1:4], instance_ids[1:5, 4:7] = 1, 2
    drawn = instance_overlay.drawn(IMAGE, class_ids, instance_ids, COLORS, 1.0)
    is_white = (drawn == 255).all(axis=2)
    expected = np.zeros((6, 8), bool)
    expected[1:5, 1:7] = True
    expected[2:4, [2, 5]] = False  # the inner pixels of both
    assert np.array_equal(is_white, expected)
    assert tuple(drawn[2, 2]) == instance_overlay.instance_color(COLORS[1], 1)
    assert drawn[0, 0].tolist() == [128, 64, 128] and drawn[5, 7].tolist() == [100, 100, 100]
    half = instance_overlay.drawn(IMAGE, class_ids, instance_ids, COLORS)
    assert half[0, 0].tolist() == [114, 82, 114]
    some = instance_overlay.drawn(IMAGE, class_ids, instance_ids, COLORS, is_shown=np.arange(256) != 1)
    assert (some[1:5, 1:7] == 100).all() and some[0, 0].tolist() == [114, 82, 114]
