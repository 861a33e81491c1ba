"""The full release of ADE20K as masks of the 150 classes of the challenge."""

import shutil

import numpy as np
import pytest

from deeplab import cli
from deeplab.datasets import ade20k_release, build_ade20k_data, descriptor, mask_sources
from deeplab.errors import DataError, OptionError
from deeplab.options import BuildAde20kOptions
from tests.datasets.test_builders import failure, records
from tests.helpers import dataset_files

OBJECTS = {2978: 1, 2836: 137, 1: 0, 2254: 131, 2733: 90}  # indices of objects, and their classes
IMAGE = dataset_files.jpeg(dataset_files.pixels())


def write_release(root):
    """Two images as in ADE20K_2021_17_01; the index of each pixel."""
    indices = np.array([0, *OBJECTS])[dataset_files.ids(classes=6, seed=4)]
    colors = np.stack([indices // 256 * 10, indices % 256, dataset_files.ids(classes=200)], axis=-1).astype(np.uint8)
    for path in ('training/urban/street/ADE_train_00016869', 'validation/cultural/aqueduct/ADE_val_00000003'):
        stem = root / 'images' / 'ADE' / path
        (stem / 'x').mkdir(parents=True, exist_ok=True)
        stem.with_suffix('.jpg').write_bytes(IMAGE)
        (stem.parent / f'{stem.name}_seg.png').write_bytes(dataset_files.png(colors))
        (stem.parent / f'{stem.name}_parts_1.png').write_bytes(b'')
        (stem / f'instance_000_{stem.name}.png').write_bytes(b'')
    return indices


def options_for(root, **more):
    return BuildAde20kOptions(full_release_root=str(root), output_dir=str(root / 'records'), num_shards=1, **more)


def test_indices_of_objects_tell_their_classes(tmp_path):
    indices = write_release(tmp_path)
    table = {0: 0, **OBJECTS}
    summary = build_ade20k_data.run(options_for(tmp_path))
    assert {split: part['images'] for split, part in summary['splits'].items()} == {'train': 1, 'val': 1}
    for split, name in (('train', 'ADE_train_00016869'), ('val', 'ADE_val_00000003')):
        (record,) = records(tmp_path / 'records', split)
        assert (record.image_name, record.image_bytes) == (name, IMAGE)
        np.testing.assert_array_equal(mask_sources.ids_of(record.label_bytes), np.vectorize(table.get)(indices))


def test_a_class_map_tells_the_classes(tmp_path):
    indices = write_release(tmp_path)
    (tmp_path / 'map.txt').write_text(
        '# index, class\n2978, 1\n\n2836\ttraffic light\n2254:150\n2733 chest of drawers\n'
    )
    build_ade20k_data.run(options_for(tmp_path, class_map=str(tmp_path / 'map.txt')))
    (record,) = records(tmp_path / 'records', 'val')
    table = {0: 0, 2978: 1, 2836: 137, 1: 0, 2254: 150, 2733: 45}
    np.testing.assert_array_equal(mask_sources.ids_of(record.label_bytes), np.vectorize(table.get)(indices))


@pytest.mark.parametrize('line', ['wall 1', '0 1', '1 151', '1 moon', '9999999 1', '1'])
def test_class_maps_that_are_wrong(tmp_path, line):
    (tmp_path / 'map.txt').write_text(f'1 1\n{line}\n')
    with pytest.raises(OptionError, match='Line 2'):
        ade20k_release.load_map(str(tmp_path / 'map.txt'), descriptor.load('ade20k').class_names)


def test_every_class_has_its_objects():
    found = ade20k_release.CLASS_MAP
    assert len(found) == 153 and sorted(set(found.values())) == list(range(1, 151))
    for index, class_id in {
        774: 15,
        783: 15,
        2985: 36,
        533: 36,
        246: 89,
        247: 89,
        3109: 142,
        530: 149,
        954: 150,
    }.items():
        assert found[index] == class_id


def test_mistakes(tmp_path):
    assert 'no mask *_seg.png' in failure(lambda: build_ade20k_data.run(options_for(tmp_path)))
    write_release(tmp_path)
    folder = tmp_path / 'images' / 'ADE' / 'training' / 'urban' / 'street'
    (folder / 'ADE_train_00016869_seg.png').write_bytes(dataset_files.png(dataset_files.ids()))
    assert 'not an RGB PNG' in failure(lambda: build_ade20k_data.run(options_for(tmp_path)))
    image = folder / 'ADE_train_00016869.jpg'
    image.rename(folder / 'other.jpg')
    assert '1 of 2 masks in' in failure(lambda: build_ade20k_data.run(options_for(tmp_path)))
    shutil.copy(folder / 'other.jpg', image)
    assert '1 of 3 images in' in failure(lambda: build_ade20k_data.run(options_for(tmp_path)))
    with pytest.raises(OptionError, match='full_release_root'):
        BuildAde20kOptions(class_map='map.txt')
    line = ['--full_release_root=a', '--class_map=b']
    assert cli.options_of('build_ade20k_data', line).class_map == 'b'
    (tmp_path / 'empty_seg.png').write_bytes(b'')
    with pytest.raises(DataError, match='it is empty'):
        ade20k_release.ReleaseMasks('', {1: 1}).masks(str(tmp_path / 'empty_seg.png'))
