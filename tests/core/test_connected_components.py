"""Connected components against a flood fill, on images made by hand, and on shapes that need many steps."""

import numpy as np
import pytest

from deeplab.core.connected_components import connected_components, thing_components


def flood_filled(ids, counted) -> np.ndarray:
    """The definition: from each pixel without a number, row by row, fills all that touch and have its id."""
    numbers = np.zeros(ids.shape, np.int32)
    for first in zip(*np.nonzero(counted), strict=True):
        if numbers[first]:
            continue
        numbers[first] = number = numbers.max() + 1
        waiting = [first]
        while waiting:
            y, x = waiting.pop()
            for v in range(max(0, y - 1), min(ids.shape[0], y + 2)):
                for u in range(max(0, x - 1), min(ids.shape[1], x + 2)):
                    if counted[v, u] and not numbers[v, u] and ids[v, u] == ids[y, x]:
                        numbers[v, u] = number
                        waiting.append((v, u))
    return numbers


@pytest.mark.parametrize('shape', [(1, 1), (1, 9), (9, 1), (2, 2), (13, 17), (40, 31)])
@pytest.mark.parametrize('classes', [1, 2, 3, 6])
def test_they_equal_a_flood_fill(shape, classes):
    random = np.random.default_rng([*shape, classes])
    for fraction in (0.3, 0.5, 0.7, 1.0):
        ids = random.integers(0, classes, shape).astype(np.uint8)
        counted = random.random(shape) < fraction
        numbers = connected_components(ids, counted)
        assert numbers.dtype == np.int32
        np.testing.assert_array_equal(numbers, flood_filled(ids, counted))


def test_corners_connect_and_other_classes_separate():
    ids = np.array([[1, 0, 0, 2], [0, 1, 2, 1], [0, 0, 0, 1]])
    np.testing.assert_array_equal(thing_components(ids, (1, 2)), [[1, 0, 0, 2], [0, 1, 2, 3], [0, 0, 0, 3]])
    np.testing.assert_array_equal(thing_components(ids, [2]), [[0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]])
    np.testing.assert_array_equal(thing_components(ids, ()), np.zeros((3, 4)))


def spiral(size) -> np.ndarray:
    """One line of 1 that turns inward, with 0 between its turns."""
    image = np.zeros((size, size), np.uint8)
    y, x, step = 0, 0, (0, 1)
    for length in [size - 1, *(length for length in range(size - 1, 1, -2) for _ in range(2))]:
        for _ in range(length):
            image[y, x] = 1
            y, x = y + step[0], x + step[1]
        step = (step[1], -step[0])
    image[y, x] = 1
    return image


def test_a_spiral_is_one_component_and_its_gap_is_another():
    image = spiral(41)
    numbers = connected_components(image, np.ones(image.shape, bool))
    np.testing.assert_array_equal(numbers, np.where(image == 1, 1, 2))


def test_a_comb_joins_at_its_last_row():
    comb = np.zeros((30, 61), np.uint8)
    comb[:, ::2] = 7
    assert connected_components(comb, comb == 7).max() == 31
    comb[-1] = 7
    assert connected_components(comb, comb == 7).max() == 1


@pytest.mark.parametrize('shape', [(0, 5), (5, 0), (3, 4)])
def test_no_counted_pixel_gives_no_component(shape):
    numbers = connected_components(np.ones(shape, np.uint8), np.zeros(shape, bool))
    assert numbers.shape == shape and not numbers.any()
