"""Tests for checks/sources.py: the doctor finds images, masks and splits where the builder finds them."""

import os

import pytest
import tensorflow as tf

from deeplab.checks import sources
from deeplab.datasets import example, folder_splits, split_lists
from deeplab.errors import DataError, OptionError
from deeplab.options import BuildFolderOptions, DoctorOptions
from tests.helpers import dataset_files
from tests.helpers.annotation_exports import put

NAMES = ('s/a', 's/b', 't/a', 't/c')
BOTH = {'image_folder': 'images', 'mask_folder': 'masks'}
LISTS = {**BOTH, 'list_folder': 'lists'}
BESIDE = {'image_folder': '.', 'mask_folder': '.'}


def pairs(names, images='images', masks='masks', extension='jpg', suffix=''):
    """Paths of images and masks."""
    return [path for name in names for path in (f'{images}/{name}.{extension}', f'{masks}/{name}{suffix}.png')]


# The options, and the files.
LAYOUTS = {
    'folders': (BOTH, pairs(NAMES)),
    'folders beside files': (BOTH, pairs((*NAMES, 'd'))),
    'hidden folders': (BOTH, [*pairs(NAMES), 'images/.cache/s/a.jpg', 'masks/__MACOSX/s/a.png']),
    'suffix': ({**BOTH, 'mask_suffix': '_mask'}, pairs(NAMES, suffix='_mask')),
    'one folder': (BESIDE, pairs(NAMES, '.', '.')),
    'one folder, suffix': ({**BESIDE, 'mask_suffix': '_mask'}, pairs(NAMES, '.', '.', 'png', '_mask')),
    'one in the other': ({'image_folder': '.', 'mask_folder': 'masks'}, pairs(NAMES, '.', extension='png')),
    'other in the one': ({'image_folder': 'images', 'mask_folder': '.'}, pairs(NAMES, masks='.', extension='png')),
    'splits': (BOTH, pairs(('train/s/a', 'train/b', 'validation/s/a', 'validation/c'))),
    'names in lists': (LISTS, [*pairs(('s/a', 's/b', 't/c', 't/d')), 'lists/classes.txt', 'lists/empty.txt']),
}
TEXTS = {'train': 'b\na.jpg\n', 'val': 'some/where/c\nt\\\\d.png\n', 'classes': 'road\n', 'empty': ''}


def _remarks(source, *kinds):
    """The names in the remarks of some kinds."""
    return [remark.names for remark in source.remarks if remark.kind in kinds]


@pytest.mark.parametrize('layout', LAYOUTS)
def test_layouts_are_those_of_the_builder(tmp_path, monkeypatch, layout):
    options, paths = LAYOUTS[layout]
    monkeypatch.chdir(tmp_path)
    for path in paths:
        put(tmp_path / path, b'')
    for name, text in TEXTS.items() if 'list_folder' in options else ():
        put(tmp_path / f'lists/{name}.txt', text.encode())
    built = folder_splits.items(BuildFolderOptions(**options), None)
    found = sources.open_source(DoctorOptions('.', **options))
    seen = {split.name: [split.read(i) for i in range(len(split))] for split in found.splits}
    assert all(sample.mask == b'' and not sample.misnamed_mask for samples in seen.values() for sample in samples)
    stems = {name: [sample.stem for sample in samples] for name, samples in seen.items()}
    expected = {name: [item.name for item in items] for name, items in built.items()}
    if set(stems) == {sources.WHOLE}:
        expected = {sources.WHOLE: sorted(sum(expected.values(), []))}
    assert stems == {
        name.replace('val', 'validation') if layout == 'splits' else name: stems_of
        for name, stems_of in expected.items()
    }
    assert not (found.has_unmatched or _remarks(found, sources.UNUSED_MASK, folder_splits.UNLISTED))
    assert not any(split.missing for split in found.splits)


@pytest.mark.parametrize(
    ('line', 'is_list'),
    [
        ('7', True),
        ('images/7.jpg masks/7.png', True),
        ('7 -1', True),
        ('photo 7 (copy)', True),
        ('7 64 0 road', False),
        ('7 64 0 128', False),
        ('7 road', False),
        ('0 0 7', False),
    ],
)
def test_a_number_of_a_color_or_class_is_not_the_name_of_an_image(tmp_path, line, is_list):
    (tmp_path / 'a.txt').write_text(f'{line}\n')
    search = split_lists.Search(['7', 'photo 7 (copy)'])
    assert search.is_list(tmp_path / 'a.txt') == is_list


