"""OpenVINO: a folder with model.xml and model.bin, in float32, with float16 weights, or in 8 bits (NNCF)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from deeplab.export import portable
from deeplab.inference import export_metadata
from deeplab.inference.runtimes import openvino as engine
from deeplab.registry import Exported, ExportFormat, PortableNetwork, register
from deeplab.system import processors

MODEL = 'model.xml'
WEIGHTS = 'model.bin'
_NAMES = ('labels', 'probabilities')


def convert(network: PortableNetwork, folder: str) -> None:
    """Writes the network, see `ExportFormat.convert`."""
    os.makedirs(folder)
    model = engine.converted(portable.with_input_type(network.graph, network.input_type), folder)
    model.inputs[0].get_tensor().set_names({portable.IMAGES})
    for output, name in zip(_ranked(model), _NAMES, strict=False):
        output.get_tensor().set_names({name})
    if network.variant == 'int8':
        model = _in_int8(model, network)
    model.set_rt_info(export_metadata.dumped(network.metadata), [export_metadata.KEY, 'metadata'])
    engine.package().save_model(model, os.path.join(folder, MODEL), compress_to_fp16=network.variant == 'float16')


def _ranked(model: Any) -> list[Any]:
    """Returns the outputs, labels first."""
    return sorted(model.outputs, key=lambda output: len(output.partial_shape))


def _in_int8(model: Any, network: PortableNetwork) -> Any:
    """Returns the model with 8-bit weights and activations."""
    import nncf

    images = [image.astype(network.input_type) for image in portable.full_range(network)]
    return nncf.quantize(model, nncf.Dataset(images), subset_size=len(images))


def recognizes(path: str) -> bool:
    """Returns whether a path is a model, or a folder with one."""
    return path.endswith('.xml') or os.path.isfile(os.path.join(path, MODEL))


def is_own(path: str) -> bool:
    """Returns whether a file model.xml was written by `convert`."""
    with open(path, 'rb') as file:
        return b'metadata_version' in file.read()


@contextlib.contextmanager
def opened(path: str, threads: int | None) -> Iterator[Exported]:
    """Opens a model, see `ExportFormat.open`."""
    core = engine.package().Core()
    model = core.read_model(os.path.join(path, MODEL) if os.path.isdir(path) else path)
    facts = {}
    if model.has_rt_info([export_metadata.KEY, 'metadata']):
        facts = export_metadata.loaded(str(model.get_rt_info([export_metadata.KEY, 'metadata']).astype(str)))
    compiled = core.compile_model(model, 'CPU', engine.settings('float32', threads or processors.available_cores()))
    image = compiled.inputs[0]
    outputs = _ranked(compiled)
    request = compiled.create_infer_request()
    kind = image.element_type.to_dtype().type

    def run(images: np.ndarray, with_probabilities: bool) -> list[np.ndarray]:
        request.infer([np.ascontiguousarray(portable.in_type(images, kind))], share_inputs=True)
        return [request.get_tensor(output).data.copy() for output in outputs[: 1 + with_probabilities]]

    shape = [_known(side) for side in image.partial_shape]
    classes = _known(outputs[1].partial_shape[3]) if len(outputs) > 1 else None
    yield portable.exported(portable.Loaded(run, shape, len(outputs), classes), facts)


def _known(side: Any) -> int | None:
    """Returns a side of a tensor; None if it is known only when the model runs."""
    return None if side.is_dynamic else int(side.get_length())


_EXAMPLE = """\
import numpy as np
import openvino  # pip install openvino

compiled = openvino.Core().compile_model(
    {file!r}, 'CPU', {{'INFERENCE_PRECISION_HINT': 'f32'}}  # bfloat16 on some processors by default
)
image = {image}  # reduced if it is larger, then padded, to the size of the network
kind = compiled.input('images').element_type.to_dtype()
labels = compiled(image[np.newaxis].astype(kind))['labels'][0]"""

register(
    ExportFormat(
        name='openvino',
        summary='A folder with a model of OpenVINO.',
        noun='an OpenVINO model',
        convert=convert,
        open=opened,
        recognizes=recognizes,
        variants=('float32', 'float16', 'int8'),
        is_own=is_own,
        example_path='openvino',
        suffixes=('.xml',),
        tensors=('images', 'labels', 'probabilities'),
        example=_EXAMPLE,
        contents=(MODEL, WEIGHTS),
        requires=('openvino',),
        runs_with=('openvino',),
        install="'deeplab-toolkit[openvino]'",
        variants_need={'int8': (('nncf',), "'deeplab-toolkit[nncf]'")},
    )
)
