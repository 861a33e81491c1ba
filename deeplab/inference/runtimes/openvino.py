"""OpenVINO: converts the frozen graph with OpenVINO's own reader of TensorFlow graphs, and runs it on the CPU."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from deeplab.inference import export_metadata, exports
from deeplab.inference.runtimes._calibration import full_range
from deeplab.registry import INT8, Calibration, Engine, Execution, Exported, FrozenGraph, register

MODEL = 'model.xml'  # the weights lie beside it, in model.bin
METADATA = [export_metadata.KEY, 'metadata']  # path of the metadata in a model
_TELEMETRY = 'openvino_telemetry'
# OpenVINO's names of the types: as capabilities of a device, and as hints. Without a hint it takes a short type where
# the processor has one.
_CAPABILITIES = {'bfloat16': 'BF16', 'float16': 'FP16'}
_HINTS = {'float32': 'f32', 'bfloat16': 'bf16', 'float16': 'f16', INT8: 'f32'}  # 8 bits are in the model itself
_QUANTIZER = 'nncf'


def package(name: str = 'openvino') -> Any:
    """Imports OpenVINO, or NNCF, which then neither reports its use nor changes what is logged.

    They take a stub of their own where the package that reports is missing. `openvino.convert_model`, which reports, is
    not used.
    """
    if name in sys.modules:
        return sys.modules[name]
    root, usual = logging.getLogger(), logging.getLoggerClass()
    before = root.level, [*root.filters], [*root.handlers]
    is_blocked = _TELEMETRY not in sys.modules
    if is_blocked:
        sys.modules[_TELEMETRY] = None  # type: ignore[assignment]
    try:
        return importlib.import_module(name)
    finally:
        if is_blocked:
            del sys.modules[_TELEMETRY]
        root.level, root.filters, root.handlers = before
        logging.setLoggerClass(usual)


def convert(graph: FrozenGraph, folder: str, execution: Execution) -> None:
    """Writes the network as OpenVINO's model, see `Engine.convert`."""
    model = converted(graph, folder)
    if execution.calibration is not None:
        model = in_int8(model, execution.calibration)
    package().save_model(model, os.path.join(folder, MODEL), compress_to_fp16=False)


def converted(graph: FrozenGraph, folder: str) -> Any:
    """Returns the network as OpenVINO's model.

    Args:
      graph: the network.
      folder: folder for a temporary file.
    """
    openvino = package()
    path = os.path.join(folder, 'graph.pb')
    with open(path, 'wb') as file:
        file.write(graph.graph_def.SerializeToString())
    reader = openvino.frontend.FrontEndManager().load_by_framework('tf')
    read = reader.load(path)
    if None not in graph.shape:
        read.set_partial_shape(read.get_place_by_tensor_name(graph.image), openvino.PartialShape(list(graph.shape)))
    model = reader.convert(read)
    os.remove(path)
    return model


def in_int8(model: Any, calibration: Calibration, kind: str = 'float32') -> Any:
    """Returns a model with 8-bit activations and weights; the weights use 7 of the 8 bits.

    So no sum saturates where `processors.saturates_int8`, and the model computes the same on every processor.

    Args:
      model: from `converted`.
      calibration: see `Execution.calibration`.
      kind: type of the input.
    """
    nncf = package(_QUANTIZER)
    nncf.set_log_level(logging.ERROR)
    images = [*full_range(calibration, kind)]
    advanced = nncf.AdvancedQuantizationParameters(overflow_fix=nncf.OverflowFix.ENABLE)
    with contextlib.redirect_stdout(io.StringIO()):  # of its progress bars
        return nncf.quantize(model, nncf.Dataset(images), subset_size=len(images), advanced_parameters=advanced)


@contextlib.contextmanager
def load(path: str, execution: Execution) -> Iterator[Exported]:
    """Compiles the model for this processor, see `Engine.load`."""
    core = package().Core()
    model = core.read_model(os.path.join(path, MODEL) if os.path.isdir(path) else path)
    metadata = {}
    if model.has_rt_info(METADATA):
        metadata = export_metadata.loaded(str(model.get_rt_info(METADATA).astype(str)))
    settings = {
        'INFERENCE_NUM_THREADS': execution.threads,
        'PERFORMANCE_HINT': 'LATENCY',
        'INFERENCE_PRECISION_HINT': _HINTS[execution.precision],
    }
    compiled = core.compile_model(model, 'CPU', settings)
    image = compiled.inputs[0]
    request = compiled.create_infer_request()
    kind = image.element_type.to_dtype().type

    def run(images: np.ndarray, outputs: list[Any]) -> list[np.ndarray]:
        request.infer([np.ascontiguousarray(exports.in_type(images, kind))], share_inputs=True)
        return [request.get_tensor(output).data.copy() for output in outputs]  # the next call writes to the same memory

    yield exports.of_model(
        run, _shape(image), compiled.outputs, lambda each: (_shape(each), each.get_names()), metadata
    )


def _shape(tensor: Any) -> list[int | None]:
    """Returns the shape of a tensor; None for a side that is known only when the model runs."""
    return [None if side.is_dynamic else int(side.get_length()) for side in tensor.partial_shape]


def precisions() -> tuple[str, ...]:
    """Returns the types in which this processor computes, see `Engine.precisions`."""
    capabilities = package().Core().get_property('CPU', 'OPTIMIZATION_CAPABILITIES')
    return ('float32', *(name for name, capability in _CAPABILITIES.items() if capability in capabilities), INT8)


def version() -> str:
    """Returns the version of OpenVINO."""
    return str(package().get_version())


ENGINE = Engine(
    name='openvino',
    summary='OpenVINO on the CPU.',
    convert=convert,
    load=load,
    precisions=precisions,
    precisions_need={INT8: ((_QUANTIZER,), "'deeplab-toolkit[nncf]'")},
    version=version,
    requires=('openvino',),
    install="'deeplab-toolkit[openvino]'",
)
register(ENGINE)
