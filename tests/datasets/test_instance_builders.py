"""Builders of data sets with instances: instances are read back as they went in."""

import json
import pathlib

import numpy as np
import pytest

from deeplab.datasets import (
    build_ade20k_data,
    build_cityscapes_data,
    build_coco_data,
    build_mapillary_data,
    cityscapes_labels,
    descriptor,
    mask_sources,
    planes,
)
from deeplab.errors import OptionError
from deeplab.options import BuildAde20kOptions, BuildCocoOptions, BuildMapillaryOptions
from tests.datasets import test_ade20k_release, test_builders, test_known_builders
from tests.datasets.test_builders import failure, records
from tests.helpers import dataset_files
from tests.helpers.dataset_files import png

SIZE = (6, 8)


def built(run, options):
    """Class ids and instance ids that a builder wrote, by split and name of the image; and the data set."""
    summary = run(options)
    masks = {}
    for split, part in summary['splits'].items():
        for record in records(options.output_dir, split) if part['labeled'] else ():
            instances = planes.read(planes.INSTANCE, record.features, SIZE)[..., 0]
            masks[split, record.image_name] = mask_sources.ids_of(record.label_bytes), instances
    return masks, descriptor.load(summary['description'])


def without_instances(run, options):
    """The records of a builder whose instances are not wanted."""
    summary = run(options)
    return [record for split in summary['splits'] for record in records(options.output_dir, split)]


