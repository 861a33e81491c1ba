"""Networks for the formats of other runtimes: type of the images, images for calibration, and how an export runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from deeplab.core.lazy import tf
from deeplab.errors import DataError
from deeplab.registry import Exported, FrozenGraph, Outputs, PortableNetwork

IMAGES = 'images'
_OUTPUTS = ('labels', 'probabilities')
_NORMALIZED = re.compile(r'(\w+)/\1/input')  # name of the normalized image
PREFIX = 'network/'  # of the names of layers, if the type of the images was changed


def with_input_type(graph: FrozenGraph, kind: str) -> FrozenGraph:
    """Returns the network with images of another type, which it converts to float32 first."""
    if kind == 'float32':
        return graph
    with tf.Graph().as_default() as own:
        images = tf.compat.v1.placeholder(tf.as_dtype(kind), graph.shape, name=IMAGES)
        inputs = {graph.image.partition(':')[0]: tf.cast(images, tf.float32, name='float_images')}
        found = tf.graph_util.import_graph_def(graph.graph_def, inputs, graph.outputs, name=PREFIX.rstrip('/'))
        outputs = [tf.identity(tensor, name=name).name for tensor, name in zip(found, _OUTPUTS, strict=False)]
    labels, *probabilities = outputs
    return graph._replace(
        graph_def=own.as_graph_def(),
        image=images.name,
        labels=labels,
        probabilities=probabilities[0] if probabilities else None,
    )


def is_trained_in_8_bits(graph: FrozenGraph) -> bool:
    """Returns whether a network imitates 8-bit rounding, so that its ranges are known."""
    return any(node.op.startswith('FakeQuant') for node in graph.graph_def.node)


def has_ranges_of_channels(graph: FrozenGraph) -> bool:
    """Returns whether the weights of a network of 8-bit training have one range, symmetric to 0, for each channel."""
    return any(node.op == 'FakeQuantWithMinMaxVarsPerChannel' for node in graph.graph_def.node)


def normalized_images(graph_def: Any) -> list[str]:
    """Returns the names of the operations of a graph that exports name as the normalized image: one, or none."""
    return [node.name for node in graph_def.node if _NORMALIZED.fullmatch(node.name)]


def from_normalized(graph: FrozenGraph) -> FrozenGraph | None:
    """Returns the part of a network that begins with the normalized image; None if no operation has its name."""
    names = normalized_images(graph.graph_def)
    if len(names) != 1 or None in graph.shape:
        return None
    with tf.Graph().as_default() as own:
        images = tf.compat.v1.placeholder(tf.float32, graph.shape, name=IMAGES)
        found = tf.graph_util.import_graph_def(
            graph.graph_def, {f'{names[0]}:0': images}, graph.outputs, name=PREFIX.rstrip('/')
        )
        outputs = [tf.identity(each, name=name).name for each, name in zip(found, _OUTPUTS, strict=False)]
    labels, *probabilities = outputs
    return graph._replace(
        graph_def=own.as_graph_def(), image=images.name, labels=labels, probabilities=(*probabilities, None)[0]
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


class Loaded(NamedTuple):
    """A model in its runtime.

    Attributes:
      run: predicts images [n, h, w, channels] of the type of its input; takes them, and whether probabilities are
        wanted; returns labels, then probabilities.
      shape: of its input, (n, h, w, channels); None for a side that is known only when it runs.
      num_outputs: 1 for labels, 2 for labels and probabilities.
      num_classes: last side of the probabilities; None if it is unknown.
    """

    run: Callable[[np.ndarray, bool], Sequence[np.ndarray]]
    shape: Sequence[int | None]
    num_outputs: int
    num_classes: int | None


def exported(loaded: Loaded, facts: Mapping[str, Any]) -> Exported:
    """Returns a model in its runtime as an export that is open.

    Args:
      loaded: the model, which takes one image at a time unless their number is known only when it runs.
      facts: its metadata; empty for none.
    """
    batch, height, width, channels = loaded.shape
    assert channels is not None

    def predict(images: np.ndarray, with_probabilities: bool) -> Outputs:
        step = 1 if batch is not None else max(len(images), 1)
        found = [loaded.run(images[i : i + step], with_probabilities) for i in range(0, len(images), step)]
        labels, *scores = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        return Outputs(labels.astype(np.int32, copy=False), *(each.astype(np.float32, copy=False) for each in scores))

    return Exported(
        predict=predict,
        size=None if height is None or width is None else (height, width),
        takes_smaller=False,
        channels=channels,
        num_classes=len(facts['class_names']) if facts.get('class_names') else loaded.num_classes,
        has_probabilities=loaded.num_outputs > 1,
        bits=int(facts.get('image_bits', 8)),
        metadata=facts,
    )


def in_type(images: np.ndarray, kind: type) -> np.ndarray:
    """Returns images, 0 to 255, in the type of an input, rounded if it is uint8."""
    return np.rint(images).astype(kind) if kind == np.uint8 else images.astype(kind, copy=False)