def test_linked_folders_and_names_by_path(tmp_path):
    for path in pairs(NAMES, 'data/i', 'data/m'):
        put(tmp_path / path, b'')
    (tmp_path / 'set/images').mkdir(parents=True)
    os.symlink(tmp_path / 'data/i/t', tmp_path / 'set/images/t')
    os.symlink(tmp_path / 'data/m', tmp_path / 'set/masks')
    (split,) = (source := sources.open_source(DoctorOptions(str(tmp_path / 'set')))).splits
    assert [split.read(i).name for i in range(len(split))] == ['t/a.jpg', 't/c.jpg']
    assert _remarks(source, sources.UNUSED_MASK) == [('s/a', 's/b')] and source.has_unmatched


def test_photos_of_phones_have_their_masks(tmp_path):
    for path in (
        *pairs(['a'], tmp_path / 'images', tmp_path / 'masks', 'heic'),
        *pairs(['b'], tmp_path / 'images', tmp_path / 'masks', 'jfif'),
    ):
        put(tmp_path / path, b'')
    found = sources.open_source(DoctorOptions(str(tmp_path)))
    assert len(found.splits[0]) == 2 and not _remarks(found, sources.UNUSED_MASK)


def test_images_outside_the_folders_of_splits_are_named(tmp_path):
    for path in (*pairs(('train/a', 'val/b', 'c', 'more/d')), 'images/e.jpg'):
        put(tmp_path / path, b'')
    source = sources.open_source(DoctorOptions(str(tmp_path)))
    assert {split.name: [item.name for item in split.items] for split in source.splits} == {
        'more': ['more/d'], 'train': ['train/a'], 'val': ['val/b']
    }  # fmt: skip
    assert _remarks(source, folder_splits.UNLISTED) == [('c',)] and source.has_unmatched


@pytest.mark.parametrize(
    ('options', 'said'),
    [
        ({'mask_suffix': '_no'}, r'no mask \(\*_no.png\).*mask_suffix'),
        ({'mask_folder': 'images'}, 'read as masks.*mask_suffix'),
        ({'list_folder': 'none'}, "'none' of .*list_folder does not exist"),
        ({'list_folder': 'images'}, 'no list'),
        ({'image_folder': 'lists'}, r'no image \(jpg, .*It contains 1 \.txt.*image_folder'),
    ],
)
def test_what_is_not_there(tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    for path in (*pairs(NAMES, extension='png'), 'lists/train.txt'):
        put(tmp_path / path, b'')
    with pytest.raises(DataError, match=said):
        sources.open_source(DoctorOptions('.', **{**BOTH, **options}))


def test_records_that_tensorflow_reads(tmp_path):
    """Only they may be elsewhere than on a local disk."""
    record = example.encode(b'image', 'jpeg', 'a', 1, 1, 3, b'mask')
    dataset_files.write_shard(tmp_path / 'val-00000-of-00001.tfrecord', [record])
    tf.io.gfile.makedirs('ram://doctor/none')
    tf.io.gfile.copy(str(tmp_path / 'val-00000-of-00001.tfrecord'), 'ram://doctor/val-00000-of-00001.tfrecord', True)
    source = sources.open_source(DoctorOptions('ram://doctor'))
    assert source.is_records and source.splits[0].read(0).mask == b'mask'
    with pytest.raises(DataError, match="'ram://doctor/none' contains no shards.*local folders only"):
        sources.open_source(DoctorOptions('ram://doctor/none'))
    with pytest.raises(DataError, match="'ram://other' cannot be read: No such file"):
        sources.open_source(DoctorOptions('ram://other'))
    for name in ('output', 'html', 'fix', 'image_folder'):
        with pytest.raises(OptionError, match=rf"{name}='gs://a/b' is not allowed.*local disk.*records"):
            DoctorOptions('records', **{name: 'gs://a/b'})
