"""OpenVINO: a folder with model.xml and model.bin, in float32, with float16 weights, or in 8 bits (NNCF)."""

from __future__ import annotations

import os

from deeplab.export import portable
from deeplab.inference import export_metadata, exports
from deeplab.inference.runtimes import openvino as engine
from deeplab.registry import ExportFormat, PortableNetwork, register

WEIGHTS = 'model.bin'


def convert(network: PortableNetwork, folder: str) -> None:
    """Writes the network, see `ExportFormat.convert`."""
    os.makedirs(folder)
    model = engine.converted(portable.with_input_type(network.graph, network.input_type), folder)
    model.inputs[0].get_tensor().set_names({portable.IMAGES})
    names = dict(zip(network.graph.outputs, portable.output_names(network.graph), strict=True))
    for output in model.outputs:
        output.get_tensor().set_names({names[name] for name in output.get_names() if name in names})
    if network.variant == 'int8':
        model = engine.in_int8(model, network.calibration, network.input_type)
    model.set_rt_info(export_metadata.dumped(network.metadata), engine.METADATA)
    engine.package().save_model(
        model, os.path.join(folder, engine.MODEL), compress_to_fp16=network.variant == 'float16'
    )


def recognizes(path: str) -> bool:
    """Returns whether a path is a model, or a folder with one."""
    return path.endswith('.xml') or os.path.isfile(os.path.join(path, engine.MODEL))


_EXAMPLE = """\
import numpy as np
import openvino  # pip install openvino

compiled = openvino.Core().compile_model(
    {file!r}, 'CPU', {{'INFERENCE_PRECISION_HINT': 'f32'}}  # bfloat16 on some processors by default
)
image = {image}
kind = compiled.input('images').element_type.to_dtype()
labels = compiled(image[np.newaxis].astype(kind))['labels'][0]"""

register(
    ExportFormat(
        name='openvino',
        summary='A folder with an OpenVINO model.',
        noun='an OpenVINO model',
        convert=convert,
        open=exports.opener(engine.ENGINE),
        recognizes=recognizes,
        variants=('float32', 'float16', 'int8'),
        is_own=export_metadata.is_in,
        example_path='openvino',
        suffixes=('.xml',),
        tensors=(portable.IMAGES, *portable.OUTPUTS),
        example=_EXAMPLE,
        contents=(engine.MODEL, WEIGHTS),
        requires=engine.ENGINE.requires,
        runs_with=engine.ENGINE.requires,
        install=engine.ENGINE.install,
        variants_need=engine.ENGINE.precisions_need,
    )
)
