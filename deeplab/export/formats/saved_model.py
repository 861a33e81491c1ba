"""SavedModel: a folder with the frozen graph and signatures for images, probabilities, and encoded images."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import numpy as np

from deeplab.core.lazy import tf
from deeplab.datasets import wire
from deeplab.export import tensor_names
from deeplab.export.formats import _sessions
from deeplab.inference import export_metadata
from deeplab.registry import ExportFormat, FrozenNetwork, register

SIGNATURE = 'serving_default'
IMAGE = 'image'
ENCODED = 'image_bytes'
PREDICTIONS = 'predictions'
PROBABILITIES, MAPS = 'probabilities', 'maps'
SERVING_TAG = 'serve'
_ASSETS = 'assets.extra'  # files beside the graph, which TensorFlow does not load
_METADATA = 'deeplab.json'
WARMUP = 'tf_serving_warmup_requests'  # file in _ASSETS
_MODEL = 'deeplab'  # the server takes its own name


def write(network: FrozenNetwork, folder: str) -> None:
    """Writes the frozen graph as a SavedModel.

    Its signature `serving_default` takes an image and gives labels and probabilities. Further ones (`has_signatures`):
    `labels` and `probabilities` give one of these, `encoded` and `encoded_probabilities` take the bytes of a JPEG or
    PNG file. A network that takes any number of images takes several images, or files, of one size. Of other tasks
    than `semantic`, each map has the name of its output, and these signatures are `maps` and `encoded_maps`.
    """
    from deeplab.core import sessions

    with tf.Graph().as_default() as graph:
        image, encoded = _inputs(network)
        nodes = [node for node in network.graph_def.node if node.name != tensor_names.IMAGE]
        graph_def = tf.compat.v1.GraphDef(
            node=nodes, library=network.graph_def.library, versions=network.graph_def.versions
        )
        operations = {name: name for name in network.maps} or {PROBABILITIES: tensor_names.PROBABILITIES}
        outputs = [f'{name}:0' for name in (tensor_names.PREDICTIONS, *operations.values())]
        predictions, *further = tf.graph_util.import_graph_def(
            graph_def, {f'{tensor_names.IMAGE}:0': image}, outputs, name=''
        )
        labels, scores = {PREDICTIONS: predictions}, dict(zip(operations, further, strict=True))
        of_scores = MAPS if network.maps else PROBABILITIES
        signatures = {SIGNATURE: _signature({IMAGE: image}, labels | scores)}
        if network.has_signatures:
            signatures['labels'] = _signature({IMAGE: image}, labels)
            signatures[of_scores] = _signature({IMAGE: image}, scores)
        if encoded is not None:
            signatures['encoded'] = _signature({ENCODED: encoded}, labels)
            signatures[f'encoded_{of_scores}'] = _signature({ENCODED: encoded}, labels | scores)
        with sessions.open_session(graph) as running:
            builder = tf.compat.v1.saved_model.Builder(folder)
            builder.add_meta_graph_and_variables(running, [SERVING_TAG], signatures, strip_default_attrs=True)
            builder.save()
    assets = os.path.join(folder, _ASSETS)
    if network.metadata or network.has_warmup:
        os.makedirs(assets)
    if network.metadata:
        with open(os.path.join(assets, _METADATA), 'w', encoding='utf-8') as file:
            file.write(export_metadata.dumped(network.metadata))
    if network.has_warmup:
        shape = (1, *network.crop_size, network.channels)
        _write_warmup(assets, np.zeros(shape, np.uint8 if network.bits == 8 else np.uint16))


def _write_warmup(folder: str, image: np.ndarray) -> None:
    """Writes the request with which TensorFlow Serving warms up, without the package of its messages.

    Source: tensorflow_serving/apis/{prediction_log,predict,model}.proto:
      PredictionLog { PredictLog predict_log = 6; }  PredictLog { PredictRequest request = 1; }
      PredictRequest { ModelSpec model_spec = 1; map<string, TensorProto> inputs = 2; }
      ModelSpec { string name = 1; string signature_name = 3; }

    Args:
      folder: assets.extra of the SavedModel, where the server looks for the file.
      image: image of the request, [1, h, w, channels].
    """
    tensor = tf.make_tensor_proto(image).SerializeToString()
    entry = wire.message(1, IMAGE.encode()) + wire.message(2, tensor)
    spec = wire.message(1, _MODEL.encode()) + wire.message(3, SIGNATURE.encode())
    request = wire.message(1, spec) + wire.message(2, entry)
    with tf.io.TFRecordWriter(os.path.join(folder, WARMUP)) as writer:
        writer.write(wire.message(6, wire.message(1, request)))


def _signature(inputs: dict[str, Any], outputs: dict[str, Any]) -> Any:
    from tensorflow.python.util import deprecation

    with deprecation.silence():
        return tf.compat.v1.saved_model.predict_signature_def(inputs, outputs)


def _loaded(session: Any, folder: str) -> Any:
    """Adds a SavedModel to the graph of a session; returns its signatures by name."""
    from tensorflow.python.util import deprecation

    with deprecation.silence():
        return tf.compat.v1.saved_model.load(session, [SERVING_TAG], folder).signature_def


def _inputs(network: FrozenNetwork) -> tuple[Any, Any]:
    """Adds the inputs to the current graph: images, which are decoded unless they are fed, and the bytes of files.

    Images whose channels neither JPEG nor PNG has are not decoded; their bytes are None.
    """
    shape = [_batch_size_of(network), None, None, network.channels]  # height and width are known only at run time
    kind = tf.uint8 if network.bits == 8 else tf.uint16
    if network.channels not in (1, 3) or not network.has_signatures:
        return tf.compat.v1.placeholder(kind, shape, name=tensor_names.IMAGE), None
    encoded = tf.compat.v1.placeholder(tf.string, [None], name=ENCODED)

    def decoded(content: Any) -> Any:
        if network.bits == 8:
            return tf.io.decode_jpeg(content, channels=network.channels)  # PNG too; as records are decoded
        return tf.io.decode_png(content, channels=network.channels, dtype=tf.uint16)

    if shape[0] is None:
        pixels = tf.map_fn(decoded, encoded, fn_output_signature=tf.TensorSpec(shape[1:], kind))
    else:
        pixels = decoded(tf.reshape(encoded, []))[
            tf.newaxis
        ]  # fails for several files, of which one would be predicted
    return tf.compat.v1.placeholder_with_default(pixels, shape, name=tensor_names.IMAGE), encoded


def _batch_size_of(network: FrozenNetwork) -> int | None:
    """Returns how many images a network takes at a time; None for any number."""
    (image,) = (node for node in network.graph_def.node if node.name == tensor_names.IMAGE)
    size = image.attr['shape'].shape.dim[0].size
    return None if size < 0 else size


def run(folder: str, image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Loads a SavedModel and runs its signature, see `ExportFormat.run`."""
    from deeplab.core import sessions

    with tf.Graph().as_default() as graph, sessions.open_session(graph) as running:
        signature = _loaded(running, folder)[SIGNATURE]
        fetches = [signature.outputs[key].name for key in (PREDICTIONS, PROBABILITIES)]
        labels, probabilities = running.run(fetches, {signature.inputs[IMAGE].name: image[np.newaxis]})
    return labels[0], probabilities[0]


