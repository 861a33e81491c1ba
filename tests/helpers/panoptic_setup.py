"""A tiny panoptic split and a network with known outputs, for the tests of what uses results of tasks.

An image says the outputs of the network: red is the class times 80, green and blue the offset to the center. The
network has one variable, `weight`, by which it multiplies the heatmap.
"""

import dataclasses
import json
import pathlib

import numpy as np
import tensorflow as tf

from deeplab import common
from deeplab.options import DatasetOptions, ModelOptions, TrainOptions
from deeplab.training import run_manifest
from tests.helpers import checkpoint_files, dataset_files

CLASSES = ['road', 'car', 'person']
PALETTE = [[128, 64, 128], [0, 0, 142], [220, 20, 60]]
THINGS = (1, 2)
SIZE = (33, 41)
IMAGES = 3
MODEL = ModelOptions(
    {common.OUTPUT_TYPE: 3}, crop_size=(33, 49), task='panoptic', settings={'stuff_area': 4, 'nms_kernel': 3}
)
# Rows, columns, class and number of instances; the first two touch.
_BOXES = [((4, 15), (3, 17), 1, 1), ((4, 15), (17, 31), 1, 2), ((19, 31), (8, 15), 2, 1), ((20, 30), (25, 36), 2, 2)]


def truth(number):
    """Class ids uint8 and instance ids uint16, [h, w] each; a corner is ignored, the last image has a crowd."""
    class_ids, instance_ids = np.zeros(SIZE, np.uint8), np.zeros(SIZE, np.uint16)
    for rows, columns, class_id, instance_id in _BOXES:
        place = (slice(*rows), slice(*columns))
        class_ids[place], instance_ids[place] = class_id, instance_id
    class_ids[:3, :3] = 255
    if number == IMAGES - 1:
        instance_ids[class_ids == 2] = 0
    return class_ids, instance_ids


def image(number):
    """[h, w, 3] uint8: the truth, of which the network gets a part wrong."""
    class_ids, instance_ids = truth(0)
    class_ids = np.where(class_ids == 255, 0, class_ids)
    if number == 1:  # most of a person is road, and two cars are one
        class_ids[19:27, 8:15] = 0
        instance_ids[class_ids == 1] = 1
    rows, columns = np.indices(SIZE)
    pixels = np.full((*SIZE, 3), 128, np.uint8)
    pixels[..., 0] = class_ids * 80
    for class_id, instance_id in {(c, i) for _, _, c, i in _BOXES}:
        mask = (class_ids == class_id) & (instance_ids == instance_id)
        for channel, places in ((1, rows), (2, columns)) if mask.any() else ():
            pixels[mask, channel] = 128 + 3 * (round(places[mask].mean()) - places[mask])
    return pixels


def write_data(folder, **changes):
    """The images in one shard beside the data set's description; returns the options that name them."""
    folder = pathlib.Path(folder)
    records = []
    for number in range(IMAGES):
        class_ids, instance_ids = map(dataset_files.png, truth(number))
        features = {'image/segmentation/instance/encoded': instance_ids}
        pixels = dataset_files.png(image(number))
        records.append(dataset_files.example.encode(pixels, 'png', f'image_{number}', *SIZE, 3, class_ids, features))
    dataset_files.write_split(folder, 'val', [records])
    description = folder / 'tiny.json'
    facts = {'num_classes': 3, 'class_names': CLASSES, 'palette': PALETTE, 'things': THINGS, **changes}
    description.write_text(json.dumps(facts))
    return DatasetOptions('val', str(folder), str(description))


def write_training(folder, data, classes=None, model=MODEL):
    """Writes what a training leaves behind; returns the folder. `classes` are those in run.json."""
    folder = pathlib.Path(folder)
    checkpoint_files.write(folder / 'model.ckpt-7', {'weight': np.ones(1, np.float32), 'global_step': np.int64(7)})
    options = TrainOptions(dataclasses.replace(model, crop_size=(33, 33)), data, str(folder))
    run = {
        'command': [],
        'options': run_manifest.options_as_json(options),
        'folder': str(folder),
        'classes': None if classes is None else classes.as_json(),
        'given': {'ModelOptions.task': model.task, **{f'ModelOptions.{k}': v for k, v in model.settings}},
    }
    (folder / 'run.json').write_text(json.dumps({'format': 1, 'runs': [run]}))
    return folder


def use_small_network(monkeypatch):
    """Replaces the real networks; returns the list of its calls."""
    calls = []

    def predict_maps(images, options, scales=(1.0,), add_flipped_images=False, *, native_dilation=None):
        calls.append((tuple(scales), add_flipped_images))
        weight = tf.compat.v1.get_variable('weight', [1])
        classes = tf.cast(tf.round(images[..., 0] / 80), tf.int32)  # [n, h, w]
        offsets = (images[..., 1:] - 128) / 3
        heatmap = weight * tf.exp(-tf.reduce_sum(offsets**2, axis=3, keepdims=True) / 8)
        thing = tf.cast(classes > 0, tf.float32)[..., tf.newaxis]
        return {common.OUTPUT_TYPE: tf.one_hot(classes, 3), 'center': heatmap * thing, 'offset': offsets}

    monkeypatch.setattr('deeplab.model.predict_maps', predict_maps)
    return calls
