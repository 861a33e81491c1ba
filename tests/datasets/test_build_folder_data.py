"""The builder of any folder of images and folder of masks, and the description that it writes.

Covers datasets/build_folder_data.py, datasets/color_tables.py, datasets/description_file.py, datasets/file_pairs.py,
datasets/folder_splits.py and datasets/plane_files.py.
"""

import dataclasses
import json
import os
import pathlib
import re

import numpy as np
import pytest

from deeplab import cli
from deeplab.datasets import (
    build_folder_data,
    build_journal,
    color_tables,
    description_file,
    descriptor,
    example,
    folder_splits,
    images,
    mask_sources,
    orientation,
    pair_records,
    pairs,
    plane_files,
    planes,
    record_index,
    split_lists,
)
from deeplab.datasets.mask_ids import MaskIds
from deeplab.errors import DataError, OptionError
from deeplab.options import BuildFolderOptions
from tests.helpers import dataset_files

PALETTE = np.array([[0, 0, 0], [128, 64, 0], [0, 255, 0]], np.uint8)


def write(root, stems, mask=dataset_files.png, mask_suffix=''):
    """Images and masks of some stems, with suffixes of every kind; the options."""
    for seed, stem in enumerate(stems):
        image, extension = [(dataset_files.jpeg, 'jpg'), (dataset_files.jpeg, 'JPEG'), (dataset_files.png, 'Png')][
            seed % 3
        ]
        for folder, name, content in (
            ('images', f'{stem}.{extension}', image(dataset_files.pixels(seed=seed))),
            ('masks', f'{stem}{mask_suffix}.{["png", "PNG"][seed % 2]}', mask(dataset_files.ids(seed=seed))),
        ):
            path = root / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return {
        'image_folder': str(root / 'images'),
        'mask_folder': str(root / 'masks'),
        'output_dir': str(root / 'records'),
        'num_shards': 1,
    }


def records(folder, split):
    index = record_index.RecordIndex([f'{folder}/{split}-00000-of-00001.tfrecord'])
    return [example.parse(index.read(record)) for record in range(len(index))]


def pixels_of(content):
    with images.Image.open(images.io.BytesIO(content)) as image:
        return np.asarray(image)


def failure(arguments, kind=DataError, **more):
    with pytest.raises(kind) as caught:
        build_folder_data.run(BuildFolderOptions(**{**arguments, **more}))
    assert '\n' not in str(caught.value)
    assert not os.path.exists(arguments['output_dir'])
    return str(caught.value)


@pytest.mark.parametrize(
    'kind',
    ['ids', 'palette', '16 bits', '4 bits', 'RGB', 'RGBA', 'palette of colors', 'RGB by description'],
)
def test_every_kind_of_mask_becomes_ids(tmp_path, kind):
    table = tmp_path / 'colors.txt'
    table.write_text('0 0 0 ground\n128,64,0;tree\n# a remark\n#00ff00 house\n')
    facts = {
        'license': 'CC BY 4.0',
        'source': 'the city',
        'categories': ('flat', 'nature', 'flat'),
        'eval_ids': (7, 21, 11),
    }
    (tmp_path / 'given.json').write_text(json.dumps({'num_classes': 3, 'palette': PALETTE.tolist(), **facts}))
    alpha = np.full((6, 8, 1), 77, np.uint8)
    encode, more = {
        'ids': (dataset_files.png, {}),
        'palette': (dataset_files.palette_png, {}),
        '16 bits': (lambda ids: dataset_files.deep_png(ids[..., np.newaxis].astype(np.uint16)), {}),
        '4 bits': (dataset_files.four_bit_png, {}),
        'RGB': (lambda ids: dataset_files.png(PALETTE[ids]), {'colors': str(table)}),
        'RGBA': (lambda ids: dataset_files.png(np.concatenate([PALETTE[ids], alpha], 2)), {'colors': str(table)}),
        'palette of colors': (
            lambda ids: dataset_files.encoded(images.Image.fromarray(PALETTE[ids]).quantize(), 'PNG'),
            {'colors': str(table)},
        ),
        'RGB by description': (lambda ids: dataset_files.png(PALETTE[ids]), {'dataset': str(tmp_path / 'given.json')}),
    }[kind]
    arguments = write(tmp_path, ['a', 'deep/b', 'deep/er/c.1'], encode)
    summary = build_folder_data.run(BuildFolderOptions(**arguments, **more, val_fraction=0))
    assert summary['num_classes'] == 3
    made = records(arguments['output_dir'], 'train')
    assert [record.image_name for record in made] == ['a', 'deep/b', 'deep/er/c.1']
    for seed, record in enumerate(made):
        assert images.read_mask(record.label_bytes).mode == 'L'
        np.testing.assert_array_equal(pixels_of(record.label_bytes), dataset_files.ids(seed=seed))
    assert made[0].image_bytes == (tmp_path / 'images/a.jpg').read_bytes()  # copied
    described = descriptor.load(summary['description'])
    if kind == 'RGB by description':
        assert {key: getattr(described, key) for key in facts} == facts
    assert (described.num_classes, described.ignore_label, dict(described.splits)) == (3, 255, {'train': 3})
    if 'colors' in more:
        assert described.class_names == ('ground', 'tree', 'house')
    if more:
        np.testing.assert_array_equal(described.palette, PALETTE)
    else:
        assert described.class_names == ('class_0', 'class_1', 'class_2')


