"""Conversion of a frozen graph to TensorFlow Lite, with the flags of the original.

`python deeplab/convert_to_tflite.py --flag=...`, `python -m deeplab.convert_to_tflite` and `deeplab convert_to_tflite`
are one program. `deeplab export_model --format=tflite` converts a checkpoint directly.
"""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and usage errors do not wait for TensorFlow
    import os
    import sys

    if not __package__:  # run as a file: replace the folder of this file by the folder above
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    from deeplab import start

    sys.exit(start.main(['convert_to_tflite', *sys.argv[1:]]))

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging
from google.protobuf import message
from PIL import Image

from deeplab import names
from deeplab.core import sessions
from deeplab.errors import CheckpointError, DataError, OptionError, reason_of
from deeplab.export import destinations, portable, tensor_names
from deeplab.export.formats import frozen_graph
from deeplab.files import output_files
from deeplab.inference import export_metadata, opening
from deeplab.inference.runtimes import tensorflow
from deeplab.inference.runtimes import tflite as engine
from deeplab.options import ConvertOptions
from deeplab.registry import EXPORT_FORMATS, INT8, Execution, FrozenGraph
from deeplab.registry.export_formats import FLOAT32
from deeplab.wording import option

_PATH = 'ConvertOptions.output_tflite_path'
_STEPS = 255  # of 8 bits
_MODES = {1: 'L', 3: 'RGB'}  # Pillow's names, by channels


@dataclasses.dataclass(frozen=True)
class TfliteConversion:
    """Result of the program.

    Attributes:
      path: the file that was written.
      agreement: fraction of the pixels of the test image with the label of the graph; None without a test image.
      is_quantized: whether the model computes in 8 bits.
      report: text for the user.
    """

    path: str
    agreement: float | None
    is_quantized: bool
    report: str


def run(options: ConvertOptions) -> TfliteConversion:
    """Converts a graph, and compares both on the test image before the file is put in place.

    Raises:
      UserError: the graph cannot be read, has no such tensors, or has operations that TensorFlow Lite lacks.
    """
    record = EXPORT_FORMATS.get('tflite')
    path = options.output_tflite_path
    # A model of the original, which has no metadata, may be replaced as well.
    output_files.require_own(path, _PATH, record.noun, record.recognizes)
    graph, metadata = _source(options)
    image = None if options.test_image_path is None else _read(options.test_image_path, graph.shape[3])
    folder = output_files.make_folder(os.path.dirname(path) or '.')
    ends = metadata['normalization']
    takes_pixels = _takes_pixels(graph, ends)
    with destinations.beside(path, record) as temporary:
        content = _converted(graph, ends, 'uint8' if takes_pixels else 'float32', options)
        with output_files.writing_to(folder, _PATH):
            engine.write(content, metadata | ({'normalization': None} if takes_pixels else {}), temporary)
        agreement = None if image is None else _agreement(graph, metadata, temporary, image)
    is_quantized = portable.is_trained_in_8_bits(graph)
    kind = '8-bit' if is_quantized else 'float32'
    lines = [f'TensorFlow Lite model ({kind}): {path} ({names.byte_size(os.path.getsize(path))})']
    ranges = sorted(set(zip(ends['low'], ends['high'], strict=True)))
    shown = ', '.join(f'{low:g} to {high:g}' for low, high in ranges)
    dtype, values = ('uint8', 'pixels from 0 to 255') if takes_pixels else ('float32', f'normalized to {shown}')
    lines.append(f'Input:  {graph.image} {dtype} {list(graph.shape)}, {values}')
    if agreement is not None:
        lines.append(f'{agreement:.2%} of the labels of {options.test_image_path} equal the labels of the graph.')
    return TfliteConversion(path, agreement, is_quantized, '\n'.join(lines))


def _source(options: ConvertOptions) -> tuple[FrozenGraph, dict[str, Any]]:
    """Reads the graph from its input tensor to its output tensor.

    Returns:
      The network from the normalized image, [1, h, w, channels] float32, to the class ids; the metadata of the model,
      taken from the frozen graph.

    Raises:
      CheckpointError: it cannot be read, or has no such tensors.
    """
    path = options.quantized_graph_def_path
    try:
        graph_def = frozen_graph.read(path)
    except (OSError, message.DecodeError) as error:
        raise CheckpointError(
            f"The frozen graph '{path}' cannot be read ({reason_of(error)}). Pass what export_model writes"
        ) from None
    image = _input_of(graph_def, options)
    with tf.Graph().as_default() as own:
        tf.graph_util.import_graph_def(graph_def, name='')
        shape = own.get_tensor_by_name(image).shape
        if shape.rank != 4 or None in shape.as_list():
            raise CheckpointError(
                f'{option("ConvertOptions.input_tensor_name", image)} has the shape {shape}, but TensorFlow Lite needs '
                'a stored one. Pass the normalized image, SCOPE/SCOPE/input:0, of a graph that was exported without '
                f'{option("ConversionOptions.has_dynamic_batch")}'
            )
        ends = _ends(own, image)
        _, height, width, _ = shape.as_list()
    output = _tensor(options.output_tensor_name)
    graph = portable.beginning_at(FrozenGraph(graph_def, image, output, None, tuple(shape.as_list()), 0), image)
    variant = INT8 if portable.is_trained_in_8_bits(graph) else FLOAT32
    stored = export_metadata.loaded(frozen_graph.metadata_of(graph_def)) | {'format': 'tflite', 'variant': variant}
    return graph, stored | export_metadata.of_normalized((height, width), *ends)


