"""The task `multilabel`: targets, thresholds, metric, files and picture."""

import io
import json

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from deeplab import common
from deeplab.datasets import planes
from deeplab.errors import DataError
from deeplab.options import LossOptions, ModelOptions
from deeplab.registry import TASKS, TaskContext
from deeplab.tasks import multilabel

TASK = TASKS.get('multilabel')
SETTINGS = {parameter.name: parameter.default for parameter in TASK.parameters}
PALETTE = np.array([[200, 0, 0], [0, 100, 0]], np.uint8)
CONTEXT = TaskContext(2, class_names=('a', 'b'), settings=SETTINGS, palette=PALETTE, loss=LossOptions(stride=1))
MASKS = np.array([[[1, 1], [1, 0]], [[0, 0], [0, 1]], [[255, 255], [255, 255]]], np.int32)  # the last row is padding
PROBABILITIES = np.array([[[0.9, 0.6], [0.8, 0.1]], [[0.7, 0.2], [0.1, 0.3]]], np.float32)
CHOSEN = CONTEXT._replace(calibration={'multilabel': {'thresholds': [0.75, 0.25]}})


def test_pixels_beyond_the_image_have_no_loss():
    made = multilabel.targets({common.MULTILABEL: tf.constant(MASKS)}, CONTEXT)
    np.testing.assert_array_equal(made['masks'], MASKS == 1)
    assert made['valid'].numpy().tolist() == [[True, True], [True, True], [False, False]]
    batch = {key: value[tf.newaxis] for key, value in made.items()}
    logits = np.zeros((1, 3, 2, 2), np.float32)
    logits[:, 2] = 50.0
    term = multilabel.losses({'multilabel': tf.constant(logits)}, batch, CONTEXT)['loss']
    assert float(term.value) == pytest.approx(np.log(2.0))
    assert term.weight == 1.0


def test_outputs_are_sigmoids():
    (output,) = TASK.outputs(ModelOptions({common.OUTPUT_TYPE: 2}, task='multilabel'))
    assert (output.channels, output.branch) == (2, None)
    assert output.activation(tf.zeros([1])).numpy().tolist() == [0.5]


def test_masks_follow_from_the_thresholds_of_the_checkpoint():
    maps = {'multilabel': PROBABILITIES}
    np.testing.assert_array_equal(multilabel.decode(maps, CONTEXT)['masks'], PROBABILITIES >= 0.5)
    np.testing.assert_array_equal(multilabel.decode(maps, CHOSEN)['masks'], MASKS[:2] == 1)


@pytest.mark.parametrize('given', [None, 0.5, [0.5], [0.5, 0.5, 'x'], [0.5, 0.5, True], [0.5, 0.0, 0.5], [1, 1, 1.5]])
def test_thresholds_that_do_not_fit_are_refused(given):
    context = CONTEXT._replace(num_classes=3, calibration={'multilabel': {'thresholds': given}})
    with pytest.raises(DataError, match=r'a list of 3 numbers.* Remove the file .*\.calibration\.json, and evaluate'):
        multilabel.decode({'multilabel': PROBABILITIES}, context)


def test_the_metric_chooses_thresholds_that_decode_takes():
    metric = multilabel.MultilabelMetric(CONTEXT)
    metric.update({common.MULTILABEL: MASKS[:2]}, multilabel.decode({'multilabel': PROBABILITIES}, CONTEXT))
    figures = metric.result()
    assert figures['iou'] == pytest.approx(np.mean([2 / 3, 1 / 2]))
    assert (figures['best_iou'], figures[TASK.headline]) == (1.0, 1.0)
    chosen = CONTEXT._replace(calibration=json.loads(json.dumps({'multilabel': metric.calibration()})))
    assert multilabel.thresholds(chosen) == metric.class_figures()['threshold']
    assert metric.calibration()['classes'] == ['a', 'b']
    assert multilabel.MultilabelMetric(CONTEXT).calibration()['thresholds'] == [0.5, 0.5]
    np.testing.assert_array_equal(multilabel.decode({'multilabel': PROBABILITIES}, chosen)['masks'], MASKS[:2] == 1)
    other = multilabel.MultilabelMetric(chosen)
    other.update({common.MULTILABEL: MASKS[:2]}, {'probabilities': PROBABILITIES})
    assert other.result()['iou'] == 1.0
    metric.merge(other)
    assert metric.class_figures()['best_iou'] == (1.0, 1.0)


def test_the_file_is_what_records_have():
    result = multilabel.decode({'multilabel': PROBABILITIES}, CHOSEN)
    content = io.BytesIO()
    Image.fromarray(TASK.files['masks'].content(result, None, CHOSEN)).save(content, 'PNG')
    plane = planes.MULTILABEL._replace(channels=2)
    read = planes.read(plane, {plane.feature: content.getvalue()}, (2, 2))
    np.testing.assert_array_equal(read, MASKS[:2])


def test_colors_of_overlapping_classes_are_mixed():
    masks = np.array([[[1, 1], [1, 0], [0, 0]]], bool)
    picture = TASK.overlay({'masks': masks}, np.full((1, 3, 3), 50, np.uint8), CONTEXT)
    assert picture[0].tolist() == [[75, 50, 25], [125, 25, 25], [50, 50, 50]]
