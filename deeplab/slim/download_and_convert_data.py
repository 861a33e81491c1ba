"""Conversion of published data sets for image classification to TFRecords (`deeplab download_and_convert_data`).

Source of addresses, names of files, splits and classes: TF-Slim (tensorflow/models at 0e2d1f0f3, research/slim).
"""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and usage errors do not wait for other imports
    import os
    import sys

    if not __package__:  # run as a file: replace the folder of this file by the folder of the package
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    from deeplab import start

    start.run_program('download_and_convert_data')

import contextlib
import gzip
import os
import pathlib
import pickle
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from deeplab.datasets import (
    build_classification_data,
    build_data,
    coco_annotations,
    description_file,
    descriptor,
    file_pairs,
    folders,
    images,
    label_file,
)
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.datasets.pairs import SourceFiles
from deeplab.datasets.record_index import RecordIndex
from deeplab.errors import DataError, DownloadError
from deeplab.files import folder_lock, writing
from deeplab.options import ConvertDataOptions
from deeplab.wording import option
from deeplab.zoo import archives, cache, transfer

_MOST_FILES = 10_000  # of an archive; flowers has 3,672
_SEED = 0
_UNPACKED = '.unpacked'  # hidden folder of a running conversion
_VALIDATION_IMAGES = 350
_FLOWERS, _CIFAR10 = 'flower_photos.tgz', 'cifar-10-python.tar.gz'
_MNIST_ADDRESS = 'https://storage.googleapis.com/cvdf-datasets/mnist'
# The archives of each data set: address of the folder, file name, MD5.
_ARCHIVES = {
    'flowers': (('http://download.tensorflow.org/example_images', _FLOWERS, ''),),
    'cifar10': (('https://www.cs.toronto.edu/~kriz', _CIFAR10, 'c58f30108f718f92721af3b95e74349a'),),
    'mnist': (
        (_MNIST_ADDRESS, 'train-images-idx3-ubyte.gz', 'f68b3c2dcbeaaa9fbdd348bbdeb94873'),
        (_MNIST_ADDRESS, 'train-labels-idx1-ubyte.gz', 'd53e105ee54ea40749a09fcbcd1e9432'),
        (_MNIST_ADDRESS, 't10k-images-idx3-ubyte.gz', '9fb629c4189551a2d022fa330f9573f3'),
        (_MNIST_ADDRESS, 't10k-labels-idx1-ubyte.gz', 'ec29112dd5afa0611ce80d1b7f02629c'),
    ),
    'visualwakewords': (),
}
_COCO = 'coco_dataset'  # folder in the folder of the data set
_COCO_ADDRESSES = (
    'http://images.cocodataset.org/zips/train2014.zip, http://images.cocodataset.org/zips/val2014.zip and '
    'http://images.cocodataset.org/annotations/annotations_trainval2014.zip'
)
# Number and names of the shards of each split, made of split, number and total.
_FLOWERS_SHARDS, _COCO_SHARDS = 'flowers_{}_{:05d}-of-{:05d}.tfrecord', '{}.record-{:05d}-of-{:05d}'
_SHARDS = {
    'flowers': {'train': (5, _FLOWERS_SHARDS), 'validation': (5, _FLOWERS_SHARDS)},
    'cifar10': {'train': (1, 'cifar10_{}.tfrecord'), 'test': (1, 'cifar10_{}.tfrecord')},
    'mnist': {'train': (1, 'mnist_{}.tfrecord'), 'test': (1, 'mnist_{}.tfrecord')},
    'visualwakewords': {'train': (100, _COCO_SHARDS), 'val': (10, _COCO_SHARDS)},
}
_BACKGROUND = 'background'
# What the batches of CIFAR-10 are made of.
_ALLOWED = {'numpy._core.multiarray._reconstruct', 'numpy.ndarray', 'numpy.dtype', '_codecs.encode'}


# What a data set is converted to: its description, and the records of each split.
Content = tuple[DatasetDescriptor, Mapping[str, Sequence[SourceFiles]]]


