"""Outlines of matches: each kind of instance in its color."""

import numpy as np

from deeplab.pictures import instance_matches
from deeplab.pictures.instance_matches import HIT, MISSED, WRONG, Outlines


def test_each_kind_is_outlined_in_its_color():
    image = np.full((20, 40, 1), 90.0)
    predicted, truth = np.zeros((2, 20, 40), np.int32)
    predicted[2:12, 2:12], predicted[2:12, 12:20], truth[5:15, 25:35] = 1, 2, 1
    picture, legend = instance_matches.drawn(
        image, Outlines(predicted, np.array([1])), Outlines(predicted, np.array([2])), Outlines(truth, np.array([1]))
    )
    assert picture.shape == (20, 40, 3) and list(legend.values()) == [HIT, WRONG, MISSED]
    for place, color in (((2, 5), HIT), ((6, 2), HIT), ((2, 15), WRONG), ((6, 19), WRONG), ((5, 30), MISSED)):
        np.testing.assert_array_equal(picture[place], color)
    for inside in ((6, 6), (6, 16), (10, 30), (18, 5)):
        np.testing.assert_array_equal(picture[inside], [90] * 3)
    np.testing.assert_array_equal(picture[1, 5], [0] * 3)  # a dark edge beside each line


def test_without_instances_the_image_remains():
    image = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    nothing = Outlines(np.ones((4, 4), np.int32), np.zeros(0, np.int64))
    np.testing.assert_array_equal(instance_matches.drawn(image, nothing, nothing, nothing).picture, image)