def _input_of(graph_def: tf.compat.v1.GraphDef, options: ConvertOptions) -> str:
    """Returns the name of the input tensor."""
    names = {node.name for node in graph_def.node}
    normalized = [f'{name}:0' for name in portable.normalized_images(graph_def)]
    image = options.input_tensor_name or (normalized[0] if normalized else '')
    for field, tensor in (('input_tensor_name', image), ('output_tensor_name', options.output_tensor_name)):
        if tensor.partition(':')[0] not in names:
            hint = f', such as {normalized[0]}' if normalized and field == 'input_tensor_name' else ''
            raise CheckpointError(
                f"{option(f'ConvertOptions.{field}', tensor or None)}: the graph '{options.quantized_graph_def_path}' "
                f'has no such tensor. Pass one that it has{hint}'
            )
    return _tensor(image)


def _ends(graph: tf.Graph, image: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the values of the normalized image for pixels of 0 and of 255, [channels] each.

    They are computed by the graph itself, as ResNets subtract a mean pixel. They are -1 and 1 for a graph in which
    `image` does not follow from the pixels alone.
    """
    normalized = graph.get_tensor_by_name(image)
    height, width, channels = normalized.shape.as_list()[1:]
    usual = export_metadata.usual_ends(channels)
    try:
        pixels = graph.get_tensor_by_name(f'{tensor_names.IMAGE}:0')
        most = np.iinfo(pixels.dtype.as_numpy_dtype).max if pixels.dtype.is_integer else 255
        with sessions.open_session(graph) as running:
            images = (np.full((1, height, width, channels), value) for value in (0, most))
            corners = [running.run(normalized, {pixels: each})[0, 0, 0].astype(np.float64) for each in images]
    except (KeyError, ValueError, tf.errors.OpError):  # another input
        return usual
    low, high = (np.round(each, 4) for each in corners)  # float32 has 0.99999994 for 1
    return (low, high) if np.all(low < high) else usual


def _takes_pixels(graph: FrozenGraph, ends: Mapping[str, Sequence[float]]) -> bool:
    """Returns whether the model has the original's input: uint8 pixels, which are -1 to 1 in its 8-bit range.

    Other normalizations differ by channel, but an input has one range. Weights with ranges by channel are signed, and
    need a signed input.
    """
    is_usual = set(ends['low']) == {-1} and set(ends['high']) == {1}
    return is_usual and portable.is_trained_in_8_bits(graph) and not portable.has_ranges_of_channels(graph)


def _converted(
    graph: FrozenGraph, ends: Mapping[str, Sequence[float]], input_type: str, options: ConvertOptions
) -> bytes:
    """Returns the model of a graph that takes images normalized to `ends`; `input_type` is of an 8-bit model."""

    def configure(converter: Any) -> None:
        if portable.is_trained_in_8_bits(graph):  # the ranges of its training
            # Ranges by channel are symmetric to 0 and need signed weights; other ranges are the original's.
            is_signed = portable.has_ranges_of_channels(graph)
            low, high = min(ends['low']), max(ends['high'])
            factor = _STEPS / (high - low)
            zero = round(-low * factor) - (128 if is_signed else 0)
            converter.inference_type = tf.int8 if is_signed else tf.uint8
            converter.quantized_input_stats = {graph.image.partition(':')[0]: (zero, factor)}
            converter.inference_input_type = tf.as_dtype(input_type)

    path = option('ConvertOptions.quantized_graph_def_path', options.quantized_graph_def_path)
    failure = f'{path}: TensorFlow Lite cannot hold this graph'
    with opening.conversion_explained(graph, failure, 'Export it again, at one scale'):
        content = engine.converted(graph, configure)
    return content


def _tensor(name: str) -> str:
    """Returns the name of a tensor, of which users may omit the number."""
    return name if ':' in name else f'{name}:0'


def _read(path: str, channels: int) -> Image.Image:
    """Returns an image, gray or RGB as the graph takes it.

    Raises:
      DataError: it cannot be read.
      OptionError: the graph takes images of other channels.
    """
    if channels not in _MODES:
        raise OptionError(
            f'{option("ConvertOptions.test_image_path", path)} is not possible: the graph takes images of {channels} '
            'channels, and only gray and RGB ones can be read. Omit it'
        )
    try:
        with Image.open(path) as image:
            return image.convert(_MODES[channels])
    except Exception as error:  # damaged files make Pillow's plugins raise anything
        raise DataError(
            f'{option("ConvertOptions.test_image_path", path)} cannot be read ({reason_of(error)})'
        ) from None


def _agreement(graph: FrozenGraph, metadata: Mapping[str, Any], path: str, image: Image.Image) -> float:
    """Returns the share of the labels of an image that are equal in the graph and in the model."""
    height, width = metadata['crop_size']
    pixels = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR))
    pixels = pixels.reshape(1, height, width, -1)
    images = export_metadata.normalized(pixels, metadata)
    with tensorflow.opened(graph, Execution()) as predict, engine.load(path, Execution()) as exported:
        share = float(np.mean(exported(pixels).labels == predict(images).labels))
    logging.info('%.2f %% of the labels are equal.', 100 * share)
    return share