class TestCityscapes:
    """Instances of *_instanceIds.png or *_polygons.json."""

    stem = pathlib.PurePath('gtFine/train/ulm/ulm_000001_000019_gtFine')

    def write(self, root):
        """One image with the files of the data set; its values in *_instanceIds.png."""
        options = test_builders.write_cityscapes(root, splits=('train',))
        for path in root.rglob('*aachen_*'):
            path.unlink()
        values = np.full(SIZE, 7)  # road
        values[0, :4], values[1, :3], values[2, :2] = 26000, 26001, 24015
        values[3], values[4, 0], values[4, 1] = 26, 29002, 255  # a group of cars, a caravan, a license plate
        ids = np.where(values >= 1000, values // 1000, values)
        classes = np.vectorize(cityscapes_labels.train_id)(ids).astype(np.uint8)
        for end, mask in (('instanceIds', values.astype(np.uint16)), ('labelTrainIds', classes)):
            (root / f'{self.stem}_{end}.png').write_bytes(png(mask))
        options = options.__class__(str(root), output_dir=options.output_dir, num_classes=19, instances=True)
        return options, classes, values

    @pytest.mark.parametrize('has_train_ids', [True, False])
    def test_values_of_instances(self, tmp_path, has_train_ids):
        options, classes, values = self.write(tmp_path)
        if not has_train_ids:
            (tmp_path / f'{self.stem}_labelTrainIds.png').unlink()
            ids = np.where(values >= 1000, values // 1000, values).astype(np.uint8)
            (tmp_path / f'{self.stem}_labelIds.png').write_bytes(png(ids))
        masks, dataset = built(build_cityscapes_data.run, options)
        ((read, instances),) = masks.values()
        np.testing.assert_array_equal(read, classes)
        expected = np.zeros(SIZE, int)
        expected[0, :4], expected[1, :3], expected[2, :2] = 1, 2, 16
        np.testing.assert_array_equal(instances, expected)
        assert dataset.things == tuple(range(11, 19))

    def test_polygons(self, tmp_path):
        options, _, _ = self.write(tmp_path)
        (tmp_path / f'{self.stem}_instanceIds.png').unlink()
        boxes = [
            ('road', 0, 0, 7, 5), ('car', 0, 0, 3, 3), ('car', 2, 2, 5, 5), ('persongroup', 4, 0, 7, 1),
            ('person', 7, 0, 7, 3), ('caravan', 0, 0, 1, 1),
        ]  # fmt: skip
        objects = [
            {'label': label, 'polygon': [[left, top], [right, top], [right, bottom], [left, bottom]]}
            for label, left, top, right, bottom in boxes
        ]
        content = json.dumps({'imgHeight': 6, 'imgWidth': 8, 'objects': objects})
        (tmp_path / f'{self.stem}_polygons.json').write_text(content)
        ((classes, instances),) = built(build_cityscapes_data.run, options)[0].values()
        expected = np.zeros(SIZE, int)
        expected[:4, :4], expected[2:, 2:6], expected[:2, 4:], expected[:4, 7], expected[:2, :2] = 1, 2, 0, 3, 0
        np.testing.assert_array_equal(instances, expected)
        np.testing.assert_array_equal(classes[instances > 0], np.where(instances == 3, 11, 13)[instances > 0])
        assert (classes[:2, 4:7] == 11).all() and (classes[:2, :2] == 255).all()

    def test_neither(self, tmp_path):
        options, _, _ = self.write(tmp_path)
        (tmp_path / f'{self.stem}_instanceIds.png').unlink()
        text = failure(lambda: build_cityscapes_data.run(options))
        assert 'ulm_000001_000019' in text and '_instanceIds.png nor in *_polygons.json' in text

    def test_an_instance_mask_that_is_no_mask(self, tmp_path):
        options, _, _ = self.write(tmp_path)
        path = tmp_path / f'{self.stem}_instanceIds.png'
        path.write_bytes(dataset_files.jpeg(dataset_files.ids()))
        assert "instanceIds.png' cannot be used: it is a JPEG" in failure(lambda: build_cityscapes_data.run(options))


def test_coco_panoptic(tmp_path):
    root, segments = test_known_builders.write_panoptic(tmp_path)
    path = tmp_path / 'annotations' / 'panoptic_val2017.json'
    content = json.loads(path.read_text())
    content['annotations'][0]['segments_info'][0]['iscrowd'] = 1
    path.write_text(json.dumps(content))
    options = BuildCocoOptions(coco_root=root, instances=True, output_dir=str(tmp_path / 'records'), num_shards=1)
    masks, dataset = built(build_coco_data.run, options)
    assert dataset.things == (0, 1)
    (_, train), (_, val) = masks['train', '000000000009'], masks['val', '000000000139']
    np.testing.assert_array_equal(train, np.select([segments == 5, segments == 300], [1, 2]))
    np.testing.assert_array_equal(val, np.where(segments == 300, 1, 0))  # segment 5 is a crowd


def test_coco_panoptic_of_stuff_has_no_things(tmp_path):
    root, _ = test_known_builders.write_panoptic(tmp_path)
    output = str(tmp_path / 'records')
    masks, dataset = built(
        build_coco_data.run,
        BuildCocoOptions(coco_root=root, classes='stuff', instances=True, output_dir=output, num_shards=1),
    )
    assert dataset.things == () and not any(instances.any() for _, instances in masks.values())


def test_coco_instances(tmp_path):
    random = np.random.RandomState(0)
    crowd, large, small = (random.rand(*SIZE) < share for share in (0.4, 0.6, 0.2))
    rle = test_known_builders.rle
    regions = [(3, 3, rle(small)), (1, -1, rle(crowd)), (3, 12, rle(large))]
    root = test_known_builders.write_instances(tmp_path, regions)
    output = str(tmp_path / 'records')
    options = BuildCocoOptions(coco_root=root, masks='instances', instances=True, output_dir=output, num_shards=1)
    masks, dataset = built(build_coco_data.run, options)
    classes, instances = masks['train', '000000000009']
    np.testing.assert_array_equal(instances, np.select([small, large], [2, 1]))
    np.testing.assert_array_equal(classes, np.select([small | large, crowd], [2, 1]))
    assert not masks['train', '000000000010'][1].any() and dataset.things == (1, 2)


def test_ade20k(tmp_path):
    indices = test_ade20k_release.write_release(tmp_path)
    options = test_ade20k_release.options_for(tmp_path, instances=True)
    masks, dataset = built(build_ade20k_data.run, options)
    assert len(dataset.things) == 100
    blue = dataset_files.ids(classes=200)
    for classes, instances in masks.values():
        is_thing = np.isin(classes, (90, 131, 137))  # not the wall, nor other objects
        np.testing.assert_array_equal(instances > 0, is_thing & (blue > 0))
        pairs = {pair for pair in zip(instances.flat, (indices * 256 + blue).flat, strict=True) if pair[0]}
        assert len(pairs) == len({first for first, _ in pairs}) == len({second for _, second in pairs})
        assert sorted(first for first, _ in pairs) == list(range(1, len(pairs) + 1))
    with pytest.raises(OptionError, match='also set full_release_root'):
        BuildAde20kOptions(instances=True)


@pytest.mark.parametrize('version', ['v1.2', 'v2.0'])
def test_mapillary(tmp_path, version):
    labels = dataset_files.ids(classes=4)
    numbers = dataset_files.ids(classes=5, seed=3)
    inner = '' if version == 'v1.2' else 'v2.0/'
    contents = {f'config_{version}.json': {'labels': test_known_builders.LABELS}}
    contents |= {
        'training/images/a.jpg': test_known_builders.IMAGE,
        f'training/{inner}labels/a.png': dataset_files.palette_png(labels),
        f'training/{inner}instances/a.png': png(labels.astype(np.uint16) * 256 + numbers),
    }
    root = test_known_builders.write(tmp_path, contents)
    options = BuildMapillaryOptions(root, instances=True, output_dir=str(tmp_path / 'records'), num_shards=1)
    masks, dataset = built(build_mapillary_data.run, options)
    np.testing.assert_array_equal(masks['train', 'a'][1], np.where(labels == 0, numbers + 1, 0))  # birds
    assert dataset.things == (0,)
    (tmp_path / 'training' / inner / 'instances' / 'a.png').unlink()
    assert 'instances' in failure(lambda: build_mapillary_data.run(options))


def test_records_without_instances_have_no_further_keys(tmp_path):
    root, _ = test_known_builders.write_panoptic(tmp_path / 'coco')
    options = BuildCocoOptions(coco_root=root, output_dir=str(tmp_path / 'records'), num_shards=1)
    assert not any('instance' in key for r in without_instances(build_coco_data.run, options) for key in r.features)
    test_ade20k_release.write_release(tmp_path / 'ade')
    options = test_ade20k_release.options_for(tmp_path / 'ade')
    assert not any('instance' in key for r in without_instances(build_ade20k_data.run, options) for key in r.features)
