"""Data sets that are read from images and masks. Covers datasets/pair_records.py."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest

from deeplab import wording
from deeplab.checks import record_check
from deeplab.datasets import (
    build_folder_data,
    description_file,
    descriptor,
    images,
    pair_records,
    pairs,
    planes,
    record_index,
    segmentation_dataset,
)
from deeplab.errors import DataError, OptionError
from deeplab.options import BuildFolderOptions
from tests.helpers import dataset_files

PALETTE = [[0, 0, 0], [128, 64, 0], [0, 255, 0]]
ALPHA = np.full((6, 8, 1), 77, np.uint8)


def _mask(kind, ids):
    colors = np.array(PALETTE, np.uint8)[ids]
    return {
        'ids': dataset_files.png(ids),
        'palette': dataset_files.palette_png(ids),
        '16 bits': dataset_files.deep_png(ids[..., np.newaxis].astype(np.uint16)),
        '4 bits': dataset_files.four_bit_png(ids),
        'RGB': dataset_files.png(colors),
        'RGBA': dataset_files.png(np.concatenate([colors, ALPHA], 2)),
        'turned': dataset_files.with_exif(dataset_files.png(ids), dataset_files.exif(3)),
    }[kind]


_IMAGES = {
    'jpg': dataset_files.jpeg,
    'PNG': dataset_files.png,
    'jpeg': lambda pixels: dataset_files.with_exif(dataset_files.jpeg(pixels), dataset_files.exif(3)),
    'npy': dataset_files.npy,
}


def write(root, **more):
    """Every kind of mask and image in pairs, and a description of their folders."""
    images, masks = root / 'pictures', root / 'gt'
    images.mkdir(parents=True)
    masks.mkdir()
    kinds = ['ids', 'palette', '16 bits', '4 bits', 'RGB', 'RGBA', 'turned']
    for seed, (kind, (extension, encode)) in enumerate((k, i) for k in kinds for i in _IMAGES.items()):
        (images / f'{seed:02}.{extension}').write_bytes(encode(dataset_files.pixels(seed=seed)))
        (masks / f'{seed:02}.png').write_bytes(_mask(kind, dataset_files.ids(seed=seed)))
    content = {'num_classes': 3, 'palette': PALETTE, 'images': 'pictures', 'masks': 'gt', 'val_fraction': 0.3, **more}
    (root / 'dataset.json').write_text(json.dumps(content))
    return str(root / 'dataset.json')


def test_a_pair_of_files_is_the_record_that_the_builder_writes(tmp_path, monkeypatch):
    path = write(tmp_path / 'data')
    build_folder_data.run(
        BuildFolderOptions(
            image_folder=str(tmp_path / 'data/pictures'), mask_folder=str(tmp_path / 'data/gt'), dataset=path,
            val_fraction=0.3, num_shards=2, output_dir=str(tmp_path / 'records'),
        )
    )  # fmt: skip
    for split in ('train', 'val'):
        built = segmentation_dataset.get_dataset(path, split, str(tmp_path / 'records')).open_records()
        direct = segmentation_dataset.get_dataset(path, split, str(tmp_path / 'data')).open_records()
        assert isinstance(built, record_index.RecordIndex) and isinstance(direct, pair_records.PairRecords)
        for _ in range(2):  # the second time with the masks that it has kept
            assert [direct.read(i) for i in range(len(direct))] == [built.read(i) for i in range(len(built))]
        assert direct._masks
        assert direct.facts()['digest'] == built.facts()['digest']
        assert sum(direct.parts()) == len(direct)
        assert direct.name_of(0).endswith(tuple(_IMAGES))
    monkeypatch.setattr(pair_records, 'LARGEST_CACHE', 0)
    direct.close()
    assert direct.read(0) == built.read(0) and not direct._masks


@pytest.mark.parametrize('extension', _IMAGES)
def test_an_image_without_mask_is_read_once_and_decoded_only_if_it_changes(tmp_path, monkeypatch, extension):
    path = tmp_path / f'a.{extension}'
    path.write_bytes(_IMAGES[extension](dataset_files.pixels()))
    item = pairs.SourceFiles(str(path), None, 'a')
    expected = pairs.read(item, None).record
    reads, decodings, read_whole = [], [], images.read_whole

    def observed(content, decodes=True):
        decodings.append(decodes)
        return read_whole(content, decodes)

    monkeypatch.setattr(images, 'read_whole', observed)
    monkeypatch.setattr(pairs.SourceFiles, 'image_contents', lambda self: reads.append(self) or path.read_bytes())
    assert pair_records.PairRecords([item]).read(0) == expected
    assert len(reads) == 1 and any(decodings) == (extension in ('jpeg', 'npy'))


def test_only_changed_files_are_checked_again_and_their_sums_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(pair_records, 'GROUP', 4)
    path = write(tmp_path / 'data')
    reads, read = [], pair_records.PairRecords.read
    monkeypatch.setattr(pair_records.PairRecords, 'read', lambda self, n: reads.append(n) or read(self, n))

    def check():
        reads.clear()
        dataset = segmentation_dataset.get_dataset(path, 'train', str(tmp_path / 'data'))
        found = record_check.check(dataset, 3, cache_dir=str(tmp_path / 'log'))
        count = len(reads)
        return found, found.index.facts()['digest'], count, len(reads) - count

    first, digest, count, more = check()
    assert (count, more) == (len(first.records), 0)
    again, same, count, more = check()
    assert (count, more, same) == (0, 0, digest)
    np.testing.assert_array_equal(again.class_pixels, first.class_pixels)
    item = segmentation_dataset.get_dataset(path, 'train', str(tmp_path / 'data')).items[5]
    pathlib.Path(item.label).write_bytes(dataset_files.png(np.ones((6, 8), np.uint8)))
    changed, other, count, more = check()
    assert (count, more) == (4, 0) and other != digest
    assert changed.class_pixels[1] > first.class_pixels[1]
    np.testing.assert_array_equal(changed.records, first.records)


def test_masks_are_checked_again_if_the_table_of_their_colors_changes(tmp_path):
    (tmp_path / 'colors.txt').write_text('0 0 0 a\n128 64 0 b\n0 255 0 c\n')
    for name in ('a', 'b'):
        for folder, content in (
            ('images', dataset_files.pixels()),
            ('masks', np.array(PALETTE, np.uint8)[dataset_files.ids()]),
        ):
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / f'{name}.png').write_bytes(dataset_files.png(content))
    facts = {'num_classes': 3, 'images': 'images', 'masks': 'masks', 'colors': 'colors.txt', 'val_fraction': 0}
    path = tmp_path / 'dataset.json'
    path.write_text(json.dumps(facts))

    def pixels():
        dataset = segmentation_dataset.get_dataset(str(path), 'train', str(tmp_path))
        return record_check.check(dataset, 3, cache_dir=str(tmp_path / 'log')).class_pixels.tolist()

    first = pixels()
    (tmp_path / 'colors.txt').write_text('0 255 0 a\n128 64 0 b\n0 0 0 c\n')
    assert pixels() == first[::-1] != first
    (tmp_path / 'colors.txt').write_text('1 0 0 0 a\n2 128 64 0 b\n3 0 255 0 c\n')
    with pytest.raises(DataError, match='id 3 on .*subtract 1') as caught:
        pixels()
    assert 'records again' not in str(caught.value)  # there are none


def test_a_description_without_a_name_and_without_a_number_of_classes(tmp_path):
    path = write(tmp_path / 'rooms')
    assert descriptor.load(path).name == 'rooms'
    write(tmp_path / 'other')
    named = {'class_names': ['a', 'b', 'c'], 'images': 'pictures', 'masks': 'gt'}
    (tmp_path / 'other/dataset.json').write_text(json.dumps(named))
    path = description_file.beside(str(tmp_path / 'other'))
    with pytest.raises(OptionError, match="'num_classes' is missing. class_names has 3 names: add num_classes: 3"):
        descriptor.load(path)


def test_a_text_that_is_no_list_is_logged_once_in_a_process(tmp_path, caplog):
    path = write(tmp_path / 'data', val_fraction=None, lists='lists')
    (tmp_path / 'data/lists').mkdir()
    names = sorted(file.stem for file in (tmp_path / 'data/pictures').rglob('*') if file.is_file())
    for name, lines in (('train', names[1:]), ('val', names[:1]), ('classes', ['sky'])):
        (tmp_path / f'data/lists/{name}.txt').write_text('\n'.join(lines))
    for split in ('train', 'val', 'train'):
        assert segmentation_dataset.get_dataset(path, split, str(tmp_path / 'data')).items
    assert caplog.text.count("classes.txt' is left out") == 1


def test_what_the_description_says_decides(tmp_path):
    path = write(tmp_path / 'data')
    dataset_files.write_split(tmp_path / 'data', 'train', [[dataset_files.record()]])
    assert segmentation_dataset.get_dataset('camvid', 'train', str(tmp_path / 'data')).items
    assert segmentation_dataset.get_dataset('camvid', 'train', path).items  # the file instead of its folder
    dataset_files.write_split(tmp_path / 'records', 'train', [[dataset_files.record()]])
    assert segmentation_dataset.get_dataset(path, 'train', str(tmp_path / 'records')).shards
    (tmp_path / 'empty').mkdir()
    assert segmentation_dataset.get_dataset(path, 'train', str(tmp_path / 'empty')).items
    (tmp_path / 'empty' / 'model.ckpt-0.data-00000-of-00001').touch()  # a training has written there
    assert segmentation_dataset.get_dataset(path, 'train', str(tmp_path / 'empty')).items


@pytest.mark.parametrize(
    ('more', 'parts'),
    [
        ({'images': 'no'}, ['names a folder that does not exist', 'images', 'no']),
        ({'lists': 'no', 'val_fraction': None}, ['names a folder that does not exist', 'lists']),
        ({'masks': None}, ["'images' needs 'masks'"]),
        ({'seed': 'one'}, ["'seed' is 'one'", 'whole number']),
        ({'val_fraction': True}, ["'val_fraction' is True", 'a number']),
        ({'val_fraction': 2}, ["dataset.json: 'val_fraction: 2'", 'less than 1']),
        ({'lists': 'gt'}, ["/gt\"' and 'val_fraction: 0.3' both"]),
        ({'mask_suffix': '_m'}, ['dataset.json: There is no mask (*_m.png)', "Set 'mask_suffix'"]),
        ({'val_fraction': 0}, ["no split 'val'", 'Splits there: train']),
    ],
)
def test_wrong_values_are_named(tmp_path, more, parts):
    path = write(tmp_path / 'data', **more)
    if more.get('masks', '') is None:
        content = json.loads(pathlib.Path(path).read_text())
        pathlib.Path(path).write_text(json.dumps({k: v for k, v in content.items() if v is not None}))
    with pytest.raises((DataError, OptionError)) as caught:
        segmentation_dataset.get_dataset(path, 'val', str(tmp_path / 'data'))
    for part in parts:
        assert part in str(caught.value)


def test_messages_name_the_keys_of_the_description_rather_than_flags_of_the_builder(tmp_path):
    path = write(tmp_path / 'data')
    (tmp_path / 'data/gt/00.png').unlink()
    with wording.flag_names({'BuildFolderOptions.allow_unmatched': 'allow_unmatched'}):
        with pytest.raises(DataError, match=r"dataset\.json: 1 of 28 images in .* have no .* 'allow_unmatched: true'"):
            segmentation_dataset.get_dataset(path, 'val', str(tmp_path / 'data'))


def test_a_file_that_is_missing_later_is_named(tmp_path):
    path = write(tmp_path / 'data')
    dataset = segmentation_dataset.get_dataset(path, 'val', str(tmp_path / 'data'))
    pathlib.Path(dataset.items[1].label).unlink()
    with pytest.raises(DataError, match=f"Cannot read '{dataset.items[1].label}'"):
        record_check.check(dataset, 3)
    found = record_check.check(dataclasses.replace(dataset, skip_corrupt_records=True), 3)
    assert len(found.corrupt) == 1 and 1 not in found.records


def test_a_description_without_folders_is_one_of_records(tmp_path):
    description = descriptor.load('camvid')
    path = description_file.write(str(tmp_path), description, {'train': description_file.SplitFacts(2, 1, 'sha256:0')})
    assert segmentation_dataset.described_folders(path) is None
    assert segmentation_dataset.find_folders('camvid', str(tmp_path)) is None


def test_instances_beside_the_masks(tmp_path):
    path = write(tmp_path, instances='objects')
    for mask in sorted((tmp_path / 'gt').iterdir()):
        (tmp_path / 'objects').mkdir(exist_ok=True)
        content = dataset_files.png(np.arange(48, dtype=np.uint16).reshape(6, 8))
        is_turned = mask.read_bytes() == _mask('turned', dataset_files.ids(seed=int(mask.stem)))
        content = dataset_files.with_exif(content, dataset_files.exif(3)) if is_turned else content
        (tmp_path / 'objects' / mask.name).write_bytes(content)
    dataset = segmentation_dataset.get_dataset(path, 'train', path)
    read = dataset.open_records()
    options = BuildFolderOptions(
        image_folder=str(tmp_path / 'pictures'), mask_folder=str(tmp_path / 'gt'), dataset=path, val_fraction=0.3,
        instance_folder=str(tmp_path / 'objects'), output_dir=str(tmp_path / 'records'), num_shards=1,
    )  # fmt: skip
    build_folder_data.run(options)
    built = record_index.RecordIndex([str(tmp_path / 'records' / 'train-00000-of-00001.tfrecord')])
    assert len(read) == len(built)
    for _ in range(2):  # again, of the masks that are kept
        assert [read.read(i) for i in range(len(read))] == [built.read(i) for i in range(len(built))]
    result = record_check.check(dataset, 3, planes=[planes.INSTANCE])
    assert len(result.records) == len(built)
