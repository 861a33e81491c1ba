"""Boundary IoU and boundary F-score against loops over pixels, and on images made by hand."""

import math

import numpy as np
import pytest

from deeplab.core.metrics import boundaries
from tests.helpers import metric_batches

SIZES = [(11, 14), (9, 16), (1, 1), (16, 5)]


def _near_boundary_of(mask, known, width):
    """The definition: a mask without what its erosion by a square keeps, image edges being outside."""
    found = np.zeros_like(mask)
    for y, x in np.argwhere(mask):
        for v in range(y - width, y + width + 1):
            for u in range(x - width, x + width + 1):
                inside = 0 <= v < mask.shape[0] and 0 <= u < mask.shape[1]
                found[y, x] |= not inside or (known[v, u] and not mask[v, u])
    return found


def _boundary_iou(images, classes, share):
    """The IoU of boundary pixels of each class, class by class."""
    both, either = np.zeros(classes), np.zeros(classes)
    for label, prediction in images:
        width = max(1, round(share * math.hypot(*label.shape)))
        known = label != 255
        for c in range(classes):
            g = _near_boundary_of((label == c) & known, known, width)
            p = _near_boundary_of((prediction == c) & known, known, width)
            both[c] += (g & p).sum()
            either[c] += (g | p).sum()
    return [float(b / e) if e else None for b, e in zip(both, either, strict=True)]


def _contour_of(ids, known, c):
    """Pixels of class c beside a pixel of another class."""
    found = []
    for y, x in np.argwhere(known & (ids == c)):
        for v, u in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
            if 0 <= v < ids.shape[0] and 0 <= u < ids.shape[1] and known[v, u] and ids[v, u] != c:
                found.append((y, x))
                break
    return np.array(found).reshape(-1, 2)


def _found_share(points, others, distance):
    if not len(points) or not len(others):
        return 0.0
    between = np.hypot(*(points[:, None] - others[None]).transpose(2, 0, 1))
    return (between.min(axis=1) <= distance).mean()


def _boundary_f(images, classes, share):
    """The mean F-score of each class over the images in which it has a contour."""
    scores = [[] for _ in range(classes)]
    for label, prediction in images:
        known, distance = label != 255, share * math.hypot(*label.shape)
        for c in range(classes):
            g, p = _contour_of(label, known, c), _contour_of(prediction, known, c)
            if len(g) or len(p):
                precision, recall = _found_share(p, g, distance), _found_share(g, p, distance)
                total = precision + recall
                scores[c].append(2 * precision * recall / total if total else 0.0)
    return [float(np.mean(values)) if values else None for values in scores]


@pytest.mark.parametrize(
    ('name', 'parameter', 'share', 'twin'),
    [
        ('boundary_iou', 'boundary_iou_width', 0.02, _boundary_iou),
        ('boundary_iou', 'boundary_iou_width', 0.12, _boundary_iou),
        ('boundary_f', 'boundary_f_width', 0.0, _boundary_f),
        ('boundary_f', 'boundary_f_width', 0.13, _boundary_f),
    ],
)
def test_against_loops_over_pixels(name, parameter, share, twin):
    rng = np.random.default_rng(3)
    for classes in (3, 20):
        labels, predictions, inputs = metric_batches.batch(rng, classes, SIZES, (17, 17))
        metric = metric_batches.create(name, metric_batches.context(classes), **{parameter: share})
        metric_batches.update(metric, name, labels, predictions, inputs)
        images = [(labels[i, :h, :w], predictions[i, :h, :w]) for i, (h, w) in enumerate(SIZES)]
        expected = twin(images, classes, share)
        (found,) = metric.class_figures().values()
        assert [value is None for value in found] == [value is None for value in expected]
        known = [pair for pair in zip(found, expected, strict=True) if pair[1] is not None]
        np.testing.assert_allclose(*np.array(known).T, atol=1e-11)
        assert metric.result()['mean'] == pytest.approx(np.mean([value for _, value in known]))


def test_boundary_iou_of_a_shifted_square():
    """A square of 20 pixels in an image of 100, shifted by one column, with a boundary of one pixel."""
    label, prediction = np.zeros((2, 1, 100, 100), np.int32)
    label[0, 40:60, 40:60] = 1
    prediction[0, 40:60, 41:61] = 1
    metric = metric_batches.create('boundary_iou', metric_batches.context(2), boundary_iou_width=0.001)
    metric.update(label, prediction, sizes=np.array([[100, 100]]))
    # Rings of 76 pixels share the upper and lower sides but for one column, twice 19.
    assert metric.class_figures()['iou'][1] == pytest.approx(38 / (2 * 76 - 38))


@pytest.mark.parametrize('name', ['boundary_iou', 'boundary_f'])
def test_what_is_right_where_labels_are_known_is_perfect(name):
    """Predictions inside of ignored regions change nothing, nor does padding."""
    rng = np.random.default_rng(4)
    labels, guesses, inputs = metric_batches.batch(rng, 3, [(17, 16)], (17, 17))
    metric = metric_batches.create(name, metric_batches.context(3))
    metric_batches.update(metric, name, labels, np.where(labels == 255, guesses, labels), inputs)
    assert set(*metric.class_figures().values()) == {1.0}


def test_an_ignored_band_is_no_boundary_itself():
    """An image of one class around an ignored band: near the edges of the image alone."""
    ids = np.zeros((9, 9), np.uint8)
    known = np.ones((9, 9), bool)
    known[4] = False
    near = boundaries.near_boundary(ids, known, 1)
    assert not near[1:-1, 1:-1][known[1:-1, 1:-1]].any()
    assert near[0].all() and near[:, 0].all()
    assert not boundaries.contours(ids, known).any()
    ids[5:] = 1  # another class beyond the band: within two pixels, but not beside it
    assert boundaries.near_boundary(ids, known, 2)[3, 2:-2].all()
    assert not boundaries.contours(ids, known).any()


def test_widths_follow_the_diagonal():
    assert boundaries.boundary_width(0.02, 360, 480) == 12
    assert boundaries.boundary_width(0.02, 3, 4) == 1


@pytest.mark.parametrize('radius', [0, 1, 1.5, 2.9, 30])
def test_disks(radius):
    bits = np.zeros((13, 9), np.uint16)
    bits[2, 3], bits[12, 8] = 5, 512
    y, x = np.mgrid[:13, :9]
    expected = 5 * (np.hypot(y - 2, x - 3) <= radius) | 512 * (np.hypot(y - 12, x - 8) <= radius)
    np.testing.assert_array_equal(boundaries.within_disk(bits, radius), expected)


def test_more_classes_than_bits():
    """151 classes at once, each a column of two pixels: all found, and none where it is one class further."""
    labels = np.repeat(np.arange(151, dtype=np.int32), 2)[None, None].repeat(3, 1)
    for predictions, score in ((labels, 1.0), ((labels + 1) % 151, 0.0)):
        metric = metric_batches.create('boundary_f', metric_batches.context(151), boundary_f_width=0.002)
        metric.update(labels, predictions, sizes=np.array([labels.shape[1:]]))
        assert metric.result()['mean'] == score
    metric = metric_batches.create('boundary_iou', metric_batches.context(256, ignore_label=254))
    metric.update(np.array([[[255, 255, 0]]]), np.array([[[255, 1, 0]]]), sizes=np.array([[1, 3]]))
    assert (metric.class_figures()['iou'][255], metric.class_figures()['iou'][0]) == (0.5, 1.0)
