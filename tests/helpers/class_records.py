"""Tiny records for image classification, as TF-Slim wrote them, under its names of shards."""

import pathlib

import numpy as np

from deeplab.datasets import example
from tests.helpers import dataset_files


def write(
    folder: pathlib.Path,
    splits: dict[str, int],
    size: int = 32,
    channels: int = 3,
    classes: int = 10,
    first: int = 0,
    names: str = '{}_{}.tfrecord',
) -> str:
    """Writes splits, each of a number of images with the classes `first`, `first` + 1, ...; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    for split, count in splits.items():
        records = []
        for number in range(count):
            image = random.integers(0, 256, (size, size, channels)).astype(np.uint8)
            png = dataset_files.png(image[..., 0] if channels == 1 else image)
            label = {'image/class/label': first + number % classes}
            records.append(example.encode(png, 'png', f'{split}_{number}', size, size, channels, features=label))
        dataset_files.write_shard(folder / names.format(folder.name, split), records)
    return str(folder)
