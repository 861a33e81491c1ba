"""Rules about instances: what they say of each class, and the kinds of data in which instances are found."""

import dataclasses
import json

import numpy as np
import pytest

from deeplab.datasets import example, images, planes, segmentation_dataset, wire
from deeplab.errors import OutputError
from deeplab.options import DoctorOptions
from deeplab.programs import doctor
from tests.helpers import broken_datasets, dataset_files


def findings(folder, fix=None, **described):
    """The findings about instances."""
    path = folder / 'dataset.json'
    path.write_text(json.dumps({'num_classes': 4, 'ignore_label': 255, 'things': [2, 3], **described}))
    result = doctor.run(
        DoctorOptions(str(folder), dataset=str(path), output=str(folder.parent / 'found.json'), fix=fix)
    )
    assert result.data.splits['train'].samples
    rules = ('corrupt', 'bad_plane', 'classless_instance', 'large_instance_ids', 'far_parts', 'unnumbered',
             'lone_instances', 'small_instances')  # fmt: skip
    return {(found.rule, found.split): found for found in result.findings if found.rule in rules}


def write(tmp_path, change=None, name='data'):
    """Records whose houses and signs are instances; `change` gets the zoo."""
    zoo = broken_datasets.Zoo()
    broken_datasets.numbered(zoo)
    if change is not None:
        change(zoo)
    zoo.files.clear()
    return zoo.write(tmp_path / name, 'records')


def test_classes_are_named_with_their_shares(tmp_path):
    def without_signs(zoo):
        for sample in zoo['train']:
            sample.instances[sample.ids == 3] = 0

    folder = write(tmp_path, without_signs)
    ((key, found),) = findings(folder).items()
    assert key == ('unnumbered', 'train') and found.severity == 'warning'
    assert found.what == ("Pixels of things in split 'train' have no instance, as if they were crowds: id 3 100%.")
    assert 'things' in found.fix and found.fix.endswith('then build the records again.')
    assert not findings(folder, things=[2]) and not findings(folder, things=[]) and not findings(folder, things=None)
    assert set(findings(folder, ignore_label=3)) == {('classless_instance', 'val')}


@pytest.mark.parametrize('share', [0.3, 0.4])
def test_a_third_of_the_pixels_is_no_crowd(tmp_path, share):
    def without_a_part(zoo):
        for sample in zoo.every():
            of_sign = np.argwhere(sample.ids == 3)
            sample.instances[sample.ids == 3] = 7
            for row, column in of_sign[: int(share * len(of_sign))]:
                sample.instances[row, column] = 0

    found = findings(write(tmp_path, without_a_part))
    assert (('unnumbered', 'train') in found) == (share > 1 / 3)
    assert (('lone_instances', 'train') in found) == (share < 1 / 3)  # one finding of both


def test_one_object_in_each_image_is_a_note(tmp_path):
    def one_sign(zoo):
        for sample in zoo.every():
            sample.ids[sample.ids == 3], sample.instances[sample.ids == 3] = 1, 0
            sample.ids[50:60, 40:50], sample.instances[50:60, 40:50] = 3, 65535

    found = findings(write(tmp_path, one_sign), label_divisor=None)
    assert set(found) == {('lone_instances', 'train')}  # val has three images only
    assert found['lone_instances', 'train'].severity == 'note'
    assert 'id 3 (6 images, in 0 of them in several parts)' in found['lone_instances', 'train'].what

    def of_two_parts(zoo):
        one_sign(zoo)
        zoo['train'][2].instances[50:60, 44] = 0

    found = findings(write(tmp_path, of_two_parts, 'parts'))['lone_instances', 'train']
    assert found.severity == 'warning' and 'in 1 of them in several parts' in found.what


def test_raw_labels_are_read(tmp_path):
    zoo = broken_datasets.Zoo({'train': 2})
    broken_datasets.numbered(zoo)
    records = []
    for sample in zoo.every():
        labels = 1000 * sample.ids.astype('<i4') + sample.instances
        labels[20:23, 30:33] = 2999
        features = {
            'image/encoded': sample.image,
            'image/height': 64,
            'image/width': 96,
            'image/segmentation/class/encoded': labels.tobytes(),
            'image/segmentation/class/format': b'raw',
        }
        records.append(wire.write_features(features))
    dataset_files.write_shard(tmp_path / 'data' / 'train-00000-of-00001.tfrecord', records)
    found = findings(tmp_path / 'data', label_divisor=1000)
    assert set(found) == {('small_instances', 'train')}
    assert all('instance 999' in case for case in found['small_instances', 'train'].cases)
    assert found['small_instances', 'train'].count == 2
    assert set(findings(tmp_path / 'data', label_divisor=2)) == {('corrupt', 'train')}


