"""Batches of random images for tests of metrics, with all inputs that a metric may ask for."""

import numpy as np

from deeplab.core.metrics import confusion_matrix
from deeplab.registry import METRICS, MetricContext


def context(classes, ignore_label=255, categories=None):
    return MetricContext(classes, ignore_label, tuple(f'class {i}' for i in range(classes)), categories)


def create(name, of, **values):
    """A new accumulator, with the defaults of the parameters that are not given."""
    metric = METRICS.get(name)
    return metric.create(of, **({parameter.name: parameter.default for parameter in metric.parameters} | values))


def blocks(rng, classes, size, block=4, ignored=0.1):
    """Random blocks of classes, some of them ignored: [h, w]."""
    rows, columns = -(-size[0] // block), -(-size[1] // block)
    ids = rng.integers(0, classes, (rows, columns))
    ids[rng.random(ids.shape) < ignored] = 255
    return np.kron(ids, np.ones((block, block), int))[: size[0], : size[1]]


def batch(rng, classes, sizes, crop):
    """Labels and predictions [n, *crop] with padding, sizes and the other inputs."""
    labels = np.full((len(sizes), *crop), 255, np.int32)
    predictions = rng.integers(0, classes, labels.shape, np.int32)
    for image, (height, width) in enumerate(sizes):
        labels[image, :height, :width] = blocks(rng, classes, (height, width))
        # Right in most places, and shifted by a pixel.
        shifted = np.roll(np.where(labels[image] == 255, predictions[image], labels[image]), 1, axis=1)
        predictions[image] = np.where(rng.random(crop) < 0.9, shifted, predictions[image])
    return labels, predictions, {
        'matrices': confusion_matrix.of_images(labels, predictions, classes, 255),
        'sizes': np.array(sizes),
        'confidence': rng.random(labels.shape).astype(np.float32),
        'names': [f'image {number}' for number in range(len(sizes))],
    }  # fmt: skip


def update(metric, name, labels, predictions, inputs, images=slice(None)):
    """Adds some images of a batch."""
    wanted = {key: inputs[key][images] for key in METRICS.get(name).inputs}
    metric.update(labels[images], predictions[images], **wanted)


def figures(metric):
    """All figures of an accumulator."""
    return dict(metric.result()), dict(metric.class_figures()) if hasattr(metric, 'class_figures') else {}
