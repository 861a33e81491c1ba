"""Instances of every tool's export: read back as they went in; groups, crowds, holes and classes without instances.

Covers datasets/annotations/masks.py and datasets/annotations/rasterizer.py.
"""

import numpy as np
import pytest

from deeplab.datasets import build_folder_data, descriptor, example, images, planes, record_index
from deeplab.datasets.annotations import formats, items, rasterizer
from deeplab.datasets.annotations.label_classes import LabelClasses
from deeplab.datasets.annotations.masks import AnnotationMask
from deeplab.datasets.annotations.shapes import Shape
from deeplab.datasets.mask_sources import ids_of
from deeplab.errors import DataError, OptionError
from deeplab.options import BuildFolderOptions
from tests.helpers import annotation_exports, instance_exports

IDS = {'road': 1, 'car': 2}


def masks_of(path, things=(1, 2), ids=IDS):
    """Class ids and instances of the only image."""
    (annotated,) = formats.read(path).images
    mask = AnnotationMask(annotated, '', LabelClasses(('background', *IDS), (None,) * 3, ids, 0, things))
    masks = mask.masks(mask.path)
    return ids_of(masks.classes), None if masks.instances is None else images.read_ids(masks.instances)


@pytest.mark.parametrize('tool', instance_exports.ALL)
def test_every_export_becomes_the_instances_that_went_in(tmp_path, tool):
    path = instance_exports.ALL[tool](tmp_path)['annotations']
    classes, instances = masks_of(path)
    expected_classes, expected = instance_exports.truth()
    np.testing.assert_array_equal(classes, expected_classes)
    np.testing.assert_array_equal(instances, expected)
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


def built(tmp_path, write=instance_exports.coco, **more):
    """Builds an export; returns class ids and instance ids of its only record, and the description."""
    given = {'output_dir': str(tmp_path / 'records'), 'num_shards': 1, 'val_fraction': 0.0, **write(tmp_path / 'in')}
    summary = build_folder_data.run(BuildFolderOptions(**given, **more))
    record = example.parse(record_index.RecordIndex([f'{given["output_dir"]}/train-00000-of-00001.tfrecord']).read(0))
    has_instances = planes.INSTANCE.feature in record.features
    instances = planes.read(planes.INSTANCE, record.features, instance_exports.SIZE)[..., 0] if has_instances else None
    return images.read_ids(record.label_bytes), instances, descriptor.load(summary['description'])


@pytest.mark.parametrize('tool', instance_exports.ALL)
def test_records_have_the_instances_and_a_description_with_the_things(tmp_path, tool):
    classes, instances, described = built(tmp_path, instance_exports.ALL[tool], instances=True)
    expected_classes, expected = instance_exports.truth()
    of_names = np.array([described.class_names.index(name) for name in ('background', *IDS)])
    np.testing.assert_array_equal(classes, of_names[expected_classes])
    np.testing.assert_array_equal(instances, expected)
    assert described.things == (1, 2)


def test_things_are_chosen_by_their_names_or_by_the_data_set(tmp_path):
    assert built(tmp_path / 'a')[1:] == (None, built(tmp_path / 'b')[2]) and built(tmp_path / 'c')[2].things is None
    classes, instances, described = built(tmp_path / 'd', things=('car',))
    assert described.things == (2,)
    np.testing.assert_array_equal(instances > 0, classes == 2)
    assert built(tmp_path / 'e', things=('all',))[2].things == (1, 2)
    path = tmp_path / 'given.json'
    path.write_text('{"num_classes": 3, "class_names": ["background", "road", "car"], "things": [2]}')
    for more, things in (({}, (2,)), ({'things': ('road',)}, (1,)), ({'instances': False}, (2,))):
        given = {'instances': True, 'dataset': str(path), **more}
        _, instances, described = built(tmp_path / str(things), **given)
        assert described.things == things
        assert (instances is not None) == given['instances']


def test_things_that_cannot_have_instances(tmp_path):
    for things in (('bus',), ('car', 'background'), ('all', 'car')):
        with pytest.raises(
            OptionError, match=f'things names {set(things) - {"car"}}'.replace("{'", '').replace("'}", '')
        ):
            built(tmp_path / 'a', things=things)
    for tool in ('Hasty semantic segmentation', 'Roboflow semantic segmentation masks'):
        given = annotation_exports.ALL[tool](tmp_path / tool)
        with pytest.raises(DataError, match=f'masks of {tool}, which do not separate.*Export shapes'):
            items.find(BuildFolderOptions(**given, instances=True), None, 255)
    with pytest.raises(OptionError, match='things=.* is for annotations'):
        BuildFolderOptions(things=('car',))
    with pytest.raises(OptionError, match='instances=True is for annotations'):
        BuildFolderOptions(instances=True)


def test_records_are_built_again_for_other_instances(tmp_path):
    """The masks of classes are the same."""
    expected = instance_exports.truth()[1]
    for things, is_counted in (((), None), (('car',), expected > 1), (('car', 'road'), expected > 0)):
        instances = built(tmp_path, instance_exports.cvat_masks, things=things)[1]
        np.testing.assert_array_equal(instances if is_counted is None else instances > 0, is_counted)
    path = tmp_path / 'in' / 'SegmentationObject' / 'a.png'

    def changed(root):
        instance_exports.cvat_masks(root)
        colors = images.read_colors(path.read_bytes(), 'objects').copy()
        colors[colors.any(2)] = (1, 2, 3)
        annotation_exports.put(path, instance_exports.dataset_files.png(colors))
        return {'annotations': str(root)}

    np.testing.assert_array_equal(built(tmp_path, changed, things=('car', 'road'))[1], expected > 0)
