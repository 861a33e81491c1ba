"""Exports of every tool: recognized by their content, built to records, and read back as the pixels that went in.

Covers datasets/annotations/formats.py, datasets/annotations/items.py, datasets/annotations/masks.py,
datasets/annotations/labelme.py, datasets/annotations/cvat_xml.py, datasets/annotations/mask_tables.py,
datasets/annotations/label_studio.py, datasets/annotations/coco.py, datasets/annotations/supervisely.py,
datasets/annotations/superannotate.py and datasets/annotations/hasty.py.
"""

import io
import json
import math

import numpy as np
import pytest
from PIL import Image

from deeplab.datasets import build_folder_data, descriptor, example, record_index
from deeplab.datasets.annotations import formats, items, rasterizer
from deeplab.datasets.annotations.shapes import Filling, Polygon, Shape
from deeplab.errors import DataError
from deeplab.options import BuildFolderOptions
from tests.helpers import annotation_exports, dataset_files


def built(tmp_path, write, **more):
    """Builds an export; returns the records by the names of their images, and the description."""
    arguments = {'output_dir': str(tmp_path / 'records'), 'num_shards': 1, **write(tmp_path / 'export'), **more}
    summary = build_folder_data.run(BuildFolderOptions(**arguments))
    found = {}
    for split in summary['splits']:
        index = record_index.RecordIndex([f'{tmp_path}/records/{split}-00000-of-00001.tfrecord'])
        for number in range(len(index)):
            record = example.parse(index.read(number))
            found[record.image_name] = (split, record.image_bytes, pixels_of(record.label_bytes))
    return found, descriptor.load(summary['description'])


def pixels_of(content):
    with Image.open(io.BytesIO(content)) as image:
        return np.asarray(image)


def expected(number, described, unlabeled='background'):
    ids = [
        255 if name == 'ignore' else described.class_names.index(name)
        for name in (unlabeled, *annotation_exports.COLORS)
    ]
    return np.array(ids, np.uint8)[annotation_exports.truth(number)]


@pytest.mark.parametrize('tool', annotation_exports.ALL)
def test_every_export_becomes_the_pixels_that_went_in(tmp_path, tool, caplog):
    found, described = built(tmp_path, annotation_exports.ALL[tool])
    assert len(found) == 3
    for name, (split, image, ids) in found.items():
        number = annotation_exports.NAMES.index(name.rpartition('/')[2])
        assert image == annotation_exports.image(number)
        np.testing.assert_array_equal(ids, expected(number, described))
        has_splits = tool not in ('labelme JSON', 'Label Studio JSON') and 'SuperAnnotate' not in tool
        if has_splits:
            assert split == ('val' if number == 2 else 'train')
    has_order = tool not in ('labelme JSON', 'Label Studio JSON')
    order = ('road', 'car') if has_order else ('car', 'road')
    assert described.class_names == ('background', *order)
    if has_order and 'COCO' not in tool and 'Roboflow' not in tool:  # these have no colors
        np.testing.assert_array_equal(described.palette, [(0, 0, 0), *annotation_exports.COLORS.values()])
    assert 'have no annotation' not in caplog.text
    assert ('Left out' in caplog.text) == (tool in WITH_MORE), caplog.text


WITH_MORE = (
    'labelme JSON',
    'CVAT for images 1.1',
    'Label Studio JSON',
    'Supervisely JSON',
    'SuperAnnotate JSON, vectors',
    'Hasty JSON',
)


@pytest.mark.parametrize('tool', annotation_exports.ALL)
def test_unlabeled_pixels_are_ignored_on_demand(tmp_path, tool):
    found, described = built(tmp_path, annotation_exports.ALL[tool], unlabeled='ignore', val_fraction=0.0)
    assert sorted(described.class_names) == ['car', 'road']
    for name, (split, _, ids) in found.items():
        assert split == 'train'
        number = annotation_exports.NAMES.index(name.rpartition('/')[2])
        np.testing.assert_array_equal(ids, expected(number, described, 'ignore'))


def test_an_image_without_instances_in_a_pixel_project(tmp_path):
    options = annotation_exports.superannotate_pixels(tmp_path)
    path = tmp_path / 'b.png___pixel.json'
    path.write_text(json.dumps({**json.loads(path.read_text()), 'instances': []}))
    item = items.find(BuildFolderOptions(**options, val_fraction=0.0), None, 255)[1]['train'][1]
    np.testing.assert_array_equal(
        pixels_of(item.source.masks(item.label).classes), np.zeros(annotation_exports.SIZES[1])
    )


