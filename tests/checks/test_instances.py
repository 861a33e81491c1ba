"""Instances of a mask: sizes, parts that touch or lie apart, and classes that are not counted."""

import numpy as np
import pytest

from deeplab.checks import instances


def drawn(size, *boxes):
    """Class ids and instance ids of boxes: class, instance, top, left, bottom, right."""
    class_ids, instance_ids = np.zeros(size, np.uint8), np.zeros(size, np.int32)
    for class_id, instance, top, left, bottom, right in boxes:
        class_ids[top:bottom, left:right] = class_id
        instance_ids[top:bottom, left:right] = instance
    return class_ids, instance_ids


def test_areas_and_parts():
    masks = drawn((8, 20), (1, 3, 0, 0, 2, 3), (1, 3, 2, 3, 4, 5), (2, 3, 4, 0, 5, 1), (2, 9, 0, 10, 8, 20))
    found = instances.measure(*masks, things=(1, 2))
    assert found.class_ids.tolist() == [1, 2, 2] and found.ids.tolist() == [3, 3, 9]
    assert found.areas.tolist() == [10, 1, 80]
    assert found.parts.tolist() == [1, 1, 1]  # the corners of the first one touch
    assert not found.are_far.any()
    assert instances.measure(*masks, things=(1,)).ids.tolist() == [3]


def test_pixels_without_an_instance_are_none():
    class_ids, instance_ids = drawn((4, 4), (1, 0, 0, 0, 4, 4))
    found = instances.measure(class_ids, instance_ids, things=(1,))
    assert all(values.shape == (0,) for values in found)
    instance_ids[0, 0] = 65535
    assert instances.measure(class_ids, instance_ids, (1,)).ids.tolist() == [65535]
    assert not len(instances.measure(class_ids, instance_ids, ()).ids)


@pytest.mark.parametrize(
    ('boxes', 'is_far'),
    [
        ([(0, 0, 4, 4), (0, 9, 4, 13)], True),  # 5 pixels between parts of 4
        ([(0, 0, 4, 4), (0, 8, 4, 12)], False),  # 4
        ([(0, 0, 4, 4), (9, 9, 13, 13)], True),  # the larger distance of rows and columns counts
        ([(0, 0, 4, 4), (0, 9, 5, 13)], False),  # the longer side is 5
        ([(0, 0, 4, 4), (0, 5, 4, 9), (0, 30, 4, 34)], True),  # the third
        ([(0, 0, 4, 4), (0, 5, 4, 9), (0, 10, 4, 14), (0, 15, 4, 19)], False),  # a chain
        ([(0, 0, 4, 4), (0, 20, 3, 25)], False),  # 15 pixels are no part
    ],
)
def test_far_parts(boxes, is_far):
    masks = drawn((16, 40), *((1, 7, *box) for box in boxes))
    found = instances.measure(*masks, things=(1,))
    assert found.parts.tolist() == [len(boxes)]
    assert found.are_far.tolist() == [is_far]
    turned = instances.measure(*(mask.T for mask in masks), things=(1,))
    assert turned.are_far.tolist() == [is_far]
