"""TensorFlow Lite: converts the frozen graph with TensorFlow's converter, and runs it on the CPU with XNNPACK.

Class names and metadata are files in a ZIP archive at the end of the model, where tools for TensorFlow Lite keep such
files: interpreters ignore them, and every program that reads ZIP archives shows them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from absl import logging

from deeplab import names
from deeplab.core.lazy import tf
from deeplab.errors import CheckpointError
from deeplab.inference import export_metadata, exports
from deeplab.inference.runtimes._calibration import full_range
from deeplab.registry import INT8, Calibration, Engine, Execution, Exported, FrozenGraph, register
from deeplab.system import packages, standard_error
from deeplab.wording import option

_MODEL = 'model.tflite'
_RUNTIME = 'ai_edge_litert'
_METADATA, _LABELS = 'deeplab.json', 'labels.txt'
_BYTES, _CHECKSUM = 'model_bytes', 'model_crc32'  # of the model without what follows it, in the metadata
_LEAST_SCALE_OF_PIXELS = 0.5
_MARK = b'TFL3'  # bytes 4 to 7 of every model
_BLOCK = 2**20  # bytes that are read at a time
_CHATTER = re.compile(rb'INFO: |fully_quantize: ')  # names of the kernels, settings of the converter


def convert(graph: FrozenGraph, folder: str, execution: Execution) -> None:
    """Writes the network as TensorFlow Lite's model, see `Engine.convert`.

    Raises:
      ValueError: the network takes images of any size, which this engine does not run.
    """
    if None in graph.shape[1:3]:
        raise ValueError(f'it needs one size of images; set {option("ModelOptions.crop_size")}')
    if execution.calibration is None:
        content = converted(graph)
    else:
        content = converted(graph, functools.partial(set_int8, execution.calibration, 'float32'))
    write(content, export_metadata.OF_PIXELS, os.path.join(folder, _MODEL))


def converted(graph: FrozenGraph, configure: Callable[[Any], None] = lambda converter: None) -> bytes:
    """Returns the network as TensorFlow Lite's model.

    Args:
      graph: the network.
      configure: sets attributes of the converter, such as its optimizations.
    """
    from tensorflow.python.util import deprecation

    from deeplab.core import sessions

    with tf.Graph().as_default() as own, sessions.open_session(own) as running, deprecation.silence():
        tf.graph_util.import_graph_def(graph.graph_def, name='')
        image = own.get_tensor_by_name(graph.image)
        outputs = [own.get_tensor_by_name(name) for name in graph.outputs]
        converter = tf.compat.v1.lite.TFLiteConverter.from_session(running, [image], outputs)
        configure(converter)
        with _quiet(), standard_error.without_lines(_CHATTER):
            content: bytes = converter.convert()
    return content


def set_int8(calibration: Calibration, input_type: str, converter: Any) -> None:
    """Sets a converter to 8-bit weights and activations.

    Args:
      calibration: see `Execution.calibration`.
      input_type: type of the model's input, 'float32' or 'uint8'.
      converter: see `converted`.
    """
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([image] for image in full_range(calibration))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = tf.as_dtype(input_type)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences what TensorFlow's converter logs for its developers within the `with` block."""
    logger = logging.get_absl_logger()

    def is_ours(record: Any) -> bool:
        return bool(record.module != 'lite')

    logger.addFilter(is_ours)
    try:
        yield
    finally:
        logger.removeFilter(is_ours)


def write(content: bytes, metadata: Mapping[str, Any], path: str) -> None:
    """Writes a model and its metadata to a file."""
    with open(path, 'wb') as file:
        file.write(content)
    checked = {_BYTES: len(content), _CHECKSUM: zlib.crc32(content)}
    with zipfile.ZipFile(path, 'a') as archive:
        if metadata.get('class_names'):
            archive.writestr(_LABELS, '\n'.join(metadata['class_names']) + '\n')
        archive.writestr(_METADATA, export_metadata.dumped({**metadata, **checked}))


def is_model(path: str) -> bool:
    """Returns whether a file is a model of TensorFlow Lite."""
    with contextlib.suppress(OSError), open(path, 'rb') as file:
        return file.read(8)[4:] == _MARK
    return False


def metadata_of(path: str) -> dict[str, Any]:
    """Returns the metadata of a model; empty if it has none."""
    # Damaged files make zipfile raise anything.
    with contextlib.suppress(Exception), zipfile.ZipFile(path) as archive:
        return export_metadata.loaded(archive.read(_METADATA))
    return {}


