"""Networks for the formats of other runtimes: type of the images, and images for calibration."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from deeplab.core.lazy import tf
from deeplab.errors import DataError
from deeplab.registry import FrozenGraph, PortableNetwork

IMAGES = 'images'
PREFIX = 'network/'  # of the names of layers, if the type of the images was changed


def with_input_type(graph: FrozenGraph, kind: str) -> FrozenGraph:
    """Returns the network with images of another type, which it converts to float32 first."""
    if kind == 'float32':
        return graph
    with tf.Graph().as_default() as own:
        images = tf.compat.v1.placeholder(tf.as_dtype(kind), graph.shape, name=IMAGES)
        inputs = {graph.image.partition(':')[0]: tf.cast(images, tf.float32, name='float_images')}
        found = tf.graph_util.import_graph_def(graph.graph_def, inputs, graph.outputs, name=PREFIX.rstrip('/'))
        names = ('labels', 'probabilities')
        outputs = [tf.identity(tensor, name=name).name for tensor, name in zip(found, names, strict=False)]
    labels, *probabilities = outputs
    return graph._replace(
        graph_def=own.as_graph_def(),
        image=images.name,
        labels=labels,
        probabilities=probabilities[0] if probabilities else None,
    )


def full_range(network: PortableNetwork) -> Iterator[np.ndarray]:
    """Yields the images for calibration, in the first of which two pixels have the values 0 and 255.

    So the range of the input is that of all images, and values of uint8 need no conversion.

    Raises:
      DataError: there is no image.
    """
    number = 0
    for number, image in enumerate(network.calibration(), start=1):
        if number == 1:
            image = image.copy()
            image[:, 0, 0], image[:, -1, -1] = 0, 255
        yield image
    if not number:
        raise DataError('There is no image for calibration.')
