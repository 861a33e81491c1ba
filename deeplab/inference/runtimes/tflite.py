"""TensorFlow Lite: converts the frozen graph with TensorFlow's converter, and runs it on the CPU with XNNPACK."""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from absl import logging

from deeplab.core.lazy import tf
from deeplab.registry import Engine, Execution, FrozenGraph, Outputs, Predict, register
from deeplab.system import packages, standard_error
from deeplab.wording import option

_MODEL = 'model.tflite'
_RUNTIME = 'ai_edge_litert'
_CHATTER = re.compile(rb'INFO: |fully_quantize: ')  # names of the kernels, settings of the converter


def convert(graph: FrozenGraph, folder: str, execution: Execution) -> None:
    """Writes the network as TensorFlow Lite's model, see `Engine.convert`.

    Raises:
      ValueError: the network takes images of any size, which this engine does not run.
    """
    if None in graph.shape[1:3]:
        raise ValueError(f'it needs one size of images; set {option("ModelOptions.crop_size")}')
    with open(os.path.join(folder, _MODEL), 'wb') as file:
        file.write(converted(graph))


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


@contextlib.contextmanager
def load(folder: str, execution: Execution) -> Iterator[Predict]:
    """Opens an interpreter, see `Engine.load`."""
    with load_file(os.path.join(folder, _MODEL), execution) as predict:
        yield predict


@contextlib.contextmanager
def load_file(path: str, execution: Execution) -> Iterator[Predict]:
    """As `load`, of the path of a model."""
    interpreter = interpreter_class()(model_path=path, num_threads=execution.threads)
    image = interpreter.get_input_details()[0]['index']
    outputs = [each['index'] for each in interpreter.get_output_details()]
    shape: tuple[int, ...] = ()

    def predict(images: np.ndarray) -> Outputs:
        nonlocal shape
        if images.shape != shape:
            interpreter.resize_tensor_input(image, images.shape)
            interpreter.allocate_tensors()
            shape = images.shape
        interpreter.set_tensor(image, images)
        interpreter.invoke()
        return Outputs(*(interpreter.get_tensor(output) for output in outputs))

    yield predict


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


register(
    Engine(
        name='tflite',
        summary='TensorFlow Lite on the CPU.',
        convert=convert,
        load=load,
        version=version,
        install="'deeplab-toolkit[tflite]'",
    )
)
