"""ONNX Runtime: converts the frozen graph to ONNX with tf2onnx, and runs it on the CPU."""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from deeplab.registry import Engine, Execution, FrozenGraph, Outputs, Predict, register

_MODEL = 'model.onnx'
_OPSET = 18
_ERRORS_ONLY = 3  # of ONNX Runtime's levels


def convert(graph: FrozenGraph, folder: str, execution: Execution) -> None:
    """Writes the network as ONNX model, see `Engine.convert`."""
    import onnx
    import tf2onnx
    from tensorflow.python.util import deprecation

    # What tf2onnx logs are notes on its attempts; TensorFlow's functions that it calls are deprecated.
    with _quiet(), deprecation.silence():
        model, _ = tf2onnx.convert.from_graph_def(
            graph.graph_def, input_names=[graph.image], output_names=list(graph.outputs), opset=_OPSET
        )
    # Operations that tf2onnx does not know stay in the model under TensorFlow's names.
    unknown = {node.op_type for node in model.graph.node if not onnx.defs.has(node.op_type, node.domain)}
    if unknown:
        raise ValueError(f'no conversion for {", ".join(sorted(unknown))}')
    del model.graph.value_info[:]
    with open(os.path.join(folder, _MODEL), 'wb') as file:
        file.write(model.SerializeToString())


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences the loggers of tf2onnx within the `with` block."""
    logger = logging.getLogger('tf2onnx')  # its modules, some of which are imported later, inherit the level
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextlib.contextmanager
def load(folder: str, execution: Execution) -> Iterator[Predict]:
    """Opens a session of ONNX Runtime, see `Engine.load`."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = execution.threads
    settings.log_severity_level = _ERRORS_ONLY
    session = onnxruntime.InferenceSession(os.path.join(folder, _MODEL), settings, providers=['CPUExecutionProvider'])
    image = session.get_inputs()[0].name
    outputs = [each.name for each in sorted(session.get_outputs(), key=_rank)]  # labels first

    def predict(images: np.ndarray) -> Outputs:
        labels, *probabilities = session.run(outputs, {image: images})
        return Outputs(labels.astype(np.int32, copy=False), *probabilities)

    yield predict


def _rank(output: Any) -> int:
    """Returns the number of dimensions of an output."""
    return len(output.shape)


def version() -> str:
    """Returns the versions of what converts and what runs."""
    return ' '.join(importlib.metadata.version(name) for name in ('onnxruntime', 'tf2onnx', 'onnx'))


register(
    Engine(
        name='onnxruntime',
        summary='ONNX Runtime on the CPU.',
        convert=convert,
        load=load,
        version=version,
        requires=('onnxruntime', 'tf2onnx', 'onnx'),
        install="'deeplab[onnxruntime]'",
    )
)