def is_own(path: str) -> bool:
    """Returns whether a file saved_model.pb was written by `write`."""
    from google.protobuf import message
    from tensorflow.core.protobuf import saved_model_pb2

    with open(path, 'rb') as file:
        content = file.read()
    try:
        model = saved_model_pb2.SavedModel.FromString(content)
    except message.DecodeError:
        return False
    signatures = [graph.signature_def[SIGNATURE] for graph in model.meta_graphs if SIGNATURE in graph.signature_def]
    return any(IMAGE in each.inputs and PREDICTIONS in each.outputs for each in signatures)


def recognizes(path: str) -> bool:
    """Returns whether a path is the folder of a SavedModel, or one in the layout of TensorFlow Serving."""
    return _folder_of(path) is not None


def _folder_of(path: str) -> str | None:
    """Returns the folder with saved_model.pb: `path`, or its subfolder of the highest version; None without one."""
    versions = [name for name in os.listdir(path) if name.isdecimal()] if os.path.isdir(path) else []
    for name in ('', *sorted(versions, key=int, reverse=True)):
        folder = os.path.join(path, name) if name else path
        if os.path.isfile(os.path.join(folder, 'saved_model.pb')):
            return folder
    return None


def _load(session: Any, path: str) -> tuple[_sessions.Find, str]:
    folder = _folder_of(path) or path
    signatures = _loaded(session, folder)
    tensors = {}
    if SIGNATURE in signatures:
        tensors = {**signatures[SIGNATURE].inputs, **signatures[SIGNATURE].outputs}
    text = ''
    with contextlib.suppress(OSError), open(os.path.join(folder, _ASSETS, _METADATA), encoding='utf-8') as file:
        text = file.read()
    return lambda name: session.graph.get_tensor_by_name(tensors[name].name) if name in tensors else None, text


_EXAMPLE = """\
import numpy as np
import tensorflow as tf

network = tf.saved_model.load({path!r})
image = {image}
outputs = network.signatures['serving_default'](image=tf.constant(image[np.newaxis]))
labels = outputs['predictions'][0].numpy()"""

register(
    ExportFormat(
        name='saved_model',
        summary='A folder with a serving signature.',
        noun='a SavedModel',
        write=write,
        run=run,
        open=_sessions.opener(_load, (IMAGE, PREDICTIONS, PROBABILITIES)),
        recognizes=recognizes,
        is_own=is_own,
        example_path='saved_model',
        tensors=(IMAGE, PREDICTIONS, PROBABILITIES),
        example=_EXAMPLE,
        contents=('saved_model.pb', 'fingerprint.pb', 'variables', _ASSETS),
    )
)
