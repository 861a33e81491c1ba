"""The task `depth`: loss by hand, metric, files and picture."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common
from deeplab.options import ModelOptions
from deeplab.registry import TASKS, TaskContext
from deeplab.tasks import depth

TASK = TASKS.get('depth')
SETTINGS = {parameter.name: parameter.default for parameter in TASK.parameters}
CONTEXT = TaskContext(1, settings=SETTINGS, depth_scale=0.5)
TRUTH = np.array([[1.0, 2.0], [4.0, 0.0]], np.float32)  # the last pixel is invalid


def loss_of(maps, **settings):
    made = depth.targets({common.DEPTH: tf.constant(TRUTH[np.newaxis, ..., np.newaxis])}, CONTEXT)
    terms = depth.losses({'depth': tf.constant(maps)}, made, CONTEXT._replace(settings=SETTINGS | settings))
    ((name, term),) = terms.items()
    return name, float(term.value), term.weight


def test_the_loss_takes_logarithms_and_leaves_invalid_pixels_out():
    twice = np.log(2.0 * np.maximum(TRUTH, 1.0))[np.newaxis, ..., np.newaxis]
    assert loss_of(twice, depth_loss='l1', depth_loss_weight=3.0) == ('l1', pytest.approx((1 + 2 + 4) / 3), 3.0)
    assert loss_of(twice) == ('silog', pytest.approx(np.sqrt(0.15) * np.log(2.0), rel=1e-5), 1.0)
    assert loss_of(twice, silog_lambda=1.0)[1] == pytest.approx(0.0, abs=1e-6)


def test_the_output_is_above_zero():
    (output,) = TASK.outputs(ModelOptions({common.OUTPUT_TYPE: 1}, task='depth'))
    assert (output.name, output.channels, output.branch) == ('depth', 1, None)
    assert output.activation(tf.constant([0.0, -100.0])).numpy().tolist() == [1.0, pytest.approx(np.exp(-16))]


def test_metric_is_the_one_of_the_core_and_merges():
    result = depth.decode({'depth': TRUTH[..., np.newaxis] * 1.5 + 0.1}, CONTEXT)
    metric, other = depth.DepthMetric(CONTEXT), depth.DepthMetric(CONTEXT)
    metric.update({common.DEPTH: TRUTH[..., np.newaxis]}, result)
    other.update({common.DEPTH: TRUTH[..., np.newaxis]}, {'depth': TRUTH})
    assert metric.result()['abs_rel'] == pytest.approx(np.mean([0.6, 0.55, 0.525]))
    assert other.result()[TASK.headline.removeprefix('-')] == 0.0
    metric.merge(other)
    assert metric.result()['abs_rel'] == pytest.approx(np.mean([0.6, 0.55, 0.525]) / 2)


def test_files_are_in_units_of_the_data_set():
    result = {'depth': np.array([[0.1, 1.3], [2.0, 1e9]], np.float32)}
    units = TASK.files['depth'].content(result, None, CONTEXT)
    assert (units.dtype, units.tolist()) == (np.uint16, [[1, 3], [4, 65535]])  # 0 would be invalid
    assert TASK.files['depth_array'].content(result, None, CONTEXT) is result['depth']
    other = TASK.files['depth'].content(result, None, CONTEXT._replace(depth_scale=None))
    assert other.tolist() == [[26, 333], [512, 65535]]


def test_near_is_brighter_than_far():
    picture = TASK.overlay({'depth': np.array([[1.0, 2.0, 4.0, 8.0]], np.float32)}, np.zeros((1, 4, 3)), CONTEXT)
    brightness = picture.astype(int).sum(axis=2)[0]
    assert (np.diff(brightness) < 0).all()
    assert TASK.overlay({'depth': np.ones((2, 2), np.float32)}, None, CONTEXT).shape == (2, 2, 3)
