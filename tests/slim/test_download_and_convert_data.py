"""Conversion of published data sets for image classification, from small archives of the same formats."""

import gzip
import hashlib
import io
import json
import os
import pathlib
import pickle
import struct
import tarfile

import numpy as np
import pytest
from PIL import Image

from deeplab import cli
from deeplab.datasets import descriptor, example, label_file, planes, record_index, segmentation_dataset
from deeplab.errors import DataError, DownloadError
from deeplab.files import writing
from deeplab.options import ConvertDataOptions, FetchOptions
from deeplab.slim import download_and_convert_data as program
from tests.helpers import dataset_files, web_server


@pytest.fixture(autouse=True)
def no_mirror(monkeypatch):
    monkeypatch.setenv('no_proxy', '127.0.0.1')
    monkeypatch.delenv('DEEPLAB_MIRROR', raising=False)


def tar_gz(files):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode='w:gz') as archive:
        for path, content in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def flowers(classes=('tulips', 'daisy'), count=10):
    files = {
        f'flower_photos/{name}/{number:03d}.jpg': dataset_files.jpeg(dataset_files.pixels(seed=number))
        for name in classes
        for number in range(count)
    }
    return tar_gz({'flower_photos/LICENSE.txt': b'CC BY', **files})


def cifar_pixels(batch):
    return np.random.RandomState(batch).randint(0, 256, (4, 3072), np.uint8)


def cifar10(**changes):
    """The archive, with batches as Python 2 has pickled them: texts are bytes."""
    files = {}
    for number, name in enumerate([*(f'data_batch_{batch}' for batch in range(1, 6)), 'test_batch']):
        content = {b'data': cifar_pixels(number), b'labels': [number, 1, 2, 9], b'filenames': [b'x.png'] * 4}
        files[f'cifar-10-batches-py/{name}'] = pickle.dumps(changes.get(name, content), protocol=2)
    return tar_gz(files)


def idx(array):
    return gzip.compress(struct.pack(f'>BBBB{array.ndim}I', 0, 0, 8, array.ndim, *array.shape) + array.tobytes())


def mnist():
    pixels = np.random.RandomState(0).randint(0, 256, (6, 28, 28), np.uint8)
    return {
        'train-images-idx3-ubyte.gz': idx(pixels),
        'train-labels-idx1-ubyte.gz': idx(np.arange(6, dtype=np.uint8)),
        't10k-images-idx3-ubyte.gz': idx(pixels[::-1]),
        't10k-labels-idx1-ubyte.gz': idx(np.array([9, 8, 7, 6, 5, 4], np.uint8)),
    }