def test_files_without_a_partner_are_named_and_counted_unless_allowed(tmp_path):
    arguments = write(tmp_path, [f'{number:02}' for number in range(15)])
    for number in range(12):
        next((tmp_path / 'masks').glob(f'{number:02}.*')).unlink()
    (tmp_path / 'masks' / 'extra.png').write_bytes(b'')
    message = failure(arguments)
    assert re.search('12 of 15 images in .*images. have no mask: 00, 01', message) and '09 and 2 more' in message
    assert re.search('1 of 4 masks in .*masks. have no image: extra', message) and 'allow_unmatched' in message
    (tmp_path / 'images' / 'extra.HEIC').write_bytes(b'')
    assert "images/extra.HEIC' has the name of such a mask, but images are jpg" in failure(arguments)
    (tmp_path / 'images' / '12.jpg').rename(tmp_path / 'images' / '12.jfif')
    summary = build_folder_data.run(BuildFolderOptions(**arguments, allow_unmatched=True, val_fraction=0))
    assert summary['splits']['train']['images'] == 3


def test_files_without_a_partner_may_be_in_lists_if_they_are_left_out(tmp_path, caplog):
    arguments = write(tmp_path, ['a', 'b', 'c', 'd'])
    next((tmp_path / 'masks').glob('c.*')).unlink()
    next((tmp_path / 'images').glob('d.*')).unlink()
    train = tmp_path / 'lists/train.txt'
    train.parent.mkdir()
    train.write_text('c.jpg\nb\na\nd\n')
    options = BuildFolderOptions(**arguments, list_folder=str(tmp_path / 'lists'), allow_unmatched=True)
    assert [item.name for item in build_folder_data.find_items(options)['train']] == ['b', 'a']
    assert 'Left out 1 image without a mask: c.' in caplog.text
    assert "train.txt': 2 files without a partner: c.jpg, d." in caplog.text
    train.write_text('a\nc\nnone\n')  # is the name of no file at all
    with pytest.raises(DataError, match=r'1 of 3 names .*: none\. '):
        build_folder_data.find_items(options)
    train.write_text('c\nd\n')
    with pytest.raises(DataError, match=r'2 of 2 names .*: c, d\. '):
        build_folder_data.find_items(options)
    with pytest.raises(DataError, match="train.txt' is not a folder. Set list_folder"):
        build_folder_data.find_items(dataclasses.replace(options, list_folder=str(train)))


def test_masks_with_a_suffix_may_lie_beside_their_images(tmp_path):
    arguments = write(tmp_path, ['a', 'b', 'c'], mask_suffix='_mask')
    assert 'mask_suffix' in failure(arguments)
    assert 'no mask (*_no.png)' in failure(arguments, mask_suffix='_no')
    for path in (tmp_path / 'masks').iterdir():
        path.rename(tmp_path / 'images' / path.name)
    beside = {**arguments, 'mask_folder': arguments['image_folder'], 'mask_suffix': '_mask'}
    assert build_folder_data.run(BuildFolderOptions(**beside))['splits']['train']['images'] == 2


def test_umlauts_of_other_systems(tmp_path):
    arguments = write(tmp_path, ['u\u0308/a\u0308', 'u\u0308/o\u0308'], mask_suffix='_ma\u0308ske')
    masks = tmp_path / 'masks'
    (masks / 'u\u0308').rename(masks / '\u00fc')
    (masks / '\u00fc/a\u0308_ma\u0308ske.png').rename(masks / '\u00fc/\u00e4_m\u00e4ske.png')
    lists = tmp_path / 'lists'
    lists.mkdir()
    (lists / 'train.txt').write_text('u\u0308/\u00e4.jpg\no\u0308\n', 'utf-8')
    options = BuildFolderOptions(**arguments, mask_suffix='_m\u00e4ske', list_folder=str(lists))
    found = build_folder_data.find_items(options)['train']
    assert [item.name for item in found] == ['\u00fc/\u00e4', '\u00fc/\u00f6']
    assert all(os.path.isfile(path) for item in found for path in (item.image, item.label))
    search = split_lists.Search(['a\u0308'])  # as of annotations
    assert search.find('x/\u00e4.png') == 'a\u0308'


def test_a_file_that_is_called_only_as_the_suffix_is_the_mask_of_no_image(tmp_path):
    arguments = write(tmp_path, ['a', 'b', 'c'], mask_suffix='_mask')
    for path in ('_mask.png', 'a/_mask.png'):
        (tmp_path / 'masks' / path).parent.mkdir(exist_ok=True)
        (tmp_path / 'masks' / path).write_bytes(dataset_files.png(dataset_files.ids()))
    found = build_folder_data.find_items(BuildFolderOptions(**arguments, mask_suffix='_mask', val_fraction=0))
    assert [os.path.basename(item.label) for item in found['train']] == ['a_mask.png', 'b_mask.PNG', 'c_mask.png']


def test_two_images_of_one_stem(tmp_path):
    arguments = write(tmp_path, ['a', 'b'])
    (tmp_path / 'images' / 'a.PNG').write_bytes(dataset_files.png(dataset_files.pixels()))
    message = failure(arguments)
    assert 'a.jpg' in message and 'a.PNG' in message and 'same name' in message


def test_all_files_are_checked_before_any_is_written(tmp_path):
    arguments = write(tmp_path, ['train/a', 'train/b', 'train/c', 'train/d', 'val/e', 'val/f'])
    for name in ('train/d.PNG', 'val/e.png'):
        (tmp_path / 'masks' / name).write_bytes(dataset_files.png(dataset_files.ids(5, 5)))
    (tmp_path / 'images' / 'val' / 'f.Png').write_bytes(b'text')
    (tmp_path / 'images' / 'train' / 'a.jpg').write_bytes(b'')
    message = failure(arguments)
    assert '4 of 6 pairs are invalid' in message and 'a.jpg' in message and 'it is empty' in message
    assert 'd.PNG' in message and 'And 1 more' in message


