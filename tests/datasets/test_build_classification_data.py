"""The builder of records for image classification, and labels.txt.

Covers datasets/build_classification_data.py, datasets/label_file.py and, of records that TF-Slim wrote,
datasets/shard_names.py.
"""

import os
import pathlib

import numpy as np
import pytest

from deeplab import cli
from deeplab.datasets import (
    build_classification_data,
    description_file,
    descriptor,
    example,
    label_file,
    planes,
    record_index,
    segmentation_dataset,
)
from deeplab.errors import DataError, OptionError
from deeplab.options import BuildClassificationOptions, DatasetOptions
from tests.helpers import dataset_files


def write(root, stems, encode=dataset_files.jpeg, extension='jpg'):
    """Images of some stems; the options."""
    for seed, stem in enumerate(stems):
        path = root / 'images' / f'{stem}.{extension}'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(dataset_files.pixels(seed=seed)))
    return {'image_folder': str(root / 'images'), 'output_dir': str(root / 'records'), 'num_shards': 1}


def table(root, text):
    (root / 'labels.csv').write_text(text)
    return str(root / 'labels.csv')


def run(arguments, **more):
    return build_classification_data.run(BuildClassificationOptions(**{**arguments, **more}))


def records(folder):
    """(split, name, class id) of each record, sorted."""
    rows = []
    for split in segmentation_dataset.split_names(folder):
        index = record_index.RecordIndex(segmentation_dataset.find_shards(split, folder))
        for record in range(len(index)):
            parsed = example.parse(index.read(record))
            rows.append((split, parsed.image_name, parsed.features['image/class/label']))
    return sorted(rows)


def failure(arguments, kind=DataError, **more):
    with pytest.raises(kind) as caught:
        run(arguments, **more)
    assert '\n' not in str(caught.value)
    assert not os.path.exists(arguments['output_dir'])
    return str(caught.value)


def test_folders_become_classes_of_which_each_has_its_share_of_val(tmp_path):
    stems = [f'{name}/{number:02d}' for name in ('tulips', 'daisy') for number in range(20)] + ['rare/one']
    arguments = write(tmp_path, stems)
    (tmp_path / 'images/LICENSE.txt').write_text('CC BY')
    summary = run(arguments)
    assert {name: facts['images'] for name, facts in summary['splits'].items()} == {'train': 37, 'val': 4}
    rows = records(arguments['output_dir'])
    assert {name for _, name, _ in rows} == set(stems)
    assert all(class_id == ('daisy', 'rare', 'tulips').index(name.split('/')[0]) for _, name, class_id in rows)
    assert sorted(class_id for split, _, class_id in rows if split == 'val') == [0, 0, 2, 2]
    assert (tmp_path / 'records/labels.txt').read_text() == '0:daisy\n1:rare\n2:tulips\n'
    described = descriptor.load(summary['description'])
    assert (described.num_classes, described.class_names) == (3, ('daisy', 'rare', 'tulips'))
    assert not described.has_masks and described.image_channels == 3
    index = record_index.RecordIndex(segmentation_dataset.find_shards('train', arguments['output_dir']))
    features = example.parse(index.read(0)).features
    assert (features['image/height'], features['image/width'], features['image/format']) == (6, 8, b'jpeg')


def test_folders_of_splits_stay_splits_unless_val_is_chosen(tmp_path, caplog):
    names = ('0', '1', 'u\u0308')  # as macOS writes an umlaut
    stems = [f'{split}/{name}/{number}' for split in ('train', 'valid') for name in names for number in range(5)]
    arguments = write(tmp_path, stems)
    assert {
        (split, name.split('/')[0]) for split, name, _ in (run(arguments), records(arguments['output_dir']))[1]
    } == {
        ('train', 'train'),
        ('val', 'valid'),
    }
    arguments = {**arguments, 'output_dir': str(tmp_path / 'other'), 'val_fraction': 0.2}
    assert {name: facts['images'] for name, facts in run(arguments)['splits'].items()} == {'train': 24, 'val': 6}
    assert 'no split val' not in caplog.text
    (tmp_path / 'images/valid').rename(tmp_path / 'images/test')
    run(arguments, output_dir=str(tmp_path / 'third'), val_fraction=None)
    assert 'put 15 images into test and 15 images into train. To draw val from all images instead' in caplog.text


