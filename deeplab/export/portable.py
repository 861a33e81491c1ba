"""Networks for the formats of other runtimes: type of the images, and whether they were trained in 8 bits."""

from __future__ import annotations

import re
from typing import Any

from deeplab.core.lazy import tf
from deeplab.registry import FrozenGraph

IMAGES = 'images'
LABELS, PROBABILITIES = OUTPUTS = ('labels', 'probabilities')
_NORMALIZED = re.compile(r'(\w+)/\1/input')  # name of the normalized image
PREFIX = 'network/'  # of the names of layers, if the type of the images was changed


def with_input_type(graph: FrozenGraph, kind: str) -> FrozenGraph:
    """Returns the network with images of another type, which it converts to float32 first."""
    return graph if kind == 'float32' else beginning_at(graph, graph.image, kind)


def beginning_at(graph: FrozenGraph, tensor: str, kind: str = 'float32') -> FrozenGraph:
    """Returns the part of a network that begins with a tensor of float32, with images of some type in its place."""
    names = output_names(graph)
    with tf.Graph().as_default() as own:
        images = tf.compat.v1.placeholder(tf.as_dtype(kind), graph.shape, name=IMAGES)
        numbers = images if kind == 'float32' else tf.cast(images, tf.float32, name='float_images')
        tensors = tf.graph_util.import_graph_def(
            graph.graph_def, {tensor: numbers}, graph.outputs, name=PREFIX.rstrip('/')
        )
        outputs = {name: tf.identity(each, name=name).name for each, name in zip(tensors, names, strict=True)}
    return graph._replace(
        graph_def=own.as_graph_def(),
        image=images.name,
        labels=outputs[LABELS],
        probabilities=None if graph.probabilities is None else outputs[PROBABILITIES],
        maps={name: outputs[name] for name in graph.maps},
    )


def output_names(graph: FrozenGraph) -> tuple[str, ...]:
    """Returns the names of the outputs of an export, in the order of `FrozenGraph.outputs`."""
    return (LABELS, *(() if graph.probabilities is None else (PROBABILITIES,)), *graph.maps)


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
    return beginning_at(graph, f'{names[0]}:0')