@contextlib.contextmanager
def load(path: str, execution: Execution) -> Iterator[Exported]:
    """Opens an interpreter, see `Engine.load`."""
    path = os.path.join(path, _MODEL) if os.path.isdir(path) else path
    metadata = metadata_of(path)
    _require_whole(path, metadata)
    model = interpreter(path, execution.threads)
    image, *_ = model.get_input_details()
    if not metadata and image['dtype'] == np.float32:  # such as of a float graph in the original's converter
        logging.info("'%s' has no metadata: its images are taken as normalized to -1 to 1.", path)
        _, height, width, channels = map(int, image['shape'])
        metadata = export_metadata.of_normalized((height, width), *export_metadata.usual_ends(channels))
    shape: tuple[int, ...] = ()

    def run(images: np.ndarray, outputs: list[Any]) -> list[np.ndarray]:
        nonlocal shape
        if images.shape != shape:
            model.resize_tensor_input(image['index'], images.shape)
            model.allocate_tensors()
            shape = images.shape
        model.set_tensor(image['index'], quantized(export_metadata.normalized(images, metadata), image))
        model.invoke()
        return [model.get_tensor(each['index']) for each in outputs]

    batch, *sides = (int(side) if side > 0 else None for side in image.get('shape_signature', image['shape']))
    # One image at a time if any number is allowed: the interpreter plans its memory anew for another number.
    images_shape, outputs = (batch or 1, *sides), model.get_output_details()
    yield exports.of_model(run, images_shape, outputs, lambda each: (each['shape'].tolist(), {each['name']}), metadata)


def _require_whole(path: str, metadata: Mapping[str, Any]) -> None:
    """Raises `CheckpointError` if a model is damaged: by its checksum, or if it has none, by its structure.

    A damaged weight would change predictions without a word. A damaged structure crashes TensorFlow's own interpreter,
    and the interpreter of some versions of ai-edge-litert, with the process.
    """
    if _CHECKSUM in metadata:
        is_whole = metadata[_CHECKSUM] == _checksum(path, int(metadata[_BYTES]))
    else:
        is_whole = _has_good_structure(path)
    if not is_whole:
        raise CheckpointError(
            f"The export '{names.shown(path)}' cannot be loaded (it is damaged). Copy it again, or export it again"
        )


def _has_good_structure(path: str) -> bool:
    """Returns whether all parts of a model that it refers to are there."""
    if has_own_runtime():
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
    checksum = 0
    with open(path, 'rb') as file:
        while size > 0 and (block := file.read(min(size, _BLOCK))):
            checksum, size = zlib.crc32(block, checksum), size - len(block)
    return checksum


def quantized(images: np.ndarray, details: Mapping[str, Any]) -> np.ndarray:
    """Returns images, 0 to 255, as an input takes them."""
    kind = details['dtype']
    if kind == np.float32:
        return images.astype(np.float32, copy=False)
    scale, zero = details['quantization']
    # The 8-bit numbers of an input in the range -1 to 1 are the pixels themselves.
    values = images / scale + zero if scale > _LEAST_SCALE_OF_PIXELS else images
    limits = np.iinfo(kind)
    numbers: np.ndarray = np.clip(np.rint(values), limits.min, limits.max).astype(kind)
    return numbers


def interpreter(path: str, threads: int, **more: Any) -> Any:
    """Returns an interpreter of a model."""
    return interpreter_class()(model_path=path, num_threads=threads, **more)


def interpreter_class() -> Any:
    """Returns the interpreter's class: of the package ai-edge-litert if it is installed, else TensorFlow's."""
    if not has_own_runtime():
        return _quieter(tf.lite.Interpreter)
    from ai_edge_litert.interpreter import Interpreter

    return _quieter(Interpreter)


def has_own_runtime() -> bool:
    """Returns whether ai-edge-litert is installed."""
    return not packages.missing([_RUNTIME])


def _quieter(base: Any) -> Any:
    """Returns an interpreter's class without the lines about its kernels.

    Nor does TensorFlow's warn that it will leave for ai-edge-litert one day.
    """

    def begin(self: Any, *arguments: Any, **named: Any) -> None:
        with warnings.catch_warnings(), standard_error.without_lines(_CHATTER):
            warnings.filterwarnings('ignore', r'\s*Warning: tf\.lite\.Interpreter is deprecated', UserWarning)
            base.__init__(self, *arguments, **named)

    def allocate(self: Any) -> None:
        with standard_error.without_lines(_CHATTER):
            base.allocate_tensors(self)

    methods = {'__init__': begin, 'allocate_tensors': allocate, '__module__': base.__module__}
    return type('Interpreter', (base,), methods)


def version() -> str:
    """Returns the version of TensorFlow, which converts; every interpreter reads every model."""
    return str(tf.__version__)


ENGINE = Engine(
    name='tflite',
    summary='TensorFlow Lite on the CPU.',
    convert=convert,
    load=load,
    precisions=lambda: ('float32', INT8),
    version=version,
    install="'deeplab-toolkit[tflite]'",
)
register(ENGINE)
