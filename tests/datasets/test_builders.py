"""The builders of the data sets, each on a tiny folder in its layout.

Covers datasets/build_ade20k_data.py, datasets/build_cityscapes_data.py, datasets/build_voc2012_data.py,
datasets/remove_gt_colormap.py and datasets/split_lists.py.
"""

import dataclasses
import io
import json
import os
import pathlib
import signal
import time

import numpy as np
import pytest
from PIL import Image

from deeplab import cli
from deeplab.checks import record_check
from deeplab.datasets import (
    build_ade20k_data,
    build_cityscapes_data,
    build_voc2012_data,
    cityscapes_labels,
    example,
    file_pairs,
    images,
    mask_sources,
    record_index,
    remove_gt_colormap,
    segmentation_dataset,
    wire,
)
from deeplab.datasets.annotations import formats
from deeplab.errors import DataError, OptionError
from deeplab.options import BuildAde20kOptions, BuildCityscapesOptions, BuildVocOptions, RemoveColormapOptions
from tests.helpers import dataset_files


def records(folder, split):
    index = record_index.RecordIndex(sorted(str(path) for path in pathlib.Path(folder).glob(f'{split}-0*')))
    return [example.parse(index.read(record)) for record in range(len(index))]


def shards(folder):
    """The names of the shards in a folder."""
    return sorted(path.name for path in pathlib.Path(folder).glob('*.tfrecord'))


