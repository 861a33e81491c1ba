"""Splits in folders of shards. Covers datasets/shard_names.py."""

import dataclasses
import pathlib
import re

import pytest

from deeplab.datasets import descriptor, segmentation_dataset
from deeplab.errors import DataError, OptionError, UserError
from deeplab.options import DatasetOptions
from tests.helpers import dataset_files


def names(dataset):
    return [pathlib.Path(shard).name for shard in dataset.shards]


def touch(folder, *shards):
    for shard in shards:
        (folder / shard).touch()


def test_shards_of_a_split_are_sorted_and_told_apart(tmp_path):
    for split in ('train', 'trainval', 'train_aug', 'train-small'):
        dataset_files.write_split(tmp_path, split, [[dataset_files.record()], []])
    touch(tmp_path, 'train-00000-of-00002.tfrecord.partial', '.train-00000-of-00002.tfrecord', 'train.txt')
    (tmp_path / 'train-logs').mkdir()
    dataset = segmentation_dataset.get_dataset('pascal_voc_seg', 'train', str(tmp_path))
    assert names(dataset) == ['train-00000-of-00002.tfrecord', 'train-00001-of-00002.tfrecord']
    assert (dataset.descriptor.name, dataset.split, dataset.directory) == ('pascal_voc_seg', 'train', str(tmp_path))
    other = segmentation_dataset.get_dataset('pascal_voc_seg', 'train-small', str(tmp_path))
    assert names(other)[0] == 'train-small-00000-of-00002.tfrecord'


def test_a_loaded_description_serves_its_own_name_alone():
    camvid = descriptor.load('camvid')
    options = DatasetOptions('train', 'records', 'camvid', loaded=('camvid', camvid))
    assert segmentation_dataset.DataSource(options).descriptor is camvid
    other = dataclasses.replace(options, name='pascal_voc_seg')
    assert segmentation_dataset.DataSource(other).descriptor.num_classes == 21


def test_own_splits_and_names_without_numbers(tmp_path):
    touch(tmp_path, 'night-b.tfrecord', 'night-a.tfrecord', 'fog-00000-of-00001')
    assert names(segmentation_dataset.get_dataset('camvid', 'night', str(tmp_path))) == [
        'night-a.tfrecord',
        'night-b.tfrecord',
    ]
    assert names(segmentation_dataset.get_dataset('camvid', 'fog', str(tmp_path))) == ['fog-00000-of-00001']


OF_A_TRAINING = (
    'checkpoint',
    'graph.pbtxt',
    'events.out.tfevents.1700000000.my-00000-of-00001',
    'metrics.jsonl',
    *(f'model.ckpt-{step}{end}' for step in (0, 20) for end in ('.index', '.meta', '.data-00000-of-00001')),
    *(f'best-{step}{end}' for step in (0, 20) for end in ('.index', '.meta', '.data-00000-of-00001')),
    'best_model.ckpt-20.data-00000-of-00002.tempstate8765',
    'ckpt-3.index',
)


def test_what_a_training_writes_beside_the_records_is_no_shard(tmp_path):
    touch(tmp_path, 'train-00000-of-00001.tfrecord', *OF_A_TRAINING)
    assert segmentation_dataset.split_names(str(tmp_path)) == ['train']
    for split in ('model.ckpt', 'model.ckpt-20.data', 'best', 'events.out.tfevents.1700000000.my'):
        assert f"There is no shard '{split}-*'" in message(
            lambda split=split: segmentation_dataset.get_dataset('camvid', split, str(tmp_path))
        )


def test_a_folder_with_a_training_alone_has_no_shards(tmp_path):
    touch(tmp_path, *OF_A_TRAINING)
    text = message(lambda: segmentation_dataset.get_dataset('camvid', 'train', str(tmp_path)))
    assert 'No file is a shard' in text


def test_a_split_may_be_called_as_a_checkpoint(tmp_path):
    dataset_files.write_split(tmp_path, 'model.ckpt', [[dataset_files.record()], []])
    touch(tmp_path, *OF_A_TRAINING)
    assert names(segmentation_dataset.get_dataset('camvid', 'model.ckpt', str(tmp_path))) == [
        'model.ckpt-00000-of-00002.tfrecord',
        'model.ckpt-00001-of-00002.tfrecord',
    ]


def message(call):
    with pytest.raises(DataError) as caught:
        call()
    return str(caught.value)


