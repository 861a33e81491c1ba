"""Masks of shapes, against those that the tools' own code drew (masks_of_tools.json), and run lengths of masks.

Covers datasets/annotations/rasterizer.py, datasets/annotations/run_lengths.py and datasets/annotations/shapes.py.
"""

import json
import pathlib

import numpy as np
import pytest

from deeplab.datasets.annotations import labelme, rasterizer, run_lengths
from deeplab.datasets.annotations.shapes import Bitmap, Ellipse, Filling, Polygon, Shape
from deeplab.errors import DataError

TOOLS = json.loads((pathlib.Path(__file__).parent / 'masks_of_tools.json').read_text())
SIZE = TOOLS['height'], TOOLS['width']


def decoded(text):
    return run_lengths.alternating(run_lengths.of_coco_text(text), *SIZE, by_columns=True)


def drawn(geometry, size=SIZE):
    return rasterizer.draw([Shape('a', geometry)], {'a': 1}, size, 0).ids == 1


def near_edges(points, offset):
    """Pixels at most one pixel away from an edge of a polygon; their centers are at (column, row) + offset."""
    y, x = np.mgrid[: SIZE[0], : SIZE[1]] + offset
    distances = []
    for (x0, y0), (x1, y1) in zip(points, np.roll(points, -1, 0), strict=True):
        along = ((x - x0) * (x1 - x0) + (y - y0) * (y1 - y0)) / ((x1 - x0) ** 2 + (y1 - y0) ** 2)
        along = np.clip(along, 0, 1)
        distances.append(np.hypot(x0 + along * (x1 - x0) - x, y0 + along * (y1 - y0) - y))
    return np.min(distances, 0) <= 1


@pytest.mark.parametrize('number', range(len(TOOLS['polygons'])))
def test_polygons_are_those_of_the_tools_within_one_pixel_of_the_edge(number):
    entry = TOOLS['polygons'][number]
    points = np.array(entry['points'])
    by_centers, with_border = drawn(Polygon((points,))), drawn(Polygon((points,), filling=Filling.BORDER))
    rounded = drawn(Polygon((np.round(points),), filling=Filling.BORDER))
    for ours, tool, offset in ((by_centers, 'coco', 0.5), (with_border, 'labelme', 0), (rounded, 'opencv', 0)):
        theirs = decoded(entry[tool])
        assert theirs.any()
        assert not ((ours != theirs) & ~near_edges(np.round(points) if tool == 'opencv' else points, offset)).any(), (
            tool
        )
        if tool == 'labelme':
            np.testing.assert_array_equal(ours, theirs)  # the same rasterizer
    pytest.importorskip('pycocotools.mask')
    np.testing.assert_array_equal(drawn(Polygon((points,), filling=Filling.COCO)), decoded(entry['coco']))


def test_coco_polygons_of_any_place_are_those_of_pycocotools():
    """Only the part of the image around the polygons is drawn, which must not change a pixel."""
    mask = pytest.importorskip('pycocotools.mask')
    random = np.random.RandomState(0)
    height, width = SIZE
    for case in range(200):
        center = random.uniform((-10, -10), (width + 10, height + 10))
        spread = random.choice([0.6, 4, 25, 200])
        sizes = (3, 7)[: 1 + case % 2]
        rings = tuple(np.round(center + random.normal(0, spread, (corners, 2)), 2) for corners in sizes)
        packed = mask.merge(mask.frPyObjects([ring.ravel().tolist() for ring in rings], height, width))
        np.testing.assert_array_equal(drawn(Polygon(rings, filling=Filling.COCO)), decoded(packed['counts']))


def test_coco_polygons_far_beyond_the_image():
    pytest.importorskip('pycocotools.mask')
    box = np.array([[-5, -5], [100, -5], [100, 100], [-5, 100]], float)
    assert drawn(Polygon((box,), filling=Filling.COCO), (6, 8)).all()
    assert drawn(Polygon((box * 1e300,), filling=Filling.COCO), (6, 8)).all()
    assert not drawn(Polygon((box + 200,), filling=Filling.COCO), (6, 8)).any()
    assert not drawn(Polygon((box + 1e300,), filling=Filling.COCO), (6, 8)).any()
    assert drawn(Polygon((box,), filling=Filling.COCO), (0, 8)).shape == (0, 8)


