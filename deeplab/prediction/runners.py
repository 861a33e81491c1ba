"""What runs an exported network: a frozen graph or a SavedModel, with TensorFlow."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf import message

from deeplab.core import sessions
from deeplab.core.reasons import reason_of
from deeplab.errors import CheckpointError, DataError, OptionError
from deeplab.export import tensor_names
from deeplab.export.formats import saved_model
from deeplab.inference.held import Held
from deeplab.inference.runners import Runner
from deeplab.registry import Outputs


class ExportRunner(Runner):
    """Runs an exported network with TensorFlow: a frozen graph or a SavedModel, of this package or the original."""

    def __init__(self, path: str) -> None:
        """Loads the network.

        Raises:
          CheckpointError: There is no export, or it is not one of DeepLab.
        """
        self._path = path
        self._held = Held(lambda: _loaded(path))
        loaded = self._held.value
        self._kind = loaded.image.dtype.as_numpy_dtype
        self.channels = int(loaded.image.shape[-1] or 3)
        scores = loaded.probabilities
        self.num_classes = int((scores.shape[-1] if scores is not None else None) or 256)
        raw = _tensor(loaded.session.graph, tensor_names.RAW_PREDICTIONS)
        is_known = raw is not None and raw.shape.rank == 3 and None not in raw.shape.as_list()[1:]
        if is_known and not _resizes(loaded.labels):
            self.fixed_size = (int(raw.shape[1]), int(raw.shape[2]))

    def run(self, images: np.ndarray, with_probabilities: bool) -> Outputs:
        """See `Runner.run`; an export takes one image at a time."""
        session, image_tensor, labels, probabilities = self._held.value
        if with_probabilities and probabilities is None:
            raise OptionError(f"'{self._path}' has no output of probabilities. Export the network again")
        fetches = [labels, probabilities][: 1 + with_probabilities]
        found = []
        try:
            for image in images:
                found.append(session.run(fetches, {image_tensor: self._in_type(image)[np.newaxis]}))
        except tf.errors.InvalidArgumentError as error:
            raise DataError(f'the exported network cannot predict it ({reason_of(error)})') from None
        ids = np.concatenate([outputs[0] for outputs in found])
        return Outputs(ids, np.concatenate([outputs[1] for outputs in found]) if with_probabilities else None)

    def close(self) -> None:
        """See `Runner.close`."""
        self._held.close()

    @property
    def image_bits(self) -> int:
        """Bits of the images that it takes, 8 or 16."""
        return 16 if self._kind == np.uint16 else 8

    def _in_type(self, image: np.ndarray) -> np.ndarray:
        """Returns an image in the type of the network's input."""
        if self._kind == np.uint16:
            return np.rint(image.astype(np.float32) * 257).astype(np.uint16)
        return np.rint(image).astype(self._kind) if image.dtype.kind == 'f' else image.astype(self._kind, copy=False)


def _tensor(graph: tf.Graph, name: str) -> tf.Tensor | None:
    """Returns the first output of an operation; None if there is no such operation."""
    try:
        return graph.get_tensor_by_name(f'{name}:0')
    except KeyError:
        return None


def _resizes(predictions: tf.Tensor) -> bool:
    """Returns whether an exported network resizes images, and its predictions back to their own size."""
    op = predictions.op
    while op.type in ('Identity', 'Squeeze', 'Cast') and op.inputs:
        op = op.inputs[0].op
    return op.type == 'ResizeNearestNeighbor'


class _Loaded(NamedTuple):
    """An export in a session."""

    session: tf.compat.v1.Session
    image: tf.Tensor
    labels: tf.Tensor
    probabilities: tf.Tensor | None


@contextlib.contextmanager
def _loaded(path: str) -> Iterator[_Loaded]:
    """Opens an export."""
    with tf.Graph().as_default() as graph, sessions.open_session(graph) as session:
        try:
            if os.path.isdir(path):
                tensors = _load_saved_model(session, path)
            else:
                tensors = _load_frozen_graph(graph, path)
        except (OSError, ValueError, tf.errors.OpError, message.DecodeError) as error:
            if isinstance(error, CheckpointError):
                raise
            raise CheckpointError(f"The export '{path}' cannot be loaded ({reason_of(error)})") from None
        yield _Loaded(session, *tensors)


def _load_frozen_graph(graph: tf.Graph, path: str) -> tuple[Any, Any, Any]:
    """Returns image, labels and probabilities of a frozen graph."""
    with open(path, 'rb') as file:
        tf.graph_util.import_graph_def(tf.compat.v1.GraphDef.FromString(file.read()), name='')
    names = (tensor_names.IMAGE, tensor_names.PREDICTIONS, tensor_names.PROBABILITIES)
    image, labels, probabilities = (_tensor(graph, name) for name in names)
    if image is None or labels is None:
        raise _not_ours(path)
    return image, labels, probabilities


def _load_saved_model(session: tf.compat.v1.Session, path: str) -> tuple[Any, Any, Any]:
    """Returns image, labels and probabilities of a SavedModel."""
    signatures = tf.compat.v1.saved_model.load(session, [saved_model.SERVING_TAG], path).signature_def
    signature = signatures[saved_model.SIGNATURE] if saved_model.SIGNATURE in signatures else None
    if signature is None or not {saved_model.IMAGE} <= set(signature.inputs):
        raise _not_ours(path)
    names = {**signature.inputs, **signature.outputs}
    wanted = (saved_model.IMAGE, saved_model.PREDICTIONS, saved_model.PROBABILITIES)
    tensors = [session.graph.get_tensor_by_name(names[key].name) if key in names else None for key in wanted]
    if tensors[1] is None:
        raise _not_ours(path)
    return tensors[0], tensors[1], tensors[2]


def _not_ours(path: str) -> CheckpointError:
    return CheckpointError(
        f"'{path}' is not an export of DeepLab: it lacks the tensors {tensor_names.IMAGE} and "
        f'{tensor_names.PREDICTIONS}, or a signature with {saved_model.IMAGE} and {saved_model.PREDICTIONS}. Give what '
        'deeplab export_model writes as frozen_graph or saved_model'
    )
