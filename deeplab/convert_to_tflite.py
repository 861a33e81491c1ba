"""Conversion of a frozen graph to TensorFlow Lite, with the flags of the original.

`python deeplab/convert_to_tflite.py --flag=...`, `python -m deeplab.convert_to_tflite` and `deeplab convert_to_tflite`
are one program. `deeplab export_model --format=tflite` converts a checkpoint directly.
"""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and usage errors do not wait for TensorFlow
    import os
    import sys

    if not __package__:  # run as a file: replace the folder of this file by that of the package
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    from deeplab import start

    sys.exit(start.main(['convert_to_tflite', *sys.argv[1:]]))

import dataclasses
import os
import re
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging
from google.protobuf import message
from PIL import Image

from deeplab.core import sessions
from deeplab.engines import tflite as engine
from deeplab.errors import CheckpointError, DataError, OptionError
from deeplab.export import export_files
from deeplab.inference import opening
from deeplab.options import ConvertOptions
from deeplab.registry import EXPORT_FORMATS, Execution, FrozenGraph
from deeplab.utils import output_files
from deeplab.wording import option

_INPUT = re.compile(r'(\w+)/\1/input')  # as exports name the normalized image
_PATH = 'ConvertOptions.output_tflite_path'
_STEPS = 127.5  # of an 8-bit image from 0 to 1


@dataclasses.dataclass(frozen=True)
class Result:
    """Result of the program.

    Attributes:
      path: the file that was written.
      agreement: share of the labels of the test image that equal those of the graph; None without a test image.
      is_quantized: whether the model computes in 8 bits.
      report: for the user.
    """

    path: str
    agreement: float | None
    is_quantized: bool
    report: str


def run(options: ConvertOptions) -> Result:
    """Converts a graph, and compares both on the test image before the file is put in place.

    Raises:
      UserError: the graph cannot be read, has no such tensors, or has operations that TensorFlow Lite lacks.
    """
    record = EXPORT_FORMATS.get('tflite')
    path = options.output_tflite_path
    # A model of the original, which has no metadata, may be replaced as well.
    output_files.require_own(path, _PATH, record.noun, record.recognizes)
    image = None if options.test_image_path is None else _read(options.test_image_path)
    graph = _graph(options)
    is_quantized = any(node.op.startswith('FakeQuant') for node in graph.graph_def.node)

    def configure(converter: Any) -> None:
        if is_quantized:  # the ranges of its training, for everything but the image, which is -1 to 1
            # Signed weights need ranges that are symmetric to 0, as those of channels are; others are the original's.
            is_signed = any(node.op == 'FakeQuantWithMinMaxVarsPerChannel' for node in graph.graph_def.node)
            converter.inference_type = tf.int8 if is_signed else tf.uint8
            converter.quantized_input_stats = {graph.image.partition(':')[0]: (0.0 if is_signed else 128.0, _STEPS)}
            converter.inference_input_type = tf.float32

    output_files.make_folder(os.path.dirname(path) or '.')
    with export_files.beside(path) as temporary:
        try:
            content = engine.converted(graph, configure)
        except Exception as error:
            raise OptionError(
                f'{option("ConvertOptions.quantized_graph_def_path", options.quantized_graph_def_path)}: TensorFlow '
                f'Lite cannot hold this graph: {opening.reason_of_failure(error, graph)}. Export it again, at one scale'
            ) from error
        with output_files.writing_to(os.path.dirname(path) or '.', _PATH), open(temporary, 'wb') as file:
            file.write(content)
        agreement = None if image is None else _agreement(graph, temporary, image)
    size = os.path.getsize(path)
    kind = '8-bit' if is_quantized else 'float32'
    lines = [f'TensorFlow Lite model ({kind}): {path} ({size / 1e6:.1f} MB)']
    lines.append(f'Input:  {graph.image} float32 {list(graph.shape)}, normalized to -1 to 1 as the graph takes it')
    if agreement is not None:
        lines.append(f'{agreement:.2%} of the labels of {options.test_image_path} equal those of the graph.')
    return Result(path, agreement, is_quantized, '\n'.join(lines))


def _graph(options: ConvertOptions) -> FrozenGraph:
    """Reads the graph from its input tensor to its output tensor.

    Raises:
      CheckpointError: it cannot be read, or has no such tensors.
    """
    path = options.quantized_graph_def_path
    try:
        with open(path, 'rb') as file:
            graph_def = tf.compat.v1.GraphDef.FromString(file.read())
    except (OSError, message.DecodeError) as error:
        raise CheckpointError(
            f"The frozen graph '{path}' cannot be read ({error}). Give what export_model writes"
        ) from None
    names = [node.name for node in graph_def.node]
    found = [f'{name}:0' for name in names if _INPUT.fullmatch(name)]
    image = options.input_tensor_name or (found[0] if found else '')
    for field, tensor in (('input_tensor_name', image), ('output_tensor_name', options.output_tensor_name)):
        if tensor.partition(':')[0] not in names:
            hint = f', such as {found[0]}' if found and field == 'input_tensor_name' else ''
            raise CheckpointError(
                f"{option(f'ConvertOptions.{field}', tensor or None)}: the graph '{path}' has no such tensor. Give one "
                f'that it has{hint}'
            )
    with tf.Graph().as_default() as own:
        tf.graph_util.import_graph_def(graph_def, name='')
        shape = own.get_tensor_by_name(_tensor(image)).shape
    if shape.rank != 4 or None in shape.as_list():
        raise CheckpointError(
            f'{option("ConvertOptions.input_tensor_name", image)} has the shape {shape}, but TensorFlow Lite needs a '
            'known one. Give the normalized image, SCOPE/SCOPE/input:0'
        )
    with tf.Graph().as_default() as own:
        images = tf.compat.v1.placeholder(tf.float32, shape, name='images')
        output = _tensor(options.output_tensor_name)
        (labels,) = tf.graph_util.import_graph_def(graph_def, {_tensor(image): images}, [output], name='network')
        labels = tf.identity(labels, name='labels')
        return FrozenGraph(own.as_graph_def(), images.name, labels.name, None, tuple(shape.as_list()), 0)


def _tensor(name: str) -> str:
    """Returns the name of a tensor, of which users may omit the number."""
    return name if ':' in name else f'{name}:0'


def _read(path: str) -> np.ndarray:
    """Returns an RGB image, [h, w, 3] uint8."""
    try:
        with Image.open(path) as image:
            return np.asarray(image.convert('RGB'))
    except (OSError, ValueError) as error:
        raise DataError(f'{option("ConvertOptions.test_image_path", path)} cannot be read ({error})') from None


def _agreement(graph: FrozenGraph, path: str, image: np.ndarray) -> float:
    """Returns the share of the labels of an image that are equal in the graph and in the model."""
    height, width = graph.shape[1:3]
    pixels = np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR))
    images = (pixels[np.newaxis] * np.float32(2 / 255) - 1).astype(np.float32)
    with tf.Graph().as_default() as own, sessions.open_session(own) as running:
        tf.graph_util.import_graph_def(graph.graph_def, name='')
        expected = running.run(graph.labels, {graph.image: images})
    with engine.load_file(path, Execution()) as predict:
        found = predict(images)
    share = float(np.mean(found.labels == expected))
    logging.info('%.2f %% of the labels are equal.', 100 * share)
    return share