def test_a_table_has_labels_splits_and_groups(tmp_path):
    arguments = write(tmp_path, ['a/1', 'a/2', 'b/3', '4', '5'])
    head = '\ufeffSplit,Label,File,other\nvalidation,dog,a/1.jpg,x\n'
    text = f'{head}train,cat,2,y\ntrain,"cat",./b/3.jpg\n\ntest,dog, 4 ,\n'
    run(arguments, labels_file=table(tmp_path, text))
    assert records(arguments['output_dir']) == [
        ('test', '4', 1),
        ('train', 'a/2', 0),
        ('train', 'b/3', 0),
        ('val', 'a/1', 1),
    ]
    rows = '\n'.join(f'{name};{number};{group}' for name, number, group in zip('12345', '02021', 'ppqqq', strict=True))
    arguments['output_dir'] = str(tmp_path / 'groups')
    run(arguments, labels_file=table(tmp_path, f'file;label;group\n{rows}\n'), val_fraction=0.4)
    ids = {name[-1]: (split, class_id) for split, name, class_id in records(arguments['output_dir'])}
    assert ids == {'1': ('val', 0), '2': ('val', 2), '3': ('train', 0), '4': ('train', 2), '5': ('train', 1)}
    assert (tmp_path / 'groups/labels.txt').read_text() == '0:class_0\n1:class_1\n2:class_2\n'


def test_an_image_may_have_several_classes(tmp_path):
    arguments = write(tmp_path, ['1', '2', '3'])
    rows = 'file,label\n1,dog | cat|elk\n2,elk\n3,cat|cat\n'
    run(arguments, labels_file=table(tmp_path, rows), val_fraction=0)
    index = record_index.RecordIndex(segmentation_dataset.find_shards('train', arguments['output_dir']))
    plane = planes.CLASS_LABEL._replace(channels=3)
    for record in range(len(index)):
        serialized = index.read(record)
        parsed = example.parse(serialized)
        ids = {'1': [0, 1, 2], '2': [2], '3': [0]}[parsed.image_name]
        assert planes.read(plane, parsed.features, (4, 4)).tolist() == ids
        assert example.decode(serialized, False, further=[plane])[plane.key].numpy().tolist() == ids
    with pytest.raises(DataError, match='class ids are 0 to 1'):
        planes.read(plane._replace(channels=2), {plane.feature: np.array([0, 2])}, (4, 4))


def test_names_of_classes_set_the_order_of_the_ids(tmp_path):
    arguments = write(tmp_path, ['1', '2'])
    (tmp_path / 'names.txt').write_text('0:x\n1:y\n2:z\n')
    run(
        arguments,
        labels_file=table(tmp_path, 'file,label\n1,z\n2,x\n'),
        class_names=(str(tmp_path / 'names.txt'),),
        val_fraction=0,
    )
    assert records(arguments['output_dir']) == [('train', '1', 2), ('train', '2', 0)]


def test_folders_of_numbers_are_sorted_as_numbers_and_groups_stay_together(tmp_path):
    stems = [f'{name}/{video}_{frame}' for name in ('1', '2', '10') for video in 'abc' for frame in range(3)]
    arguments = write(tmp_path, stems)
    run(arguments, group_pattern='([abc])_[0-9]$', val_fraction=0.3)
    rows = records(arguments['output_dir'])
    assert label_file.read(str(tmp_path / 'records/labels.txt')) == ('1', '2', '10')
    assert len({name.split('/')[1][0] for split, name, _ in rows if split == 'val'}) == 1


def test_more_classes_than_masks_can_hold(tmp_path):
    arguments = write(tmp_path, [f'{number:03d}/x' for number in range(300)])
    assert run(arguments)['num_classes'] == 300
    assert descriptor.load(str(tmp_path / 'records/dataset.yaml')).class_name(299) == '299'


