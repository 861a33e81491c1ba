"""Folds: their groups, their balance, and the splits of a training without one of them."""

import dataclasses
import os

import numpy as np
import pytest

from deeplab import cli, wording
from deeplab.cli.program import find_program, names_in_messages
from deeplab.datasets import build_folder_data, folds, pairs, segmentation_dataset
from deeplab.errors import DataError, OptionError
from deeplab.options import BuildFolderOptions
from tests.helpers import dataset_files


def write(root, stems, **more):
    """Images and masks; the options of a build without test images."""
    for seed, stem in enumerate(stems):
        for folder in ('images', 'masks'):
            path = root / folder / f'{stem}.png'
            path.parent.mkdir(parents=True, exist_ok=True)
            content = dataset_files.pixels(seed=seed) if folder == 'images' else dataset_files.ids(seed=seed)
            path.write_bytes(dataset_files.png(content))
    names = {name: str(root / folder) for name, folder in (('image_folder', 'images'), ('mask_folder', 'masks'))}
    return BuildFolderOptions(**names, output_dir=str(root / 'records'), num_shards=1, **more)


def distribute(pixels, number, pattern=None):
    """Folds of records with these pixels of the classes 0, 1, ..., by name."""
    counts = {name: np.pad(each, (0, 256 - len(each))) for name, each in pixels.items()}
    items = [pairs.SourceFiles(f'{name}.png', None, name) for name in pixels]
    options = BuildFolderOptions(folds=number, group_pattern=pattern, output_dir='/nowhere')
    made = folds.distribute({'train': items}, counts, options)
    return {split: [item.name for item in own] for split, own in made.items()}


def test_classes_are_balanced_over_folds():
    common = {f'common{number:02}': [100, 0, 0] for number in range(30)}
    rare = {f'rare{number}': [60, 40, 0] for number in range(6)} | {
        f'third{number}': [80, 0, 20] for number in range(3)
    }
    made = distribute(common | rare, 3)
    assert [len(names) for names in made.values()] == [13, 13, 13]
    for names in made.values():
        assert sum(name.startswith('rare') for name in names) == 2
        assert sum(name.startswith('third') for name in names) == 1
    assert sorted(name for names in made.values() for name in names) == sorted(common | rare)


def test_groups_stay_together_and_no_fold_is_empty():
    pixels = {f'{video}_{frame}': [frame, 1] for video in 'abcde' for frame in range(4)}
    made = distribute(pixels, 5, '^(.)_')
    assert sorted(len({name[0] for name in names}) for names in made.values()) == [1] * 5
    made = distribute(pixels, 2, '^(.)_')
    assert not {name[0] for name in made['fold1']} & {name[0] for name in made['fold2']}
    assert sorted(map(len, made.values())) == [8, 12]
    with pytest.raises(DataError, match='folds=6 needs at least as many groups, but there are 5 groups.*group_pattern'):
        distribute(pixels, 6, '^(.)_')
    with pytest.raises(DataError, match='at least as many images, but there is 1 image'):
        distribute({'a': [1]}, 2)


def test_names_that_are_not_in_utf_8():
    made = distribute({'caf\udce9_1': [1], 'b': [1]}, 2)
    assert sorted(map(len, made.values())) == [1, 1]


def test_images_without_masks_are_distributed_by_number():
    items = [pairs.SourceFiles(f'{number}.png', None, str(number)) for number in range(7)]
    made = folds.distribute({'train': items}, {}, BuildFolderOptions(folds=3, output_dir='/nowhere'))
    assert sorted(map(len, made.values())) == [2, 2, 3]


