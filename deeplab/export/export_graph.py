"""The exported graph: from the pixels of images to labels and probabilities at the images' own size.

Programs that run exported graphs rely on its names of tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from deeplab import common, input_preprocess, model
from deeplab.core import cost, feature_extractor, freezing, preprocess_utils, sessions, shapes, tf_compat
from deeplab.errors import OptionError
from deeplab.export.tensor_names import ARGMAX, IMAGE, PREDICTIONS, PROBABILITIES, RAW_PREDICTIONS, RAW_PROBABILITIES
from deeplab.inference import network
from deeplab.options import ExportOptions, ModelOptions, ResizeOptions
from deeplab.registry import TASKS, Outputs
from deeplab.wording import option

_OF_SIXTEEN_BITS = 257.0  # 65535 / 255, as for records
_NO_LABEL = 255  # preprocessing steps need an ignore label, although there are no labels here


class ExportGraph(NamedTuple):
    """The network to be exported.

    Attributes:
      graph: the graph, with placeholders for weights.
      image: [n, h, w, channels] uint8 (uint16 if images have 16 bits); three channels are RGB. n is 1 unless the
        options ask for a dynamic batch.
      predictions: [n, h, w] int32.
      probabilities: [n, h, w, classes] float32; of other tasks than `semantic`, the maps of all outputs.
      maps: names of the operations with the maps of the outputs, [n, h, w, channels] float32; empty for probabilities.
      kept: names of the operations that an export must have, except inputs.
      weights: placeholders with the names of all variables of the network.
      parameters: number of trainable parameters.
    """

    graph: tf.Graph
    image: tf.Tensor
    predictions: tf.Tensor
    probabilities: tf.Tensor
    maps: tuple[str, ...]
    kept: tuple[str, ...]
    weights: list[tf.Tensor]
    parameters: int


def build(options: ExportOptions) -> ExportGraph:
    """Builds the network from an image of any size (after resizing, at most the crop size) to its labels.

    Args:
      options: network, sizes, scales and flips.

    Raises:
      OptionError: there is no such network, or no image would fit into the crop.
    """
    check_sizes(options.resize, crop_size_of(options))
    with cost.abstract_graph() as outlined:
        image, predictions, probabilities = _network(options)
    network_input = feature_extractor.input_name(options.model.model_variant)
    maps = () if options.model.is_semantic else tuple(output.name for output in TASKS.outputs(options.model))
    kept = (PREDICTIONS, *(maps or (PROBABILITIES, RAW_PROBABILITIES)), RAW_PREDICTIONS, ARGMAX, network_input)
    weights = list(outlined.placeholders.values())
    return ExportGraph(outlined.graph, image, predictions, probabilities, maps, kept, weights, outlined.parameters)


def crop_size_of(options: ExportOptions) -> tuple[int, int]:
    """Returns the size of the images, which the options of an export always have."""
    assert options.model.crop_size is not None
    return options.model.crop_size


def _batch_size_of(options: ExportOptions) -> int | None:
    """Returns how many images the graph takes at a time; None for any number."""
    return None if options.conversion.has_dynamic_batch else 1


def with_variables(options: ExportOptions) -> tf.Graph:
    """Builds the same graph with variables, which takes much longer; see `build`."""
    with tf.Graph().as_default() as graph:
        _network(options)
    return graph


def _network(options: ExportOptions) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Builds the graph; returns image, labels and probabilities, see `ExportGraph`."""
    kind = tf.uint8 if options.image_bits == 8 else tf.uint16
    shape = [_batch_size_of(options), None, None, options.model.input_channels]
    image = tf.compat.v1.placeholder(kind, shape, name=IMAGE)
    images, size = _prepare(image, options)  # [n, *crop_size, channels]
    # In operations that every runtime supports.
    predicted = network.predicted(images, options.model, options.prediction, native_dilation=False)
    labels = predicted[common.OUTPUT_TYPE]  # [n, *crop_size]
    probabilities = predicted[common.OUTPUT_TYPE + common.PROBABILITY_SUFFIX]  # [n, *crop_size, classes]
    tf.cast(labels, tf.float32, name=RAW_PREDICTIONS)
    if options.model.is_semantic:
        probabilities = tf.identity(probabilities, name=RAW_PROBABILITIES)
    own_size = shapes.spatial_size(image) if options.resize.is_set else None
    predictions = _at_own_size(labels[..., tf.newaxis], size, own_size, shapes.resize_nearest)  # [n, h, w, 1]
    predictions = tf.squeeze(predictions, axis=3, name=PREDICTIONS)  # [n, h, w]
    if not options.model.is_semantic:
        maps = _maps_at_own_size(predicted, options.model, size, own_size)
        return image, predictions, tf.concat(list(network.named_maps(maps, options.model).values()), axis=3)
    probabilities = _at_own_size(probabilities, size, own_size, shapes.resize_bilinear)  # [n, h, w, classes]
    return image, predictions, tf.identity(probabilities, name=PROBABILITIES)


def _maps_at_own_size(
    predicted: Mapping[str, tf.Tensor],
    options: ModelOptions,
    size: tuple[tf.Tensor, tf.Tensor],
    own_size: tuple[tf.Tensor, tf.Tensor] | None,
) -> dict[str, tf.Tensor]:
    """Returns the maps of all outputs of `network.predicted` at the size of the image; see `_at_own_size`."""
    maps = {}
    for output in TASKS.outputs(options):
        key = output.name + network.MAP_SUFFIX
        values = _at_own_size(predicted[key], size, own_size, shapes.resize_bilinear)  # [n, h, w, channels]
        maps[key] = values if own_size is None else model.scaled_lengths(values, output, size)
    return maps