def test_folders_named_as_splits_are_the_splits(tmp_path):
    arguments = write(tmp_path, ['Training/a', 'Training/b', 'valid/c'])
    summary = build_folder_data.run(BuildFolderOptions(**arguments))
    assert {split: facts['images'] for split, facts in summary['splits'].items()} == {'train': 2, 'val': 1}


def test_images_outside_of_the_folders_of_splits(tmp_path):
    arguments = write(tmp_path, ['train2017/a', 'val2017/b', 'extra/c', 'd'])
    message = failure(arguments)
    assert '(train2017, val2017), but 2 images are in none of them: d, extra/c.' in message
    assert by(['train2017/a', 'val2017/b']) == {'train': ['train2017/a'], 'val': ['val2017/b']}
    assert by(['train/a', 'extra/c'], val_fraction=0) == {'train': ['train/a', 'extra/c']}


def test_folders_without_val_or_beside_others_are_told_of():
    told = []
    every = [f'{number:02}' for number in range(10)]
    for stems, said in (
        (['train/a', 'train/b'], 'put 2 images into train. To draw val from all images instead, set val_fraction=0.1'),
        (['train/a', 'holdout/b'], "The names 'holdout', 'train' are not used as splits, since 'holdout' is not among"),
        (['train/a', *every], "The names 'train' are not used as splits, since some images have none: all images are"),
        (['val/a', 'test/b'], 'since none is for training'),
    ):
        splits = folder_splits.split(stems, BuildFolderOptions(), tell=told.append)
        assert said in told.pop().what and not told
        assert ('val' in splits) is ('holdout' in said or 'since' in said)
    folder_splits.split(['a', 'b'], BuildFolderOptions(), {'a': 'Train', 'b': 'Train'}, tell=told.append)
    assert told.pop().kind == folder_splits.NO_VAL
    for stems, more in ((['train/a'], {'folds': 2}), (['train/a', 'x/b'], {'val_fraction': 0}), (['x/a', 'y/b'], {})):
        folder_splits.split(stems, BuildFolderOptions(**more), tell=told.append)
    assert not told
    for name in ('eval', 'dev', 'Evaluation'):
        assert set(folder_splits.split(['train/a', f'{name}/b'], BuildFolderOptions())) == {'train', 'val'}


def test_splits_of_an_earlier_build_are_named(tmp_path, caplog):
    arguments = write(tmp_path, ['a', 'b', 'c'])
    build_folder_data.run(BuildFolderOptions(**arguments))
    assert 'earlier build' not in caplog.text
    build_folder_data.run(BuildFolderOptions(**arguments, val_fraction=0))
    assert 'also has records of an earlier build: split val. Remove these files' in caplog.text


@pytest.mark.parametrize(
    ('line', 'expected'),
    [
        ('photo (2)', None),
        ('photo 2.jpg', None),
        ('my photo', None),
        ('photo.jpg 3', 'photo'),
        ('photo -1', 'photo'),
        ('photo photo_mask.png', 'photo'),
        ('photo masks/photo.png', 'photo'),
        ('in/photo.tif in/mask.png 7', 'photo'),
        ('photo 1 1 1', 'photo'),
        ('photo 683 512', 'photo'),
        ('photo mask_photo.png', 'photo'),
        ('photo masks/1.png 7', 'photo'),
        ('photo 1 1 (2)', None),
    ],
)
def test_spaces_in_lines_of_lists(line, expected):
    search = split_lists.Search(['photo', 'scene'], folder_splits._LISTED_FORMATS)
    assert search.find(line) == expected
    assert search.find_name('photo 2.jpg') is None and search.find_name('in/photo.tif') == 'photo'


def by(stems, **more):
    return folder_splits.split(stems, BuildFolderOptions(**more))


def test_a_ratio_is_repeatable_and_changes_with_the_seed():
    stems = [f'{number:03}' for number in range(200)]
    first = by(stems)
    assert len(first['val']) == 20 and sorted(first['train'] + first['val']) == stems
    assert by(stems) == first
    assert by(stems, seed=1)['val'] != first['val']
    assert len(by(stems, val_fraction=0.25)['val']) == 50
    assert by(stems, val_fraction=0) == {'train': stems}
    assert len(set(by(stems[:-1])['val']) ^ set(first['val'])) <= 2  # nearly the same without one image
    assert {split: len(names) for split, names in by(stems[:2], val_fraction=0.9).items()} == {'train': 1, 'val': 1}
    with pytest.raises(DataError, match='one image only.*val_fraction'):
        by(['a'])


def test_frames_of_a_video_stay_together():
    stems = [f'{video}_{frame:02}' for video in 'abcdefgh' for frame in range(10)]
    made = by(stems, group_pattern=r'^(.*)_\d+$', val_fraction=0.25)
    videos = {split: {stem[0] for stem in names} for split, names in made.items()}
    assert len(videos['val']) == 2 and not videos['train'] & videos['val']
    long = [f'long_{frame}' for frame in range(90)] + [f'{video}_{frame}' for video in 'ab' for frame in range(5)]
    for seed in range(5):  # a video that is larger than the share is not taken
        assert len(by(long, group_pattern='^[a-z]+', seed=seed)['val']) in (5, 10)
    assert len(by(long, group_pattern='^[a-z]+', val_fraction=0.01)['val']) == 5
    with pytest.raises(DataError, match=r'one group of images only.*smaller groups.*group_pattern=.*val_fraction'):
        by(stems[:10], group_pattern='^(a)')
    with pytest.raises(DataError, match=r'group_pattern.* finds no group in 80 of 80'):
        by(stems, group_pattern='x')
    with pytest.raises(OptionError, match='group_pattern.*not a regular expression'):
        by(stems, group_pattern='(')


