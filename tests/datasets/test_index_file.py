"""Indexes beside shards, and records in other storages. Covers checks/check_cache.py and files/storage.py."""

import os
import pathlib

import numpy as np
import pytest

from deeplab.checks import record_check
from deeplab.datasets import (
    build_voc2012_data,
    description_file,
    descriptor,
    index_file,
    listing,
    record_index,
    segmentation_dataset,
)
from deeplab.errors import DataError
from deeplab.files import storage
from deeplab.options import BuildVocOptions
from tests.helpers import dataset_files
from tests.helpers.damage import damaged, of_later_zip

SHARDS = [[b'first', b'', b'third' * 100], [], [b'last']]


def write(folder):
    """Shards with their index; the index that was written."""
    shards = dataset_files.write_split(folder, 'train', SHARDS)
    index = record_index.RecordIndex(shards)
    index_file.write(str(folder), 'train', index)
    return shards, index


def walked(monkeypatch):
    """Which shards are read for their framing."""
    found, walk = [], record_index._walked
    monkeypatch.setattr(record_index, '_walked', lambda path: found.append(os.path.basename(path)) or walk(path))
    return found


def opened(folder):
    return segmentation_dataset.get_dataset('camvid', 'train', str(folder)).open_records()


def test_an_index_gives_the_same_records_without_reading_the_shards(tmp_path, monkeypatch):
    _, index = write(tmp_path)
    reads = walked(monkeypatch)
    found = opened(tmp_path)
    assert reads == []
    for name in ('shard', 'offset', 'length', 'checksum'):
        np.testing.assert_array_equal(getattr(found, name), getattr(index, name))
    assert [found.read(i) for i in range(4)] == [content for shard in SHARDS for content in shard]
    assert found.facts() == index.facts()
    assert found.parts() == [3, 0, 1]


@pytest.mark.parametrize('change', ['size', 'time', 'header', 'new', 'gone'])
def test_a_shard_that_has_changed_is_read(tmp_path, monkeypatch, change):
    shards, _ = write(tmp_path)
    path, stat = pathlib.Path(shards[0]), os.stat(shards[0])
    expected = SHARDS[0]
    if change == 'time':
        os.utime(path, ns=(1, 1))
    elif change == 'size':
        dataset_files.write_shard(path, expected := [b'other'])
    elif change == 'header':  # of the same size and time
        dataset_files.write_shard(path, expected := SHARDS[0][::-1])
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    else:  # the shard is not in the index, or only
        os.rename(shards[0], tmp_path / 'train-00000-of-00003')
        expected = SHARDS[0] if change == 'new' else []
        if change == 'gone':
            (tmp_path / 'train-00000-of-00003').write_bytes(b'')
    reads = walked(monkeypatch)
    found = opened(tmp_path)
    assert [found.read(i) for i in range(len(found))] == [*expected, b'last']
    assert len(reads) == 1 and reads[0].startswith('train-00000')


def test_a_damaged_index_is_not_used(tmp_path, monkeypatch, caplog):
    write(tmp_path)
    path = tmp_path / 'index_train.npz'
    content = bytearray(path.read_bytes())
    reads = walked(monkeypatch)
    for changed in (b'', bytes(content[:-30]), bytes(content[:200]) + bytes(len(content) - 200)):
        path.write_bytes(changed)
        assert len(opened(tmp_path)) == 4
    assert len(reads) == 9 and 'cannot be read' in caplog.text
    np.savez(path, format=99)
    assert len(opened(tmp_path)) == 4


def test_whatever_a_damaged_index_raises_it_is_not_used(tmp_path):
    shards, _ = write(tmp_path)
    path = tmp_path / 'index_train.npz'
    good = path.read_bytes()
    kept = index_file.load(str(tmp_path), 'train', shards)
    for content in damaged(good, 400):
        path.write_bytes(content)
        assert index_file.load(str(tmp_path), 'train', shards).keys() <= kept.keys()
    path.write_bytes(of_later_zip(good))
    assert index_file.load(str(tmp_path), 'train', shards) == {}


