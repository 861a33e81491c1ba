"""Outlines of areas: exact at tolerance 0, and shared by neighbors at any tolerance."""

import numpy as np
import pytest

from deeplab.core import connected_components
from deeplab.datasets.annotations import outlines, rasterizer
from deeplab.datasets.annotations.shapes import Polygon


def outlines_of(values, tolerance=0.0, least_area=0):
    """Numbers of the areas of a map, and the value and the outline of each."""
    areas = connected_components.connected_components(values, values >= 0, at_corners=False)
    found = outlines.outlines_of(areas, tolerance, least_area)
    return areas, [(int(values[areas == outline.number][0]), outline) for outline in found]


def drawn(values, drawn_outlines):
    """The map that outlines cover, and how often each pixel is covered."""
    canvas, counts = np.full(values.shape, -1), np.zeros(values.shape, int)
    for value, outline in drawn_outlines:
        polygon = Polygon((outline.ring.astype(float),), tuple(hole.astype(float) for hole in outline.holes))
        region, _ = rasterizer.region_of(polygon, values.shape)
        region.fill(canvas, value)
        covered = np.zeros(values.shape, int)
        region.fill(covered, 1)
        counts += covered
    return canvas, counts


def test_pixels_inside_are_the_area():
    random = np.random.default_rng(0)
    for _ in range(60):
        values = random.integers(0, 3, random.integers(1, 9, 2))
        areas, found = outlines_of(values)
        canvas, counts = drawn(values, found)
        np.testing.assert_array_equal(canvas, values)
        assert (counts == 1).all()
        assert [outline.number for _, outline in found] == list(range(1, areas.max() + 1))
        for _, outline in found:
            left, top, width, height = outline.box
            rows, columns = np.nonzero(areas == outline.number)
            assert (columns.min(), rows.min(), np.ptp(columns) + 1, np.ptp(rows) + 1) == (left, top, width, height)


@pytest.fixture(scope='module')
def blobs():
    """A smooth map of four classes, [90, 120]."""
    rows, columns = np.mgrid[:90, :120]
    waves = np.sin(columns / 13 + 1.5 * np.sin(rows / 17)) + np.cos(rows / 11 - columns / 29)
    return np.digitize(waves, [-0.9, 0.1, 0.8])


@pytest.mark.parametrize('tolerance', [0.5, 1.0, 3.0])
def test_neighbors_share_their_border(blobs, tolerance):
    exact = sum(len(outline.ring) for _, outline in outlines_of(blobs)[1])
    _, found = outlines_of(blobs, tolerance)
    canvas, counts = drawn(blobs, found)
    assert (counts == 1).all()  # no gap and no overlap
    assert (canvas != blobs).mean() < 0.025 * tolerance
    assert tolerance < 1 or sum(len(outline.ring) for _, outline in found) < exact / 3


def test_corners_of_the_image_stay():
    _, ((_, outline),) = outlines_of(np.zeros((3, 5), int), 10.0)
    assert outline.ring.tolist() == [[0, 0], [5, 0], [5, 3], [0, 3]] and outline.holes == ()


def test_holes_and_small_areas():
    values = np.zeros((9, 9), int)
    values[2:7, 2:7] = 1
    values[4, 4] = 0
    areas, found = outlines_of(values)
    assert [(value, len(outline.holes)) for value, outline in found] == [(0, 1), (1, 1), (0, 0)]
    _, found = outlines_of(values, least_area=2)
    assert [(value, len(outline.holes)) for value, outline in found] == [(0, 1), (1, 0)]
    _, found = outlines_of(values - 1)
    assert [value for value, _ in found] == [0]
    assert areas[4, 4] not in (areas[0, 0], areas[2, 2])


def test_areas_that_share_a_corner_are_two():
    _, found = outlines_of(np.array([[1, 0], [0, 1]]))
    assert [value for value, _ in found] == [1, 0, 0, 1] and not any(outline.holes for _, outline in found)


def test_inner_pixels():
    _, ((_, outline),) = outlines_of(np.pad(np.ones((2, 3), int), 1, constant_values=-1))
    assert {tuple(point) for point in outlines.inner_pixels(outline.ring)} == {(1, 1), (3, 1), (3, 2), (1, 2)}
