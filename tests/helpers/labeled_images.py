"""Drawn records of image classification: splits of images with class ids, and faults in them."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence

import numpy as np
from PIL import Image

from deeplab.datasets import example, planes
from tests.helpers import dataset_files

NAMES = ('disk', 'bar', 'frame')
SIZE = (40, 52)
COUNTS = {'train': 66, 'val': 30}


def drawn(class_id: int, seed: int) -> np.ndarray:
    """[40, 52, 3] uint8, a disk, a bar or a frame on a ground of random colors."""
    random = np.random.default_rng(seed)
    ground = Image.fromarray(random.integers(0, 160, (5, 6, 3)).astype(np.uint8)).resize(SIZE[::-1], 3)
    pixels = np.asarray(ground).copy()
    rows, columns = np.mgrid[: SIZE[0], : SIZE[1]]
    row, column = rows - random.integers(12, 28), columns - random.integers(14, 38)
    sides = np.maximum(abs(row), abs(column))
    shape = (row**2 + column**2 < 100, (abs(row) < 4) & (abs(column) < 12), (sides < 11) & (sides > 6))[class_id]
    pixels[shape] = (230, 220, 90)
    return pixels


class LabeledImages:
    """Images with class ids that a test changes before it writes them.

    Attributes:
      samples: for each split a list of [image file, class ids]; class ids are an integer, a list, or None.
    """

    def __init__(self, counts: dict[str, int] | None = None) -> None:
        self.samples: dict[str, list[list]] = {
            split: [[dataset_files.png(drawn(seed % 3, seed + 1000 * place)), seed % 3] for seed in range(count)]
            for place, (split, count) in enumerate((counts or COUNTS).items())
        }

    def write(self, folder: pathlib.Path, names: Sequence[str] | None = NAMES) -> pathlib.Path:
        """Writes the records with a description, or without one for None; returns the folder."""
        for split, samples in self.samples.items():
            records = []
            for number, (image, class_ids) in enumerate(samples):
                features = {} if class_ids is None else {planes.CLASS_LABEL.feature: class_ids}
                records.append(example.encode(image, 'png', f'{split}_{number}', *SIZE, 3, features=features))
            dataset_files.write_split(folder, split, [records])
        if names is not None:
            content = {'num_classes': len(names), 'class_names': names, 'has_masks': False}
            (folder / 'dataset.json').write_text(json.dumps(content))
        return folder
