"""TensorFlow Lite: one file for phones and boards, in float32, with float16 weights, or in 8 bits."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from deeplab.core.lazy import tf
from deeplab.errors import OptionError
from deeplab.export import portable
from deeplab.inference import exports
from deeplab.inference.runtimes import tflite as engine
from deeplab.registry import ExportFormat, FrozenGraph, PortableNetwork, register
from deeplab.system import processors
from deeplab.wording import option

# Value of the number 0, and numbers of the value 1, of an input of uint8.
_AS_PIXELS, _TO_PLUS_MINUS_ONE = (0.0, 1.0), (127.5, 127.5)


def convert(network: PortableNetwork, path: str) -> None:
    """Writes the network, see `ExportFormat.convert`."""
    kind = network.input_type
    is_trained = network.variant == 'int8' and portable.is_trained_in_8_bits(network.graph)
    if is_trained:
        graph, configure = _trained(network)
    elif network.variant == 'int8':  # the converter changes the type of the input
        graph, configure = network.graph, functools.partial(engine.set_int8, network.calibration, kind)
    else:
        graph, configure = portable.with_input_type(network.graph, kind), functools.partial(_compress, network.variant)
    engine.write(engine.converted(graph, configure), network.metadata, path)


def _compress(variant: str, converter: Any) -> None:
    if variant != 'float32':
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if variant == 'float16':
        converter.target_spec.supported_types = [tf.float16]


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


def is_own(path: str) -> bool:
    """Returns whether a file was written by `convert`."""
    return engine.is_model(path) and bool(engine.metadata_of(path))


def activations(path: str, images: np.ndarray) -> dict[str, np.ndarray]:
    """Returns all activations for images, see `ExportFormat.activations`."""
    resolvers = sys.modules[engine.interpreter_class().__module__].OpResolverType
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', UserWarning)  # that keeping all tensors is for debugging
        interpreter = engine.interpreter(
            path,
            processors.available_cores(),
            experimental_preserve_all_tensors=True,
            experimental_op_resolver_type=resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )
    image, *_ = interpreter.get_input_details()
    interpreter.resize_tensor_input(image['index'], images.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(image['index'], engine.quantized(images, image))
    interpreter.invoke()
    arrays = {}
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
                layer, *_ = details['name'].split(';')  # of operations that were merged to one: 'a;b;c'
                arrays[layer] = (values - zero) * scale if scale else values
    return arrays


_EXAMPLE = """\
import numpy as np
from ai_edge_litert.interpreter import Interpreter  # pip install ai-edge-litert; tf.lite.Interpreter is the same

interpreter = Interpreter({path!r})
interpreter.allocate_tensors()
image = {image}
details = interpreter.get_input_details()[0]
interpreter.set_tensor(details['index'], image[np.newaxis].astype(details['dtype']))
interpreter.invoke()
labels = interpreter.get_tensor(interpreter.get_output_details()[0]['index'])[0]"""

register(
    ExportFormat(
        name='tflite',
        summary='One file for TensorFlow Lite on mobile and embedded devices.',
        noun='a TensorFlow Lite model',
        convert=convert,
        open=exports.opener(engine.ENGINE),
        activations=activations,
        recognizes=engine.is_model,
        variants=('float32', 'float16', 'dynamic_int8', 'int8'),
        is_own=is_own,
        example_path='model.tflite',
        suffixes=('.tflite',),
        tensors=(portable.IMAGES, *portable.OUTPUTS),
        example=_EXAMPLE,
        install=engine.ENGINE.install,
    )
)
