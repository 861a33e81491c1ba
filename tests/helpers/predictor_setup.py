"""A checkpoint of a tiny network with its run.json, for the tests of prediction.

The network sees 12 pixels around each pixel: two convolutions, and neither image pooling nor atrous branches.
"""

import json
import pathlib

import numpy as np

from deeplab import common
from deeplab.checks import checkpoint_network
from deeplab.options import AsppOptions, DatasetOptions, ModelOptions, TrainOptions
from deeplab.training import run_manifest
from tests.helpers import checkpoint_files, given_weights

CLASSES = ['sky', 'road', 'tree', 'car']
COLORS = [[0, 0, 255], [200, 100, 0], [0, 255, 0], [255, 0, 0]]
ASPP = AsppOptions(filters=8, image_level_feature=False)
MODEL = ModelOptions({common.OUTPUT_TYPE: 4}, crop_size=(33, 33), model_variant='tiny', aspp=ASPP)


def write_training(folder, model=MODEL, with_manifest=True):
    """Writes what a training of the tiny network leaves behind; returns the folder."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    shapes = checkpoint_network.network_shapes(model)
    values = {name: given_weights.some_value(name, list(shape)) for name, shape in shapes.items()}
    # Biases as large as other logits' deviation would give one class alone.
    values = {name: np.zeros_like(each) if 'biases' in name else each for name, each in values.items()}
    checkpoint_files.write(folder / 'model.ckpt-7', {**values, 'global_step': np.int64(7)})
    if with_manifest:
        (folder / 'tiny.json').write_text(
            json.dumps({'num_classes': 4, 'class_names': CLASSES, 'palette': COLORS, 'splits': ['train']})
        )
        data = DatasetOptions('train', str(folder), 'tiny.json')
        options = TrainOptions(model, data, str(folder))
        run = {'command': [], 'options': run_manifest.options_as_json(options), 'folder': str(folder)}
        (folder / 'run.json').write_text(json.dumps({'format': 1, 'runs': [run]}))
    return folder


def pixels(height, width, seed=0):
    """A picture of areas with noise, [h, w, 3] uint8."""
    rng = np.random.default_rng(seed)
    areas = rng.integers(0, 256, (4, 4, 3))
    rows, columns = np.arange(height) * 4 // height, np.arange(width) * 4 // width
    noise = rng.normal(0, 30, (height, width, 3))
    return np.clip(areas[rows][:, columns] + noise, 0, 255).astype(np.uint8)
