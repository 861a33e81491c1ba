"""SavedModel: a folder with the frozen graph and a serving signature."""

from __future__ import annotations

import numpy as np

from deeplab.core.lazy import tf
from deeplab.export import tensor_names
from deeplab.registry import ExportFormat, FrozenNetwork, register

SIGNATURE = 'serving_default'
IMAGE = 'image'
PREDICTIONS = 'predictions'
PROBABILITIES = 'probabilities'
SERVING_TAG = 'serve'


def write(network: FrozenNetwork, folder: str) -> None:
    """Writes the frozen graph as a SavedModel with one signature: image to labels and probabilities."""
    from deeplab.core import sessions  # imports TensorFlow

    with tf.Graph().as_default() as graph:
        names = (tensor_names.IMAGE, tensor_names.PREDICTIONS, tensor_names.PROBABILITIES)
        image, predictions, probabilities = tf.graph_util.import_graph_def(
            network.graph_def, return_elements=[f'{name}:0' for name in names], name=''
        )
        # Height and width are known only at run time, the number of channels before.
        image.set_shape([1, None, None, network.channels])
        signature = tf.compat.v1.saved_model.predict_signature_def(
            {IMAGE: image}, {PREDICTIONS: predictions, PROBABILITIES: probabilities}
        )
        with sessions.open_session(graph) as running:
            builder = tf.compat.v1.saved_model.Builder(folder)
            builder.add_meta_graph_and_variables(
                running, [SERVING_TAG], {SIGNATURE: signature}, strip_default_attrs=True
            )
            builder.save()


def run(folder: str, image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Loads a SavedModel and runs its signature, see `ExportFormat.run`."""
    from deeplab.core import sessions  # imports TensorFlow

    with tf.Graph().as_default() as graph, sessions.open_session(graph) as running:
        loaded = tf.compat.v1.saved_model.load(running, [SERVING_TAG], folder)
        signature = loaded.signature_def[SIGNATURE]
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
        is_own=is_own,
        example_path='saved_model',
        tensors=(IMAGE, PREDICTIONS, PROBABILITIES),
        example=_EXAMPLE,
        contents=('saved_model.pb', 'fingerprint.pb', 'variables'),
    )
)