def test_lists_take_paths_extensions_blank_lines_and_foreign_line_ends(tmp_path, caplog):
    stems = ['city/a', 'city/b c', 'land/a', 'land/d.1', 'land/e']
    (tmp_path / 'train.txt').write_bytes(
        b'\xef\xbb\xbf# split\r\nland\\a.JPG\r\n\r\n /data/images/city/a.png \r\nb c\r\nland/a\r\n'
    )
    (tmp_path / 'val.TXT').write_text('images/land/d.1.jpg masks/land/d.1.png\ne')
    made = by(stems, list_folder=str(tmp_path))
    assert made == {'train': ['land/a', 'city/a', 'city/b c'], 'val': ['land/d.1', 'land/e']}
    (tmp_path / 'train.txt').write_text('a\nnone\nd.1\n')
    with pytest.raises(DataError, match=r'2 of 3 names in the list .*train\.txt.*: a, none\. '):
        by(stems, list_folder=str(tmp_path))
    (tmp_path / 'train.txt').write_text('land/a\n')
    (tmp_path / 'classes.txt').write_text('road\nsky\n')
    assert set(by(stems, list_folder=str(tmp_path))) == {'train', 'val'}
    assert "classes.txt' is left out" in caplog.text
    (tmp_path / 'val.TXT').write_text('land/z\n')  # is certainly meant as a list
    with pytest.raises(DataError, match=r'1 of 1 names in the list .*val\.TXT'):
        by(stems, list_folder=str(tmp_path))
    with pytest.raises(OptionError, match=r'list_folder=.* and val_fraction=0\.1 both'):
        by(stems, list_folder=str(tmp_path), val_fraction=0.1)


