"""`deeplab datasets`: what is known by name, and what lies in a folder. Covers datasets/listing.py."""

import json
import os
import pathlib

import pytest

from deeplab import cli
from deeplab.datasets import build_folder_data, description_file
from deeplab.errors import DataError, OptionError
from deeplab.options import BuildFolderOptions, ListDatasetsOptions
from deeplab.programs import datasets
from tests.helpers import dataset_files


@pytest.fixture
def folder(tmp_path):
    """A folder with records of two splits, beside images and masks that a description names."""
    for seed in range(6):
        for kind, content in (('images', dataset_files.pixels(seed=seed)), ('masks', dataset_files.ids(seed=seed))):
            path = tmp_path / 'photos' / kind / f'{seed}.png'
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(dataset_files.png(content))
    pairs = {f'{kind}_folder': str(tmp_path / 'photos' / f'{kind}s') for kind in ('image', 'mask')}
    build_folder_data.run(BuildFolderOptions(**pairs, output_dir=str(tmp_path / 'records'), val_fraction=0.4))
    content = {'num_classes': 3, 'images': 'images', 'masks': 'masks', 'val_fraction': 0.4}
    (tmp_path / 'photos' / 'dataset.json').write_text(json.dumps(content))
    return tmp_path


def _report(directory, **more):
    return datasets.run(ListDatasetsOptions(str(directory), **more))


def test_known_data_sets(capsys):
    assert cli.main(['datasets']) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith('camvid ')]
    assert line.split()[1:] == ['11', '255', 'train', '367,', 'val', '101,', 'test', '233']
    found = json.loads(datasets.run(ListDatasetsOptions(json=True)).report)
    (camvid,) = [each for each in found if each['name'] == 'camvid']
    assert camvid['class_names'][0] == 'sky' and camvid['splits']['val'] == 101


def test_records_and_photos_in_a_folder(folder, capsys):
    assert cli.main(['datasets', str(folder)]) == 0
    text = capsys.readouterr().out
    assert f'{folder}/photos: images and masks in {folder}/photos/images' in text
    assert 'train  4 images\n' in text and 'val    2 images\n' in text
    assert 'dataset.yaml: 3 classes (class_0, class_1, class_2)' in text
    assert '4 images in 4 shards, ' in text and 'complete, indexed, unchanged since it was described' in text
    records, photos = sorted(
        json.loads(_report(folder, json=True).report), key=lambda facts: facts['image_folder'] or ''
    )
    assert records['is_complete'] and photos['is_complete']
    assert [split['images'] for split in records['splits']] == [split['images'] for split in photos['splits']] == [4, 2]


def test_what_is_wrong_is_said(folder):
    records = folder / 'records'
    shards = sorted(records.glob('train-*'))
    shards[1].unlink()
    next(records.glob('val-00000*')).write_bytes(b'12345')
    (folder / 'photos/masks/3.png').unlink()
    result = _report(folder)
    assert result.status == 1
    for part in ('train-00001-of-00004.tfrecord missing', 'ends after 5 of the 12', '1 of 6 images in', 'have no mask'):
        assert part in result.report
    with pytest.raises(DataError, match='missing'):
        _report(records, index=True)


def test_an_index_and_digests_are_written(folder):
    records = folder / 'records'
    os.remove(records / 'index_train.npz')
    shard = next(path for path in records.glob('val-*') if path.stat().st_size)
    dataset_files.write_shard(shard, [dataset_files.record(9)])
    report = _report(records).report
    assert report.count('no index') == 2 and 'changed since it was described' in report
    report = _report(records, index=True).report
    assert f'Written: {records}/index_train.npz' in report and f'Written: {records}/dataset.yaml' in report
    assert report.count('indexed, unchanged since') == 2
    os.remove(records / 'dataset.yaml')
    (records / 'dataset.json').write_text('{"num_classes": 3}')  # of a user
    report = _report(records, index=True).report
    assert 'no description' not in report and 'Written: ' in report and f'Written: {records}/dataset' not in report
    assert description_file.split_facts(str(records / 'dataset.json')) == {}


def test_bad_input(tmp_path):
    with pytest.raises(OptionError, match='index=True'):
        datasets.run(ListDatasetsOptions(index=True))
    with pytest.raises(DataError, match='does not exist'):
        _report(tmp_path / 'none')
    with pytest.raises(DataError, match='neither records nor a description'):
        _report(tmp_path)
    with pytest.raises(DataError, match='no records'):
        _report(tmp_path, index=True)
    pathlib.Path(tmp_path / 'dataset.json').write_text('{"num_classes": 3, "colour": 1}')
    assert "unknown key 'colour'" in _report(tmp_path).report