def failure(call):
    with pytest.raises(DataError) as caught:
        call()
    assert '\n' not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(('number', 'status'), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_a_signal_ends_a_builder_in_one_line_and_leaves_nothing_half_written(
    tmp_path, monkeypatch, capsys, number, status
):
    folders = dataset_files.write_voc(tmp_path, LISTS)
    read, sent = images.read_whole, []

    def interrupted(content):
        if not sent:
            sent.append(number)
            os.kill(os.getpid(), number)
            time.sleep(0.05)
        return read(content)

    monkeypatch.setattr(images, 'read_whole', interrupted)
    words = [f'--{name}={path}' for name, path in folders.items()]
    assert cli.main(['build_voc2012_data', *words, '--num_workers=1']) == status
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith('deeplab build_voc2012_data: error: ')
    assert not any('Traceback' in line for line in said)
    assert not os.path.exists(folders['output_dir'])


LISTS = {'train': ['b', 'a', 'c'], 'val': ['d', 'e'], 'trainval': ['b', 'a', 'c', 'd', 'e']}


def test_voc_builds_a_split_for_each_list(tmp_path):
    options = BuildVocOptions(**dataset_files.write_voc(tmp_path, LISTS), num_classes=3)
    summary = build_voc2012_data.run(options)
    assert summary['output_dir'] == options.output_dir
    assert {split: (s['images'], s['shards'], s['labeled']) for split, s in summary['splits'].items()} == {
        'train': (3, 3, True),
        'trainval': (5, 4, True),
        'val': (2, 2, True),
    }
    assert len(shards(options.output_dir)) == 9
    for split, names in LISTS.items():
        assert [record.image_name for record in records(options.output_dir, split)] == names


def test_voc_lists_may_have_blank_lines_and_foreign_line_ends(tmp_path):
    options = BuildVocOptions(**dataset_files.write_voc(tmp_path, LISTS), num_shards=1)
    pathlib.Path(options.list_folder, 'val.txt').write_bytes(b'\xef\xbb\xbfd\r\n\r\n  e \r\n\r\n')
    build_voc2012_data.run(options)
    assert [record.image_name for record in records(options.output_dir, 'val')] == ['d', 'e']
    assert os.path.exists(f'{options.output_dir}/val-00000-of-00001.tfrecord')


def test_voc_lists_may_have_extensions_and_folders(tmp_path):
    options = BuildVocOptions(**dataset_files.write_voc(tmp_path, LISTS), num_shards=1)
    path = pathlib.Path(options.list_folder, 'train.txt')
    path.write_bytes(b'# split\r\nJPEGImages/b.jpg SegmentationClassRaw/b.png\r\n\r\n/data/VOC/a.JPG\n#d\n.\\c  1\n')
    build_voc2012_data.run(options)
    assert [record.image_name for record in records(options.output_dir, 'train')] == ['b', 'a', 'c']


def test_voc_images_of_several_formats(tmp_path):
    options = BuildVocOptions(**dataset_files.write_voc(tmp_path, LISTS), num_shards=1)
    (tmp_path / 'JPEGImages' / 'b.jpg').unlink()
    content = dataset_files.png(dataset_files.pixels())
    (tmp_path / 'JPEGImages' / 'b.PNG').write_bytes(content)
    (tmp_path / 'JPEGImages' / 'a.png').write_bytes(b'not the image')
    build_voc2012_data.run(options)
    assert [record.image_bytes == content for record in records(options.output_dir, 'train')] == [True, False, False]
    shared = dataclasses.replace(options, image_folder=options.semantic_segmentation_folder)
    assert '3 of 3 files are missing' in failure(lambda: build_voc2012_data.run(shared))  # masks are no images


def test_voc_missing_files_are_found_before_anything_is_written(tmp_path):
    options = BuildVocOptions(**dataset_files.write_voc(tmp_path, LISTS))
    masks, images = options.semantic_segmentation_folder, pathlib.Path(options.image_folder)
    os.remove(f'{masks}/e.png')
    assert failure(lambda: build_voc2012_data.run(options)) == (
        f"Split 'trainval': 1 of 5 files are missing, searched for as {masks}/NAME.png: e.png."
    )
    for name in 'abc':
        (images / f'{name}.jpg').rename(images / f'{name}.npy')
    assert failure(lambda: build_voc2012_data.run(options)) == (
        f"Split 'train': 3 of 3 files are missing, searched for as {images}/NAME.jpg: b.jpg, a.jpg, c.jpg. There are "
        ".npy files; did you mean image_format='npy'?"
    )
    names = [f'lost{i}' for i in range(12)]
    pathlib.Path(options.list_folder, 'train.txt').write_text('\n'.join(names))
    message = failure(lambda: build_voc2012_data.run(options))
    assert '12 of 12 files' in message and 'lost9.jpg and 2 more' in message
    assert not os.path.exists(options.output_dir)


def test_folders_that_may_not_be_read(tmp_path, monkeypatch):
    options = BuildVocOptions(**dataset_files.write_voc(tmp_path, LISTS))

    def denied(path):
        raise PermissionError(13, 'Permission denied', path)

    monkeypatch.setattr(os, 'scandir', denied)
    for search in (lambda: file_pairs.by_stem(str(tmp_path), ('png',)), lambda: formats.read(str(tmp_path))):
        with pytest.raises(DataError, match=f"'{tmp_path}' cannot be read: Permission denied"):
            search()
    assert f"'{options.list_folder}' cannot be read: Permission denied" in failure(
        lambda: build_voc2012_data.run(options)
    )


def test_voc_names_that_no_file_can_have_are_missing_files(tmp_path):
    options = BuildVocOptions(**dataset_files.write_voc(tmp_path, LISTS))
    for name in ('n' * 5000, 'a\0b', 'esc\x1b[31m'):
        pathlib.Path(options.list_folder, 'train.txt').write_text(f'a\n{name}\n')
        text = failure(lambda: build_voc2012_data.run(options))
        assert '1 of 2 files are missing' in text
        assert len(text) < 1500 and text.isprintable()
    pathlib.Path(options.list_folder, 'train.txt').write_text('n' * 5000 + '\n')
    os.remove(f'{options.list_folder}/val.txt')
    assert len(failure(lambda: build_voc2012_data.run(options))) < 1500  # there is no mask at all


def test_voc_test_split_without_masks(tmp_path):
    options = BuildVocOptions(**dataset_files.write_voc(tmp_path, LISTS))
    for name in LISTS['val']:
        os.remove(f'{options.semantic_segmentation_folder}/{name}.png')
    os.remove(f'{options.list_folder}/trainval.txt')
    summary = build_voc2012_data.run(options)
    assert {split: s['labeled'] for split, s in summary['splits'].items()} == {'train': True, 'val': False}
    assert [record.label_bytes for record in records(options.output_dir, 'val')] == [None, None]


def test_voc_no_masks_at_all_is_a_mistake_unless_asked_for(tmp_path):
    options = BuildVocOptions(**dataset_files.write_voc(tmp_path, LISTS), num_shards=1)
    (tmp_path / 'empty').mkdir()
    lost = dataclasses.replace(options, semantic_segmentation_folder=str(tmp_path / 'empty'))
    assert failure(lambda: build_voc2012_data.run(lost)) == (
        f"There is no mask of any split in '{tmp_path / 'empty'}', searched for as NAME.png, such as b.png. Set "
        'semantic_segmentation_folder, or leave it empty to build records without masks.'
    )
    summary = build_voc2012_data.run(dataclasses.replace(options, semantic_segmentation_folder=''))
    assert not any(split['labeled'] for split in summary['splits'].values())


def line_of(arguments, **changes):
    """A command line of the VOC builder."""
    return ['build_voc2012_data', *(f'--{flag}={value}' for flag, value in {**arguments, **changes}.items())]


def test_voc_a_folder_left_empty_on_the_line(tmp_path, capsys):
    """As the message above suggests."""
    arguments = dataset_files.write_voc(tmp_path, LISTS) | {'num_shards': 1}
    assert cli.main(line_of(arguments, semantic_segmentation_folder='')) == 0
    assert {record.label_bytes for record in records(arguments['output_dir'], 'train')} == {None}
    for flag in ('image_folder', 'list_folder'):
        assert cli.main(line_of(arguments, **{flag: ''})) == 1
        assert f"The folder '' does not exist. Set --{flag}." in capsys.readouterr().err


@pytest.mark.parametrize('flag', ['image_folder', 'semantic_segmentation_folder', 'list_folder'])
def test_voc_missing_folders(tmp_path, flag):
    options = BuildVocOptions(**dataset_files.write_voc(tmp_path, LISTS) | {flag: str(tmp_path / 'no')})
    wanted = f"The folder '{tmp_path / 'no'}' does not exist. Set {flag}."
    assert failure(lambda: build_voc2012_data.run(options)) == wanted


def test_voc_empty_lists(tmp_path):
    options = BuildVocOptions(**dataset_files.write_voc(tmp_path, LISTS))
    path = pathlib.Path(options.list_folder, 'val.txt')
    path.write_text('\n \n')
    assert failure(lambda: build_voc2012_data.run(options)) == (
        f"The list '{path}' is empty. Write one name per line, or remove the list."
    )
    for found in pathlib.Path(options.list_folder).iterdir():
        found.unlink()
    assert failure(lambda: build_voc2012_data.run(options)).startswith('There is no list *.txt in ')


def test_voc_warns_of_masks_of_0_and_255_and_of_an_ignored_class(tmp_path, caplog):
    arguments = dataset_files.write_voc(tmp_path, {'train': ['a', 'b']}) | {'num_shards': 1}
    for path in pathlib.Path(arguments['semantic_segmentation_folder']).iterdir():
        path.write_bytes(dataset_files.png(dataset_files.ids(classes=2) * np.uint8(255)))
    build_voc2012_data.run(BuildVocOptions(**arguments, num_classes=2))
    assert "The masks of split 'train' contain only the ids 0 and 255" in caplog.text
    assert 'ignore_label' not in caplog.text
    with pytest.raises(DataError):
        build_voc2012_data.run(BuildVocOptions(**arguments, num_classes=2, ignore_label=1))
    assert 'ignore_label=1 is one of the 2 classes' in caplog.text


def rename_extensions(*folders):
    """Gives every file in folders its extension in capitals."""
    for folder in folders:
        for path in list(pathlib.Path(folder).rglob('*.*')):
            path.rename(path.with_suffix(path.suffix.upper()))


def test_voc_takes_extensions_in_any_case(tmp_path):
    arguments = dataset_files.write_voc(tmp_path, LISTS) | {'num_shards': 1}
    rename_extensions(*(arguments[f'{kind}_folder'] for kind in ('image', 'semantic_segmentation', 'list')))
    summary = build_voc2012_data.run(BuildVocOptions(**arguments, num_classes=3))
    assert {split: s['images'] for split, s in summary['splits'].items()} == {'train': 3, 'trainval': 5, 'val': 2}
    pathlib.Path(arguments['list_folder'], 'val.txt').write_text('a\n')  # counts beside val.TXT, as it always did
    assert build_voc2012_data.run(BuildVocOptions(**arguments))['splits']['val']['images'] == 1


def test_voc_says_what_a_folder_without_lists_holds(tmp_path):
    arguments = dataset_files.write_voc(tmp_path, LISTS)
    for path in pathlib.Path(arguments['list_folder']).iterdir():
        path.rename(path.with_suffix('.lst'))
    message = failure(lambda: build_voc2012_data.run(BuildVocOptions(**arguments)))
    assert 'no list *.txt' in message and '3 .lst' in message


def test_ade20k_and_cityscapes_take_extensions_in_any_case(tmp_path):
    options = write_ade20k(tmp_path / 'ade', 2)
    rename_extensions(tmp_path / 'ade')
    assert {split['images'] for split in build_ade20k_data.run(options)['splits'].values()} == {2}
    options = write_cityscapes(tmp_path / 'city')
    rename_extensions(tmp_path / 'city')
    assert {split['images'] for split in build_cityscapes_data.run(options)['splits'].values()} == {3}


def test_ade20k_says_what_a_folder_without_images_holds(tmp_path):
    options = write_ade20k(tmp_path, 2)
    for path in pathlib.Path(options.train_image_folder).iterdir():
        path.rename(path.with_suffix('.tif'))
    assert '2 .tif (2 files)' in failure(lambda: build_ade20k_data.run(options))


def write_cityscapes(root, splits=('train', 'val', 'test'), labels=('train', 'val', 'test')):
    for split in splits:
        for seed, name in enumerate(('ulm_000001_000019', 'aachen_000000_000019', 'aachen_000002_000019')):
            city = name.split('_')[0]
            image = root / 'leftImg8bit' / split / city / f'{name}_leftImg8bit.png'
            label = root / 'gtFine' / split / city / f'{name}_gtFine_labelTrainIds.png'
            for path in (image, label):
                path.parent.mkdir(parents=True, exist_ok=True)
            image.write_bytes(dataset_files.png(dataset_files.pixels(seed=seed)))
            label.with_name(f'{name}_gtFine_labelIds.png').write_bytes(dataset_files.png(dataset_files.ids(classes=33)))
            if split in labels:
                label.write_bytes(dataset_files.png(dataset_files.ids(classes=19, seed=seed)))
    return BuildCityscapesOptions(str(root), output_dir=str(root / 'records'), num_classes=19)


def test_cityscapes(tmp_path):
    options = write_cityscapes(tmp_path)
    summary = build_cityscapes_data.run(options)
    assert {split: (s['images'], s['shards'], s['labeled']) for split, s in summary['splits'].items()} == {
        f'{split}_fine': (3, 3, True) for split in ('train', 'val', 'test')
    }
    assert build_cityscapes_data.DEFAULT_NUM_SHARDS == 10
    names = [record.image_name for record in records(options.output_dir, 'val_fine')]
    assert names == ['aachen_000000_000019', 'aachen_000002_000019', 'ulm_000001_000019']
    (label, *_) = [record.label_bytes for record in records(options.output_dir, 'val_fine')]
    assert label == dataset_files.png(dataset_files.ids(classes=19, seed=1))


def test_cityscapes_test_may_be_without_masks_or_absent(tmp_path):
    summary = build_cityscapes_data.run(write_cityscapes(tmp_path / 'a', labels=('train', 'val')))
    assert [split['labeled'] for split in summary['splits'].values()] == [True, True, False]
    summary = build_cityscapes_data.run(write_cityscapes(tmp_path / 'b', splits=('train',)))
    assert list(summary['splits']) == ['train_fine']


def city_annotation(seed=0):
    """A file *_polygons.json, and the mask of train ids that it stands for."""
    person = [[1, 1 + seed], [3, 1 + seed], [3, 3 + seed], [1, 3 + seed]]
    ground = [[0, 0], [7, 0], [7, 5], [0, 5]]
    objects = [{'label': 'sidewalk', 'polygon': ground}, {'label': 'persongroup', 'polygon': person}]
    wanted = np.ones((6, 8), np.uint8)
    wanted[1 + seed : 4 + seed, 1:4] = 11
    return json.dumps({'imgHeight': 6, 'imgWidth': 8, 'objects': objects}), wanted


def test_cityscapes_makes_train_ids_where_they_are_absent(tmp_path):
    """From ids, or else from polygons; nothing is written into the folder of the data set."""
    options = write_cityscapes(tmp_path, splits=('train',))
    masks = tmp_path / 'gtFine' / 'train'
    (masks / 'ulm' / 'ulm_000001_000019_gtFine_labelTrainIds.png').unlink()
    for path in masks.glob('aachen/*'):
        path.unlink()
    text, wanted = city_annotation()
    for name in ('aachen_000000_000019', 'aachen_000002_000019'):
        (masks / 'aachen' / f'{name}_gtFine_polygons.json').write_text(text)
    before = sorted((tmp_path / 'gtFine').rglob('*'))
    build_cityscapes_data.run(options)
    assert sorted((tmp_path / 'gtFine').rglob('*')) == before
    made = [mask_sources.ids_of(record.label_bytes) for record in records(options.output_dir, 'train_fine')]
    np.testing.assert_array_equal(made[0], wanted)
    np.testing.assert_array_equal(made[1], wanted)
    ids = dataset_files.ids(classes=33)
    np.testing.assert_array_equal(made[2], np.vectorize(cityscapes_labels.train_id)(ids))


def test_cityscapes_coarse(tmp_path):
    for folder, city in (('train', 'ulm'), ('train_extra', 'bad-honnef'), ('val', 'munster')):
        name = f'{city}_000000_000003'
        for path, content in (
            (f'leftImg8bit/{folder}/{city}/{name}_leftImg8bit.png', dataset_files.png(dataset_files.pixels())),
            (f'gtCoarse/{folder}/{city}/{name}_gtCoarse_polygons.json', city_annotation(1)[0].encode()),
        ):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes(content)
    options = BuildCityscapesOptions(str(tmp_path), output_dir=str(tmp_path / 'r'), annotations='coarse', num_shards=1)
    summary = build_cityscapes_data.run(options)
    assert {split: part['images'] for split, part in summary['splits'].items()} == {'train_coarse': 2, 'val_coarse': 1}
    names = [record.image_name for record in records(options.output_dir, 'train_coarse')]
    assert names == ['ulm_000000_000003', 'bad-honnef_000000_000003']
    for record in records(options.output_dir, 'train_coarse'):
        np.testing.assert_array_equal(mask_sources.ids_of(record.label_bytes), city_annotation(1)[1])


def test_cityscapes_says_which_masks_are_missing(tmp_path):
    options = write_cityscapes(tmp_path)
    for path in tmp_path.glob('gtFine/val/aachen/*'):
        path.unlink()
    message = failure(lambda: build_cityscapes_data.run(options))
    assert "Split 'val_fine': 2 of 3 files are missing" in message
    assert '_gtFine{_labelTrainIds.png,_labelIds.png,_polygons.json}: aachen_000000_000019' in message
    assert not (tmp_path / 'records').exists()


def test_cityscapes_missing_and_empty_folders(tmp_path):
    options = BuildCityscapesOptions(str(tmp_path / 'no'))
    assert failure(lambda: build_cityscapes_data.run(options)) == (
        f"The folder '{tmp_path / 'no'}' does not exist. Set cityscapes_root."
    )
    assert failure(lambda: build_cityscapes_data.run(BuildCityscapesOptions(str(tmp_path)))) == (
        f"There is no image in '{tmp_path}', searched for as leftImg8bit/{{train,val,test}}/*/*_leftImg8bit.png. "
        'Set cityscapes_root to the folder of leftImg8bit and gtFine.'
    )
    options = dataclasses.replace(write_cityscapes(tmp_path), image_format='jpg', num_shards=1)
    assert {split['images'] for split in build_cityscapes_data.run(options)['splits'].values()} == {3}
    for path in list(tmp_path.rglob('*_leftImg8bit.png')):
        path.rename(path.with_suffix('.npy'))
    assert "did you mean image_format='npy'?" in failure(lambda: build_cityscapes_data.run(options))


def write_ade20k(root, count=12):
    options = {'output_dir': str(root / 'records')}
    for split in ('train', 'val'):
        for flag, encode in (
            (f'{split}_image_folder', dataset_files.jpeg),
            (f'{split}_image_label_folder', dataset_files.png),
        ):
            folder = root / flag
            folder.mkdir(parents=True)
            options[flag] = str(folder)
            for seed in range(count):
                if encode is dataset_files.jpeg:
                    (folder / f'{seed:02d}.jpg').write_bytes(dataset_files.jpeg(dataset_files.pixels(seed=seed)))
                else:
                    (folder / f'{seed:02d}.png').write_bytes(
                        dataset_files.png(dataset_files.ids(classes=151, seed=seed))
                    )
    return BuildAde20kOptions(**options, num_classes=151)


def test_ade20k_is_shuffled_by_the_seed_and_reads_jpg_unasked(tmp_path):
    options = write_ade20k(tmp_path)
    orders = []
    for seed in (0, 0, 1):
        build_ade20k_data.run(dataclasses.replace(options, seed=seed))
        orders.append([record.image_name for record in records(options.output_dir, 'train')])
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2]) == [f'{options.train_image_folder}/{i:02d}.jpg' for i in range(12)]
    for record in records(options.output_dir, 'val'):
        seed = int(pathlib.Path(record.image_name).stem)
        assert record.label_bytes == dataset_files.png(dataset_files.ids(classes=151, seed=seed))
    assert len(shards(options.output_dir)) == 8