@pytest.mark.parametrize(
    ('encode', 'extension', 'kind'),
    [
        (lambda pixels: dataset_files.png(pixels[..., 0]), 'png', (1, 8)),
        (lambda pixels: dataset_files.deep_png(pixels[..., :1].astype(np.uint16) * 257), 'png', (1, 16)),
        (lambda pixels: dataset_files.npy(np.concatenate([pixels, pixels[..., :2]], 2)), 'npy', (5, 8)),
    ],
)
def test_gray_images_and_arrays_keep_their_channels(tmp_path, encode, extension, kind):
    arguments = write(tmp_path, ['a/1', 'b/2'], encode, extension)
    described = descriptor.load(run(arguments)['description'])
    assert (described.image_channels, described.image_bits) == kind


def test_headers_are_read_until_a_color_image_decides(monkeypatch, tmp_path):
    read, header = [], build_classification_data._image_kind
    monkeypatch.setattr(build_classification_data, '_image_kind', lambda path: read.append(path) or header(path))
    arguments = write(tmp_path, [f'{number % 2}/{number:02d}' for number in range(40)])
    assert run(arguments, num_workers=1)['num_classes'] == 2
    assert 1 <= len(read) < 40


def test_images_are_turned_upright_and_unchanged_shards_are_kept(tmp_path):
    arguments = write(tmp_path, ['a/1'])
    turned = dataset_files.with_exif(dataset_files.jpeg(dataset_files.pixels()), dataset_files.exif(6))
    (tmp_path / 'images/a/1.jpg').write_bytes(turned)
    run(arguments, val_fraction=0)
    (shard,) = segmentation_dataset.find_shards('train', arguments['output_dir'])
    features = example.parse(record_index.RecordIndex([shard]).read(0)).features
    assert (features['image/height'], features['image/width']) == (8, 6)
    written = os.stat(shard).st_mtime_ns
    run(arguments, val_fraction=0)
    assert os.stat(shard).st_mtime_ns == written
    os.rename(tmp_path / 'images/a', tmp_path / 'images/b')
    run(arguments, val_fraction=0)  # the label has changed
    assert os.stat(shard).st_mtime_ns != written


@pytest.mark.parametrize(
    ('damage', 'expected'),
    [
        (lambda root: (root / 'empty').mkdir(), ['empty', 'no image', 'remove']),
        (lambda root: (root / 'a/notes.txt').write_text(''), ['a/notes.txt', 'not images', 'jpg']),
        (lambda root: (root / 'a/1.jpg').write_text('text'), ['a/1.jpg', 'neither JPEG nor PNG']),
        (lambda root: (root / 'loose.jpg').write_bytes(b''), ['1 of 3', 'loose', 'labels_file']),
        (
            lambda root: (root / 'a/1.jpg').write_bytes((root / 'a/1.jpg').read_bytes()[:-90]),
            ['a/1.jpg', 'cannot be decoded'],
        ),
    ],
)
def test_bad_folders(tmp_path, damage, expected):
    arguments = write(tmp_path, ['a/1', 'b/2'])
    damage(tmp_path / 'images')
    message = failure(arguments)
    assert all(part in message for part in expected), message


def test_images_beside_the_folders_of_splits(tmp_path):
    names = ['train/a/1', 'val/a/2', 'extra/a/3']
    arguments = write(tmp_path, names)
    message = failure(arguments)
    assert '1 image is in none of them: extra/a/3' in message and 'or name their classes in a file for' in message
    assert 'fraction' not in message  # with which the folders are the same
    rows = ''.join(f'{name},a\n' for name in names)
    run(arguments, labels_file=table(tmp_path, f'file,label\n{rows}'), val_fraction=0)


