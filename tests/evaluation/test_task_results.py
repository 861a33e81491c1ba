"""Results of tasks from the maps of all outputs; covers inference/task_decoding.py."""

import dataclasses

import numpy as np
import pytest

from deeplab import common
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.datasets.planes import Plane
from deeplab.evaluation import task_results
from deeplab.inference import task_decoding
from deeplab.options import ModelOptions
from deeplab.registry import TASKS, Output, Task, TaskContext
from tests.helpers.registries import changes_undone

OPTIONS = ModelOptions({common.OUTPUT_TYPE: 3}, task='semantic+height')


class Total:
    """Sums the true and the predicted heights."""

    def __init__(self, context):
        self.true = self.predicted = 0.0

    def update(self, sample, result):
        assert sample[common.IMAGE].shape[:2] == result['height'].shape
        self.true += sample['truth'].sum()
        self.predicted += result['height'].sum()


class Marks:
    """Notes the shapes of lists."""

    def __init__(self, context):
        self.shapes = []

    def update(self, sample, result):
        self.shapes.append(sample[f'{common.POINTS_PREFIX}marks'].shape)


@pytest.fixture
def height():
    with changes_undone(TASKS):
        TASKS.add(
            Task(
                name='height',
                outputs=lambda options: [Output('height', 1)],
                losses=lambda maps, targets, context: {},
                decode=lambda maps, context: {'height': maps['height'][..., 0]},
                metric=Total,
            )
        )
        yield


def test_maps_are_split_by_output(height):
    maps = np.arange(2 * 2 * 4, dtype=np.float32).reshape(2, 2, 4)
    parts = task_decoding.by_output(maps, OPTIONS)
    np.testing.assert_array_equal(parts['semantic'], maps[..., :3])
    np.testing.assert_array_equal(parts['height'], maps[..., 3:])
    results = task_decoding.TaskDecoder(OPTIONS, TaskContext(3))(maps).results
    assert list(results) == ['height']


def test_metrics_take_images_without_padding(height):
    scores = task_results.TaskScores(DatasetDescriptor('toy', 3), OPTIONS)
    assert scores.has_classes
    assert {common.HEIGHT, common.WIDTH} <= set(scores.keys)
    ones = np.ones((2, 5, 6, 1), np.float32)
    batch = {
        common.IMAGE: np.zeros((2, 5, 6, 3)),
        common.HEIGHT: np.array([4, 5]),
        common.WIDTH: np.array([6, 2]),
        'truth': ones,
    }
    scores.update(batch, np.concatenate([np.zeros((2, 5, 6, 3), np.float32), 2 * ones], axis=3))
    total = scores.accumulators['height']
    assert (total.true, total.predicted) == (4 * 6 + 5 * 2, 2 * (4 * 6 + 5 * 2))


def test_without_classes_there_is_no_confusion_matrix(height):
    alone = dataclasses.replace(OPTIONS, task='height')
    assert not task_results.TaskScores(DatasetDescriptor('toy', 3), alone).has_classes


def test_metrics_take_lists_without_padding(height):
    plane = Plane(f'{common.POINTS_PREFIX}marks', 'marks', 'floats', 4)
    TASKS.add(dataclasses.replace(TASKS.get('height'), name='marks', planes=(plane,), metric=Marks))
    scores = task_results.TaskScores(DatasetDescriptor('toy', 3), dataclasses.replace(OPTIONS, task='marks'))
    assert plane.key in scores.keys
    marks = np.full((2, 3, 2, 2), np.nan, np.float32)
    marks[0, :2], marks[1, :3] = 7.0, 8.0
    sizes = {common.HEIGHT: np.array([1, 2]), common.WIDTH: np.array([1, 2])}
    scores.update({plane.key: marks, **sizes}, np.zeros((2, 2, 2, 1), np.float32))
    assert scores.accumulators['marks'].shapes == [(2, 2, 2), (3, 2, 2)]