def test_ade20k_missing_things(tmp_path):
    options = write_ade20k(tmp_path, 2)
    lost = dataclasses.replace(options, val_image_folder='no')
    assert failure(lambda: build_ade20k_data.run(lost)) == "The folder 'no' does not exist. Set val_image_folder."
    (tmp_path / 'empty').mkdir()
    lost = dataclasses.replace(options, train_image_folder=str(tmp_path / 'empty'))
    message = failure(lambda: build_ade20k_data.run(lost))
    assert message == (
        f"There is no image (*.png, or another one with a mask) in '{tmp_path / 'empty'}'. The folder is empty."
    )
    (tmp_path / 'train_image_folder' / 'preview.png').write_bytes(b'no image of the data set')
    build_ade20k_data.run(dataclasses.replace(options, output_dir=str(tmp_path / 'good'), image_format='jpg'))
    (tmp_path / 'train_image_folder' / 'preview.png').unlink()
    os.remove(f'{options.val_image_label_folder}/01.png')
    assert failure(lambda: build_ade20k_data.run(options)).startswith("Split 'val': 1 of 2 files are missing")
    assert not os.path.exists(options.output_dir)


def test_remove_gt_colormap(tmp_path):
    (tmp_path / 'painted').mkdir()
    labels = {name: dataset_files.ids(classes=classes, seed=classes) for name, classes in (('a', 3), ('b', 200))}
    for name, label in labels.items():
        (tmp_path / 'painted' / f'{name}.png').write_bytes(dataset_files.palette_png(label))
    (tmp_path / 'painted' / 'c.png').write_bytes(dataset_files.png(labels['a']))
    options = RemoveColormapOptions(str(tmp_path / 'painted'), output_dir=str(tmp_path / 'raw'), num_workers=2)
    summary = remove_gt_colormap.run(options)
    assert summary['masks'] == 3
    assert sorted(os.listdir(tmp_path / 'raw')) == ['a.png', 'b.png', 'c.png']
    for name, label in {**labels, 'c': labels['a']}.items():
        mask = images.read_mask((tmp_path / 'raw' / f'{name}.png').read_bytes())
        assert mask.mode == 'L'
        np.testing.assert_array_equal(mask.counts, np.bincount(label.ravel(), minlength=256))