@pytest.mark.parametrize(
    ('text', 'more', 'expected'),
    [
        ('file,label\na/1,x\nc/9,y\n', {}, ['1 name of no image', 'c/9', 'image_folder']),
        (
            'file,label\na/1,0\nb/2,3\n',
            {'class_names': ('x', 'y')},
            ["'3'", 'b/2', 'out of range', '0 to 1'],
        ),
        ('file,label\na/1,0\nb/2,-1\n', {}, ["'-1'", 'out of range']),
        ('file,label\na/1,-2\n', {}, ["'-2'", 'ids are 0 to 0']),
        ('file,label\na/1,0\nb/2,20240131123456\n', {}, ["'20240131123456'", 'out of range']),
        ('file,label\na/1,x\nb/2,w\n', {'class_names': ('x', 'y')}, ["'w'", 'out of range', 'x, y']),
        ('file,label\na/1,x\n1.jpg,x\n', {}, ['line 3', 'a/1', 'second time']),
        ('file,label\na/1,\n', {}, ['line 2', 'label']),
        ('label,file\nx,a/1\ncat\n', {}, ['line 3', 'no file']),
        ('file,label,split\na/1,x,../up\n', {}, ['line 2', 'split']),
        ('file,label,split\na/1,x,train\nb/2,x,\n', {}, ['column split is empty', 'b/2']),
        ('name,class\na/1,x\n', {}, ['file and label', 'name,class']),
        ('file,label\n', {}, ['no line']),
        ('file,label,group\na/1,x,g\nb/2,y,g\n', {}, ['one group', 'val_fraction']),
    ],
)
def test_bad_tables(tmp_path, text, more, expected):
    arguments = write(tmp_path, ['a/1', 'b/2'])
    message = failure(arguments, labels_file=table(tmp_path, text), **more)
    assert all(part in message for part in expected), message


def test_classes_that_folders_and_names_do_not_share(tmp_path, caplog):
    arguments = write(tmp_path, ['a/1', 'b/2'])
    message = failure(arguments, class_names=('a', 'c'))
    assert "'b'" in message and 'out of range' in message
    run(arguments, class_names=('a', 'c', 'b'), val_fraction=0)
    assert 'Classes without an image: c' in caplog.text
    with pytest.raises(OptionError, match='regular expression'):
        BuildClassificationOptions(group_pattern='(')
    with pytest.raises(OptionError, match='both choose the splits'):
        BuildClassificationOptions(list_folder='lists', val_fraction=0.1)


@pytest.mark.parametrize('text', ['', '0:a\n2:b\n', '0:a\n0:b\n'])
def test_bad_names_of_classes(tmp_path, text):
    (tmp_path / 'labels.txt').write_text(text)
    with pytest.raises(DataError, match=r'labels\.txt'):
        label_file.read(str(tmp_path / 'labels.txt'))


def test_labels_of_another_length_than_the_description(tmp_path):
    arguments = write(tmp_path, ['a/1', 'b/2'])
    run(arguments, val_fraction=0)
    (tmp_path / 'records/labels.txt').write_text('0:a\n1:b\n2:c\n')
    with pytest.raises(OptionError, match=r'labels\.txt. has 3 classes, .*dataset\.yaml. 2'):
        descriptor.load(str(tmp_path / 'records/dataset.yaml'))


def test_records_of_tf_slim_are_read_with_their_names_and_labels(tmp_path):
    folder = str(tmp_path)
    for name in (
        'flowers_train_00000-of-00002.tfrecord',
        'flowers_train_00001-of-00002.tfrecord',
        'mnist_test.tfrecord',
        'val.record-00000-of-00001',
    ):
        (tmp_path / name).write_bytes(b'')
    assert segmentation_dataset.split_names(folder) == ['test', 'train', 'val']
    shards = segmentation_dataset.find_shards('train', folder)
    assert [pathlib.Path(shard).name[14:19] for shard in shards] == ['00000', '00001']
    assert len(segmentation_dataset.find_shards('val', folder)) == 1
    os.remove(shards[0])
    with pytest.raises(DataError, match=r'flowers_train_00000-of-00002\.tfrecord missing'):
        segmentation_dataset.find_shards('train', folder)
    (tmp_path / 'labels.txt').write_text('0:roses\n1:tulips\n')
    path = description_file.beside(folder)
    assert path is not None and descriptor.load(path).class_names == ('roses', 'tulips')
    source = segmentation_dataset.DataSource(DatasetOptions('test', folder, path))
    assert source.split().shards == (str(tmp_path / 'mnist_test.tfrecord'),)
    (tmp_path / 'labels.txt').write_text('roses\ntulips\n')  # perhaps something else
    assert description_file.beside(folder) is None


def test_the_program(tmp_path, capsys):
    arguments = write(tmp_path, ['a/1', 'b/2'])
    words = [f'--{name}={value}' for name, value in arguments.items()]
    assert cli.main(['build_classification_data', *words, '--val_fraction=0']) == 0
    out = capsys.readouterr().out
    assert 'train: 2 images in 1 shard\n' in out and 'dataset.yaml: 2 classes' in out