def test_unknown_split(tmp_path):
    touch(tmp_path, 'val-00000-of-00001.tfrecord', 'train-00000-of-00001.tfrecord')
    assert message(lambda: segmentation_dataset.get_dataset('camvid', 'tset', str(tmp_path))) == (
        f"There is no shard 'tset-*' in '{tmp_path}'. Splits with shards there: train, val. "
        "Splits of 'camvid': train, val, test."
    )


def test_the_split_of_a_similar_name_is_suggested(tmp_path):
    touch(tmp_path, *(f'{split}_fine-00000-of-00001.tfrecord' for split in ('train', 'val', 'test')))
    text = message(lambda: segmentation_dataset.get_dataset('cityscapes', 'val', str(tmp_path)))
    assert text.endswith(". Set split='val_fine'.")


def test_empty_split(tmp_path):
    touch(tmp_path, 'val-00000-of-00001.tfrecord')
    assert message(lambda: segmentation_dataset.get_dataset('camvid', '', str(tmp_path))) == (
        "The name of the split is empty. Splits with shards there: val. Splits of 'camvid': train, val, test."
    )


def test_empty_and_missing_folder(tmp_path):
    empty = message(lambda: segmentation_dataset.get_dataset('camvid', 'val', str(tmp_path)))
    assert "no shard 'val-*'" in empty and 'The folder is empty.' in empty and 'Build the records' in empty
    touch(tmp_path, 'a.jpg')
    assert message(lambda: segmentation_dataset.get_dataset('camvid', 'val', str(tmp_path / 'no'))) == (
        f"The data set's folder '{tmp_path / 'no'}' does not exist. Set directory to the folder of the records."
    )
    assert 'is not a folder' in message(
        lambda: segmentation_dataset.get_dataset('camvid', 'val', str(tmp_path / 'a.jpg'))
    )


def test_a_path_that_is_too_long_does_not_exist():
    long_name = 'n' * 5000
    assert 'does not exist' in message(lambda: segmentation_dataset.get_dataset('camvid', 'val', long_name))
    for name in (long_name, f'{long_name}.py', f'{long_name}.json'):
        with pytest.raises(UserError, match='nnn'):
            segmentation_dataset.get_dataset(name, 'val', '.')


def test_incomplete_set_names_the_missing_file(tmp_path):
    touch(tmp_path, *(f'val-{i:05d}-of-00004.tfrecord' for i in (0, 2, 3)))
    assert message(lambda: segmentation_dataset.get_dataset('camvid', 'val', str(tmp_path))) == (
        f"Split 'val' in '{tmp_path}' is not complete: val-00001-of-00004.tfrecord missing. Copy or build it again."
    )


def test_two_sets_are_not_mixed(tmp_path):
    touch(tmp_path, 'val-00000-of-00001.tfrecord', 'val-00000-of-00002.tfrecord', 'val-00001-of-00002.tfrecord')
    assert 'contains several sets of shards' in message(
        lambda: segmentation_dataset.get_dataset('camvid', 'val', str(tmp_path))
    )


def test_unknown_data_set_comes_first(tmp_path):
    with pytest.raises(OptionError, match=re.escape("Unknown dataset 'cam'")):
        segmentation_dataset.get_dataset('cam', 'val', str(tmp_path / 'no'))


@pytest.mark.parametrize(
    ('content', 'parts'),
    [
        (
            ['a.jpg', 'b.jpg', 'val.txt', 'lists/'],
            ['2 .jpg, 1 .txt (3 files)', 'the folders lists', 'is a shard'],
        ),
        (['val-00000-of-00001.tfrecord.71.partial'], ['1 .partial', '71.partial are ignored', 'Build the records']),
        (['a.jpg', 'records/val-00000-of-00001.tfrecord'], ['shards of val', "set directory='{folder}/records'"]),
        (['val/'], ['no files, and the folders val', 'No file is a shard']),
        (['.DS_Store'], ['The folder is empty']),
    ],
)
def test_a_folder_without_shards_says_what_it_holds(tmp_path, content, parts):
    for name in content:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).mkdir() if name.endswith('/') else (tmp_path / name).touch()
    text = message(lambda: segmentation_dataset.get_dataset('camvid', 'val', str(tmp_path)))
    for part in parts:
        assert part.format(folder=tmp_path) in text
    assert 'The folder is empty' in text or 'It contains' in text