def test_a_build_has_a_split_for_each_fold_and_keeps_test(tmp_path):
    stems = [f'{split}/{number}' for split in ('train', 'val') for number in range(3)] + ['test/0']
    options = write(tmp_path, stems, folds=3)
    summary = build_folder_data.run(options)
    images = {split: facts['images'] for split, facts in summary['splits'].items()}
    assert images == {'fold1': 2, 'fold2': 2, 'fold3': 2, 'test': 1}
    folder = options.output_dir
    joined = segmentation_dataset.get_dataset(f'{folder}/dataset.yaml', 'folds_without_2', folder)
    assert len(joined.open_records()) == 4
    assert [os.path.basename(shard)[:5] for shard in joined.shards] == ['fold1', 'fold3']
    with pytest.raises(DataError, match="no shard 'train-.*fold1, fold2, fold3, test. 'folds' is all folds together"):
        segmentation_dataset.find_shards('train', folder)
    with pytest.raises(DataError, match='have 3 folds, 1 to 3, but fold 4 is asked for'):
        segmentation_dataset.find_shards('folds_without_4', folder)
    with pytest.raises(DataError, match='have 3 folds, 1 to 3, but fold 4 is asked for'):
        segmentation_dataset.find_shards('fold4', folder)
    with pytest.raises(DataError, match='fold3 of an earlier build with more folds'):
        build_folder_data.run(write(tmp_path, stems, folds=2))


@pytest.mark.parametrize('split', ['folds_without_2', 'folds'])
def test_joined_folds_are_opened_by_the_indexes_of_each(tmp_path, monkeypatch, split):
    options = write(tmp_path, [f'train/{number}' for number in range(6)], folds=3)
    build_folder_data.run(options)
    joined = segmentation_dataset.get_dataset(f'{options.output_dir}/dataset.yaml', split, options.output_dir)
    load, loaded = segmentation_dataset.index_file.load, {}

    def noted(folder, name, shards):
        loaded[name] = len(load(folder, name, shards))
        return load(folder, name, shards)

    monkeypatch.setattr(segmentation_dataset.index_file, 'load', noted)
    assert len(joined.open_records()) == (6 if split == 'folds' else 4)
    assert loaded == {f'fold{number}': 1 for number in ((1, 2, 3) if split == 'folds' else (1, 3))}


def test_folds_of_lists_have_groups(tmp_path):
    (tmp_path / 'lists').mkdir()
    (tmp_path / 'lists' / 'train.txt').write_text('a_0\na_1\nb_0\nc_0\n')
    (tmp_path / 'lists' / 'test.txt').write_text('d_0\n')
    options = write(tmp_path, ['a_0', 'a_1', 'b_0', 'c_0', 'd_0'], folds=3)
    options = dataclasses.replace(options, list_folder=str(tmp_path / 'lists'), group_pattern='^(.)_')
    summary = build_folder_data.run(options)
    assert sorted(facts['images'] for facts in summary['splits'].values()) == [1, 1, 1, 2]
    with pytest.raises(OptionError, match='both choose the splits'):
        dataclasses.replace(options, folds=None)


def test_a_training_without_a_fold():
    words = ['--dataset_dir=records', '--train_logdir=logs', '--fold=2']
    train = cli.options_of('train', words)
    assert (train.dataset.split, train.validation.split) == ('folds_without_2', 'fold2')
    assert train.validation.every == train.number_of_steps
    assert cli.options_of('train', [*words, '--eval_every=100']).validation.every == 100
    assert dataclasses.replace(train, batch_size=4).fold == 2
    for flag in ('--eval_split=val', '--train_split=other'):
        with pytest.raises(OptionError, match=f'--fold=2 is not allowed: it chooses the splits; omit {flag}'):
            with wording.flag_names(names_in_messages(find_program('train'))):
                cli.options_of('train', [*words, flag, '--eval_every=9'])
    with pytest.raises(OptionError, match='fold=0 is not allowed'):
        cli.options_of('train', [*words[:2], '--fold=0'])


def test_records_without_folds(tmp_path):
    build_folder_data.run(write(tmp_path, ['a', 'b', 'c']))
    for split in ('folds_without_1', 'folds'):
        with pytest.raises(DataError, match='have no folds, but the splits train, val'):
            segmentation_dataset.find_shards(split, str(tmp_path / 'records'))


def test_folds_exclude_other_rules_of_splits():
    for more, said in (({'val_fraction': 0.2}, 'omit.*val_fraction'), ({'folds': 1}, 'from 2')):
        with pytest.raises(OptionError, match=said):
            BuildFolderOptions(**{'folds': 3, **more})
