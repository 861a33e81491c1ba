"""Tiny records with every plane that a task of the package needs: two squares of things on stuff."""

import json
import pathlib

import numpy as np

from deeplab.datasets import example, planes
from deeplab.options import DatasetOptions
from tests.helpers import dataset_files

SIZE = (65, 65)
CLASSES = 3  # 1 and 2 are things
DEPTH_SCALE = 0.01


def record(seed: int, with_labels: bool = True) -> bytes:
    """Serializes an image whose red says the class."""
    random = np.random.default_rng(seed)
    class_ids, instance_ids = np.zeros((2, *SIZE), np.uint8)
    for number, class_id in enumerate((1, 2, 1), start=1):
        top, left = random.integers(0, 40, 2)
        place = (slice(top, top + 24), slice(left, left + 24))
        class_ids[place], instance_ids[place] = class_id, number
    image = random.integers(0, 256, (*SIZE, 3)).astype(np.uint8)
    image[..., 0] = 100 * class_ids
    masks = np.concatenate([class_ids == 0, class_ids > 0, class_ids == 2])  # two of them overlap
    features = {
        planes.INSTANCE.feature: dataset_files.png(instance_ids.astype(np.uint16)),
        planes.DEPTH.feature: dataset_files.png((class_ids.astype(np.uint16) + 1) * 200),
        planes.MULTILABEL.feature: dataset_files.png(masks),
        planes.CLASS_LABEL.feature: seed % CLASSES,
    }
    label = dataset_files.png(class_ids) if with_labels else None
    return example.encode(dataset_files.png(image), 'png', f'image_{seed}', *SIZE, 3, label, features)


def write_data(folder: pathlib.Path) -> DatasetOptions:
    """Splits train and val, and train_bare and val_bare without class ids; returns the options of train."""
    for split, count in (('train', 6), ('val', 2)):
        dataset_files.write_split(folder, split, [[record(seed) for seed in range(count)]])
        dataset_files.write_split(folder, f'{split}_bare', [[record(seed, False) for seed in range(count)]])
    content = {'num_classes': CLASSES, 'things': [1, 2], 'depth_scale': DEPTH_SCALE}
    (folder / 'toy.json').write_text(json.dumps(content))
    return DatasetOptions('train', str(folder), str(folder / 'toy.json'))