def ids_of(path, names=('background', 'road', 'car')):
    """The mask of the first image."""
    options = BuildFolderOptions(annotations=str(path), val_fraction=0.0)
    item = items.find(options, names, 255)[1]['train'][0]
    return pixels_of(item.source.masks(item.label).classes)


def test_crowd_regions_of_coco_lie_beneath_other_annotations(tmp_path):
    content = annotation_exports._coco((0,), [{'id': 1, 'name': 'road'}, {'id': 2, 'name': 'car'}])
    annotation_exports.put(tmp_path / 'a.png', annotation_exports.image(0))
    content['annotations'].reverse()
    annotation_exports.put(tmp_path / '_annotations.coco.json', content)
    assert not (ids_of(tmp_path) == annotation_exports.truth(0)).all()  # the road is on top, as it is listed last
    content['annotations'][1]['iscrowd'] = 1
    annotation_exports.put(tmp_path / '_annotations.coco.json', content)
    np.testing.assert_array_equal(ids_of(tmp_path), annotation_exports.truth(0))


def test_the_ground_truth_among_annotations_of_a_task_counts(tmp_path):
    path = tmp_path / annotation_exports.label_studio(tmp_path)['annotations']
    tasks = json.loads(path.read_text())
    kept, older, _ = tasks[0]['annotations']
    kept['updated_at'] = '2023-01-01T10:00:00Z'  # the oldest now
    path.write_text(json.dumps(tasks))
    assert not ids_of(path).any()
    kept['ground_truth'] = True
    for content in (tasks, tasks[0]):  # all tasks, or a single one
        path.write_text(json.dumps(content))
        np.testing.assert_array_equal(ids_of(path), annotation_exports.truth(0))


def test_oriented_boxes_and_multipolygons_of_supervisely(tmp_path):
    """A box has two corners, and an angle in radians that rotates clockwise about its center."""
    box = {'geometryType': 'oriented_bbox', 'classTitle': 'car', 'angle': math.atan2(3, 4)}
    objects = [{**box, 'points': [[10, 15], [30, 25]]}]
    content = {'size': {'height': 40, 'width': 40}, 'objects': objects}
    annotation_exports.put(tmp_path / 'data/ann/a.png.json', content)
    annotation_exports.put(tmp_path / 'data/img/a.png', dataset_files.png(np.zeros((40, 40, 3), np.uint8)))
    corners = np.array([(15, 10), (31, 22), (25, 30), (9, 18)], float)  # with cosine 4/5 and sine 3/5
    expected = rasterizer.draw([Shape('car', Polygon((corners,), filling=Filling.BORDER))], {'car': 2}, (40, 40), 0).ids
    np.testing.assert_array_equal(ids_of(tmp_path), expected)
    objects[0].update(angle=-math.pi / 2, points={'exterior': [[8, 5], [2, 3]]})  # 7 x 3 pixels about (5, 4)
    annotation_exports.put(tmp_path / 'data/ann/a.png.json', content)
    expected = np.zeros((40, 40), np.uint8)
    expected[1:8, 4:7] = 2
    np.testing.assert_array_equal(ids_of(tmp_path), expected)
    square, hole = [[2, 1], [8, 1], [8, 7], [2, 7]], [[4, 3], [6, 3], [6, 5], [4, 5]]
    parts = [{'exterior': square, 'interior': [hole]}, {'exterior': [[6, 5], [9, 5], [9, 6], [6, 6]], 'interior': []}]
    objects.append({'geometryType': 'multipolygon', 'classTitle': 'road', 'parts': parts})
    annotation_exports.put(tmp_path / 'data/ann/a.png.json', content)
    expected[1:8, 2:9] = 1
    expected[3:6, 4:7] = [[2, 2, 2], [2, 2, 2], [2, 2, 1]]  # the box beneath the hole; the other part on top of it
    expected[5:7, 6:10] = 1
    np.testing.assert_array_equal(ids_of(tmp_path), expected)
    objects[0]['angle'] = 'steep'
    annotation_exports.put(tmp_path / 'data/ann/a.png.json', content)
    with pytest.raises(DataError, match=r"a\.png\.json.*object 1: 'steep' is not"):
        formats.read(str(tmp_path))


@pytest.mark.parametrize('tool', annotation_exports.ALL)
def test_formats_are_recognized(tmp_path, tool):
    found = formats.read(annotation_exports.ALL[tool](tmp_path)['annotations'])
    assert found.format == tool.partition(',')[0].partition(' of ')[0]
    assert len(found.images) == 3