def run(options: ConvertDataOptions) -> dict[str, Any]:
    """Converts the archives of a data set that are in its folder; downloads those that are missing.

    Returns:
      A summary of what was written, or was there already, as `build_data.write_splits`.

    Raises:
      DataError: An archive or image cannot be read, COCO is missing, or a file cannot be written.
      DownloadError: An archive cannot be downloaded, or is not what was published.
    """
    folder = options.dataset_dir
    paths = {
        split: [os.path.join(folder, pattern.format(split, number, total)) for number in range(total)]
        for split, (total, pattern) in _SHARDS[options.dataset_name].items()
    }
    if all(os.path.isfile(path) for shards in paths.values() for path in shards):
        logging.info('The records exist already. Remove them to convert the data set anew.')
    else:
        with writing.explained(folder, f'Set another {option("ConvertDataOptions.dataset_dir")}.'):
            os.makedirs(folder, exist_ok=True)
            with folder_lock.held(folder, 'builder', 'ConvertDataOptions.dataset_dir'):
                for address, name, checksum in _ARCHIVES[options.dataset_name]:
                    _obtain(address, os.path.join(folder, name), checksum, options)
                writing.remove_leftovers(folder, re.escape(_UNPACKED))
                temporary = writing.temporary_name(os.path.join(folder, _UNPACKED))
                with contextlib.ExitStack() as stack:
                    stack.callback(writing.remove, temporary)
                    os.mkdir(temporary)
                    _write(_READERS[options.dataset_name](options, temporary), paths, folder, temporary)
    splits = {
        split: {'images': len(RecordIndex(shards)), 'shards': len(shards), 'labeled': True}
        for split, shards in paths.items()
    }
    return {'output_dir': folder, 'splits': splits}


def _write(content: Content, paths: Mapping[str, Sequence[str]], folder: str, temporary: str) -> None:
    """Writes the shards of all splits, which get their names together, then the description and labels.txt."""
    dataset, items = content
    made = [build_data.write_split(items[split], split, temporary, len(shards)) for split, shards in paths.items()]
    for summary in made:
        for source, path in zip(summary.shards, paths[summary.split], strict=True):
            os.replace(source, path)
    facts = {each.split: description_file.SplitFacts(each.images, len(each.shards), each.digest) for each in made}
    description_file.write(folder, dataset, facts)
    label_file.write(folder, dataset.names)


def _obtain(address: str, path: str, checksum: str, options: ConvertDataOptions) -> None:
    """Downloads an archive that is missing; it gets its name when it is complete and what was published."""
    if os.path.isfile(path):
        return
    address = f'{transfer.mirror_of(options.fetch) or address}/{os.path.basename(path)}'
    unchecked = f'{path}.unchecked'
    logging.info('Downloading %s to %s.', address, os.path.dirname(path))
    try:
        transfer.download(address, unchecked)
    except DownloadError as error:
        raise type(error)(f"{error} Or fetch {address} elsewhere and put it, not unpacked, at '{path}'.") from None
    if checksum and cache.checksum(unchecked, 'md5') != checksum:
        writing.remove(unchecked)
        raise DownloadError(f'{address} is not the published archive, which has the MD5 {checksum}. It was removed.')
    os.replace(unchecked, path)


def _unpack(archive: str, folder: str) -> None:
    """Unpacks an archive; says what to do if it is damaged."""
    try:
        archives.unpack(archive, folder, _MOST_FILES)
    except archives.DamagedArchiveError as error:
        raise DownloadError(f'{error} Remove it to have it downloaded, and run the same command again.') from None


