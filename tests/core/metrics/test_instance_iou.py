"""Instance-weighted IoU against a loop over instances."""

import numpy as np
import pytest
from PIL import Image

from deeplab.core.metrics import confusion_matrix
from deeplab.datasets import descriptor
from deeplab.errors import DataError, OptionError
from deeplab.evaluation import scoring
from deeplab.registry import MetricContext
from tests.helpers import metric_batches

NAMES = ('road', 'person', 'rider', 'car')
AVERAGE = {1: 3462.4756337644, 2: 3930.4788056518, 3: 12794.0202738185}
EVAL_IDS = (7, 24, 25, 26)
CATEGORIES = ('flat', 'human', 'human', 'vehicle')
CONTEXT = MetricContext(4, 255, NAMES, CATEGORIES, EVAL_IDS)
SIZES = [(12, 15), (9, 8)]


def _scene(rng, folder):
    """Two images with instances, their files, and predictions that confuse the classes."""
    labels, predictions, inputs = metric_batches.batch(rng, 4, SIZES, (17, 17))
    inputs['names'] = ['a_0', 'b_1']
    instances = []
    for image, (height, width) in enumerate(SIZES):
        ids = np.zeros((height, width), np.int32)
        for c, own in enumerate(EVAL_IDS):
            mask = labels[image, :height, :width] == c
            number = rng.integers(0, 3, mask.shape)[mask]
            ids[mask] = own * 1000 + 1 + number if c else own  # road has no instances
        ids[0, :3] = 33001  # a class that is not evaluated
        (folder / 'city').mkdir(exist_ok=True)
        Image.fromarray(ids.astype(np.uint16)).save(
            folder / 'city' / f'{inputs["names"][image]}_gtFine_instanceIds.png'
        )
        instances.append(ids)
    return labels, predictions, inputs, instances


def _twin(labels, predictions, instances, group_of, group):
    """iIoU of a group of classes: weighted true positives and false negatives, plain false positives."""
    true, missed, false = 0.0, 0.0, 0
    for label, prediction, ids in zip(labels, predictions, instances, strict=True):
        height, width = ids.shape
        guess = group_of[prediction[:height, :width]]
        for instance in np.unique(ids[ids > 1000]):
            if instance // 1000 in EVAL_IDS and group_of[c := EVAL_IDS.index(instance // 1000)] == group:
                mask = ids == instance
                hit = (guess[mask] == group).sum()
                true += hit * AVERAGE[c] / mask.sum()
                missed += (mask.sum() - hit) * AVERAGE[c] / mask.sum()
        truth = label[:height, :width]
        known = truth != 255
        false += ((guess[known] == group) & (group_of[truth[known]] != group)).sum()
    return true / (true + missed + false)


def test_against_a_loop_over_instances(tmp_path):
    labels, predictions, inputs, instances = _scene(np.random.default_rng(0), tmp_path)
    whole, *parts = (metric_batches.create('instance_iou', CONTEXT, instance_dir=str(tmp_path)) for _ in range(3))
    metric_batches.update(whole, 'instance_iou', labels, predictions, inputs)
    classes = [_twin(labels, predictions, instances, np.arange(4), c) for c in (1, 2, 3)]
    assert whole.class_figures()['iou'] == (None, *(pytest.approx(iou, abs=1e-8) for iou in classes))
    human, vehicle = (_twin(labels, predictions, instances, np.array([0, 1, 1, 2]), group) for group in (1, 2))
    assert whole.result() == {
        'mean': pytest.approx(np.mean(classes)),
        'category mean': pytest.approx((human + vehicle) / 2),
        'category human': pytest.approx(human, abs=1e-8),
        'category vehicle': pytest.approx(vehicle, abs=1e-8),
    }
    for part, image in zip(parts, (1, 0), strict=True):
        metric_batches.update(part, 'instance_iou', labels, predictions, inputs, slice(image, image + 1))
    parts[0].merge(parts[1])
    assert metric_batches.figures(parts[0]) == metric_batches.figures(whole)