def predict(export: ExportGraph, values: Mapping[str, np.ndarray], images: np.ndarray) -> Outputs:
    """Runs the network on one image after the other, without changes for speed.

    Args:
      export: the network.
      values: values of the weights, by name.
      images: [n, h, w, channels].

    Returns:
      Labels [n, h, w], and probabilities or maps [n, h, w, channels].
    """
    fed = {weights: values[weights.op.name] for weights in export.weights}
    with sessions.open_session(export.graph, runs_once=True) as running:
        outputs = [export.predictions, export.probabilities]
        parts = [running.run(outputs, {export.image: image[np.newaxis], **fed}) for image in images]
    return Outputs(*map(np.concatenate, zip(*parts, strict=True)))


def freeze(export: ExportGraph, values: dict[str, np.ndarray]) -> tf.compat.v1.GraphDef:
    """Returns the graph with weights as constants, without unused operations.

    Operations that depend on constants alone are folded, and batch norms into the convolutions before them.

    Args:
      export: the network.
      values: values of the weights, by name; emptied.
    """
    # Fold first: TensorFlow would make many copies of weights that are constants already.
    graph_def = tf_compat.folded_graph(export.graph.as_graph_def(), [IMAGE, *export.kept])
    return freezing.frozen(graph_def, export.kept, values)


def check_sizes(resize: ResizeOptions, crop_size: tuple[int, int]) -> None:
    """Raises `OptionError` if resizing makes every image larger than the crop."""
    height, width = input_preprocess.size_in_range(resize, *crop_size)
    if height > crop_size[0] or width > crop_size[1]:
        # An image with the crop's aspect ratio is the one that fits best.
        crop = 'ModelOptions.crop_size'
        raise OptionError(
            f'No image would fit: resizing changes {crop_size[0]}x{crop_size[1]} pixels to {height}x{width}, larger '
            f'than {option(crop, tuple(crop_size))}. Set {option(crop, (height, width))} or larger, or decrease '
            f'{option("ResizeOptions.min_value")}.'
        )


def _prepare(image: tf.Tensor, options: ExportOptions) -> tuple[tf.Tensor, tuple[tf.Tensor, tf.Tensor]]:
    """Returns the network's input for [n, h, w, c] uint8: [n, *crop_size, c] float32; and the size before padding."""
    crop_size, channels = crop_size_of(options), options.model.input_channels
    batch_size = _batch_size_of(options)
    shape = [batch_size or -1, *crop_size, channels]
    if options.model.is_per_image:  # whose images have this size; any others are resized to it
        images = tf.compat.v1.image.resize_bilinear(tf.cast(image, tf.float32), crop_size)
        return tf.reshape(images, shape), (tf.constant(1), tf.constant(1))
    mean_pixel = feature_extractor.mean_pixel(options.model.model_variant, channels)
    sample = {common.IMAGE: tf.squeeze(image, axis=0) if batch_size == 1 else image}  # [h, w, c] or [n, h, w, c]
    if options.image_bits == 16:
        sample[common.IMAGE] = tf.cast(sample[common.IMAGE], tf.float32) / _OF_SIXTEEN_BITS
    sample = input_preprocess.resize_to_range(options.resize)(sample)
    sample[common.IMAGE] = _checked(sample[common.IMAGE], crop_size)
    steps = [
        input_preprocess.note_size,
        input_preprocess.to_numbers,
        input_preprocess.pad_to(crop_size, mean_pixel, _NO_LABEL),
    ]
    sample = input_preprocess.apply_steps(sample, steps)
    # An operation, so that the static shape is also stored in the file; set_shape would not be.
    images = tf.reshape(sample[common.IMAGE], shape)
    return images, (sample[common.HEIGHT], sample[common.WIDTH])


def _checked(image: tf.Tensor, crop_size: tuple[int, int]) -> tf.Tensor:
    """Returns the image, [..., h, w, c]; at run time, fails with a message if it is larger than the crop."""
    height, width = preprocess_utils.size_of(image)
    message = (
        f'The image is larger than the {crop_size[0]} x {crop_size[1]} pixels (height x width) for which this network '
        f'was exported. Make it smaller, or export again with a larger {option("ModelOptions.crop_size")}. Its size '
        'after resizing:'
    )
    fits = tf.logical_and(height <= crop_size[0], width <= crop_size[1])
    # The raw operation: TensorFlow's assertion functions add conditionals to the graph.
    with tf.control_dependencies([tf.raw_ops.Assert(condition=fits, data=[message, height, width])]):
        return tf.identity(image)


def _at_own_size(
    values: tf.Tensor,
    size: tuple[tf.Tensor, tf.Tensor],
    own_size: tuple[tf.Tensor, tf.Tensor] | None,
    resize: Callable[..., tf.Tensor],
) -> tf.Tensor:
    """Crops the padding from [n, *crop_size, c], then resizes to `own_size`, if any."""
    values = values[:, : size[0], : size[1]]  # [n, h', w', c]
    return values if own_size is None else resize(values, own_size)  # [n, h, w, c]