def test_a_polygon_covers_the_pixels_whose_centers_are_inside():
    """Against the definition: a ray from the center crosses the border an odd number of times."""
    random = np.random.RandomState(1)
    for corners in (3, 5, 12):
        ring = random.uniform(-4, 16, (corners, 2))
        ours = drawn(Polygon((ring,)), (11, 12))
        for row in range(11):
            for column in range(12):
                x, y = column + 0.5, row + 0.5
                crossings = 0
                for (x0, y0), (x1, y1) in zip(ring, np.roll(ring, -1, 0), strict=True):
                    crossings += (y0 <= y) != (y1 <= y) and x0 + (y - y0) * (x1 - x0) / (y1 - y0) <= x
                assert ours[row, column] == bool(crossings % 2)


@pytest.mark.parametrize('entry', TOOLS['labelme_shapes'])
def test_rectangles_and_circles_of_labelme(entry):
    geometry = labelme._geometry(entry)
    np.testing.assert_array_equal(drawn(geometry), decoded(entry['mask']))


def test_holes():
    entry = TOOLS['opencv_hole']
    outline, hole = (np.array(entry[key], np.float64) for key in ('outline', 'hole'))
    ours, theirs = drawn(Polygon((outline,), (hole,), Filling.BORDER)), decoded(entry['mask'])
    assert not ((ours != theirs) & ~near_edges(outline, 0) & ~near_edges(hole, 0)).any()
    assert not ours[20, 25]
    outer, inner = np.array([[0, 0], [6, 0], [6, 6], [0, 6]], float), np.array([[2, 2], [4, 2], [4, 4], [2, 4]], float)
    expected = np.ones((6, 6), bool)
    expected[2:4, 2:4] = False
    np.testing.assert_array_equal(drawn(Polygon((outer,), (inner,)), (6, 6)), expected)


def test_boxes_and_their_rotations():
    expected = np.zeros((6, 8), bool)
    expected[1:3, 2:7] = True
    np.testing.assert_array_equal(drawn(rasterizer.box(2, 1, 5, 2), (6, 8)), expected)
    np.testing.assert_array_equal(drawn(rasterizer.whole_pixels(np.array([(6, 1), (2, 2)])), (6, 8)), expected)
    turned = np.zeros((6, 8), bool)
    turned[0:5, 3:5] = True  # by 90 degrees about the center (4, 2.5)
    np.testing.assert_array_equal(drawn(rasterizer.box(1.5, 1.5, 5, 2, 90, about_center=True), (6, 8)), turned)
    np.testing.assert_array_equal(drawn(rasterizer.box(5, 0, 5, 2, 90), (6, 8)), turned)  # about the corner (5, 0)


def test_ellipses():
    ours = drawn(Ellipse(30, 20, 20, 8), SIZE)
    y, x = np.mgrid[:40, :60] + 0.5
    np.testing.assert_array_equal(ours, ((x - 30) / 20) ** 2 + ((y - 20) / 8) ** 2 <= 1)
    square = drawn(Ellipse(20, 20, 12, 5, 90), (40, 40))
    np.testing.assert_array_equal(square, drawn(Ellipse(20, 20, 12, 5), (40, 40)).T)
    assert drawn(Ellipse(20, 20, 12, 3, 45), (40, 40))[27, 27]  # clockwise, with y downwards
    small = drawn(Ellipse(5.5, 5.5, 2, 1), (10, 10))  # pixels whose centers are on its border belong to it
    assert [np.flatnonzero(row).tolist() for row in small[4:7]] == [[5], [3, 4, 5, 6, 7], [5]]


def test_shapes_cover_each_other_by_order_and_then_by_place():
    size = (1, 6)
    shapes = [
        Shape('a', rasterizer.box(0, 0, 4, 1), order=2),
        Shape('b', rasterizer.box(1, 0, 4, 1), order=2),
        Shape('c', rasterizer.box(0, 0, 6, 1), order=1),
        Shape('left out', rasterizer.box(0, 0, 6, 1), order=9),
    ]
    ids = {'a': 1, 'b': 2, 'c': 255, 'left out': None}
    assert rasterizer.draw(shapes, ids, size, 0).ids.tolist() == [[1, 2, 2, 2, 2, 255]]
    assert rasterizer.draw([], ids, size, 7).ids.tolist() == [[7] * 6]


