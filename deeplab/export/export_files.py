"""Exported networks on disk: atomic writing, checks of the target path, and running an export."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
from absl import logging
from google.protobuf import message as protobuf_message
from tensorflow.core.protobuf import saved_model_pb2

from deeplab.core import sessions
from deeplab.errors import DataError
from deeplab.export import export_graph
from deeplab.utils import files, output_files
from deeplab.wording import option

SIGNATURE = 'serving_default'
SIGNATURE_IMAGE = 'image'
SIGNATURE_PREDICTIONS = 'predictions'
SIGNATURE_PROBABILITIES = 'probabilities'

_SERVING_TAG = 'serve'
_OF_A_SAVED_MODEL = {'saved_model.pb', 'fingerprint.pb', 'variables'}
_FROZEN_NODES = {export_graph.IMAGE, export_graph.PREDICTIONS}
_OLD = '.old'  # suffix of an export that is being replaced
_PATH = 'ExportOptions.export_path'


def check_target(path: str, is_folder: bool) -> None:
    """Raises an error if writing to `path` would overwrite something that is not an earlier export.

    Args:
      path: destination of the export.
      is_folder: whether it will be a folder (a SavedModel) rather than a file.

    Raises:
      DataError: the path is a file instead of a folder or vice versa, or a folder with other files.
      OptionError: the path is a file that is not a frozen graph, or a SavedModel that was not exported here.
    """
    if not is_folder:
        if os.path.isdir(path) or path.endswith(os.sep):
            raise DataError(
                f'{option(_PATH, path)} is a folder, but a frozen graph is one file. Give the path of a file, such as '
                f'{os.path.join(path, "frozen_inference_graph.pb")}, or set '
                f'{option("ExportOptions.export_format", "saved_model")}.'
            )
        output_files.require_own(path, _PATH, 'an exported graph', _is_frozen_graph)
        return
    if os.path.isfile(path):
        raise DataError(
            f'{option(_PATH, path)} is a file, but a SavedModel is a folder. Give a folder that does not exist yet.'
        )
    inside = sorted(os.listdir(path)) if os.path.isdir(path) else []
    foreign = [name for name in inside if name not in _OF_A_SAVED_MODEL]
    if foreign or (inside and 'saved_model.pb' not in inside):
        raise DataError(
            f'{option(_PATH, path)} is a folder with other files ({", ".join((foreign or inside)[:3])}), which a '
            'SavedModel would replace. Give a folder that does not exist yet, such as '
            f'{os.path.join(path, "saved_model")}.'
        )
    output_files.require_own(
        os.path.join(path, 'saved_model.pb'), _PATH, 'a SavedModel of this program', _is_saved_model
    )


def check_inference_graph(path: str) -> None:
    """Raises `OptionError` if the graph with variables would overwrite a file that is not such a graph."""
    output_files.require_own(path, 'ExportOptions.save_inference_graph', 'a graph as text', _is_graph_text)


def _is_frozen_graph(path: str) -> bool:
    """Returns whether a file is a graph with the names that all exports of DeepLab have."""
    with open(path, 'rb') as file:
        content = file.read()
    try:
        graph_def = tf.compat.v1.GraphDef.FromString(content)
    except protobuf_message.DecodeError:
        return False
    return _FROZEN_NODES <= {node.name for node in graph_def.node}


def _is_saved_model(path: str) -> bool:
    """Returns whether a file saved_model.pb was written by `write_saved_model`."""
    with open(path, 'rb') as file:
        content = file.read()
    try:
        model = saved_model_pb2.SavedModel.FromString(content)
    except protobuf_message.DecodeError:
        return False
    signatures = [graph.signature_def[SIGNATURE] for graph in model.meta_graphs if SIGNATURE in graph.signature_def]
    return any(SIGNATURE_IMAGE in each.inputs and SIGNATURE_PREDICTIONS in each.outputs for each in signatures)


def _is_graph_text(path: str) -> bool:
    """Returns whether a file is a graph as text with the input that all exports have."""
    with open(path, 'rb') as file:
        content = file.read()
    return content.startswith(b'node {') and f'name: "{export_graph.IMAGE}"'.encode() in content


@contextlib.contextmanager
def beside(path: str) -> Iterator[str]:
    """Yields a temporary path to write to, which replaces `path` if the block succeeds.

    Otherwise it is removed, and `path` is unchanged.

    Raises:
      DataError: `path` cannot be written.
    """
    temporary = files.temporary_name(path)
    _recover(path)
    try:
        yield temporary
        _replace(temporary, path)
    except OSError as error:
        raise DataError(f"Cannot write '{path}': {error.strerror or error}. Give another {option(_PATH)}.") from error
    finally:
        files.remove(temporary)


def _recover(path: str) -> None:
    """Restores an export that a process was replacing when it was killed; removes other leftovers of such processes."""
    folder, name = os.path.split(os.path.abspath(path))
    if not os.path.lexists(path):
        olds = files.leftovers(folder, re.escape(f'{name}{_OLD}'))
        if olds:
            os.rename(max(olds, key=os.path.getmtime), path)
    for left in files.remove_leftovers(folder, re.escape(name) + f'({re.escape(_OLD)})?'):
        logging.info('Removed %s, left by an interrupted export.', left)


def _replace(temporary: str, path: str) -> None:
    """Replaces `path` by `temporary`; an existing folder is renamed first, as it cannot be replaced in one step."""
    if not os.path.isdir(path):
        os.replace(temporary, path)
        return
    old = files.temporary_name(path + _OLD)
    try:
        os.rename(path, old)
        os.rename(temporary, path)
    except BaseException:
        if os.path.lexists(old) and not os.path.lexists(path):
            os.rename(old, path)
        raise
    finally:
        if os.path.lexists(path):
            files.remove(old)


def size_of(path: str) -> int:
    """Returns the size in bytes of a file, or of all files in a folder."""
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names)


def write_frozen_graph(graph_def: tf.compat.v1.GraphDef, path: str) -> None:
    """Writes the graph as one binary file."""
    with open(path, 'wb') as file:
        file.write(graph_def.SerializeToString(deterministic=True))


def write_saved_model(graph_def: tf.compat.v1.GraphDef, folder: str) -> None:
    """Writes the frozen graph as a SavedModel with one signature, `serving_default`: image to labels and probabilities.

    Args:
      graph_def: result of `export_graph.freeze`.
      folder: must not exist yet.
    """
    with tf.Graph().as_default() as graph:
        names = (export_graph.IMAGE, export_graph.PREDICTIONS, export_graph.PROBABILITIES)
        image, predictions, probabilities = tf.graph_util.import_graph_def(
            graph_def, return_elements=[f'{name}:0' for name in names], name=''
        )
        # Height and width are known only at run time, the number of channels before.
        image.set_shape([1, None, None, image.shape[-1]])
        signature = tf.compat.v1.saved_model.predict_signature_def(
            {SIGNATURE_IMAGE: image},
            {SIGNATURE_PREDICTIONS: predictions, SIGNATURE_PROBABILITIES: probabilities},
        )
        with sessions.open_session(graph) as running:
            builder = tf.compat.v1.saved_model.Builder(folder)
            builder.add_meta_graph_and_variables(
                running, [_SERVING_TAG], {SIGNATURE: signature}, strip_default_attrs=True
            )
            builder.save()


def run(path: str, image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Loads an export from disk and runs it.

    Args:
      path: file of a frozen graph, or folder of a SavedModel.
      image: [h, w, channels] uint8 or uint16, as the export takes it.

    Returns:
      Labels [h, w] int32 and probabilities [h, w, classes] float32.
    """
    with tf.Graph().as_default() as graph, sessions.open_session(graph) as running:
        if os.path.isdir(path):
            loaded = tf.compat.v1.saved_model.load(running, [_SERVING_TAG], path)
            signature = loaded.signature_def[SIGNATURE]
            feed = signature.inputs[SIGNATURE_IMAGE].name
            fetches = [signature.outputs[key].name for key in (SIGNATURE_PREDICTIONS, SIGNATURE_PROBABILITIES)]
        else:
            with open(path, 'rb') as file:
                tf.graph_util.import_graph_def(tf.compat.v1.GraphDef.FromString(file.read()), name='')
            feed = f'{export_graph.IMAGE}:0'
            fetches = [f'{export_graph.PREDICTIONS}:0', f'{export_graph.PROBABILITIES}:0']
        labels, probabilities = running.run(fetches, {feed: image[np.newaxis]})
    return labels[0], probabilities[0]
