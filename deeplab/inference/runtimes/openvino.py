"""OpenVINO: converts the frozen graph with OpenVINO's own reader of TensorFlow graphs, and runs it on the CPU."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from deeplab.registry import Engine, Execution, FrozenGraph, Outputs, Predict, register

_MODEL = 'model.xml'  # the weights lie beside it, in model.bin
_TELEMETRY = 'openvino_telemetry'
# OpenVINO's names of the types: as capabilities of a device, and as hints. Without a hint it takes a short type where
# the processor has one.
_CAPABILITIES = {'bfloat16': 'BF16', 'float16': 'FP16'}
_HINTS = {'float32': 'f32', 'bfloat16': 'bf16', 'float16': 'f16'}


def package() -> Any:
    """Imports OpenVINO, which then neither reports its use nor changes what is logged.

    It takes a stub of its own where the package that reports is missing. `openvino.convert_model`, which reports, is
    not used.
    """
    if 'openvino' in sys.modules:
        return sys.modules['openvino']
    root = logging.getLogger()
    before = root.level, [*root.filters], [*root.handlers]
    is_blocked = _TELEMETRY not in sys.modules
    if is_blocked:
        sys.modules[_TELEMETRY] = None  # type: ignore[assignment]
    try:
        import openvino
    finally:
        if is_blocked:
            del sys.modules[_TELEMETRY]
        root.level, root.filters, root.handlers = before
    return openvino


def convert(graph: FrozenGraph, folder: str, execution: Execution) -> None:
    """Writes the network as OpenVINO's model, see `Engine.convert`."""
    package().save_model(converted(graph, folder), os.path.join(folder, _MODEL), compress_to_fp16=False)


def converted(graph: FrozenGraph, folder: str) -> Any:
    """Returns the network as OpenVINO's model.

    Args:
      graph: the network.
      folder: for a file that is removed again.
    """
    openvino = package()
    path = os.path.join(folder, 'graph.pb')
    with open(path, 'wb') as file:
        file.write(graph.graph_def.SerializeToString())
    reader = openvino.frontend.FrontEndManager().load_by_framework('tf')
    found = reader.load(path)
    if None not in graph.shape:
        found.set_partial_shape(found.get_place_by_tensor_name(graph.image), openvino.PartialShape(list(graph.shape)))
    model = reader.convert(found)
    os.remove(path)
    return model


@contextlib.contextmanager
def load(folder: str, execution: Execution) -> Iterator[Predict]:
    """Compiles the model for this processor, see `Engine.load`."""
    compiled = package().Core().compile_model(os.path.join(folder, _MODEL), 'CPU', settings(*execution))
    outputs = sorted(compiled.outputs, key=lambda output: len(output.partial_shape))  # labels first
    request = compiled.create_infer_request()

    def predict(images: np.ndarray) -> Outputs:
        request.infer([images], share_inputs=True)
        labels, *probabilities = (request.get_tensor(output).data for output in outputs)
        # The next call writes to the same memory.
        return Outputs(labels.astype(np.int32), *(array.copy() for array in probabilities))

    yield predict


def settings(precision: str, threads: int) -> dict[str, Any]:
    """Returns how the CPU computes, see `Execution`."""
    return {
        'INFERENCE_NUM_THREADS': threads,
        'PERFORMANCE_HINT': 'LATENCY',
        'INFERENCE_PRECISION_HINT': _HINTS[precision],
    }


def precisions() -> tuple[str, ...]:
    """Returns the types in which this processor computes, see `Engine.precisions`."""
    found = package().Core().get_property('CPU', 'OPTIMIZATION_CAPABILITIES')
    return ('float32', *(name for name, capability in _CAPABILITIES.items() if capability in found))


def version() -> str:
    """Returns the version of OpenVINO."""
    return str(package().get_version())


register(
    Engine(
        name='openvino',
        summary='OpenVINO on the CPU.',
        convert=convert,
        load=load,
        precisions=precisions,
        version=version,
        requires=('openvino',),
        install="'deeplab-toolkit[openvino]'",
    )
)