def test_remove_gt_colormap_mistakes(tmp_path):
    folder = tmp_path / 'painted'
    options = RemoveColormapOptions(str(folder), output_dir=str(tmp_path / 'raw'))
    assert 'does not exist. Set original_gt_folder.' in failure(lambda: remove_gt_colormap.run(options))
    folder.mkdir()
    assert failure(lambda: remove_gt_colormap.run(options)).startswith(f"There is no *.png in '{folder}'.")
    (folder / 'a.png').write_bytes(dataset_files.png(dataset_files.pixels()))
    assert "a.png': it has 3 channels (RGB)" in failure(lambda: remove_gt_colormap.run(options))
    assert not (tmp_path / 'raw').exists()
    same = dataclasses.replace(options, output_dir=str(folder / '..' / 'painted'))
    assert 'is the folder of the original masks' in failure(lambda: remove_gt_colormap.run(same))


def test_remove_gt_colormap_overwrites_masks_alone(tmp_path):
    (tmp_path / 'palette').mkdir()
    (tmp_path / 'photos').mkdir()
    (tmp_path / 'palette' / 'a.png').write_bytes(dataset_files.palette_png(dataset_files.ids()))
    photo = tmp_path / 'photos' / 'a.png'
    photo.write_bytes(dataset_files.png(dataset_files.pixels()))
    options = RemoveColormapOptions(str(tmp_path / 'palette'), 'png', str(tmp_path / 'photos'))
    assert f"'{photo}' exists and is not a single-channel mask" in failure(lambda: remove_gt_colormap.run(options))
    assert photo.read_bytes() == dataset_files.png(dataset_files.pixels())
    photo.unlink()
    for _ in range(2):
        assert remove_gt_colormap.run(options)['masks'] == 1