def test_a_large_and_a_small_instance_weigh_the_same(tmp_path):
    """The large one is found, the small one is not: half of the weight is right. A false rider has no instance."""
    ids = np.full((1, 10), 24001, np.uint16)
    ids[0, 9] = 24002
    Image.fromarray(ids).save(tmp_path / 'x.png')
    metric = metric_batches.create('instance_iou', CONTEXT, instance_dir=str(tmp_path))
    predictions = np.array([[[1] * 9 + [0]]])
    matrix = np.zeros((1, 4, 4), int)
    matrix[0, 1, :2] = 1, 9
    matrix[0, 0, 2] = 3
    metric.update(None, predictions, matrices=matrix, names=['x'], sizes=[(1, 10)])
    assert metric.class_figures()['iou'] == (None, pytest.approx(0.5), 0, None)
    assert metric.result()['mean'] == pytest.approx(0.25)


@pytest.mark.parametrize(
    'image_name',
    [
        'frankfurt_000000_000294',
        'frankfurt_000000_000294_leftImg8bit',
        './cityscapes/leftImg8bit/val/frankfurt/frankfurt_000000_000294',  # as the original's builder wrote it
        'leftImg8bit/val/frankfurt/frankfurt_000000_000294_leftImg8bit.png',
    ],
)
def test_files_of_cityscapes_by_any_name_of_their_image(tmp_path, image_name):
    """Half of the bicycle and all of the rider are found; the car is taken for a bus, the person is missed."""
    folder = tmp_path / 'gtFine' / 'val' / 'frankfurt'
    folder.mkdir(parents=True)
    stem = 'frankfurt_000000_000294_gtFine'
    Image.fromarray(np.uint16([[26001, 26001, 33002, 33002, 25000, 24003, 7, 23, 25, 0]])).save(
        folder / f'{stem}_instanceIds.png'
    )
    Image.fromarray(np.zeros((1, 10), np.uint8)).save(folder / f'{stem}_labelIds.png')
    context = scoring._context(descriptor.load('cityscapes'))
    metric = metric_batches.create('instance_iou', context, instance_dir=str(tmp_path / 'gtFine'))
    by_name = {name: number for number, name in enumerate(context.class_names)}
    names = ['car', 'car', 'bicycle', 'bicycle', 'rider', 'person', 'road', 'sky', 'rider', 'road']
    labels = np.array([[[by_name[name] for name in names]]])
    labels[..., -1] = 255
    guess = ['bus', 'bus', 'bicycle', 'road', 'rider', 'road', 'road', 'sky', 'rider', 'road']
    predictions = np.array([[[by_name[name] for name in guess]]])
    inputs = {'matrices': confusion_matrix.of_images(labels, predictions, 19, 255), 'names': [image_name]}
    metric_batches.update(metric, 'instance_iou', labels, predictions, inputs | {'sizes': np.array([(1, 10)])})
    found = dict(zip(context.class_names, metric.class_figures()['iou'], strict=True))
    assert {name: iou for name, iou in found.items() if iou is not None} == {
        'person': 0, 'rider': 1, 'car': 0, 'bus': 0, 'bicycle': pytest.approx(0.5)
    }  # fmt: skip


def test_missing_files_and_other_sizes(tmp_path):
    with pytest.raises(OptionError, match='instance_dir'):
        metric_batches.create('instance_iou', CONTEXT)
    with pytest.raises(OptionError, match='no such folder'):
        metric_batches.create('instance_iou', CONTEXT, instance_dir=str(tmp_path / 'nowhere'))
    Image.fromarray(np.zeros((3, 4), np.uint16)).save(tmp_path / 'x_instanceIds.png')
    metric = metric_batches.create('instance_iou', CONTEXT, instance_dir=str(tmp_path))
    given = {'matrices': np.zeros((1, 4, 4), int), 'sizes': [(3, 5)]}
    with pytest.raises(DataError, match=r'\(3, 4\), its image \(3, 5\)'):
        metric.update(None, np.zeros((1, 3, 5), int), names=['x'], **given)
    with pytest.raises(DataError, match="no instance image of '../up'"):
        metric.update(None, np.zeros((1, 3, 5), int), names=['../up'], **given)
    content = (tmp_path / 'x_instanceIds.png').read_bytes()
    for damaged in (b'', content[:-20], content[:40] + b'?' + content[41:]):
        (tmp_path / 'x_instanceIds.png').write_bytes(damaged)
        with pytest.raises(DataError, match=r'x_instanceIds\.png cannot be read \(.+\)'):
            metric.update(None, np.zeros((1, 3, 5), int), names=['x'], **given)
