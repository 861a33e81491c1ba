"""ONNX: one file for ONNX Runtime and other runtimes, in float32, float16 or 8 bits (QDQ)."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from deeplab.export import portable
from deeplab.files import writing
from deeplab.inference import export_metadata, exports
from deeplab.inference.runtimes import onnxruntime as engine
from deeplab.registry import ExportFormat, Parameter, PortableNetwork, register
from deeplab.system import processors

_START = re.compile(rb'\x08[\x03-\x7f]\x12[\x01-\x7f][\w.]')  # version of the format, tag and length of the producer


def convert(network: PortableNetwork, path: str, onnx_opset: int) -> None:
    """Writes the network, see `ExportFormat.convert`."""
    import onnx

    key = f'onnx {onnx_opset} {network.input_type}'  # it takes long
    if key not in network.conversions:
        converted = engine.converted(portable.with_input_type(network.graph, network.input_type), onnx_opset)
        _rename(converted, dict(zip(network.graph.outputs, portable.output_names(network.graph), strict=True)))
        network.conversions[key] = converted
    model = copy.deepcopy(network.conversions[key])
    if network.variant == 'float16':
        model = _in_float16(model)
    elif network.variant == 'int8':
        model = engine.in_int8(model, network.calibration, network.input_type)
    onnx.helper.set_model_props(
        model,
        {
            export_metadata.KEY: export_metadata.dumped(network.metadata),
            'class_names': ','.join(network.metadata.get('class_names', ())),
        },
    )
    onnx.checker.check_model(model, full_check=True)
    with open(path, 'wb') as file:
        file.write(model.SerializeToString())


def _rename(model: Any, outputs: Mapping[str, str]) -> None:
    """Names input and outputs without the suffix of tensors of TensorFlow."""
    names = {**outputs, model.graph.input[0].name: portable.IMAGES}
    for value in (*model.graph.input, *model.graph.output):
        value.name = names.get(value.name, value.name)
    for node in model.graph.node:
        for tensors in (node.input, node.output):
            for i, name in enumerate(tensors):
                tensors[i] = names.get(name, name)


def _in_float16(model: Any) -> Any:
    """Returns the model with weights and activations of float16; input and outputs keep their types."""
    from onnxruntime.transformers import float16

    converted = float16.convert_float_to_float16(model, keep_io_types=True)
    _sort(converted)
    return converted


def _sort(model: Any) -> None:
    """Orders the operations so that each comes after those that it reads."""
    computed = {each.name for each in (*model.graph.input, *model.graph.initializer)} | {''}
    waiting, ordered = [*model.graph.node], []
    while waiting:
        ready = [node for node in waiting if computed.issuperset(node.input)]
        if not ready:
            raise ValueError('the operations of the network form a circle')
        waiting = [node for node in waiting if not computed.issuperset(node.input)]
        computed.update(name for node in ready for name in node.output)
        ordered += ready
    del model.graph.node[:]
    model.graph.node.extend(ordered)


def recognizes(path: str) -> bool:
    """Returns whether a file is an ONNX model: one named .onnx, or one that begins as a model does."""
    return path.endswith('.onnx') or writing.begins_as(path, _START)


def activations(path: str, images: np.ndarray) -> dict[str, np.ndarray]:
    """Returns all activations for images, see `ExportFormat.activations`."""
    import onnx

    model = onnx.load(path)
    names = [
        name for node in model.graph.node if node.op_type not in ('QuantizeLinear', 'Cast') for name in node.output
    ]
    outputs = {output.name for output in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in outputs)
    session = engine.session_of(model.SerializeToString(), processors.available_cores())
    image, *_ = session.get_inputs()
    values = session.run(names, {image.name: exports.in_type(images, engine.type_of(image))})
    arrays: dict[str, np.ndarray] = {}
    for name, value in zip(names, values, strict=True):
        if np.issubdtype(value.dtype, np.floating):
            plain = name.removesuffix('_DequantizeLinear_Output').removesuffix('_QuantizeLinear_Input')
            arrays[plain] = value.astype(np.float32)
    return arrays


_EXAMPLE = """\
import numpy as np
import onnxruntime  # pip install onnxruntime

session = onnxruntime.InferenceSession({path!r})
image = {image}
kind = np.uint8 if 'uint8' in session.get_inputs()[0].type else np.float32
labels = session.run(['labels'], {{'images': image[np.newaxis].astype(kind)}})[0][0]"""

register(
    ExportFormat(
        name='onnx',
        summary='One file for ONNX Runtime and other runtimes.',
        noun='an ONNX model',
        convert=convert,
        open=exports.opener(engine.ENGINE),
        activations=activations,
        recognizes=recognizes,
        variants=('float32', 'float16', 'int8'),
        is_own=export_metadata.is_in,
        example_path='model.onnx',
        suffixes=('.onnx',),
        tensors=(portable.IMAGES, *portable.OUTPUTS),
        example=_EXAMPLE,
        parameters=(Parameter('onnx_opset', 18, 'ONNX opset version.', range='[13, 23]'),),
        requires=engine.ENGINE.requires,
        runs_with=('onnxruntime',),
        install="'deeplab-toolkit[onnx]'",
    )
)
