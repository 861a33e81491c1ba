"""A tiny split and a network with known predictions, for the tests of eval and vis.

The network has one variable, `weight`, and predicts round(red / 10 * weight), at most 3, at the pixel itself.
"""

import json
import pathlib

import numpy as np
import tensorflow as tf

from deeplab import common
from deeplab.options import DatasetOptions, ModelOptions
from tests.helpers import dataset_files

CLASSES = ['sky', 'road', 'tree', 'car']
SIZES = [(5, 7), (6, 4), (9, 9), (4, 8), (7, 7)]
MODEL = ModelOptions({common.OUTPUT_TYPE: 4}, crop_size=(17, 17))


def truth(number):
    """The class ids of image `number`: [h, w] uint8, 0 to 3, with an ignored corner."""
    ids = dataset_files.ids(*SIZES[number], classes=4, seed=number)
    ids[0, 0] = 255
    return ids


def image(number):
    """[h, w, 3] uint8: red says the class times ten (class 1 where it is ignored), green and blue are random."""
    pixels = dataset_files.pixels(*SIZES[number], seed=number)
    ids = truth(number)
    pixels[..., 0] = np.where(ids == 255, 1, ids) * 10
    return pixels


def write_data(folder, split='val', with_labels=True, names=None):
    """Five images in two shards beside the data set's description; returns the options that name them."""
    folder = pathlib.Path(folder)
    records = [
        dataset_files.example.encode(
            dataset_files.png(image(i)), 'png', names[i] if names else f'image_{i}', *SIZES[i], 3,
            dataset_files.png(truth(i)) if with_labels else None,
        )
        for i in range(len(SIZES))
    ]  # fmt: skip
    dataset_files.write_split(folder, split, [records[:3], records[3:]])
    description = folder / 'tiny.json'
    description.write_text(
        json.dumps({'num_classes': 4, 'class_names': CLASSES, 'eval_ids': [7, 8, 11, 26], 'splits': [split]})
    )
    return DatasetOptions(split, str(folder), str(description))


def write_checkpoint(folder, step=10, weight=1.0, shape=(1,), name='weight'):
    """Writes model.ckpt-STEP; returns its path."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable(name, initializer=np.full(shape, weight, np.float32))
        counter = tf.compat.v1.get_variable('global_step', initializer=np.int64(step))
        session.run([variable.initializer, counter.initializer])
        saver = tf.compat.v1.train.Saver([variable, counter])
        return saver.save(session, f'{folder}/model.ckpt', global_step=step, write_meta_graph=False)


def _probabilities(images):
    weight = tf.compat.v1.get_variable('weight', [1])
    classes = tf.minimum(tf.cast(tf.round(images[..., 0] / 10 * weight), tf.int32), 3)  # [n, h, w]
    sure = tf.ones_like(images[..., 0])  # [n, h, w]
    suffixes = {common.PROBABILITY_SUFFIX: tf.one_hot(classes, 4), common.CONFIDENCE_SUFFIX: sure}
    return {common.OUTPUT_TYPE: classes} | {common.OUTPUT_TYPE + suffix: value for suffix, value in suffixes.items()}


def use_small_network(monkeypatch):
    """Replaces the real networks; returns the list of its calls."""
    calls = []

    def predict_labels(images, options, image_pyramid=None, native_dilation=None):
        calls.append(('single', image_pyramid))
        return _probabilities(images)

    def predict_labels_multi_scale(images, options, eval_scales, add_flipped_images=False, native_dilation=None):
        calls.append(('multi', tuple(eval_scales), add_flipped_images))
        return _probabilities(images)

    monkeypatch.setattr('deeplab.model.predict_labels', predict_labels)
    monkeypatch.setattr('deeplab.model.predict_labels_multi_scale', predict_labels_multi_scale)
    return calls
