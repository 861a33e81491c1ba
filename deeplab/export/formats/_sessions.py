"""Exports that TensorFlow itself runs: a frozen graph or a SavedModel, of this package or the original."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from deeplab.core.lazy import tf
from deeplab.errors import CheckpointError, DataError, OptionError, reason_of
from deeplab.export import tensor_names
from deeplab.inference import export_metadata, exports
from deeplab.registry import Exported, Outputs

Find = Callable[[str], Any]  # returns the tensor of a name; None if an export does not have it
# Operations that a resized image reaches only after it was resized, and the one with its size in place of its pixels.
_AFTER_RESIZING = ('Pad', 'PadV2', 'Conv2D', 'DepthwiseConv2dNative', 'Shape')


def opener(
    load: Callable[[Any, str], tuple[Find, str | bytes]], names: Sequence[str]
) -> Callable[[str, int | None], AbstractContextManager[Exported]]:
    """Returns the function that opens exports of a format, see `ExportFormat.open`.

    TensorFlow has the same threads in the whole process. `CheckpointError` is raised for an export that is damaged, or
    not one of DeepLab.

    Args:
      load: adds the export at a path to the graph of a session; returns what finds its tensors, and its metadata.
      names: names of image, labels and probabilities. Maps of other tasks than `semantic` have the names of their
        outputs.
    """

    @contextlib.contextmanager
    def opened(path: str, threads: int | None) -> Iterator[Exported]:
        from google.protobuf import message

        from deeplab.core import sessions

        with tf.Graph().as_default() as graph, sessions.open_session(graph) as session:
            try:
                find, text = load(session, path)
            except (OSError, ValueError, tf.errors.OpError, message.DecodeError) as error:
                raise CheckpointError(f"The export '{path}' cannot be loaded ({reason_of(error)})") from None
            image, labels, probabilities = map(find, names)
            if image is None or labels is None:
                raise CheckpointError(
                    f"'{path}' is not an export of DeepLab: it lacks the tensors {tensor_names.IMAGE} and "
                    f'{tensor_names.PREDICTIONS}, or a signature with image and predictions. Pass what deeplab '
                    'export_model writes'
                )
            metadata = export_metadata.loaded(text)
            if maps := export_metadata.maps_of(metadata):
                with graph.as_default():
                    probabilities = tf.concat([find(name) for name in maps], axis=3)
            yield _exported(path, session, (image, labels, probabilities), metadata)

    return opened


def _exported(path: str, session: Any, tensors: tuple[Any, Any, Any], metadata: Mapping[str, Any]) -> Exported:
    image, labels, probabilities = tensors
    kind = image.dtype.as_numpy_dtype
    batch_size = image.shape[0] if image.shape.rank else 1  # None for any number
    raw = tensor(session.graph, tensor_names.RAW_PREDICTIONS)
    size = None
    resizes = metadata['resize'] is not None if 'resize' in metadata else _resizes(image)
    if raw is not None and raw.shape.rank == 3 and None not in raw.shape.as_list()[1:] and not resizes:
        size = (int(raw.shape[1]), int(raw.shape[2]))
        crop_size = tuple(metadata.get('crop_size') or size)
        if size != crop_size:  # a vector for each image, which the graph has resized to the crop
            size, resizes = crop_size, True
    classes = probabilities.shape[-1] if probabilities is not None else None
    if export_metadata.maps_of(metadata):
        classes = len(metadata['class_names'])

    def predict(images: np.ndarray, with_probabilities: bool) -> Outputs:
        if with_probabilities and probabilities is None:
            raise OptionError(f"'{path}' has no output of probabilities. Export the network again")
        fetches = [labels, probabilities][: 1 + with_probabilities]
        try:
            return exports.in_batches(
                lambda batch: session.run(fetches, {image: exports.in_type(batch, kind)}), images, batch_size
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
        resizes=resizes,
    )


def tensor(graph: Any, name: str) -> Any:
    """Returns the first output of an operation; None if there is no such operation."""
    try:
        return graph.get_tensor_by_name(f'{name}:0')
    except KeyError:
        return None


def _resizes(image: Any) -> bool:
    """Returns whether an exported network resizes images before it pads them.

    Its predictions do not show it: graphs of the original resize them even where the image keeps its size.
    """
    ops, seen = list(image.consumers()), set()
    while ops:
        op = ops.pop()
        if op.type.startswith('Resize'):
            return True
        if op not in seen and op.type not in _AFTER_RESIZING:
            seen.add(op)
            ops += [consumer for output in op.outputs for consumer in output.consumers()]
    return False