@pytest.mark.parametrize('options', [BuildVocOptions, BuildCityscapesOptions, BuildAde20kOptions])
def test_options_check_themselves(options):
    for field, value in (('image_format', 'gif'), ('num_shards', 0), ('num_workers', -1), ('num_classes', 0)):
        with pytest.raises(OptionError, match=f'^{field}={value!r} is not allowed: '):
            options(**{field: value})
    with pytest.raises(OptionError, match='^ignore_label=256 is not allowed: it must be from 0 to 255.$'):
        options(ignore_label=256)
    with pytest.raises(OptionError, match='^num_classes=500: 500 classes are not possible, only 1 to 256, .*one byte'):
        options(num_classes=500)


@pytest.mark.skipif(
    not dataset_files.CAMVID.is_dir(), reason='CamVid is not beside the repository (../shared/data/camvid)'
)
def test_camvid_is_built_and_found_good(tmp_path):
    """Thirty images of each split; they are the same for any number of workers."""
    lists = tmp_path / 'lists'
    lists.mkdir()
    for split in ('train', 'val'):
        names = (dataset_files.CAMVID / 'ImageSets' / 'Segmentation' / f'{split}.txt').read_text().split()
        (lists / f'{split}.txt').write_text('\n'.join(names[:30]))
    digests = []
    for workers in (1, 2):
        output = tmp_path / str(workers)
        summary = build_voc2012_data.run(
            BuildVocOptions(
                image_folder=str(dataset_files.CAMVID / 'JPEGImages'),
                semantic_segmentation_folder=str(dataset_files.CAMVID / 'SegmentationClass'),
                list_folder=str(lists),
                image_format='jpg',
                output_dir=str(output),
                num_workers=workers,
                num_classes=11,
            )
        )
        digests.append({name: (output / name).read_bytes() for name in shards(output)})
    assert {split: part['images'] for split, part in summary['splits'].items()} == {'train': 30, 'val': 30}
    assert digests[0] == digests[1]
    check_result = record_check.check(segmentation_dataset.get_dataset('camvid', 'val', str(output)), 11)
    assert len(check_result.records) == 30
    assert check_result.sizes.max(axis=0).tolist() == [360, 480]
    assert check_result.class_pixels.sum() + check_result.ignored_pixels == 30 * 360 * 480


