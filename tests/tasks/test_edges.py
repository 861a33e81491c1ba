"""The task `edges`: targets, threshold, metric, file and picture."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common
from deeplab.options import ModelOptions
from deeplab.registry import TASKS, TaskContext
from deeplab.tasks import edges

TASK = TASKS.get('edges')
SETTINGS = {parameter.name: parameter.default for parameter in TASK.parameters}
CONTEXT = TaskContext(2, settings=SETTINGS | {'edge_width': 2, 'edge_tolerance': 0.0})
LABELS = np.repeat(np.array([[0, 0, 0, 1, 1, 1, 255]], np.int32), 3, axis=0)[..., np.newaxis]  # [3, 7, 1]
TRUE_EDGES = np.repeat([[False, False, True, True, False, False, False]], 3, axis=0)
PROBABILITIES = np.where(TRUE_EDGES, np.float32(0.3), np.float32(0.1))


def test_targets_and_loss():
    made = edges.targets({common.LABEL: tf.constant(LABELS)}, CONTEXT)
    np.testing.assert_array_equal(made['edges'], TRUE_EDGES)
    assert made['valid'].numpy()[0].tolist() == [True] * 5 + [False] * 2
    batch = {key: value[tf.newaxis] for key, value in made.items()}
    settings = dict(CONTEXT.settings) | {'edge_loss_weight': 2.0}
    term = edges.losses({'edges': tf.zeros([1, 3, 7, 1])}, batch, CONTEXT._replace(settings=settings))['entropy']
    assert (float(term.value), term.weight) == (pytest.approx(np.log(2.0)), 2.0)


def test_the_output_is_a_sigmoid():
    (output,) = TASK.outputs(ModelOptions({common.OUTPUT_TYPE: 2}, task='edges'))
    assert (output.name, output.channels, output.branch) == ('edges', 1, None)
    assert output.activation(tf.zeros([1])).numpy().tolist() == [0.5]


def test_the_metric_chooses_a_threshold_that_decode_takes():
    maps = {'edges': PROBABILITIES[..., np.newaxis]}
    result = edges.decode(maps, CONTEXT)
    assert not result['edges'].any()
    metric, other = edges.EdgesMetric(CONTEXT), edges.EdgesMetric(CONTEXT)
    assert metric.calibration() == {'threshold': 0.5}
    other.update({common.LABEL: LABELS}, result)
    metric.merge(other)
    assert metric.result()[TASK.headline] == 1.0
    chosen = CONTEXT._replace(calibration={'edges': metric.calibration()})
    np.testing.assert_array_equal(edges.decode(maps, chosen)['edges'], TRUE_EDGES)


def test_file_and_picture():
    result = {'probabilities': PROBABILITIES, 'edges': TRUE_EDGES}
    values = TASK.files['edges'].content(result, None, CONTEXT)
    assert (values.dtype, sorted(set(values.reshape(-1).tolist()))) == (np.uint8, [26, 76])
    picture = TASK.overlay(result, np.full((3, 7, 1), 9, np.uint8), CONTEXT)
    assert (picture[~TRUE_EDGES] == 9).all()
    assert len(np.unique(picture[TRUE_EDGES], axis=0)) == 1
