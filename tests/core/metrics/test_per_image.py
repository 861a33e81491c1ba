"""The table of the images, with hostile names."""

import csv
import io

import numpy as np

from tests.helpers import metric_batches

NAMES = ['a,b', 'line\nbreak', '"quoted"', '=1+1', ' @sum', '-x', '<b>bold</b>', '\tx', 'a\rb', 'plain']


def _table(metric):
    (text,) = metric.documents().values()
    return list(csv.DictReader(io.StringIO(text, newline='')))


def test_names_stay_in_their_cell_and_are_no_formulas():
    number = len(NAMES)
    metric = metric_batches.create('per_image', metric_batches.context(2))
    metric.update(None, None, matrices=np.ones((number, 2, 2), int), names=NAMES, sizes=np.ones((number, 2), int))
    names = [row['name'] for row in _table(metric)]
    assert names == ['a,b', 'line\nbreak', '"quoted"', "'=1+1", "' @sum", "'-x", '<b>bold</b>', "'\tx", 'a\rb', 'plain']


def test_figures_of_an_image():
    metric = metric_batches.create('per_image', metric_batches.context(3))
    matrices = np.array([[[6, 2, 0], [0, 2, 0], [0, 0, 0]], np.zeros((3, 3))], int)
    metric.update(None, None, matrices=matrices, names=['x', 'bare'], sizes=np.array([[3, 4], [5, 6]]))
    first, bare = _table(metric)
    assert first == {
        'name': 'x', 'height': '3', 'width': '4', 'labeled_pixels': '10', 'accuracy': '0.8', 'miou': '0.625',
        'iou class 0': '0.75', 'iou class 1': '0.5', 'iou class 2': '',
        'pixels class 0': '0.8', 'pixels class 1': '0.2', 'pixels class 2': '0',
    }  # fmt: skip
    assert (bare['name'], bare['width'], bare['labeled_pixels'], bare['miou']) == ('bare', '6', '0', '')
    assert metric.result() == {}


def test_images_keep_their_order():
    labels, predictions, inputs = metric_batches.batch(np.random.default_rng(0), 3, [(5, 6)] * 100, (17, 17))
    metric = metric_batches.create('per_image', metric_batches.context(3))
    for first in range(0, 100, 30):
        metric_batches.update(metric, 'per_image', labels, predictions, inputs, slice(first, first + 30))
    assert [row['name'] for row in _table(metric)] == inputs['names']
