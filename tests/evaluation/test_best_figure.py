"""The figure that tells the best checkpoint: its default, its sign, and a figure that does not exist."""

import dataclasses

import pytest

from deeplab import common
from deeplab.core.metrics import ConfusionMatrix
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.errors import OptionError
from deeplab.evaluation import best_figure, evaluation_rounds, scoring, several_checkpoints
from deeplab.evaluation.best_figure import MIOU, BestFigure
from deeplab.options import ModelOptions
from deeplab.registry import TASKS, Output, Task
from tests.helpers.registries import changes_undone

NETWORK = ModelOptions({common.OUTPUT_TYPE: 3})
DATA = DatasetDescriptor('toy', 3, things=[1, 2])


def network(task):
    return dataclasses.replace(NETWORK, task=task)


def checked(task, name=None):
    return best_figure.check(best_figure.of_network(network(task), name), network(task), DATA)


@pytest.mark.parametrize(
    ('task', 'name', 'expected'),
    [
        ('semantic', None, MIOU),
        ('semantic', '-pixel_accuracy', BestFigure('pixel_accuracy', True)),
        ('panoptic', None, BestFigure('panoptic/pq')),
        ('panoptic', 'miou', MIOU),
        ('depth', None, BestFigure('depth/abs_rel', True)),
        ('depth', 'depth/abs_rel', BestFigure('depth/abs_rel', True)),  # the sign of the headline
        ('depth', '-depth/rmse', BestFigure('depth/rmse', True)),
        ('semantic+depth', None, MIOU),
        ('depth+semantic', None, BestFigure('depth/abs_rel', True)),
        ('multilabel', None, BestFigure('multilabel/average_precision')),
        ('edges', None, BestFigure('edges/f')),
    ],
)
def test_the_figure_that_tells_the_best(task, name, expected):
    assert checked(task, name) == expected


@pytest.mark.parametrize(
    ('task', 'name', 'message'),
    [
        ('panoptic', 'panoptic/qp', r"best_metric='panoptic/qp'.*one of miou,.* panoptic/pq, "),
        ('depth', 'miou', r"best_metric='miou'.* one of depth/abs_rel"),
        ('semantic', 'panoptic/pq', 'no such figure'),
    ],
)
def test_a_figure_that_does_not_exist_is_refused(task, name, message):
    with pytest.raises(OptionError, match=message):
        checked(task, name)


def test_a_task_without_a_headline_needs_a_figure():
    class Total:
        def __init__(self, context):
            pass

        def result(self):
            return {'total': None}

    def task(name, metric=None):
        outputs, nothing = lambda options: [Output(name, 1)], lambda *arguments: {}
        return Task(name=name, outputs=outputs, losses=nothing, decode=nothing, metric=metric)

    with changes_undone(TASKS):
        TASKS.add(task('height', Total))
        TASKS.add(task('warmth'))
        with pytest.raises(OptionError, match='best_metric to one of height/total'):
            checked('height')
        assert checked('height', '-height/total') == BestFigure('height/total', True)
        with pytest.raises(OptionError, match="'warmth' has no metrics"):
            checked('warmth')


def rounds(*figures):
    metrics = ConfusionMatrix(3, 255).result()
    return [
        evaluation_rounds.Round(
            metrics=metrics,
            checkpoint=f'model.ckpt-{step}',
            global_step=step,
            images=1,
            seconds=1.0,
            further={'depth': {'abs_rel': figure}},
            has_classes=False,
        )
        for step, figure in enumerate(figures)
    ]


def test_checkpoints_are_compared_by_it():
    figure, several = BestFigure('depth/abs_rel', True), rounds(None, 0.5, 0.25, 0.25)
    assert several_checkpoints.best(several, figure).global_step == 2
    assert several_checkpoints.best(several[:1], figure).global_step == 0
    content = several_checkpoints.as_json(several, ['a', 'b', 'c'], figure)
    lines = several_checkpoints.table(content, False, figure).splitlines()
    assert lines[0].split() == ['step', 'depth/abs_rel', 'checkpoint']
    assert lines[3].split() == ['2', '0.2500', 'model.ckpt-2', '(best)']
    head = several_checkpoints.as_csv(content, False).splitlines()[0]
    assert head == 'checkpoint,global_step,miou,pixel_accuracy,depth/abs_rel'
    assert (content['best'], content['best_metric']) == ('model.ckpt-2', '-depth/abs_rel')
    assert content['checkpoints'][1]['depth/abs_rel'] == 0.5
    assert figure.in_file({'metrics': {'depth': {'abs_rel': 0.5}}, 'miou': None}) == 0.5
    assert figure.in_file({'miou': 0.1}) is None


def test_metrics_of_labels_need_classes():
    with pytest.raises(OptionError, match=r"metrics needs a class for each pixel, which task='depth' does not"):
        scoring.Scores(DATA, {'boundary_iou': {}}, network('depth'))
    assert scoring.Scores(DATA, {'calibration': {'calibration_bins': 5}}, network('panoptic')).has_classes


def test_without_classes_there_is_no_confusion_matrix():
    scores = scoring.Scores(DATA, {}, network('depth'))
    assert scores.accumulators.keys() == scores.setup.accumulators().keys() == {'depth'}
    metrics = scores.results().metrics
    content = evaluation_rounds.as_json(dataclasses.replace(rounds(0.5)[0], metrics=metrics), DATA)
    assert 'confusion_matrix' not in content and set(content['class_iou'].values()) == {None}