def test_checks_are_repeated_for_changed_shards_alone(tmp_path, monkeypatch):
    shards = dataset_files.write_split(
        tmp_path, 'train', [[dataset_files.record(i), dataset_files.record(i + 1)] for i in range(4)]
    )
    reads, read = [], record_index.RecordIndex.read
    monkeypatch.setattr(record_index.RecordIndex, 'read', lambda self, n: reads.append(n) or read(self, n))

    def check():
        reads.clear()
        dataset = segmentation_dataset.get_dataset('camvid', 'train', str(tmp_path))
        return record_check.check(dataset, 3, cache_dir=str(tmp_path / 'log'))

    check()
    assert len(reads) == 8
    dataset_files.write_shard(
        pathlib.Path(shards[1]), [dataset_files.record(7), dataset_files.record(8), dataset_files.record(9)]
    )
    found = check()
    assert sorted(reads) == [2, 3, 4]
    assert found.records.tolist() == list(range(9))
    dataset_files.write_shard(
        pathlib.Path(shards[3]), [dataset_files.record(0, label=dataset_files.png(dataset_files.ids(classes=200)))]
    )
    for _ in range(2):  # what is wrong is not cached, the others are
        with pytest.raises(DataError, match='1 of 8 records'):
            check()
        assert sorted(reads) == [7]


def test_builders_write_index_and_description(tmp_path, caplog):
    arguments = dataset_files.write_voc(tmp_path, {'train': ['a', 'b'], 'val': ['c']})
    summary = build_voc2012_data.run(BuildVocOptions(**arguments))
    folder = arguments['output_dir']
    assert 'description' not in summary  # the classes of such folders are not known
    assert description_file.beside(folder) is None
    facts = description_file.split_facts(f'{folder}/dataset.yaml')
    assert facts['train'][:2] == (2, 2) and facts['val'].digest == opened_split(folder, 'val').digest()
    build_voc2012_data.run(BuildVocOptions(**arguments, num_classes=3))
    path = description_file.beside(folder)
    assert descriptor.load(path).num_classes == 3 and descriptor.load(path).splits == {'train': 2, 'val': 1}
    dataset = segmentation_dataset.get_dataset(path, 'val', folder)
    dataset.warn_of_changed_records(dataset.open_records())
    assert 'changed since' not in caplog.text and '.old' not in caplog.text
    dataset_files.write_shard(pathlib.Path(dataset.shards[0]), [dataset_files.record(5)])
    dataset.warn_of_changed_records(dataset.open_records())
    assert "The records of split 'val' have changed" in caplog.text


def opened_split(folder, split):
    return segmentation_dataset.get_dataset('camvid', split, folder).open_records()


def test_splits_of_known_sizes_are_recognized():
    def names(**sizes):
        return [dataset.name for dataset in descriptor.of_sizes(sizes)]

    assert names(train=1464, val=1449) == ['pascal_voc_seg']
    assert names(train=367, mine=3) == ['camvid', 'camvid32']
    assert names(train=367, val=3) == names(mine=3) == []


def test_records_in_another_storage(tmp_path, monkeypatch):
    """TensorFlow's file system in memory stands for gs:// and the like."""
    tf = pytest.importorskip('tensorflow')
    shards, index = write(tmp_path)
    (tmp_path / 'dataset.json').write_text('{"num_classes": 7}')
    tf.io.gfile.makedirs('ram://bucket/records')
    for path in [*shards, tmp_path / 'dataset.json']:
        tf.io.gfile.copy(str(path), f'ram://bucket/records/{os.path.basename(path)}', overwrite=True)
    folder = 'ram://bucket/records'
    path = description_file.beside(folder)
    assert path == f'{folder}/dataset.json' and storage.is_remote(path)
    dataset = segmentation_dataset.get_dataset(path, 'train', folder)
    assert dataset.descriptor.num_classes == 7
    assert segmentation_dataset.split_names(folder) == ['train']
    found = dataset.open_records()
    assert [found.read(i) for i in (3, 0, 2, 1)] == [b'last', b'first', b'third' * 100, b'']
    assert found.digest() == index.digest()
    assert dataset.signatures()[0][0][1] == os.path.getsize(shards[0])
    found.close()
    assert listing.write_indexes(folder) == [f'{folder}/index_train.npz']
    with monkeypatch.context() as patch:
        patch.setattr(record_index, '_walked', None)
        assert dataset.open_records().read(2) == b'third' * 100
    (facts,) = listing.in_folder(folder)
    assert facts.is_complete and facts.splits[0].is_indexed
    with pytest.raises(DataError, match='does not exist'):
        segmentation_dataset.get_dataset('camvid', 'train', 'ram://bucket/none')
    with pytest.raises(DataError, match='No such file'):
        record_index.RecordIndex([f'{folder}/none'])