def run(folder, name, files, **more):
    for file, content in files.items():
        path = pathlib.Path(folder, file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    summary = program.run(ConvertDataOptions(name, str(folder), **more))
    return {split: facts['images'] for split, facts in summary['splits'].items()}


def records(folder, split):
    index = record_index.RecordIndex(segmentation_dataset.find_shards(split, str(folder)))
    return [example.parse(index.read(number)) for number in range(len(index))]


def label(record):
    return record.features['image/class/label']


def pixels_of(record):
    with Image.open(io.BytesIO(record.image_bytes)) as image:
        return np.asarray(image)


def test_flowers_have_the_shards_splits_and_labels_of_tf_slim(tmp_path):
    (tmp_path / f'.unpacked.4194305-{writing._machine()}.partial').mkdir()  # of a process that was killed
    report = run(tmp_path, 'flowers', {'flower_photos.tgz': flowers()})
    assert report == {'train': 18, 'validation': 2}
    assert not list(tmp_path.glob('.unpacked*'))
    shards = [f'flowers_{split}_{number:05d}-of-00005.tfrecord' for split in report for number in range(5)]
    assert {*shards, 'labels.txt', 'dataset.yaml', 'flower_photos.tgz'} == {
        name for name in os.listdir(tmp_path) if not name.startswith('.')
    }
    assert label_file.read(str(tmp_path / 'labels.txt')) == ('daisy', 'tulips')
    made = [*records(tmp_path, 'train'), *records(tmp_path, 'validation')]
    assert all(label(record) == ('daisy', 'tulips').index(record.image_name.split('/')[0]) for record in made)
    assert len({record.image_name for record in made}) == 20
    assert {label(record) for record in records(tmp_path, 'train')} == {0, 1}
    assert [record.image_name for record in made] != sorted(record.image_name for record in made)
    described = descriptor.load(str(tmp_path / 'dataset.yaml'))
    assert (described.name, described.num_classes, dict(described.splits)) == ('flowers', 2, report)


def test_records_that_exist_are_kept(tmp_path, caplog):
    caplog.set_level('INFO')
    first = run(tmp_path, 'flowers', {'flower_photos.tgz': flowers()})
    os.remove(tmp_path / 'flower_photos.tgz')
    assert run(tmp_path, 'flowers', {}) == first and 'exist already' in caplog.text


def test_cifar10(tmp_path):
    report = run(tmp_path, 'cifar10', {'cifar-10-python.tar.gz': cifar10()})
    assert report == {'train': 20, 'test': 4}
    assert (tmp_path / 'cifar10_train.tfrecord').exists() and (tmp_path / 'cifar10_test.tfrecord').exists()
    made = records(tmp_path, 'train')
    assert [label(record) for record in made[:8]] == [0, 1, 2, 9, 1, 1, 2, 9]
    channels_first = cifar_pixels(1)[2].reshape(3, 32, 32)
    np.testing.assert_array_equal(pixels_of(made[6]), channels_first.transpose(1, 2, 0))
    assert label_file.read(str(tmp_path / 'labels.txt'))[-1] == 'truck'
    assert made[0].features['image/format'] == b'png'


def test_mnist(tmp_path):
    report = run(tmp_path, 'mnist', mnist())
    assert report == {'train': 6, 'test': 6}
    made = records(tmp_path, 'test')
    assert [label(record) for record in made] == [9, 8, 7, 6, 5, 4] and pixels_of(made[0]).shape == (28, 28)
    np.testing.assert_array_equal(pixels_of(made[0]), pixels_of(records(tmp_path, 'train')[5]))
    assert descriptor.load(str(tmp_path / 'dataset.yaml')).image_channels == 1


def coco(split, seed):
    """The annotations of two images: a person on 1 % and on 0.4 % of the image, which is what counts by default."""
    images = [{'id': n, 'file_name': f'{split}_{n}.jpg', 'height': 6, 'width': 8} for n in (1, 2)]
    annotations = [
        {'id': n, 'image_id': n, 'category_id': kind, 'area': share * 48, 'segmentation': [], 'bbox': [0, 0, 1, 1]}
        for n, kind, share in ((1, 1, 0.01), (2, 1, 0.004), (2, 2, 0.9))
    ]
    categories = [{'id': 1, 'name': 'person'}, {'id': 2, 'name': 'dog'}]
    content = {'images': images, 'annotations': annotations, 'categories': categories}
    files = {f'{split}2014/{split}_{n}.jpg': dataset_files.jpeg(dataset_files.pixels(seed=seed)) for n in (1, 2)}
    files[f'annotations/instances_{split}2014.json'] = json.dumps(content).encode()
    return {f'coco_dataset/{path}': data for path, data in files.items()}


def test_visual_wake_words(tmp_path):
    files = {**coco('train', 0), **coco('val', 1)}
    run(tmp_path, 'visualwakewords', files)
    assert (tmp_path / 'train.record-00099-of-00100').exists() and (tmp_path / 'val.record-00009-of-00010').exists()
    assert [label(record) for record in records(tmp_path, 'train')] == [1, 0]
    assert label_file.read(str(tmp_path / 'labels.txt')) == ('background', 'person')
    other = run(tmp_path / 'b', 'visualwakewords', files, foreground_class_of_interest='dog')
    assert other == {'train': 2, 'val': 2}
    assert [label(record) for record in records(tmp_path / 'b', 'val')] == [0, 1]
    run(tmp_path / 'c', 'visualwakewords', files, small_object_area_threshold=0.001)
    assert [label(record) for record in records(tmp_path / 'c', 'val')] == [1, 1]
    with pytest.raises(DataError, match='foreground_class_of_interest.*no category of COCO: dog, person'):
        run(tmp_path / 'd', 'visualwakewords', files, foreground_class_of_interest='cat')
    with pytest.raises(DataError, match=r'train2014\.zip'):
        run(tmp_path / 'e', 'visualwakewords', {})


class Harmful:
    def __reduce__(self):
        return os.mkdir, ('harm',)


@pytest.mark.parametrize(
    ('name', 'files', 'expected'),
    [
        ('cifar10', lambda: {'cifar-10-python.tar.gz': cifar10(test_batch=Harmful())}, ['test_batch', 'mkdir']),
        ('cifar10', lambda: {'cifar-10-python.tar.gz': cifar10(data_batch_2=[1])}, ['data_batch_2', 'CIFAR-10']),
        (
            'cifar10',
            lambda: {
                'cifar-10-python.tar.gz': cifar10(test_batch={b'data': cifar_pixels(0), b'labels': [0, 1, 2, 10]})
            },
            ['label 10', 'out of range', '0 to 9'],
        ),
        ('cifar10', lambda: {'cifar-10-python.tar.gz': b'text'}, ['cifar-10-python.tar.gz', 'damaged', 'Remove it']),
        (
            'mnist',
            lambda: {**mnist(), 't10k-labels-idx1-ubyte.gz': idx(np.zeros(5, np.uint8))},
            ['6 images', '5 labels'],
        ),
        ('mnist', lambda: {**mnist(), 'train-images-idx3-ubyte.gz': b'\x1f\x8bxx'}, ['train-images', 'MNIST']),
        (
            'mnist',
            lambda: {**mnist(), 'train-images-idx3-ubyte.gz': idx(np.zeros(5, np.uint8))},
            ['train-images', '3 axes'],
        ),
        ('flowers', lambda: {'flower_photos.tgz': tar_gz({'other/a.jpg': b'x'})}, ['flower_photos', 'does not exist']),
        (
            'flowers',
            lambda: {'flower_photos.tgz': tar_gz({f'flower_photos/a/{n}.jpg': b'x' for n in range(3)})},
            ['flower_photos/a', 'neither JPEG nor PNG'],
        ),
    ],
)
def test_bad_archives(tmp_path, monkeypatch, name, files, expected):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((DataError, DownloadError)) as caught:
        run(tmp_path, name, files())
    message = str(caught.value)
    assert all(part in message for part in expected) and '\n' not in message, message
    kept = [file for file in os.listdir(tmp_path) if not file.startswith('.')]
    assert sorted(kept) == sorted(files())


def test_missing_archives_are_downloaded_and_checked(tmp_path, monkeypatch):
    files = mnist()
    pages = {f'/{name}': web_server.Page(body, cut_after=(len(body) // 2,)) for name, body in files.items()}
    monkeypatch.setattr(program.transfer.download, '__defaults__', ((0,),))
    with web_server.serving(pages) as address:
        checked = tuple((address, name, hashlib.md5(body).hexdigest()) for name, body in files.items())
        monkeypatch.setitem(program._ARCHIVES, 'mnist', checked)
        there = {'train-labels-idx1-ubyte.gz': files['train-labels-idx1-ubyte.gz']}
        report = run(tmp_path, 'mnist', there, fetch=FetchOptions(address))
        assert report == {'train': 6, 'test': 6}
        assert not pages['/train-labels-idx1-ubyte.gz'].requests
        assert len(pages['/t10k-images-idx3-ubyte.gz'].requests) == 2  # continued
        monkeypatch.setitem(program._ARCHIVES, 'mnist', tuple((address, name, '0' * 32) for name in files))
        with pytest.raises(DownloadError, match='MD5 0000.*removed'):
            run(tmp_path / 'other', 'mnist', {})
        assert os.listdir(tmp_path / 'other') == [] or all(n.startswith('.') for n in os.listdir(tmp_path / 'other'))
    with pytest.raises(DownloadError, match='flower_photos.tgz elsewhere and put it, not unpacked, at'):
        run(tmp_path, 'flowers', {}, fetch=FetchOptions(address))


def test_the_flags_of_tf_slim(tmp_path, capsys):
    (tmp_path / 'flower_photos.tgz').write_bytes(flowers())
    assert cli.main(['download_and_convert_data', '--dataset_name=flowers', f'--dataset_dir={tmp_path}']) == 0
    assert 'validation: 2 images in 5 shards' in capsys.readouterr().out
    assert cli.main(['download_and_convert_data']) != 0
    assert 'requires --dataset_name' in capsys.readouterr().err
    assert cli.main(['download_and_convert_data', '--dataset_name=imagenet', '--dataset_dir=x']) != 0
    assert 'flowers, cifar10, mnist, visualwakewords' in capsys.readouterr().err
    made = cli.options_of('download_and_convert_data', ['--dataset_name=mnist', '--dataset_dir=x'])
    assert (made.small_object_area_threshold, made.foreground_class_of_interest) == (0.005, 'person')


def test_records_are_read_as_the_classes_of_images(tmp_path):
    run(tmp_path, 'mnist', mnist())
    os.remove(tmp_path / 'dataset.yaml')  # which TF-Slim did not write
    words = [f'--dataset_dir={tmp_path}', '--train_logdir=logs', '--task=classification', '--model_variant=lenet']
    made = cli.options_of('train', words)
    assert made.dataset.name == str(tmp_path / 'labels.txt') and made.model.num_classes == 10
    index = record_index.RecordIndex(segmentation_dataset.find_shards('test', str(tmp_path)))
    plane = planes.CLASS_LABEL._replace(channels=10)
    sample = example.decode(index.read(0), with_label=False, further=[plane])
    assert sample['class_label'].numpy().tolist() == [9] and sample['image'].shape == (28, 28, 3)