def test_shapes_beyond_the_image_are_clipped_and_counted():
    inside, across = rasterizer.box(0, 0, 8, 6), rasterizer.box(5, 3, 9, 9)
    outside, far = rasterizer.box(20, 20, 5, 5), Polygon((np.array([[-1e300, -1], [1e300, -1], [0, 1e9]]),))
    bitmap = Bitmap(lambda: np.ones((3, 3), bool), left=-1, top=4)
    drawing = rasterizer.draw([Shape('a', one) for one in (inside, across, outside, far, bitmap)], {'a': 1}, (6, 8), 0)
    assert (drawing.clipped, drawing.empty) == (4, 1)
    expected = np.zeros((6, 8), bool)
    expected[4:, :2] = True
    np.testing.assert_array_equal(drawn(bitmap, (6, 8)), expected)
    assert not drawn(Bitmap(lambda: np.ones((2, 2), bool), 100, 100), (6, 8)).any()
    assert not drawn(Bitmap(lambda: np.ones((2, 2), bool), -100, -100), (6, 8)).any()
    assert drawn(far, (6, 8)).all()


def test_a_broken_bitmap_names_its_shape():
    broken = Bitmap(lambda: run_lengths.alternating([1, 2], 2, 2))
    with pytest.raises(DataError, match=r"shape 2 \('b'\): .* 3 pixels.* 2 x 2 = 4"):
        rasterizer.draw([Shape('a', rasterizer.box(0, 0, 1, 1)), Shape('b', broken)], {'a': 1, 'b': 2}, (2, 2), 0)


def test_run_lengths_by_rows_and_by_columns():
    by_rows = run_lengths.alternating([1, 2, 3], 2, 3)
    assert by_rows.tolist() == [[False, True, True], [False, False, False]]
    by_columns = run_lengths.alternating([1, 2, 3], 2, 3, by_columns=True)
    assert by_columns.tolist() == [[False, True, False], [True, False, False]]
    assert run_lengths.alternating([0, 4], 2, 2).all()
    assert run_lengths.alternating([], 0, 0).shape == (0, 0)
    for counts in ([1, 2], [7], [-1, 7], [1.5, 4.5]):
        with pytest.raises(DataError):
            run_lengths.alternating(counts, 2, 3)
    with pytest.raises(DataError, match='too large'):
        run_lengths.alternating([10**12], 10**6, 10**6)


def test_runs_by_start_and_length():
    found = run_lengths.of_starts([2, 2, 5, 1], 2, 3)
    assert found.tolist() == [[False, True, True], [False, True, False]]
    assert run_lengths.of_starts([1, 6], 2, 3).all() and run_lengths.of_starts([1, 2, 3, 4], 2, 3).all()
    for runs in ([2, 2, 3, 1], [5, 3], [0, 1], [1], 'ab', [[1, 2], [3, 1]]):
        with pytest.raises(DataError):
            run_lengths.of_starts(runs, 2, 3)
    with pytest.raises(DataError, match='negative'):
        run_lengths.of_starts([1, 6], -2, -3)


def test_compressed_run_lengths():
    """Numbers by hand: 5 is one group; 100 is 3 * 32 + 4; from the fourth number on, differences."""
    assert run_lengths.of_coco_text('5') == [5]
    assert run_lengths.of_coco_text('T3') == [100]
    assert run_lengths.of_coco_text('1234') == [1, 2, 3, 6]
    assert run_lengths.of_coco_text('523N') == [5, 2, 3, 0]
    with pytest.raises(DataError, match='not part'):
        run_lengths.of_coco_text('1 2')
    with pytest.raises(DataError, match='within a number'):
        run_lengths.of_coco_text('5T')


def test_brush_of_label_studio():
    """The bytes were written by Label Studio's own encoder."""
    entry = TOOLS['brush']
    expected = np.array([[sign == '1' for sign in row] for row in entry['mask']])
    np.testing.assert_array_equal(run_lengths.of_label_studio(entry['rle'], *expected.shape), expected)
    with pytest.raises(DataError, match=r'468 values.* 9 x 14'):
        run_lengths.of_label_studio(entry['rle'], 9, 14)
    with pytest.raises(DataError, match='cut'):
        run_lengths.of_label_studio(entry['rle'][:-8], *expected.shape)
    with pytest.raises(DataError, match='from 0 to 255'):
        run_lengths.of_label_studio([*entry['rle'], 256], *expected.shape)
