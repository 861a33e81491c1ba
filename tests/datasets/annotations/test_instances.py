"""Instances of every tool's export: read back as they went in; groups, crowds, holes and classes without instances.

Covers datasets/annotations/masks.py and datasets/annotations/rasterizer.py.
"""

import numpy as np
import pytest

from deeplab.datasets.annotations import formats, rasterizer
from deeplab.datasets.annotations.label_classes import LabelClasses
from deeplab.datasets.annotations.masks import AnnotationMask
from deeplab.datasets.annotations.shapes import Shape
from deeplab.datasets.mask_sources import ids_of
from deeplab.errors import DataError
from tests.helpers import instance_exports

IDS = {'road': 1, 'car': 2}


def masks_of(path, things=(1, 2), ids=IDS):
    """Class ids and instances of the only image."""
    (annotated,) = formats.read(path).images
    mask = AnnotationMask(annotated, '', LabelClasses(('background', *IDS), (None,) * 3, ids, 0, things))
    classes, instances = mask.masks(mask.path)
    return ids_of(classes), instances


@pytest.mark.parametrize('tool', instance_exports.ALL)
def test_every_export_becomes_the_instances_that_went_in(tmp_path, tool):
    path = instance_exports.ALL[tool](tmp_path)['annotations']
    classes, instances = masks_of(path)
    expected_classes, expected = instance_exports.truth()
    np.testing.assert_array_equal(classes, expected_classes)
    np.testing.assert_array_equal(instances, expected)
    assert instances.dtype == np.uint16
    without_road = masks_of(path, things=(2,))[1]
    np.testing.assert_array_equal(without_road == 0, classes != 2)
    assert len(np.unique(without_road[classes == 2])) == 4
    assert masks_of(path, things=None)[1] is None
    assert not masks_of(path, things=())[1].any()


@pytest.mark.parametrize('tool', instance_exports.ALL)
def test_ignored_and_dropped_labels_have_no_instances(tmp_path, tool):
    path = instance_exports.ALL[tool](tmp_path)['annotations']
    classes, instances = masks_of(path, ids={'road': 1, 'car': 255})
    np.testing.assert_array_equal(instances, classes == 1)
    classes, instances = masks_of(path, ids={'road': 1, 'car': None})
    assert set(np.unique(classes).tolist()) == {0, 1}
    np.testing.assert_array_equal(instances, classes == 1)


def test_crowds_have_a_class_and_no_instance(tmp_path):
    path = instance_exports.coco(tmp_path, crowd=(1, 5))['annotations']
    classes, instances = masks_of(path)
    ours = {number: instances[instance_exports.truth()[1] == number] for number in range(6)}
    assert not ours[2].any() and (ours[3] == ours[3][0]).all() and ours[4].all()
    assert classes[2, 1] == 2  # a car of the crowd
    assert set(np.unique(instances).tolist()) == {0, 1, 2, 3}


def test_groups_join_shapes_of_one_class():
    boxes = [rasterizer.box(2 * place, 0, 1, 1) for place in range(6)]
    labels, groups = ['a', 'b', 'a', 'c', 'a', 'a'], ['1', '1', '1', '1', None, '2']
    shapes = [Shape(label, box, group=group) for label, box, group in zip(labels, boxes, groups, strict=True)]
    drawing = rasterizer.draw(shapes, {'a': 1, 'b': 2, 'c': 1}, (1, 12), 0, things=(1, 2))
    assert drawing.instances[0, ::2].tolist() == [1, 2, 1, 1, 3, 4]
    assert not drawing.instances[0, 1::2].any()


def test_later_shapes_cover_instances_whether_or_not_they_are_some():
    shapes = [
        Shape('thing', rasterizer.box(0, 0, 9, 1), order=1),
        Shape('thing', rasterizer.box(1, 0, 2, 1), order=2),
        Shape('stuff', rasterizer.box(4, 0, 2, 1), order=2),
        Shape('thing', rasterizer.box(7, 0, 1, 1), order=3, is_crowd=True),
        Shape('thing', rasterizer.box(0, 0, 9, 1)),
    ]
    drawing = rasterizer.draw(shapes, {'thing': 3, 'stuff': 4}, (1, 9), 0, things=(3,))
    assert drawing.ids.tolist() == [[3, 3, 3, 3, 4, 4, 3, 3, 3]]
    assert drawing.instances.tolist() == [[2, 3, 3, 2, 0, 0, 2, 0, 2]]


def test_more_instances_than_16_bits_can_number():
    box = rasterizer.box(0, 0, 1, 1)
    shapes = [Shape('a', box)] * (rasterizer.MOST_INSTANCES + 1)
    with pytest.raises(DataError, match='65536 instances; an image can have 65535'):
        rasterizer.draw(shapes, {'a': 1}, (1, 1), 0, things=(1,))
    assert not rasterizer.draw(shapes[:3], {'a': 1}, (1, 1), 0).instances.any()


def test_regions_of_label_studio_beneath_each_other(tmp_path):
    """A region beneath one of another label is an instance by itself; a circle of parents ends."""
    instance_exports.label_studio(tmp_path)
    path = tmp_path / 'project.json'
    text = path.read_text()
    assert '"parentID": "r0"' in text  # the last car, beneath the road
    path.write_text(text.replace('"parentID": "r0"', '"parentID": "r2"'))
    instances = masks_of(str(path))[1]
    assert instances[14, 12] == instances[9, 10] == 3
    path.write_text(text.replace('"id": "r2"', '"id": "r2", "parentID": "r1"').replace('"r0"', '"r4"'))
    instances = masks_of(str(path))[1]
    assert instances[2, 1] == instances[9, 10] == 2
    assert instances[14, 12] == instances[2, 13] == instances[2, 18]
    path.write_text(text.replace('"id": "r1"', '"id": "r1", "parentID": "r1"'))
    np.testing.assert_array_equal(masks_of(str(path))[1], instance_exports.truth()[1])


def test_masks_of_objects_of_another_size(tmp_path):
    path = instance_exports.cvat_masks(tmp_path)['annotations']
    small = instance_exports.dataset_files.png(np.zeros((4, 5, 3), np.uint8))
    (tmp_path / 'SegmentationObject' / 'a.png').write_bytes(small)
    with pytest.raises(DataError, match=r"SegmentationObject/a\.png': .*\(4, 5\), .*\(16, 24\)"):
        masks_of(path)