def test_every_kind_of_image_is_built(tmp_path):
    """Files stay as they are byte for byte, whatever their extension says of them; but for arrays that are pictures."""
    deep = np.arange(6 * 8 * 5).astype(np.uint16).reshape(6, 8, 5)
    contents = {
        'deep_gray': (dataset_files.deep_png(deep[..., :1]), 'png', 3),
        'deep_rgb': (dataset_files.deep_png(deep[..., :3]), 'png', 3),
        'gray_alpha': (dataset_files.png(deep[..., :2].astype(np.uint8)), 'png', 3),
        'rgba': (dataset_files.png(deep[..., :4].astype(np.uint8)), 'png', 3),
        'jpeg': (dataset_files.jpeg(dataset_files.pixels()), 'jpeg', 3),
        'five': (dataset_files.npy(deep), 'npy', 5),
        'five_8_bit': (dataset_files.npy(deep.astype(np.uint8)), 'npy', 5),
        'one': (dataset_files.npy(deep[..., 0]), 'npy', 1),
        'picture': (dataset_files.npy(dataset_files.pixels()), 'png', 3),
    }
    arguments = dataset_files.write_voc(tmp_path, {'train': list(contents)}) | {'image_format': 'npy', 'num_shards': 1}
    for name, (content, _, _) in contents.items():
        (tmp_path / 'JPEGImages' / f'{name}.npy').write_bytes(content)
    build_voc2012_data.run(BuildVocOptions(**arguments))
    dataset = segmentation_dataset.get_dataset('camvid', 'train', arguments['output_dir'])
    index = record_index.RecordIndex(dataset.shards)
    for number, (name, (content, image_format, channels)) in enumerate(contents.items()):
        features = wire.read_features(index.read(number))
        assert features['image/filename'] == name.encode()
        assert (features['image/format'], features['image/channels']) == (image_format.encode(), channels), name
        if name == 'picture':
            decoded = np.asarray(Image.open(io.BytesIO(features['image/encoded'])))
            np.testing.assert_array_equal(decoded, dataset_files.pixels())
        else:
            assert features['image/encoded'] == content, name


def test_an_array_that_is_no_image_is_named(tmp_path):
    arguments = dataset_files.write_voc(tmp_path, {'train': ['a']}) | {'image_format': 'npy'}
    path = tmp_path / 'JPEGImages' / 'a.npy'
    path.write_bytes(dataset_files.npy(np.zeros((6, 8, 2), np.float64)))
    with pytest.raises(DataError, match=f"Cannot use '{path}': it is an array of float64; an image is uint8 or uint16"):
        build_voc2012_data.run(BuildVocOptions(**arguments))
