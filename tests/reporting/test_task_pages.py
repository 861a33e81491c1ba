"""Pages about networks with tasks: panoptic segmentation, and depth, which has no classes.

Covers reporting/task_content.py and reporting/task_images.py.
"""

import json
import math
import pathlib
import pickle
import re
import types

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common
from deeplab.datasets import planes
from deeplab.options import DatasetOptions, EvalOptions, ModelOptions, ReportedRun, ReportOptions
from deeplab.programs import report
from deeplab.registry import TASKS
from deeplab.reporting import task_content, task_images
from tests.helpers import dataset_files, report_setup
from tests.helpers import evaluation_setup as setup

IMAGES = 3


def truth(number):
    """Class ids and instance ids: two things of class 1 on class 0, one of which grows with the number."""
    class_ids, instance_ids = np.zeros((2, 15, 17), np.uint8)
    for instance, (rows, columns) in enumerate([((1, 6 + number), (1, 6)), ((4, 12), (10, 15))], start=1):
        class_ids[rows[0] : rows[1], columns[0] : columns[1]] = 1
        instance_ids[rows[0] : rows[1], columns[0] : columns[1]] = instance
    return class_ids, instance_ids


def record(number):
    """Red says the class, blue the centers; depth is red + 1."""
    class_ids, instance_ids = truth(number)
    image = np.zeros((15, 17, 3), np.uint8)
    image[..., 0], image[3, 3, 2], image[8, 12, 2] = class_ids * 10, 250, 200
    return dataset_files.example.encode(
        dataset_files.png(image), 'png', f'image_{number}', 15, 17, 3, dataset_files.png(class_ids),
        {
            planes.INSTANCE.feature: dataset_files.png(instance_ids),
            planes.DEPTH.feature: dataset_files.png(image[..., 0] + np.uint8(1)),
            planes.MULTILABEL.feature: dataset_files.png(np.concatenate([class_ids, np.ones_like(class_ids)])),
        },
    )  # fmt: skip


def predict_maps(images, options, *_, **__):
    """Maps of a network with one weight: what the image says, if the weight is 1."""
    red = images[..., :1] * tf.compat.v1.get_variable('weight', [1])  # [n, h, w, 1]
    if options.task == 'depth':
        return {common.DEPTH: red + 1.0}
    if options.task == 'edges':
        return {'edges': tf.clip_by_value(red, 0.0, 1.0)}
    if options.task == 'multilabel':
        return {'masks': tf.concat([tf.clip_by_value(red, 0.0, 1.0), tf.ones_like(red)], axis=3)}
    classes = tf.one_hot(tf.cast(red[..., 0] > 5.0, tf.int32), 2)
    return {common.OUTPUT_TYPE: classes, 'center': images[..., 2:] / 255.0, 'offset': tf.zeros_like(images[..., :2])}