@pytest.mark.parametrize(
    ('name', 'text'),
    [
        ('labelmap.txt', '# label:color_rgb:parts:actions\nroad:128,64,128::\nsky 2:70,130,180::\nignore:0,0,0::\n'),
        ('class_dict.csv', 'name,r,g,b\nroad,128,64,128\nsky 2,70,130,180\nignore,0,0,0\n'),
        ('colors.txt', '128 64 128\troad\n\n70 130 180\t\tsky 2\n0 0 0 Ignore\n'),
        ('ids.txt', '0 128 64 128 road\n1 70 130 180 sky 2\n255 0 0 0\n'),
        ('colors.json', '{"road": [128, 64, 128], "sky 2": [70, 130, 180], "ignore": [0, 0, 0]}'),
    ],
)
def test_color_tables_of_several_tools(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    table = color_tables.load(str(tmp_path / name), 255)
    assert [(entry.class_id, entry.color) for entry in table.entries] == [
        (0, (128, 64, 128)),
        (1, (70, 130, 180)),
        (255, (0, 0, 0)),
    ]
    assert table.names(2) == ('road', 'sky 2')


@pytest.mark.parametrize(
    ('text', 'said'),
    [
        ('128 64 128 road\nsky\n', "Line 2 .*no color: 'sky'"),
        ('1 2 300 road\n', '300.*from 0 to 255'),
        ('1 2 3 a\n1 2 3 b\n', 'gives the color .* to the classes 0 and 1'),
        ('0 1 2 3 a\n4 5 6 b\n', 'four numbers'),
        ('', 'has no color'),
        ('\n'.join(f'{number} 0 0' for number in range(256)) + '\n0 1 0', '257 classes are not possible'),
        ('256 1 2 3 a', 'id 256: the largest id is 255'),
    ],
)
def test_invalid_color_tables(tmp_path, text, said):
    (tmp_path / 'colors.txt').write_text(text)
    with pytest.raises(OptionError, match=said):
        color_tables.load(str(tmp_path / 'colors.txt'), 255)


def test_unknown_colors_and_colors_without_a_table(tmp_path):
    arguments = write(tmp_path, ['a', 'b'], lambda ids: dataset_files.png(PALETTE[ids]))
    assert '3 channels (RGB)' in failure(arguments) and '--colors' in failure(arguments)
    (tmp_path / 'colors.txt').write_text('0 0 0 a\n128 64 0 b\n')
    message = failure(arguments, colors=str(tmp_path / 'colors.txt'))
    assert '(0, 255, 0) on ' in message and 'not in the color table' in message
    (tmp_path / 'masks' / 'a.png').write_bytes(dataset_files.png(dataset_files.pixels()))
    assert 'smoothed' in failure(arguments, colors=str(tmp_path / 'colors.txt'))


@pytest.mark.parametrize(('factor', 'said'), [(255, 'only the ids 0 and 255'), (100, 'a gray level for each class')])
def test_ids_that_are_not_those_of_classes(tmp_path, factor, said):
    arguments = write(
        tmp_path, ['a', 'b'], lambda ids: dataset_files.png((ids % (2 if factor == 255 else 3)) * np.uint8(factor))
    )
    message = failure(arguments)
    assert said in message and 'num_classes' in message and "'255 255 255 object'" in message
    if factor == 255:
        message = failure(arguments, class_names=('other', 'road'))
        assert said in message and 'nothing but 0 can be learned' in message and "'255 255 255 object'" in message
        (tmp_path / 'given.json').write_text(json.dumps({'num_classes': 2, 'palette': [[0, 0, 0], [9, 8, 7]]}))
        assert 'nothing but 0' in failure(arguments, dataset=str(tmp_path / 'given.json'))


def test_one_class_without_the_background(tmp_path):
    arguments = write(tmp_path, ['a', 'b'], lambda ids: dataset_files.png(ids % 2))
    named = "name it, too: set class_names=('background', 'crack'); otherwise fix the mask"
    assert named in failure(arguments, class_names=('crack',))
    assert 'name it, too' not in failure(arguments, class_names=('background',))
    arguments = write(tmp_path, ['a', 'b'], lambda ids: dataset_files.png(ids % 2 * np.uint8(255)))
    message = failure(arguments, class_names=('crack',))
    assert 'write 1 for the object' in message.lower() and message.endswith("class_names=('background', 'crack').")
    assert failure(arguments, num_classes=1).endswith('set num_classes=2.')


def test_palettes_that_differ_from_file_to_file(tmp_path):
    def encode(ids):
        """Other programs number the colors in the order in which they occur."""
        order = list(dict.fromkeys(ids.ravel().tolist()))
        picture = images.Image.fromarray(np.array([order.index(i) for i in ids.flat], np.uint8).reshape(ids.shape))
        picture.putpalette(PALETTE[order].tobytes())
        return dataset_files.encoded(picture, 'PNG')

    arguments = write(tmp_path, ['a', 'b', 'c'], encode)
    message = failure(arguments)
    assert re.match(r"The index \d has different colors in the palettes of '\S+/\w\.\w+' and '\S+/\w\.", message)
    assert 'a file for colors;' in message
    (tmp_path / 'given.json').write_text(json.dumps({'num_classes': 3, 'palette': PALETTE.tolist()}))
    assert 'different colors' in failure(arguments, dataset=str(tmp_path / 'given.json'))
    table = tmp_path / 'colors.txt'
    table.write_text('0 0 0 ground\n128 64 0 tree\n0 255 0 house\n')
    build_folder_data.run(BuildFolderOptions(**arguments, colors=str(table), val_fraction=0))
    for seed, record in enumerate(records(arguments['output_dir'], 'train')):
        np.testing.assert_array_equal(pixels_of(record.label_bytes), dataset_files.ids(seed=seed))


@pytest.mark.parametrize('bits', [1, 8])
def test_a_table_of_gray_levels_converts_gray_masks(tmp_path, bits):
    encode = (
        (lambda ids: dataset_files.few_bit_png(ids, 1))
        if bits == 1
        else (lambda ids: dataset_files.png(ids * np.uint8(255)))
    )
    arguments = write(tmp_path, ['a', 'b'], lambda ids: encode(ids % 2))
    (tmp_path / 'gray.txt').write_text('255 255 255 road\n0 0 0 other\n')
    options = BuildFolderOptions(**arguments, colors=str(tmp_path / 'gray.txt'), val_fraction=0)
    assert build_folder_data.run(options)['num_classes'] == 2
    for seed, record in enumerate(records(arguments['output_dir'], 'train')):
        np.testing.assert_array_equal(pixels_of(record.label_bytes), 1 - dataset_files.ids(seed=seed) % 2)
    table = color_tables.chosen(str(tmp_path / 'gray.txt'), None, 255)
    (items,) = folder_splits.items(options, table).values()
    read = pair_records.PairRecords(items)  # without records, as training from folders does
    built = records(arguments['output_dir'], 'train')
    assert [example.parse(read.read(i)).label_bytes for i in range(2)] == [record.label_bytes for record in built]


def test_a_table_with_colors_leaves_gray_masks_as_they_are():
    table = color_tables.ColorTable([color_tables.Entry(0, (0, 0, 0)), color_tables.Entry(1, (128, 64, 0))])
    mask = dataset_files.png(np.array([[0, 1]], np.uint8))
    assert table.as_ids(mask) == mask


def test_a_suffix_that_all_masks_have_is_named(tmp_path):
    arguments = write(tmp_path, ['a', 'a_2', 'b'], mask_suffix='_mask')
    message = failure(arguments)
    assert re.search('3 of 3 images in .*images. have no mask', message) and "set mask_suffix='_mask'" in message
    (tmp_path / 'images/c.png').write_bytes(dataset_files.png(dataset_files.pixels()))
    assert 'If the names of all masks end in the same text' in failure(arguments)


def test_many_faults_are_left_to_the_doctor(tmp_path):
    message = failure(write(tmp_path, 'abcd', lambda ids: dataset_files.png(PALETTE[ids])))
    assert message.startswith('4 of 4 pairs are invalid.')
    images, masks = tmp_path / 'images', tmp_path / 'masks'
    assert f'And 1 more. The command line "deeplab doctor . --image_folder={images} --mask_folder={masks}"' in message


def test_names_and_numbers_of_classes_that_disagree(tmp_path):
    arguments = write(tmp_path, ['a', 'b'])
    assert '4 by num_classes, 2 by class_names' in failure(
        arguments, OptionError, num_classes=4, class_names=('a', 'b')
    )
    assert 'neither classes nor the ignore label' in failure(arguments, class_names=('a', 'b'))
    assert "names.txt' cannot be read" in failure(arguments, class_names=('names.txt',))


def test_more_classes_than_masks_can_hold_are_refused_before_a_file_is_read(tmp_path):
    (tmp_path / 'names.txt').write_text('\n'.join(f'class {number}' for number in range(100_000)))
    nothing = {'image_folder': str(tmp_path / 'none'), 'output_dir': str(tmp_path / 'records')}
    message = failure(nothing, OptionError, class_names=(str(tmp_path / 'names.txt'),))
    assert message.startswith('class_names: 100,000 classes are not possible, only 1 to 256,')


def test_the_folder_of_the_records_is_enough(tmp_path, capsys):
    arguments = write(tmp_path, ['a', 'b', 'c'])
    (tmp_path / 'names.txt').write_text('wall\nfloor\n\nlamp\n')
    folder = arguments['output_dir']
    line = [f'--{name}={value}' for name, value in arguments.items()]
    assert cli.main(['build_folder_data', *line, f'--class_names={tmp_path / "names.txt"}', '--val_fraction=0.3']) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith('dataset.yaml: 3 classes')
    path = f'{folder}/dataset.yaml'
    assert descriptor.load(path).class_names == ('wall', 'floor', 'lamp')
    for program, words in (
        ('train', ['--train_logdir=logs']),
        ('eval', ['--checkpoint_dir=logs', '--eval_logdir=eval']),
        ('vis', ['--checkpoint_dir=logs', '--vis_logdir=vis']),
        ('preview', []),
    ):
        made = cli.options_of(program, [*words, f'--dataset_dir={folder}'])
        made = getattr(made, 'train', made)
        assert made.dataset.name == path
        assert made.model.num_classes == 3
    given = ['--train_logdir=logs', f'--dataset_dir={folder}', '--dataset=camvid']
    assert cli.options_of('train', given).dataset.name == 'camvid'
    os.remove(path)
    assert cli.options_of('train', given[:2]).dataset.name == 'pascal_voc_seg'
    pathlib.Path(path).write_text('{"images": []}')  # of another program
    assert cli.options_of('train', given[:2]).dataset.name == 'pascal_voc_seg'
    pathlib.Path(path).write_text('{"num_classes": 3')
    with pytest.raises(OptionError, match=r'dataset\.yaml is not YAML'):
        cli.options_of('train', given[:2])


def test_a_description_that_was_edited_is_kept(tmp_path, caplog):
    arguments = write(tmp_path, ['a', 'b'])
    path = pathlib.Path(build_folder_data.run(BuildFolderOptions(**arguments))['description'])
    build_folder_data.run(BuildFolderOptions(**arguments, val_fraction=0.5))
    assert not os.path.exists(f'{path}.old')
    path.write_text(path.read_text().replace('class_1', 'tree'))
    build_folder_data.run(BuildFolderOptions(**arguments))
    assert 'tree' in pathlib.Path(f'{path}.old').read_text() and '.old' in caplog.text
    assert description_file.beside(arguments['output_dir']) == str(path)


@pytest.mark.parametrize('kind', ['jpeg', 'palette', 'RGBA', 'gray of 16 bits', 'array'])
def test_larger_images_are_downsampled_with_their_masks_and_planes(tmp_path, kind):
    ids = np.zeros((96, 64), np.uint8)  # upright, in the orientation in which viewers display it
    ids[:48, :40], ids[:48, 40:], ids[91] = 1, 3, 255
    levels = 60 * ids.astype(np.uint16) + 10
    levels[91] = 10
    is_wide, value = kind in ('gray of 16 bits', 'array'), 1 if kind == 'array' else 6
    stored = np.rot90(levels * 256 if is_wide else levels.astype(np.uint8), 1 if value == 6 else 0)
    rgb = images.Image.fromarray(np.repeat(stored[..., None], 3, 2)) if not is_wide else None
    content = {
        'jpeg': lambda: dataset_files.encoded(rgb, 'JPEG'),
        'palette': lambda: dataset_files.encoded(rgb.quantize(), 'PNG'),
        'RGBA': lambda: dataset_files.png(np.dstack([np.asarray(rgb), np.full(stored.shape, 7, np.uint8)])),
        'gray of 16 bits': lambda: dataset_files.deep_png(stored[..., None]),
        'array': lambda: dataset_files.npy(np.repeat(stored[..., None], 4, 2)),
    }[kind]()
    files = {'image': content if value == 1 else dataset_files.with_exif(content, dataset_files.exif(value))}
    files |= {'mask': dataset_files.palette_png(ids), 'depth': dataset_files.png(ids.astype(np.uint16))}
    instances = np.where(ids == 255, 7, np.where(ids == 1, 100 + np.arange(64), 0)).astype(np.uint16)
    instances[90, 0] = 7  # its only pixel with a class, which is not in the smaller mask
    files['instances'] = dataset_files.png(instances)
    for name, each in files.items():
        (tmp_path / name).write_bytes(each)
    path = {name: str(tmp_path / name) for name in files}
    depth = plane_files.PlaneFiles(planes.DEPTH._replace(scale=1), (path['depth'],))
    beside = mask_sources.FileBeside(path['instances'])
    item = pairs.SourceFiles(path['image'], path['mask'], 'a', beside, None, (depth,), 32)
    built = pairs.read(item, MaskIds(4, 255))
    record = example.parse(built.record)
    small = images.nearest(ids, (32, 21))
    assert (record.features['image/height'], record.features['image/width']) == (32, 21)
    assert orientation.read(record.image_bytes) == 1
    np.testing.assert_array_equal(images.read_ids(record.label_bytes), small)
    assert built.counts.tolist() == np.bincount(small.ravel(), minlength=256).tolist() and not built.counts[2]
    depths, instances = (
        planes.read(plane, record.features, (32, 21))[..., 0] for plane in (depth.plane, planes.INSTANCE)
    )
    np.testing.assert_array_equal(depths, small)
    assert set(instances[small == 1]) < set(range(100, 140)) and not instances[small != 1].any()
    header = images.read_header(record.image_bytes)
    assert (header.size, header.bits) == ((32, 21), 16 if is_wide else 8)
    pixels = images.read_array(record.image_bytes) if kind == 'array' else pixels_of(record.image_bytes)
    pixels = pixels.reshape(32, 21, -1)[..., 0] / (256 if is_wide else 1)
    np.testing.assert_allclose(pixels[2:14, 2:11], 70, atol=2)
    np.testing.assert_allclose(pixels[2:14, 15:19], 190, atol=2)
    np.testing.assert_allclose(pixels[18:28, 2:19], 10, atol=2)
    same = dataclasses.replace(item, max_side=96)
    assert value == 6 or example.parse(pairs.read(same, None).record).image_bytes == files['image']
    assert len({build_journal.inputs_of([each], ()) for each in (item, same)}) == 2


def test_build_with_a_longest_side(tmp_path):
    arguments = write(tmp_path, ['a', 'b'])
    (tmp_path / 'images' / 'a.jpg').write_bytes(dataset_files.jpeg(dataset_files.pixels(48, 64)))
    (tmp_path / 'masks' / 'a.png').write_bytes(dataset_files.png(dataset_files.ids(48, 64)))
    build_folder_data.run(BuildFolderOptions(**arguments, max_side=32, val_fraction=0))
    made = records(arguments['output_dir'], 'train')
    assert [images.read_header(record.image_bytes).size for record in made] == [(24, 32), (6, 8)]
    assert made[1].image_bytes == (tmp_path / 'images/b.JPEG').read_bytes()
    (tmp_path / 'images' / 'a.jpg').unlink()
    (tmp_path / 'images' / 'a.png').write_bytes(dataset_files.deep_png(np.zeros((48, 64, 3), np.uint16)))
    with pytest.raises(DataError, match='a.png.: a PNG of 16 bits with several channels cannot be resized'):
        build_folder_data.run(BuildFolderOptions(**arguments, max_side=32, val_fraction=0))
    for wrong, said in (({'max_side': 31}, '32 or more'), ({'max_side': 64, 'tile_size': (64, 64)}, 'omit it')):
        with pytest.raises(OptionError, match=said):
            BuildFolderOptions(**wrong)


class TestInstances:
    """Masks of instance ids beside the masks of class ids."""

    stems = [f'{i}' for i in range(6)]

    def write(self, root, **more):
        arguments = {**write(root, self.stems), 'num_classes': 3, **more}
        for number, stem in enumerate(self.stems):
            path = root / 'instances' / f'{stem}.png'
            path.parent.mkdir(exist_ok=True)
            ids = np.where(dataset_files.ids(seed=number) == 2, 1000 * np.arange(48).reshape(6, 8) + 1, 0)
            path.write_bytes(dataset_files.png(ids.astype(np.uint16)))
        return {**arguments, 'instance_folder': str(root / 'instances')}

    def test_they_are_read_back(self, tmp_path):
        arguments = self.write(tmp_path)
        build_folder_data.run(BuildFolderOptions(**arguments))
        for split in ('train', 'val'):
            for record in records(arguments['output_dir'], split):
                ids = planes.read(planes.INSTANCE, record.features, (6, 8))[..., 0]
                expected = pixels_of((tmp_path / 'instances' / f'{record.image_name}.png').read_bytes())
                np.testing.assert_array_equal(ids, expected)
        assert descriptor.load(f'{arguments["output_dir"]}/dataset.yaml').things == (2,)

    def test_a_data_set_names_the_things(self, tmp_path):
        (tmp_path / 'own.json').write_text('{"num_classes": 3, "things": [1, 2], "depth_scale": 0.5}')
        arguments = self.write(tmp_path, dataset=str(tmp_path / 'own.json'))
        build_folder_data.run(BuildFolderOptions(**arguments))
        described = descriptor.load(f'{arguments["output_dir"]}/dataset.yaml')
        assert (described.things, described.depth_scale) == ((1, 2), 0.5)

    @pytest.mark.parametrize(('things', 'ids'), [(('c', 'b'), (1, 2)), (('all',), (0, 1, 2))])
    def test_options_name_the_things(self, tmp_path, things, ids):
        arguments = self.write(tmp_path, class_names=('a', 'b', 'c'))
        build_folder_data.run(BuildFolderOptions(**arguments, things=things))
        assert descriptor.load(f'{arguments["output_dir"]}/dataset.yaml').things == ids
        other = {**arguments, 'output_dir': str(tmp_path / 'other')}
        assert 'things names d' in failure(other, OptionError, things=('d',))

    def test_records_without_them_do_not_change(self, tmp_path):
        arguments = self.write(tmp_path)
        build_folder_data.run(BuildFolderOptions(**arguments))
        with_instances = records(arguments['output_dir'], 'train')
        build_folder_data.run(BuildFolderOptions(**{**arguments, 'instance_folder': None}))
        plain = records(arguments['output_dir'], 'train')
        assert plain == with_instances  # image, name and mask
        assert set(with_instances[0].features) - set(plain[0].features) == {
            'image/segmentation/instance/encoded',
            'image/segmentation/instance/format',
        }
        assert descriptor.load(f'{arguments["output_dir"]}/dataset.yaml').things is None

    def test_mistakes(self, tmp_path):
        arguments = self.write(tmp_path)
        assert 'does not exist' in failure(arguments, instance_folder=str(tmp_path / 'nowhere'))
        bad = tmp_path / 'instances' / '3.png'
        bad.write_bytes(dataset_files.png(np.zeros((8, 6), np.uint16)))
        assert '8 x 6 pixels' in failure(arguments)
        bad.write_bytes(dataset_files.png(np.zeros((6, 8), np.uint16)))
        (tmp_path / 'masks' / '3.PNG').write_bytes(dataset_files.png(np.full((6, 8), 255, np.uint8)))
        build_folder_data.run(BuildFolderOptions(**arguments, val_fraction=0))
        bad.unlink()
        other = {**arguments, 'output_dir': str(tmp_path / 'other')}
        text = failure(other)
        assert text.startswith('1 of 6 images have no instance mask (zeros for no instance) in') and text.count('3')
        for wrong in ({'instances': True, 'instance_folder': None}, {'annotations': 'a.json'}):
            with pytest.raises(OptionError, match='instance_folder'):
                BuildFolderOptions(**{'instance_folder': 'instances', **wrong})


class TestDepthAndOverlappingClasses:
    """Folders of depth, and of masks of classes that overlap."""

    stems = [f'{i}' for i in range(6)]

    def write(self, root, monkeypatch, has_masks=False):
        monkeypatch.chdir(root)
        arguments = write(root, self.stems)
        if not has_masks:
            del arguments['mask_folder']
            (root / 'masks').rename(root / 'others')
        (root / 'depth').mkdir()
        for seed, stem in enumerate(self.stems):
            depth = dataset_files.ids(classes=9, seed=seed)
            content = dataset_files.npy(depth / 7.0) if seed % 2 else dataset_files.png(depth.astype(np.uint16))
            (root / 'depth' / f'{stem}.{"npy" if seed % 2 else "png"}').write_bytes(content)
            for number, name in enumerate(('b', 'a')):
                (root / 'classes' / name).mkdir(parents=True, exist_ok=True)
                mask = 255 * (dataset_files.ids(seed=seed) == number)
                if (stem, name) != ('3', 'a'):
                    (root / 'classes' / name / f'{stem}.png').write_bytes(dataset_files.png(mask.astype(np.uint8)))
        return arguments

    def read(self, arguments, plane):
        for split in ('train', 'val'):
            for record in records(arguments['output_dir'], split):
                yield int(record.image_name), record, planes.read(plane, record.features, (6, 8))

    @pytest.mark.parametrize('has_masks', [True, False])
    def test_depth_is_read_back(self, tmp_path, monkeypatch, has_masks):
        arguments = self.write(tmp_path, monkeypatch, has_masks)
        build_folder_data.run(BuildFolderOptions(**arguments, depth_folder='depth', depth_scale=0.5))
        described = descriptor.load('records/dataset.yaml')
        assert (described.depth_scale, described.num_classes) == (0.5, 3 if has_masks else 1)
        (plane,) = planes.of_dataset([planes.DEPTH], described)
        for seed, record, depth in self.read(arguments, plane):
            expected = dataset_files.ids(classes=9, seed=seed) * (np.float32(1 / 7.0) if seed % 2 else 0.5)
            np.testing.assert_allclose(depth[..., 0], expected, rtol=1e-6)
            assert (record.label_bytes is not None) == has_masks

    @pytest.mark.parametrize(('names', 'order'), [((), 'ab'), (('b', 'a'), 'ba')])
    def test_overlapping_classes_are_read_back(self, tmp_path, monkeypatch, names, order):
        arguments = self.write(tmp_path, monkeypatch)
        build_folder_data.run(BuildFolderOptions(**arguments, class_names=names, multilabel_folder='classes'))
        described = descriptor.load('records/dataset.yaml')
        assert ''.join(described.class_names) == order
        (plane,) = planes.of_dataset([planes.MULTILABEL], described)
        for seed, _, masks in self.read(arguments, plane):
            for name, mask in zip(order, masks.transpose(2, 0, 1), strict=True):
                expected = dataset_files.ids(seed=seed) == (0 if name == 'b' else 1)
                np.testing.assert_array_equal(mask, expected & ((seed, name) != (3, 'a')))

    @pytest.mark.parametrize('value', [3, 6])
    def test_they_are_turned_as_the_image(self, tmp_path, monkeypatch, value):
        arguments = self.write(tmp_path, monkeypatch)
        photo = dataset_files.with_exif(dataset_files.jpeg(dataset_files.pixels()), dataset_files.exif(value))
        (tmp_path / 'images' / '0.jpg').write_bytes(photo)
        ids = dataset_files.ids().astype(np.uint16)
        shown = orientation.turned_pixels(ids, value)
        options = BuildFolderOptions(**arguments, depth_folder='depth', depth_scale=1, val_fraction=0)
        for content in (
            dataset_files.with_exif(dataset_files.png(ids), dataset_files.exif(value)),
            dataset_files.png(shown),
        ):
            (tmp_path / 'depth' / '0.png').write_bytes(content)
            build_folder_data.run(options)
            record = records(arguments['output_dir'], 'train')[0]
            depth = planes.read(planes.DEPTH._replace(scale=1), record.features, shown.shape)[..., 0]
            np.testing.assert_array_equal(depth, shown)

    @pytest.mark.filterwarnings('ignore::PIL.Image.DecompressionBombWarning')
    def test_more_pixels_than_can_be_read(self, tmp_path, monkeypatch):
        arguments = self.write(tmp_path, monkeypatch)
        monkeypatch.setattr(images.Image, 'MAX_IMAGE_PIXELS', 47)
        assert 'masks of 2 classes have 96 pixels together' in failure(arguments, multilabel_folder='classes')

    def test_mistakes(self, tmp_path, monkeypatch):
        arguments = self.write(tmp_path, monkeypatch)
        assert 'set depth_scale' in failure(arguments, depth_folder='depth')
        (tmp_path / 'depth' / '3.npy').write_bytes(dataset_files.npy(np.ones((8, 6))))
        text = failure(arguments, depth_folder='depth', depth_scale=1)
        assert "3.npy': it is 8 x 6 pixels (height x width), its image 6 x 8" in text
        (tmp_path / 'depth' / '3.npy').unlink()
        assert "1 of 6 images have no depth in 'depth': 3" in failure(arguments, depth_folder='depth', depth_scale=1)
        assert 'no folder for the classes c.' in failure(arguments, multilabel_folder='classes', class_names=('a', 'c'))
        assert 'disagree: 3 by num_classes, 2 by ' in failure(
            arguments, OptionError, multilabel_folder='classes', num_classes=3
        )
        (tmp_path / 'classes' / 'c').mkdir()
        (tmp_path / 'classes' / 'c' / 'x.png').write_bytes(dataset_files.png(dataset_files.ids()))
        assert 'has the path of an image' in failure(arguments, multilabel_folder='classes')
        assert 'does not exist' in failure(arguments, multilabel_folder='nowhere')
        assert 'does not exist' in failure(arguments, depth_folder='nowhere')
        for wrong in ({'depth_scale': 1}, {'depth_folder': 'a', 'annotations': 'b'}):
            with pytest.raises(OptionError, match='depth_folder'):
                BuildFolderOptions(**wrong)