def _flowers(options: ConvertDataOptions, unpacked: str) -> Content:
    """Reads the archive of flowers: a folder of JPEG files for each class."""
    _unpack(os.path.join(options.dataset_dir, _FLOWERS), unpacked)
    root = os.path.join(unpacked, 'flower_photos')
    folders.require_folder(root)
    paths = {stem: path for stem, path in file_pairs.by_stem(root, ('jpg', 'jpeg')).items() if stem.count('/') == 1}
    class_names = sorted({stem.partition('/')[0] for stem in paths})
    stems = sorted(paths)
    random.Random(_SEED).shuffle(stems)
    items = [
        build_classification_data.item_of(paths[stem], stem, class_names.index(stem.partition('/')[0]))
        for stem in stems
    ]
    first = min(_VALIDATION_IMAGES, len(items) // 10)  # a tenth of a smaller archive
    dataset = build_classification_data.described('flowers', class_names)
    return dataset, {'train': items[first:], 'validation': items[:first]}


def _cifar10(options: ConvertDataOptions, unpacked: str) -> Content:
    """Reads the archive of CIFAR-10: pickles of arrays [n, 3 * 32 * 32] uint8, the channels one after the other."""
    _unpack(os.path.join(options.dataset_dir, _CIFAR10), unpacked)
    root = pathlib.Path(unpacked, 'cifar-10-batches-py')
    dataset, splits = descriptor.load('cifar10'), {}
    for split, files in (('train', [f'data_batch_{number}' for number in range(1, 6)]), ('test', ['test_batch'])):
        batches = [_batch(str(root / file)) for file in files]
        pixels = np.concatenate([pixels for pixels, _ in batches])
        labels = np.concatenate([labels for _, labels in batches])
        splits[split] = _of_arrays(split, str(root / files[0]), pixels, labels, dataset.num_classes)
    return dataset, splits


class _Unpickler(pickle.Unpickler):
    """Reads pickles of arrays, numbers and texts, and refuses everything else, which could run code."""

    def find_class(self, module: str, name: str) -> Any:
        path = f'{module.replace("numpy.core", "numpy._core")}.{name}'  # of an earlier NumPy
        if path not in _ALLOWED:
            raise pickle.UnpicklingError(f"it has '{module}.{name}', which is neither an array nor a text")
        return super().find_class(path.rpartition('.')[0], name)


def _batch(path: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the images, [n, 32, 32, 3] uint8, and class ids of a batch of CIFAR-10."""
    try:
        with open(path, 'rb') as file:
            content = _Unpickler(file, encoding='bytes').load()
        pixels = np.asarray(content[b'data'], np.uint8).reshape(-1, 3, 32, 32)
        return pixels.transpose(0, 2, 3, 1), np.asarray(content[b'labels'], np.int64)
    except Exception as error:  # damaged pickles raise nearly anything
        raise DataError(f"'{os.path.basename(path)}' is no batch of CIFAR-10: {error!r}.") from None


def _mnist(options: ConvertDataOptions, unpacked: str) -> Content:
    """Reads the files of MNIST."""
    dataset, splits = descriptor.load('mnist'), {}
    for split, prefix in (('train', 'train'), ('test', 't10k')):
        path = os.path.join(options.dataset_dir, f'{prefix}-images-idx3-ubyte.gz')
        labels = _array(os.path.join(options.dataset_dir, f'{prefix}-labels-idx1-ubyte.gz'), 1)
        splits[split] = _of_arrays(split, path, _array(path, 3), labels, dataset.num_classes)
    return dataset, splits


def _array(path: str, axes: int) -> np.ndarray:
    """Returns the array in a file of MNIST, uint8: 0, 0, 8, number of axes, their lengths, values."""
    try:
        with gzip.open(path) as file:
            content = file.read()
        if content[:4] != bytes([0, 0, 8, axes]):
            raise ValueError(f'it begins with {content[:4].hex()}')
        shape = np.frombuffer(content, '>u4', axes, 4)
        return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)
    except Exception as error:  # damaged files raise nearly anything
        raise DataError(f"'{path}' is not a file of MNIST with {axes} axes: {error}.") from None


def _of_arrays(split: str, path: str, pixels: np.ndarray, labels: np.ndarray, classes: int) -> list[SourceFiles]:
    """Returns the records of images in arrays, [n, h, w] or [n, h, w, 3] uint8; `path` is the file they come from."""
    if len(pixels) != len(labels):
        raise DataError(f"'{path}' has {len(pixels)} images, but there are {len(labels)} labels.")
    if wrong := [number for number in labels.tolist() if not 0 <= number < classes]:
        raise DataError(f"The label {wrong[0]} in the split '{split}' of '{path}' is out of range: 0 to {classes - 1}.")
    return [
        build_classification_data.item_of(
            path, f'{split}_{number:05d}', label, embedded=lambda path, image=image: images.encode_png(image)
        )
        for number, (image, label) in enumerate(zip(pixels, labels.tolist(), strict=True))
    ]


def _visual_wake_words(options: ConvertDataOptions, unpacked: str) -> Content:
    """Reads COCO: whether an image has an object of a category that is not small."""
    root = os.path.join(options.dataset_dir, _COCO)
    wanted = options.foreground_class_of_interest
    splits: dict[str, list[SourceFiles]] = {'train': [], 'val': []}
    for split in splits:
        annotations = os.path.join(root, 'annotations', f'instances_{split}2014.json')
        folder = os.path.join(root, f'{split}2014')
        if not (os.path.isfile(annotations) and os.path.isdir(folder)):
            raise DataError(
                f"visualwakewords needs '{annotations}' and the folder '{folder}'. These archives are too large to be "
                f"downloaded here: unpack {_COCO_ADDRESSES} to '{root}'."
            )
        coco = coco_annotations.load(annotations, 'instances')
        category_ids = {category['name']: category['id'] for category in coco.categories}
        if wanted not in category_ids:
            value = option('ConvertDataOptions.foreground_class_of_interest', wanted)
            raise DataError(f'{value} is no category of COCO: {", ".join(sorted(category_ids))}.')
        for image in coco.images:
            objects = coco.of_image.get(image['id'], ())
            areas = [each['area'] for each in objects if each['category_id'] == category_ids[wanted]]
            is_shown = max(areas, default=0) / (image['height'] * image['width']) > options.small_object_area_threshold
            path, name = os.path.join(folder, image['file_name']), os.path.splitext(image['file_name'])[0]
            splits[split].append(build_classification_data.item_of(path, name, int(is_shown)))
    return build_classification_data.described('visualwakewords', (_BACKGROUND, wanted)), splits


_READERS: dict[str, Callable[[ConvertDataOptions, str], Content]] = {
    'flowers': _flowers,
    'cifar10': _cifar10,
    'mnist': _mnist,
    'visualwakewords': _visual_wake_words,
}