def test_folders_of_instances_are_read(tmp_path):
    zoo = broken_datasets.Zoo()
    folder = zoo.write(tmp_path / 'data', 'files')
    broken_datasets.numbered(zoo)
    zoo['train'][0].instances[0] = 99  # ignored pixels
    for sample in zoo.every():
        path = folder / 'objects' / f'{sample.name}.png'
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(sample.features()[planes.INSTANCE.feature])
    described = {'num_classes': 4, 'things': [2, 3], 'images': 'images', 'masks': 'masks', 'lists': 'lists'}
    (folder / 'dataset.json').write_text(json.dumps({**described, 'instances': 'objects'}))
    result = doctor.run(DoctorOptions(str(folder), output=str(tmp_path / 'found.json')))
    ((case,),) = [found.cases for found in result.findings if found.rule == 'classless_instance']
    assert case == 'train_0.jpg: instance 99'
    (folder / 'objects' / 'train_2.png').unlink()
    result = doctor.run(DoctorOptions(str(folder), output=str(tmp_path / 'found.json')))
    lacking = next(found for found in result.findings if found.rule == 'no_plane')
    assert (lacking.split, lacking.cases, lacking.severity) == ('train', ('train_2.jpg',), 'error')
    assert "1 of 6 images of split 'train' has no plane 'instance'" in lacking.what and 'files' in lacking.fix
    assert [found.cases for found in result.findings if found.rule == 'classless_instance'] == [(case,)]


def test_depth_and_overlapping_masks_are_read(tmp_path):
    """Records without class ids, one of them with depth of another size, and one without masks."""
    records = []
    for place in range(4):
        further = {
            planes.DEPTH.feature: dataset_files.png(np.full((64, 96) if place else (32, 96), 500, np.uint16)),
            planes.MULTILABEL.feature: dataset_files.png(np.ones((2 * 64, 96), np.uint8)),
        }
        if place == 1:
            del further[planes.MULTILABEL.feature]
        image = broken_datasets.jpeg(place)
        records.append(example.encode(image, 'jpeg', f'sample_{place}', 64, 96, 3, None, further))
    folder = tmp_path / 'data'
    folder.mkdir()
    dataset_files.write_shard(folder / 'train-00000-of-00001.tfrecord', records)
    described = {'num_classes': 2, 'ignore_label': 255, 'depth_scale': 0.001}
    (folder / 'dataset.json').write_text(json.dumps(described))
    options = DoctorOptions(str(folder), output=str(tmp_path / 'found.json'))
    result = doctor.run(options)
    of_rules = {found.rule: found for found in result.findings}
    assert of_rules['no_mask'].severity == 'note' and 'only depth;' in of_rules['no_mask'].fix
    assert ' --task=depth ' in result.suggestion.lines[-1]
    assert of_rules['no_mask'].count == 4
    # A copy would have no image.
    assert not result.repair_line and not any(found.repair for found in result.findings)
    with pytest.raises(OutputError, match='fix=.*, but not depth'):
        doctor.run(dataclasses.replace(options, fix=str(tmp_path / 'copy')))
    assert 'sample_0' in of_rules['bad_plane'].cases[0] and '32 x 96' in of_rules['bad_plane'].cases[0]
    assert "no plane 'multilabel'" in of_rules['no_plane'].what and 'sample_1' in of_rules['no_plane'].cases[0]
    assert of_rules['bad_plane'].count == of_rules['no_plane'].count == 1


def test_a_repaired_copy_has_the_instances(tmp_path):
    """An instance of ignored pixels is removed."""
    folder = write(tmp_path, lambda zoo: zoo['train'][1].instances.__setitem__(0, 99))
    assert {rule for rule, _ in findings(folder, fix=str(tmp_path / 'copy'))} == {'classless_instance'}
    zoo = broken_datasets.Zoo()
    broken_datasets.numbered(zoo)
    for sample in zoo.every():
        content = (tmp_path / 'copy' / 'instances' / f'{sample.name}.png').read_bytes()
        np.testing.assert_array_equal(images.read_ids(content), sample.instances)
    described = segmentation_dataset.find_folders('', str(tmp_path / 'copy'))
    assert described.options.instance_folder == str(tmp_path / 'copy' / 'instances')


def test_a_copy_leaves_out_what_would_not_fit_the_instances(tmp_path):
    def change(zoo):
        zoo['train'][1].mask = dataset_files.png(zoo['train'][1].ids[::2, ::2].copy())
        zoo['train'][2].instances = np.zeros((4, 5), np.uint16)

    findings(write(tmp_path, change), fix=str(tmp_path / 'copy'))
    left_out = json.loads((tmp_path / 'copy' / 'repairs.json').read_text())['left_out']
    assert [entry['rule'] for entry in left_out] == ['size', 'bad_plane']
    assert 'instance mask' in left_out[0]['reason'] and '4 x 5' in left_out[1]['reason']
    assert len(list((tmp_path / 'copy' / 'instances').iterdir())) == 7


def test_a_copy_of_samples_without_instances_has_none(tmp_path):
    findings(write(tmp_path, lambda zoo: setattr(zoo['val'][0], 'instances', None)), fix=str(tmp_path / 'copy'))
    assert not (tmp_path / 'copy' / 'instances').exists()
    assert segmentation_dataset.find_folders('', str(tmp_path / 'copy')).options.instance_folder is None
