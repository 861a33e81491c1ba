"""Exports that TensorFlow itself runs: a frozen graph or a SavedModel, of this package or the original."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np

from deeplab.core.lazy import tf
from deeplab.errors import CheckpointError, DataError, OptionError, reason_of
from deeplab.export import tensor_names
from deeplab.inference import export_metadata, exports
from deeplab.registry import Exported, Outputs


class Tensors(NamedTuple):
    """Tensors of an export, and its metadata; None for what it does not have.

    The maps of other tasks than `semantic` are joined to one tensor in the place of the probabilities.
    """

    image: Any
    labels: Any
    probabilities: Any
    metadata: str | bytes = b''


def opener(load: Callable[[Any, str], Tensors]) -> Callable[[str, int | None], AbstractContextManager[Exported]]:
    """Returns the function that opens exports of a format, see `ExportFormat.open`.

    TensorFlow has the same threads in the whole process. `CheckpointError` is raised for an export that is damaged, or
    not one of DeepLab.

    Args:
      load: adds the export at a path to the graph of a session.
    """

    @contextlib.contextmanager
    def opened(path: str, threads: int | None) -> Iterator[Exported]:
        from google.protobuf import message

        from deeplab.core import sessions

        with tf.Graph().as_default() as graph, sessions.open_session(graph) as session:
            try:
                tensors = load(session, path)
            except (OSError, ValueError, tf.errors.OpError, message.DecodeError) as error:
                if isinstance(error, CheckpointError):
                    raise
                raise CheckpointError(f"The export '{path}' cannot be loaded ({reason_of(error)})") from None
            yield _exported(path, session, tensors)

    return opened


def _exported(path: str, session: Any, tensors: Tensors) -> Exported:
    image, labels, probabilities, text = tensors
    kind = image.dtype.as_numpy_dtype
    raw = tensor(session.graph, tensor_names.RAW_PREDICTIONS)
    size = None
    if raw is not None and raw.shape.rank == 3 and None not in raw.shape.as_list()[1:] and not _resizes(labels):
        size = (int(raw.shape[1]), int(raw.shape[2]))
    metadata = export_metadata.loaded(text)
    classes = probabilities.shape[-1] if probabilities is not None else None
    if export_metadata.maps_of(metadata):
        classes = len(metadata['class_names'])

    def predict(images: np.ndarray, with_probabilities: bool) -> Outputs:
        if with_probabilities and probabilities is None:
            raise OptionError(f"'{path}' has no output of probabilities. Export the network again")
        fetches = [labels, probabilities][: 1 + with_probabilities]
        try:
            return exports.in_batches(
                lambda batch: session.run(fetches, {image: exports.in_type(batch, kind)}), images, 1
            )
        except tf.errors.InvalidArgumentError as error:
            raise DataError(f'the exported network cannot predict it ({reason_of(error)})') from None

    return Exported(
        predict=predict,
        size=size,
        takes_smaller=True,
        channels=int(image.shape[-1] or 3),
        num_classes=int(classes) if classes else None,
        has_probabilities=probabilities is not None,
        bits=16 if kind == np.uint16 else 8,
        metadata=metadata,
    )


def joined_maps(graph: Any, names: Sequence[str]) -> Any:
    """Returns one tensor of the maps of outputs, [1, h, w, channels]; adds an operation to the graph if need be."""
    with graph.as_default():
        tensors = [graph.get_tensor_by_name(name) for name in names]
        return tensors[0] if len(tensors) == 1 else tf.concat(tensors, axis=3)


def not_ours(path: str) -> CheckpointError:
    """Returns the error for a graph that is not an export of DeepLab."""
    return CheckpointError(
        f"'{path}' is not an export of DeepLab: it lacks the tensors {tensor_names.IMAGE} and "
        f'{tensor_names.PREDICTIONS}, or a signature with image and predictions. Give what deeplab export_model writes'
    )


def tensor(graph: Any, name: str) -> Any:
    """Returns the first output of an operation; None if there is no such operation."""
    try:
        return graph.get_tensor_by_name(f'{name}:0')
    except KeyError:
        return None


def _resizes(predictions: Any) -> bool:
    """Returns whether an exported network resizes images, and its predictions back to their own size."""
    op = predictions.op
    while op.type in ('Identity', 'Squeeze', 'Cast') and op.inputs:
        op = op.inputs[0].op
    return bool(op.type == 'ResizeNearestNeighbor')
