"""ONNX Runtime: converts the frozen graph to ONNX with tf2onnx, and runs it on the CPU."""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from deeplab.inference import export_metadata, exports
from deeplab.inference.runtimes._calibration import full_range
from deeplab.registry import INT8, Calibration, Engine, Execution, Exported, FrozenGraph, register
from deeplab.system import processors

_MODEL = 'model.onnx'
_OPSET = 18
_ERRORS_ONLY = 3  # of ONNX Runtime's levels
_QUANTIZED = ('Conv', 'MatMul', 'Gemm', 'Add', 'Mul', 'Concat', 'Clip', 'Relu', 'GlobalAveragePool', 'ReduceMean')


def convert(graph: FrozenGraph, folder: str, execution: Execution) -> None:
    """Writes the network as ONNX model, see `Engine.convert`."""
    model = converted(graph)
    if execution.calibration is not None:
        model = in_int8(model, execution.calibration, unsigned_weights=processors.saturates_int8())
    with open(os.path.join(folder, _MODEL), 'wb') as file:
        file.write(model.SerializeToString())


def converted(graph: FrozenGraph, opset: int = _OPSET) -> Any:
    """Returns the network as ONNX model (`onnx.ModelProto`).

    Raises:
      ValueError: ONNX has no conversion for an operation of the network.
    """
    import onnx
    import tf2onnx
    from tensorflow.python.util import deprecation

    # What tf2onnx logs are notes on its attempts; TensorFlow's functions that it calls are deprecated.
    with _quiet(), deprecation.silence():
        model, _ = tf2onnx.convert.from_graph_def(
            graph.graph_def, input_names=[graph.image], output_names=list(graph.outputs), opset=opset
        )
    # Operations that tf2onnx does not know stay in the model under TensorFlow's names.
    unknown = {node.op_type for node in model.graph.node if not onnx.defs.has(node.op_type, node.domain)}
    if unknown:
        raise ValueError(f'no conversion for {", ".join(sorted(unknown))}')
    del model.graph.value_info[:]
    _state_sizes(model)
    return model


def _state_sizes(model: Any) -> None:
    """Gives resizes their sizes instead of factors, from which some tools compute a size of one pixel less."""
    import onnx

    factors = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type != 'Resize' or len(node.input) != 3 or node.input[2] not in factors:
            continue
        inferred = onnx.shape_inference.infer_shapes(model).graph
        shapes = {value.name: value.type.tensor_type.shape for value in (*inferred.value_info, *inferred.input)}
        sides = [side.dim_value for side in shapes[node.input[0]].dim] if node.input[0] in shapes else [0]
        if min(sides) < 1:  # known only when the network runs
            continue
        sizes = np.rint(np.array(sides) * np.float64(factors[node.input[2]])).astype(np.int64)
        name = f'{node.output[0]}_sizes'
        model.graph.initializer.append(onnx.numpy_helper.from_array(sizes, name))
        inputs = [node.input[0], node.input[1], '', name]
        del node.input[:]
        node.input.extend(inputs)
    read = {name for node in model.graph.node for name in node.input}
    kept = [each for each in model.graph.initializer if each.name in read]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)


def in_int8(model: Any, calibration: Calibration, kind: str = 'float32', unsigned_weights: bool = False) -> Any:
    """Returns a model with 8-bit weights and activations, between operations that quantize and dequantize (QDQ).

    Args:
      model: from `converted`.
      calibration: see `Execution.calibration`.
      kind: type of the input.
      unsigned_weights: weights from 0 to 255 instead of -128 to 127. ONNX Runtime multiplies them slower, but exactly
        also where `processors.saturates_int8`.
    """
    import onnx
    from onnxruntime import quantization

    kinds = quantization.QuantType

    with tempfile.TemporaryDirectory() as folder, _quiet():
        source, target = (os.path.join(folder, name) for name in ('float.onnx', 'int8.onnx'))
        onnx.save(model, source)
        quantization.quantize_static(
            source,
            target,
            _Reader(model.graph.input[0].name, full_range(calibration, kind)),
            quant_format=quantization.QuantFormat.QDQ,
            op_types_to_quantize=list(_QUANTIZED),
            per_channel=True,
            activation_type=kinds.QUInt8,
            weight_type=kinds.QUInt8 if unsigned_weights else kinds.QInt8,
        )
        return onnx.load(target)


class _Reader:
    """Images for calibration, as ONNX Runtime reads them."""

    def __init__(self, name: str, images: Iterator[np.ndarray]) -> None:
        self._name, self._images = name, images

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Returns the next image by the name of the input; None at the end."""
        image = next(self._images, None)
        return None if image is None else {self._name: image}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences the loggers of tf2onnx, and what ONNX Runtime writes to the root logger, within the `with` block."""
    logger = logging.getLogger('tf2onnx')  # its modules, some of which are imported later, inherit the level
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    root = logging.getLogger()

    def is_ours(record: logging.LogRecord) -> bool:
        return 'onnxruntime' not in record.pathname.split(os.sep)

    root.addFilter(is_ours)
    try:
        yield
    finally:
        root.removeFilter(is_ours)
        logger.setLevel(before)


@contextlib.contextmanager
def load(path: str, execution: Execution) -> Iterator[Exported]:
    """Opens a session of ONNX Runtime, see `Engine.load`."""
    session = session_of(os.path.join(path, _MODEL) if os.path.isdir(path) else path, execution.threads)
    metadata = export_metadata.loaded(session.get_modelmeta().custom_metadata_map.get(export_metadata.KEY, ''))
    image, *_ = session.get_inputs()
    kind = type_of(image)

    def run(images: np.ndarray, outputs: list[Any]) -> list[np.ndarray]:
        fed = {image.name: exports.in_type(images, kind)}
        arrays: list[np.ndarray] = session.run([output.name for output in outputs], fed)
        return arrays

    outputs = session.get_outputs()
    yield exports.of_model(run, _shape(image), outputs, lambda each: (_shape(each), {each.name}), metadata)


def _shape(tensor: Any) -> list[int | None]:
    """Returns the shape of a tensor; None for a side that has a name instead of a number."""
    return [side if isinstance(side, int) else None for side in tensor.shape]


def type_of(image: Any) -> type:
    """Returns the type of an input."""
    return np.uint8 if 'uint8' in image.type else np.float32


def session_of(model: str | bytes, threads: int) -> Any:
    """Returns a session of ONNX Runtime on the CPU, of the path or the content of a model."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.log_severity_level = _ERRORS_ONLY
    return onnxruntime.InferenceSession(model, settings, providers=['CPUExecutionProvider'])


def version() -> str:
    """Returns the versions of what converts and what runs."""
    return ' '.join(importlib.metadata.version(name) for name in ('onnxruntime', 'tf2onnx', 'onnx'))


ENGINE = Engine(
    name='onnxruntime',
    summary='ONNX Runtime on the CPU.',
    convert=convert,
    load=load,
    precisions=lambda: ('float32', INT8),
    version=version,
    requires=('onnxruntime', 'tf2onnx', 'onnx'),
    install="'deeplab-toolkit[onnxruntime]'",
)
register(ENGINE)
