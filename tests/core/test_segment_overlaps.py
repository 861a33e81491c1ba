"""Segments of panoptic maps by hand, maps with large ids, and input that is refused."""

import numpy as np
import pytest

from deeplab.core.segment_overlaps import PanopticClasses, overlaps
from deeplab.errors import DataError

CLASSES = PanopticClasses(num_classes=4, things=(1, 2), ignore_label=255)
# Two instances with number 5 of two classes, stuff (with instance ids, which mean nothing), a crowd, void.
CLASS_IDS = np.array([[1, 2, 2, 3, 3], [0, 1, 1, 255, 255]], np.uint8)
INSTANCE_IDS = np.array([[5, 5, 6, 1, 2], [0, 0, 0, 0, 9]], np.uint16)


def test_the_segments_of_a_true_map():
    truth = CLASSES.truth(CLASS_IDS, INSTANCE_IDS)
    assert truth.index.tolist() == [[3, 4, 5, 6, 6], [1, 2, 2, 0, 0]]
    assert truth.categories.tolist() == [-1, 0, 1, 1, 2, 2, 3]
    assert truth.ids.tolist() == [0, 0, 0, 5, 5, 6, 0]
    assert truth.is_crowd.tolist() == [False, False, True, False, False, False, False]


def test_in_a_prediction_a_thing_without_an_instance_is_void():
    prediction = CLASSES.prediction(CLASS_IDS, INSTANCE_IDS)
    assert prediction.index.tolist() == [[2, 3, 4, 5, 5], [1, 0, 0, 0, 0]]
    assert not prediction.is_crowd.any()


def test_the_ignore_label_may_be_a_class():
    truth = PanopticClasses(4, (1, 2), ignore_label=2).truth(CLASS_IDS[:1], INSTANCE_IDS[:1])
    assert (truth.index.tolist(), truth.categories.tolist()) == ([[1, 0, 0, 2, 2]], [-1, 1, 3])


@pytest.mark.parametrize('factor', [1, 10**9])
def test_overlaps_by_hand(factor):
    """Large ids, such as colors of COCO, take another way to the same table."""
    ids = INSTANCE_IDS.astype(np.int64) * factor
    table = overlaps(CLASSES.truth(CLASS_IDS, ids), CLASSES.prediction(CLASS_IDS[::-1], ids[::-1]))
    assert table.truth_pixels.tolist() == [2, 1, 2, 1, 1, 1, 2]
    assert table.predicted_pixels.tolist() == [4, 1, 1, 1, 1, 2]
    assert table.truth.ids.tolist()[3] == 5 * factor
    assert table.pixels[0].tolist() == [0, 0, 0, 0, 0, 2]  # void covers the predicted stuff class 3
    assert table.pixels[2].tolist() == [0, 0, 0, 1, 1, 0]  # the crowd covers both instances of class 2
    assert np.argwhere(table.is_same).tolist() == [[1, 1], [2, 2], [3, 2], [4, 3], [4, 4], [5, 3], [5, 4], [6, 5]]


def test_a_map_without_segments():
    void = np.full((2, 2), 255), np.zeros((2, 2), int)
    assert overlaps(CLASSES.truth(*void), CLASSES.prediction(*void)).pixels.tolist() == [[4]]
    empty = np.zeros((0, 0), int)
    assert overlaps(CLASSES.truth(empty, empty), CLASSES.prediction(empty, empty)).pixels.tolist() == [[0]]


@pytest.mark.parametrize(
    ('class_ids', 'instance_ids', 'parts'),
    [
        ([[4]], [[0]], ['label', 'class id 4', '0 to 3', '255']),
        ([[0]], [[-1]], ['below 0']),
        ([[-1]], [[0]], ['below 0']),
    ],
)
def test_ids_that_are_refused(class_ids, instance_ids, parts):
    with pytest.raises(DataError) as error:
        CLASSES.truth(np.array(class_ids), np.array(instance_ids))
    assert all(part in str(error.value) for part in parts)


def test_shapes_that_are_refused():
    with pytest.raises(ValueError, match=r'\(2, 5\).*\(1, 5\)'):
        CLASSES.prediction(CLASS_IDS, INSTANCE_IDS[:1])
    with pytest.raises(ValueError, match=r'\(2, 5\).*\(1, 5\)'):
        overlaps(CLASSES.truth(CLASS_IDS, INSTANCE_IDS), CLASSES.prediction(CLASS_IDS[:1], INSTANCE_IDS[:1]))