def written(folder, task, weights):
    """The result of a report of a run for each weight, and the data of its page."""
    dataset_files.write_split(folder, 'val', [[record(number) for number in range(IMAGES)]])
    description = {'num_classes': 2, 'splits': ['val'], 'things': [1], 'depth_scale': 1.0}
    (folder / 'tiny.json').write_text(json.dumps(description))
    data = DatasetOptions('val', str(folder), str(folder / 'tiny.json'))
    model = ModelOptions({common.OUTPUT_TYPE: 2}, crop_size=(17, 17), task=task, settings={'stuff_area': 1})
    runs = []
    for i, weight in enumerate(weights):
        logdir = folder / f'run{i}'
        logdir.mkdir()
        setup.write_checkpoint(logdir, step=20, weight=weight)
        for step in (10, 20):
            figures = {'global_step': step, 'miou': None, 'class_iou': {}, 'split': 'val'}
            figures['metrics'] = {
                task: {task_images.headline(TASKS.get(task)): step / 100},
                'intervals': {'miou low': 0.1},
            }
            (logdir / f'metrics-{step}.json').write_text(json.dumps(figures))
        runs.append(ReportedRun(str(logdir), EvalOptions(model, data, str(logdir), '.', batch_size=2)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr('deeplab.model.predict_maps', predict_maps)
        report_setup.without_charts(patched)
        result = report.run(ReportOptions(tuple(runs), str(folder / 'page.html')))
    return result, pathlib.Path(result.path).read_text('utf-8')


def data_of(text, id='content'):
    return json.loads(re.search(rf'<script type="application/json" id="{id}">(.*?)</script>', text, re.DOTALL)[1])


@pytest.fixture(scope='module')
def panoptic(tmp_path_factory):
    return written(tmp_path_factory.mktemp('panoptic'), 'panoptic', (1.0, 0.0))


@pytest.fixture(scope='module')
def depth(tmp_path_factory):
    return written(tmp_path_factory.mktemp('depth'), 'depth', (0.5,))


def test_figures_of_a_task_and_of_its_classes(panoptic):
    result, text = panoptic
    data = data_of(text)
    (task,) = data['tasks']
    assert (task['name'], task['headline']) == ('panoptic', 'pq')
    assert task['figures'][0]['pq'] == task['figures'][0]['ap'] == pytest.approx(1.0)
    assert task['figures'][1]['pq_things'] == 0.0
    assert task['classes'][0]['tp'] == [IMAGES, 2 * IMAGES] and task['classes'][1]['fn'][1] == 2 * IMAGES
    assert task['curve'][0] == [{'step': 10, 'value': 0.1}, {'step': 20, 'value': 0.2}]
    assert data['runs'][0]['miou'][0] == 1.0 and data['runs'][0]['calibration'] is None
    assert data['differences'] and data['pictures'] and len(data['runs'][1]['scores']) == IMAGES
    assert 'mean IoU 1.0000 (1.0000 to 1.0000), pq 1.0000' in result.report
    assert json.loads(pathlib.Path(report.figures_path(result.path)).read_text())['tasks'] == data['tasks']


def test_pictures_of_a_task_are_the_worst_first(panoptic):
    _, text = panoptic
    data = data_of(text)
    (task,) = data['tasks']
    scores = [each['scores'][1] for each in task['pictures']]
    assert len(scores) == IMAGES and scores == sorted(scores)
    assert [each['scores'][0] for each in task['pictures']] == pytest.approx([1.0] * IMAGES)
    picture = data_of(text, f'picture-{task["pictures"][0]["picture"]}')
    captions = [caption for caption, _ in picture['pictures']]
    assert captions[:2] == ['image', 'truth: instance']
    assert {f'run{i}: {task_images.COMPARED}' for i in range(2)} <= set(captions)
    assert len(picture['legend']) == 3 and picture['width'] == 17


def test_a_task_without_classes_has_no_sections_about_them(depth):
    result, text = depth
    data = data_of(text)
    (run,) = data['runs']
    assert (run['miou'], run['classes'], run['confusion'], run['scores'], run['evaluations']) == (
        None,
        [],
        None,
        [],
        [],
    )
    assert not data['classes'] and not data['pictures'] and not data['differences']
    assert not any('accuracy' in label for label, _ in run['figures'])
    (task,) = data['tasks']
    expected = np.mean([np.where(truth(i)[0] == 1, 5 / 11, 0).mean() for i in range(IMAGES)])
    assert task['figures'][0]['abs_rel'] == pytest.approx(expected, rel=1e-4)
    assert task['scores'][0] == pytest.approx([(truth(i)[0] == 1).mean() * 5 / 11 for i in range(IMAGES)], rel=1e-4)
    assert [each['image'] for each in task['pictures']] == [2, 1, 0]  # the largest error first
    captions = [caption for caption, _ in data_of(text, 'picture-0')['pictures']]
    assert captions == ['image', 'truth: depth', 'prediction']
    assert re.match(r'run0  abs_rel 0\.\d{4}\n', result.report) and result.images == IMAGES and result.miou == (None,)


def test_a_task_of_class_ids_alone_shows_them_beside_its_result(tmp_path):
    _, text = written(tmp_path, 'edges', (1.0,))
    assert [caption for caption, _ in data_of(text, 'picture-0')['pictures']] == ['image', 'truth', 'prediction']
    assert not data_of(text)['classes']


def test_classes_of_a_task_have_names_and_colors(tmp_path, monkeypatch):
    kept = []
    spy = types.SimpleNamespace(dumps=lambda results: kept.append(results) or pickle.dumps(results), loads=pickle.loads)
    monkeypatch.setattr(task_images, 'pickle', spy)
    _, text = written(tmp_path, 'multilabel', (1.0,))
    assert [[*results['multilabel']] for results in kept] == [['masks']] * IMAGES  # not the probabilities
    data = data_of(text)
    assert data['tasks'][0]['classes'][0]['iou'] == pytest.approx([1.0, 1.0])
    assert [each['name'] for each in data['classes']] == ['0', '1']


def test_figures_of_files_alone(tmp_path):
    runs = [
        types.SimpleNamespace(curve=types.SimpleNamespace(evaluations=evaluations), result=None)
        for evaluations in (
            [
                types.SimpleNamespace(
                    step=5, content={'metrics': {'depth': {'abs_rel': 0.25, 'rmse': None}, 'other': {}}}
                )
            ],
            [types.SimpleNamespace(step=5, content={'metrics': 'broken'})],
            [],
        )
    ]
    (section,) = task_content.sections(runs, {}, 7)
    assert section['figures'] == [{'abs_rel': 0.25, 'rmse': None}, {}, {}]
    assert section['curve'] == [[{'step': 5, 'value': 0.25}], [], []] and not section['pictures']


def test_ranks_are_larger_for_better_images():
    made = types.SimpleNamespace(
        tasks={'depth': TASKS.get('depth'), 'panoptic': TASKS.get('panoptic')},
        scores={'depth': [0.5, None], 'panoptic': [0.5, 0.25]},
    )
    ranks = {name: task_images.TaskImages.ranks(made, name) for name in made.tasks}
    assert ranks['depth'][0] == -0.5 and math.isnan(ranks['depth'][1])
    assert ranks['panoptic'].tolist() == [0.5, 0.25]
