"""TensorFlow Lite: one file for phones and boards, in float32, with float16 weights, or in 8 bits.

Class names and metadata are files in a ZIP archive at the end of the model, where tools for TensorFlow Lite keep such
files: interpreters ignore them, and every program that reads ZIP archives shows them.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from absl import logging

from deeplab import names
from deeplab.core.lazy import tf
from deeplab.errors import CheckpointError, OptionError
from deeplab.export import portable
from deeplab.inference import export_metadata
from deeplab.inference.runtimes import tflite as engine
from deeplab.registry import Exported, ExportFormat, FrozenGraph, PortableNetwork, register
from deeplab.system import processors
from deeplab.wording import option

_METADATA, _LABELS = 'deeplab.json', 'labels.txt'
_BYTES, _CHECKSUM = 'model_bytes', 'model_crc32'  # of the model without what follows it, in the metadata
# Value of the number 0, and numbers of the value 1, of an input of uint8.
_AS_PIXELS, _TO_PLUS_MINUS_ONE = (0.0, 1.0), (127.5, 127.5)
_LEAST_SCALE_OF_PIXELS = 0.5
_MARK = b'TFL3'  # bytes 4 to 7 of every model
_BLOCK = 2**20  # bytes that are read at a time


def convert(network: PortableNetwork, path: str) -> None:
    """Writes the network, see `ExportFormat.convert`."""
    kind = network.input_type
    is_trained = network.variant == 'int8' and portable.is_trained_in_8_bits(network.graph)
    if is_trained:
        graph, configure = _trained(network)
    elif network.variant == 'int8':  # the converter changes the type of the input
        graph, configure = network.graph, functools.partial(_calibrate, network)
    else:
        graph, configure = portable.with_input_type(network.graph, kind), functools.partial(_compress, network.variant)
    write(engine.converted(graph, configure), network.metadata, path)


def write(content: bytes, facts: Mapping[str, Any], path: str) -> None:
    """Writes a model and its metadata to a file."""
    with open(path, 'wb') as file:
        file.write(content)
    checked = {_BYTES: len(content), _CHECKSUM: zlib.crc32(content)}
    with zipfile.ZipFile(path, 'a') as archive:
        if facts.get('class_names'):
            archive.writestr(_LABELS, '\n'.join(facts['class_names']) + '\n')
        archive.writestr(_METADATA, export_metadata.dumped({**facts, **checked}))


def _compress(variant: str, converter: Any) -> None:
    """Sets the type of the weights."""
    if variant != 'float32':
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if variant == 'float16':
        converter.target_spec.supported_types = [tf.float16]


def _calibrate(network: PortableNetwork, converter: Any) -> None:
    """Lets images determine the ranges of the activations."""
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([image] for image in portable.full_range(network))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = tf.as_dtype(network.input_type)


def _trained(network: PortableNetwork) -> tuple[FrozenGraph, Callable[[Any], None]]:
    """Returns the graph of a network whose ranges were trained, and what sets the converter.

    Images of uint8 that the network would map to -1 to 1 are its 8-bit input as they are; otherwise it normalizes them
    in float32.
    """
    is_signed = portable.has_ranges_of_channels(network.graph)  # as in convert_to_tflite
    if is_signed and network.input_type == 'uint8':
        raise OptionError(
            f'{option("ConversionOptions.input_type", "uint8")} is not possible with ranges of weights by channel '
            f'({option("ModelOptions.quantize_per_channel")}). Use float32'
        )
    normalized = None
    if network.input_type == 'uint8' and set(network.metadata.get('mean_pixel', ())) == {127.5}:
        normalized = portable.from_normalized(network.graph)
    graph = normalized or network.graph
    name = graph.image.partition(':')[0]

    def configure(converter: Any) -> None:
        converter.inference_type = tf.int8 if is_signed else tf.uint8
        converter.inference_input_type = tf.as_dtype(network.input_type)
        converter.quantized_input_stats = {name: _AS_PIXELS if normalized is None else _TO_PLUS_MINUS_ONE}

    return graph, configure


def is_model(path: str) -> bool:
    """Returns whether a file is a model of TensorFlow Lite."""
    with contextlib.suppress(OSError), open(path, 'rb') as file:
        return file.read(8)[4:] == _MARK
    return False


def is_own(path: str) -> bool:
    """Returns whether a file was written by `convert`."""
    return is_model(path) and bool(_metadata(path))


def _metadata(path: str) -> dict[str, Any]:
    """Returns the metadata of a model; empty if it has none."""
    # Damaged files make zipfile raise anything.
    with contextlib.suppress(Exception), zipfile.ZipFile(path) as archive:
        return export_metadata.loaded(archive.read(_METADATA))
    return {}


@contextlib.contextmanager
def opened(path: str, threads: int | None) -> Iterator[Exported]:
    """Opens a model, see `ExportFormat.open`."""
    facts = _metadata(path)
    _require_whole(path, facts)
    interpreter = _interpreter(path, threads)
    image, *_ = interpreter.get_input_details()
    if not facts and image['dtype'] == np.float32:  # such as of the original's convert_to_tflite
        logging.info("'%s' has no metadata: its images are taken as normalized to -1 to 1.", path)
        _, height, width, channels = map(int, image['shape'])
        facts = export_metadata.of_normalized((height, width), *export_metadata.usual_ends(channels))
    outputs = sorted(interpreter.get_output_details(), key=lambda each: len(each['shape']))  # labels first
    shape: tuple[int, ...] = ()

    def run(images: np.ndarray, with_probabilities: bool) -> list[np.ndarray]:
        nonlocal shape
        if images.shape != shape:
            interpreter.resize_tensor_input(image['index'], images.shape)
            interpreter.allocate_tensors()
            shape = images.shape
        interpreter.set_tensor(image['index'], _quantized(export_metadata.normalized(images, facts), image))
        interpreter.invoke()
        return [interpreter.get_tensor(each['index']) for each in outputs[: 1 + with_probabilities]]

    _, *sides = (int(side) for side in image.get('shape_signature', image['shape']))
    sides = [side if side > 0 else None for side in sides]
    classes = int(outputs[1]['shape'][-1]) if len(outputs) > 1 else None
    # One image at a time, whatever the model says: the interpreter plans its memory anew for another number.
    yield portable.exported(portable.Loaded(run, (1, *sides), len(outputs), classes), facts)


def _require_whole(path: str, facts: Mapping[str, Any]) -> None:
    """Raises `CheckpointError` if a model is damaged: by its checksum, or if it has none, by its structure.

    A damaged weight would change predictions without a word. A damaged structure crashes TensorFlow's own interpreter,
    and that of some versions of ai-edge-litert, with the process.
    """
    if _CHECKSUM in facts:
        is_whole = facts[_CHECKSUM] == _checksum(path, int(facts[_BYTES]))
    else:
        is_whole = _has_good_structure(path)
    if not is_whole:
        raise CheckpointError(
            f"The export '{names.shown(path)}' cannot be loaded (it is damaged). Copy it again, or export it again"
        )


def _has_good_structure(path: str) -> bool:
    """Returns whether all parts of a model that it refers to are there."""
    if engine.has_own_runtime():
        from ai_edge_litert import schema_py_generated as schema
    else:
        from tensorflow.lite.python import schema_py_generated as schema
    with open(path, 'rb') as file:
        content = file.read()
    try:
        schema.ModelT.InitFromPackedBuf(content, 0)  # visits all parts
    except Exception:  # of whatever kind
        return False
    return True


def _checksum(path: str, size: int) -> int:
    """Returns the CRC-32 of the first `size` bytes of a file."""
    found = 0
    with open(path, 'rb') as file:
        while size > 0 and (block := file.read(min(size, _BLOCK))):
            found, size = zlib.crc32(block, found), size - len(block)
    return found


def _interpreter(path: str, threads: int | None, **more: Any) -> Any:
    """Returns an interpreter of a model."""
    return engine.interpreter_class()(model_path=path, num_threads=threads or processors.available_cores(), **more)


def _quantized(images: np.ndarray, details: Mapping[str, Any]) -> np.ndarray:
    """Returns images, 0 to 255, as an input takes them."""
    kind = details['dtype']
    if kind == np.float32:
        return images.astype(np.float32, copy=False)
    scale, zero = details['quantization']
    # The numbers of an input that means -1 to 1 are the pixels.
    values = images / scale + zero if scale > _LEAST_SCALE_OF_PIXELS else images
    limits = np.iinfo(kind)
    return np.clip(np.rint(values), limits.min, limits.max).astype(kind)


def activations(path: str, images: np.ndarray) -> dict[str, np.ndarray]:
    """Returns all activations for images, see `ExportFormat.activations`."""
    resolvers = sys.modules[engine.interpreter_class().__module__].OpResolverType
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', UserWarning)  # that keeping all tensors is for debugging
        interpreter = _interpreter(
            path,
            None,
            experimental_preserve_all_tensors=True,
            experimental_op_resolver_type=resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )
    image, *_ = interpreter.get_input_details()
    interpreter.resize_tensor_input(image['index'], images.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(image['index'], _quantized(images, image))
    interpreter.invoke()
    found = {}
    for step in interpreter._get_ops_details():
        for index in step['outputs']:
            details = interpreter._get_tensor_details(index, 0)
            try:
                values = interpreter.get_tensor(index)
            except ValueError:  # of an operation that another one has taken over
                continue
            scale, zero = details['quantization']
            if np.issubdtype(values.dtype, np.floating) or scale:
                values = values.astype(np.float32)
                found[_layer(details['name'])] = (values - zero) * scale if scale else values
    return found


def _layer(name: str) -> str:
    """Returns the name of the layer in that of a tensor, which lists all operations that were merged to one."""
    return name.partition(';')[0]


_EXAMPLE = """\
import numpy as np
from ai_edge_litert.interpreter import Interpreter  # pip install ai-edge-litert; tf.lite.Interpreter is the same

interpreter = Interpreter({path!r})
interpreter.allocate_tensors()
image = {image}  # reduced if it is larger, then padded, to the size of the network
details = interpreter.get_input_details()[0]
interpreter.set_tensor(details['index'], image[np.newaxis].astype(details['dtype']))
interpreter.invoke()
labels = interpreter.get_tensor(interpreter.get_output_details()[0]['index'])[0]"""

register(
    ExportFormat(
        name='tflite',
        summary='One file for TensorFlow Lite on phones and boards.',
        noun='a TensorFlow Lite model',
        convert=convert,
        open=opened,
        activations=activations,
        recognizes=is_model,
        variants=('float32', 'float16', 'dynamic_int8', 'int8'),
        is_own=is_own,
        example_path='model.tflite',
        suffixes=('.tflite',),
        tensors=('images', 'labels', 'probabilities'),
        example=_EXAMPLE,
        install="'deeplab-toolkit[tflite]'",
    )
)
